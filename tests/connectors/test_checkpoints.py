"""Checkpoints in a file."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from ldp_stream.connectors.base import Checkpoint
from ldp_stream.connectors.checkpoints import FileCheckpoint
from ldp_stream.errors import CampaignMismatch, InvalidInput, InvalidSnapshot

CAMPAIGN = '{"name":"trips"}'


def checkpoint(number: int) -> Checkpoint:
    """Return a checkpoint whose state and position follow from one number."""
    state = hashlib.sha256(str(number).encode()).digest() * 100
    return Checkpoint(CAMPAIGN, state, {"0": number, "1": 2 * number})


def saved(path: Path, *numbers: int) -> Path:
    """Save checkpoints one after another and return the path."""
    with FileCheckpoint(path) as store:
        for number in numbers:
            store.save(checkpoint(number))
    return path


def loaded(path: Path) -> Checkpoint | None:
    """Load with a store of its own."""
    with FileCheckpoint(path) as store:
        return store.load()


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    """The newest checkpoint comes back as it was, from one file with nothing beside it."""
    path = tmp_path / "state.ckpt"
    assert loaded(path) is None
    assert not path.exists()
    for newest in range(1, 6):
        saved(path, newest)
        assert loaded(path) == checkpoint(newest)
    assert list(tmp_path.iterdir()) == [path]


def test_a_copy_of_the_file_is_a_copy_of_the_checkpoint(tmp_path: Path) -> None:
    """Between saves everything is in the one file, also while a store has it open."""
    copy = tmp_path / "copy.ckpt"
    with FileCheckpoint(tmp_path / "state.ckpt") as store:
        for number in range(4):
            store.save(checkpoint(number))
            copy.write_bytes((tmp_path / "state.ckpt").read_bytes())
            assert loaded(copy) == checkpoint(number)


def test_loading_while_another_saves(tmp_path: Path) -> None:
    """A second process may look at the checkpoint at any time between saves."""
    with FileCheckpoint(tmp_path / "state.ckpt") as store:
        for number in range(3):
            store.save(checkpoint(number))
            assert loaded(tmp_path / "state.ckpt") == checkpoint(number)


SAVER = """
import sys
from ldp_stream.connectors.base import Checkpoint
from ldp_stream.connectors.checkpoints import FileCheckpoint
with FileCheckpoint(sys.argv[1]) as store:
    found = store.load()
    number = 0 if found is None else found.position["0"]
    while True:
        number += 1
        print(number, flush=True)
        store.save(Checkpoint("{}", b"%09d" % number * 20_000, {"0": number}))
"""


def test_a_kill_at_any_moment_leaves_the_new_or_the_old_one(tmp_path: Path) -> None:
    """After SIGKILL the file holds the save under way or the one before, whole, and saving goes on."""
    path = tmp_path / "state.ckpt"
    pause = random.Random(5)
    reached = 0
    for _ in range(12):
        with subprocess.Popen(
            [sys.executable, "-c", SAVER, str(path)],
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            started = int(process.stdout.readline())
            time.sleep(pause.uniform(0.0, 0.05))
            os.kill(process.pid, signal.SIGKILL)
            last = int([str(started), *process.stdout.read().split()][-1])
        found = loaded(path)
        assert started == reached + 1
        if found is None:
            assert last == 1
            continue
        reached = found.position["0"]
        assert reached in (last - 1, last)
        assert found == Checkpoint("{}", b"%09d" % reached * 20_000, {"0": reached})
    assert reached > 1


def test_every_flipped_bit_is_noticed_or_harmless(tmp_path: Path) -> None:
    """With any one bit flipped, load gives the newest, or the one before and says so, or refuses.

    What loads can be saved to, and the save is whole again.
    """
    content = saved(tmp_path / "state.ckpt", 1, 2).read_bytes()
    path = tmp_path / "flipped.ckpt"
    outcomes = {"new": 0, "old": 0, "refused": 0}
    places = random.Random(3)
    for number in range(400):
        flipped = bytearray(content)
        flipped[places.randrange(len(content))] ^= 1 << places.randrange(8)
        path.write_bytes(flipped)
        with FileCheckpoint(path) as store:
            try:
                found = store.load()
            except InvalidSnapshot:
                outcomes["refused"] += 1
                continue
            assert found is not None
            if found.position["0"] == 2:
                outcomes["new"] += 1
            else:
                outcomes["old"] += 1
                assert found.recovered
            assert found.state == checkpoint(found.position["0"]).state
            if number % 4 == 0:
                store.save(checkpoint(3))
        assert number % 4 or loaded(path) == checkpoint(3)
    assert outcomes["old"] > 40
    assert outcomes["refused"] < 100


def test_every_truncated_file_is_noticed(tmp_path: Path) -> None:
    """Cut at any length, the file gives the one before, flagged, or is refused with what to do."""
    content = saved(tmp_path / "state.ckpt", 1, 2).read_bytes()
    path = tmp_path / "cut.ckpt"
    refused = set()
    for length in range(0, len(content), 97):
        path.write_bytes(content[:length])
        try:
            found = loaded(path)
        except InvalidSnapshot as error:
            refused.add("put a sound copy in its place" in str(error))
        else:
            assert found is not None
            assert found.recovered
            assert found.state == checkpoint(found.position["0"]).state
    assert refused == {True}


def test_the_one_before_is_used_when_the_newest_is_damaged(tmp_path: Path) -> None:
    """A changed byte in the newest state gives the save before, says so, and the next save mends the file."""
    path = saved(tmp_path / "state.ckpt", 1, 2, 3)
    content = path.read_bytes()
    at = content.index(checkpoint(3).state[:32])
    path.write_bytes(content[:at] + b"\x00" + content[at + 1 :])
    with FileCheckpoint(path) as store:
        found = store.load()
        assert found == Checkpoint(CAMPAIGN, checkpoint(2).state, checkpoint(2).position, recovered=True)
        store.save(checkpoint(30))
        store.save(checkpoint(40))
    assert loaded(path) == checkpoint(40)


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM slot_1",
        "UPDATE slot_1 SET generation = 1",
        "UPDATE slot_1 SET position = '{}'",
        "UPDATE slot_1 SET campaign = campaign || ' '",
        "UPDATE slot_1 SET state = NULL",
        "INSERT INTO slot_1 SELECT * FROM slot_0",
        "DROP TABLE slot_1",
        "DELETE FROM slot_1; INSERT INTO slot_1 SELECT * FROM slot_0",
    ],
)
def test_whatever_is_changed_in_the_newest_the_one_before_is_used(tmp_path: Path, damage: str) -> None:
    """A slot that is emptied, altered in any field, doubled or taken from elsewhere is passed over."""
    path = saved(tmp_path / "state.ckpt", 1, 2)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(damage)
    with FileCheckpoint(path) as store:
        found = store.load()
        assert found == Checkpoint(CAMPAIGN, checkpoint(1).state, checkpoint(1).position, recovered=True)
        store.save(checkpoint(2))
    assert loaded(path) == checkpoint(2)


def test_damage_that_shows_only_when_saving_is_mended(tmp_path: Path) -> None:
    """A header that forbids writing does not stop the run: the save makes the file anew."""
    path = saved(tmp_path / "state.ckpt", 1, 2)
    content = bytearray(path.read_bytes())
    content[18] = 9  # the format version that a writer must understand
    path.write_bytes(content)
    with FileCheckpoint(path) as store:
        assert store.load() == checkpoint(2)
        store.save(checkpoint(3))
        store.save(checkpoint(4))
    assert loaded(path) == checkpoint(4)


def test_a_damaged_file_is_never_written_over_unread(tmp_path: Path) -> None:
    """A save to a file that is not a sound checkpoint is refused and leaves it as it was."""
    path = tmp_path / "notes.txt"
    path.write_text("my notes, which are no checkpoint\n" * 100)
    before = path.read_bytes()
    with FileCheckpoint(path) as store, pytest.raises(InvalidSnapshot, match="not a sound checkpoint"):
        store.save(checkpoint(1))
    assert path.read_bytes() == before


def test_another_database_is_refused(tmp_path: Path) -> None:
    """A SQLite file of something else is not taken for a checkpoint."""
    path = tmp_path / "other.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE slot_0 (a)")
    with pytest.raises(InvalidSnapshot, match="no checkpoint of ldp-stream"):
        loaded(path)


def test_a_future_version_is_refused(tmp_path: Path) -> None:
    """A file of a later format says so, and says which release can read it."""
    path = saved(tmp_path / "state.ckpt", 1)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 2")
    with pytest.raises(
        InvalidSnapshot, match="format 2, and this ldp-stream reads format 1; use the release"
    ):
        loaded(path)


def test_another_campaigns_file_is_not_written_over(tmp_path: Path) -> None:
    """A save for another campaign is refused, and the checkpoint stays."""
    path = saved(tmp_path / "state.ckpt", 1)
    with FileCheckpoint(path) as store, pytest.raises(CampaignMismatch, match="another campaign"):
        store.save(Checkpoint('{"name":"other"}', b"", {}))
    assert loaded(path) == checkpoint(1)


def test_a_second_writer_is_noticed(tmp_path: Path) -> None:
    """Of two processes that save to one file, the one that is behind is refused."""
    path = tmp_path / "state.ckpt"
    with FileCheckpoint(path) as first, FileCheckpoint(path) as second:
        first.save(checkpoint(1))
        second.save(checkpoint(2))
        with pytest.raises(InvalidSnapshot, match="another process has saved"):
            first.save(checkpoint(3))
    assert loaded(path) == checkpoint(2)


def test_a_file_that_was_moved_away_is_noticed(tmp_path: Path) -> None:
    """A save does not go into a file that nobody will find again."""
    path = tmp_path / "state.ckpt"
    with FileCheckpoint(path) as store:
        store.save(checkpoint(1))
        path.rename(tmp_path / "elsewhere")
        with pytest.raises(InvalidSnapshot, match="moved or replaced"):
            store.save(checkpoint(2))
        saved(path, 7)
        with pytest.raises(InvalidSnapshot, match="moved or replaced"):
            store.save(checkpoint(2))
    assert loaded(path) == checkpoint(7)


FULL = """
import resource, signal, sys
from ldp_stream.connectors.base import Checkpoint
from ldp_stream.connectors.checkpoints import FileCheckpoint
large = Checkpoint("{}", b"2" * 200_000, {"0": 2})
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with FileCheckpoint(sys.argv[1]) as store:
    before = store.load()
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, resource.RLIM_INFINITY))
    try:
        store.save(large)
    except OSError as error:
        print(error)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert store.load() == before
    store.save(large)
"""


@pytest.mark.parametrize("kind", ["old", "new"])
def test_a_save_without_room_keeps_the_one_before(tmp_path: Path, kind: str) -> None:
    """When the file may not grow, the save says so and keeps what was there; a later save succeeds."""
    path = tmp_path / "state.ckpt"
    small = Checkpoint("{}", b"1" * 3_000, {"0": 1})
    if kind == "old":
        with FileCheckpoint(path) as store:
            store.save(small)
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, check=False
    )
    assert "not saved" in done.stdout, done.stderr
    assert "what was saved before is kept" in done.stdout
    assert done.returncode == 0, done.stderr
    assert loaded(path) == Checkpoint("{}", b"2" * 200_000, {"0": 2})


def test_a_locked_file_is_said_to_be_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that another program keeps locked is not taken for a damaged one."""
    monkeypatch.setattr("ldp_stream.connectors.checkpoint_format._WAIT_SECONDS", 0.01)
    path = saved(tmp_path / "state.ckpt", 1)
    with closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(InvalidInput, match="locked by another process"):
            loaded(path)


def test_a_left_over_journal_is_not_played_into_a_new_file(tmp_path: Path) -> None:
    """A journal that stayed behind when its file was removed does not touch the new checkpoint."""
    path = tmp_path / "state.ckpt"
    journal = tmp_path / "state.ckpt-journal"
    with FileCheckpoint(path) as store:
        store.save(Checkpoint(CAMPAIGN, bytes(300_000), {}))
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA cache_size = 1")  # so that the journal is written before the commit
        connection.execute("BEGIN")
        connection.execute("UPDATE slot_0 SET state = zeroblob(300001)")
        content = journal.read_bytes()
        connection.execute("ROLLBACK")
    path.unlink()
    journal.write_bytes(content)
    saved(path, 5)
    assert loaded(path) == checkpoint(5)


@pytest.mark.parametrize("place", ["", "nowhere/state.ckpt"])
def test_a_place_that_cannot_hold_a_file_is_refused_at_once(tmp_path: Path, place: str) -> None:
    """A folder, or a file in a folder that is not there, is refused before anything is counted."""
    with pytest.raises(InvalidInput, match="a file in a folder that exists"):
        FileCheckpoint(tmp_path / place)
