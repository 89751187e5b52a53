"""Counted tokens in a checkpoint file: saved with state and position, or not at all, and never forgotten."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from ldp_stream.connectors.base import Checkpoint
from ldp_stream.connectors.checkpoints import FileCheckpoint
from ldp_stream.connectors.service.tokens import CountedTokens
from ldp_stream.errors import InvalidInput, InvalidSnapshot
from tests.connectors.service.token_streams import NaiveTokens, Stream, fold, token_array


def run_sql(path: Path, script: str) -> None:
    """Change a file behind the back of whoever has it open."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)


def ask(path: Path, question: str) -> list[tuple[object, ...]]:
    """Ask a file something."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(question).fetchall()


def tokens_at(*numbers: int) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    """Return one token for each number."""
    return token_array(*(number.to_bytes(16, "big") for number in numbers))


class Book:
    """A record of tokens, its file, and beside them the naive record as of the last two saves."""

    def __init__(self, path: Path, horizon: int, stream: Stream) -> None:
        self.path, self.horizon, self.stream = path, horizon, stream
        self.naive = NaiveTokens(horizon)
        self.at = [0] * len(stream.logs)
        self.saves: list[tuple[NaiveTokens, list[int]]] = []
        self.number = 0
        self.anew = True  # the next save makes the file, which then holds it twice
        self.open()

    def open(self) -> Checkpoint | None:
        """Start with what the file holds."""
        self.counted = CountedTokens(self.horizon)
        self.store = FileCheckpoint(self.path, self.counted)
        return self.store.load()

    def take(self, partition: int) -> None:
        """Look up and count the next batch."""
        batch = self.stream.batch(partition, self.at[partition])
        fold(self.counted, self.naive, batch)
        self.at[partition] += len(batch[1])

    def save(self) -> None:
        """Save, and note what the file must hold."""
        self.number += 1
        self.store.save(Checkpoint("{}", b"state", {"0": self.number}))
        save = self.naive.copy(), list(self.at)
        self.saves = [save, save] if self.anew else [*self.saves[-1:], save]
        self.anew = False
        assert self.counted.pending == 0

    def restart(self, back: int) -> None:
        """Crash, and go on from the newest save (1) or from the one before (2)."""
        self.store.close()
        if back == 2:
            run_sql(self.path, f"UPDATE slot_{self._newest_slot()} SET state = x'00'")
        found = self.open()
        assert found is not None
        assert found.recovered == (back == 2)
        naive, at = self.saves[-back]
        self.naive, self.at = naive.copy(), list(at)
        self.anew = back == 2

    def _newest_slot(self) -> int:
        (first,), (second,) = ask(
            self.path, "SELECT generation FROM slot_0 UNION ALL SELECT generation FROM slot_1"
        )
        return int(int(str(second)) > int(str(first)))


@pytest.mark.parametrize("shape", ["random", "alike"])
@pytest.mark.parametrize(("horizon", "seed"), [(15, 1), (30, 2), (200, 3), (3000, 4)])
def test_saves_crashes_and_damage_at_any_moment(tmp_path: Path, horizon: int, seed: int, shape: str) -> None:
    """Whatever happens between, every answer is the naive dict's as of the save that was gone back to."""
    partitions = 2
    book = Book(tmp_path / "state.ckpt", horizon, Stream(seed, horizon, partitions, shape))
    moments = random.Random(seed)
    happened = {"take": 0, "save": 0, "crash": 0, "damage": 0}
    for _ in range(400):
        what = moments.choices(list(happened), weights=[10, 8, 1, 1])[0]
        happened[what] += 1
        if what == "take":
            book.take(moments.randrange(partitions))
        elif what == "save" or book.anew:
            book.save()
        else:
            book.restart(1 if what == "crash" else 2)
    assert min(happened.values()) > 5
    book.store.close()


def test_either_save_is_whole(tmp_path: Path) -> None:
    """With the newest slot damaged exactly its tokens are dropped; with the other one damaged, none."""
    for damaged, known in ((0, [True, True, True]), (1, [True, True, False])):
        path = tmp_path / f"{damaged}.ckpt"
        with FileCheckpoint(path, counted := CountedTokens(1000)) as store:
            for number in range(3):
                counted.add(0, np.array([number]), tokens_at(number))
                store.save(Checkpoint("{}", b"", {"0": number}))
        newest = 0  # generations 1, 2, 3 are in slots 0, 1, 0
        run_sql(path, f"UPDATE slot_{newest if damaged else 1 - newest} SET state = x'00'")
        with FileCheckpoint(path, counted := CountedTokens(1000)) as store:
            found = store.load()
            assert found is not None
            assert found.recovered
            assert found.position == {"0": 1 if damaged else 2}
            seen = counted.seen(0, np.array([3, 4, 5]), tokens_at(0, 1, 2))
            assert seen.tolist() == known
            counted.add(0, np.array([6]), tokens_at(6))
            store.save(Checkpoint("{}", b"", {"0": 6}))  # makes the file anew
        run_sql(path, "UPDATE slot_1 SET state = x'00'")
        with FileCheckpoint(path, counted := CountedTokens(1000)) as store:
            store.load()
            seen = counted.seen(0, np.array([7, 7, 7, 7]), tokens_at(0, 1, 2, 6))
            assert seen.tolist() == [*known, True]


def test_a_file_made_anew_holds_the_same_twice(tmp_path: Path) -> None:
    """After the first save, with either slot damaged, the tokens are those of the state that is loaded."""
    for slot in (0, 1):
        path = tmp_path / f"{slot}.ckpt"
        with FileCheckpoint(path, counted := CountedTokens(1000)) as store:
            counted.add(0, np.array([1]), tokens_at(1))
            store.save(Checkpoint("{}", b"one", {"0": 2}))
        run_sql(path, f"UPDATE slot_{slot} SET state = x'00'")
        with FileCheckpoint(path, counted := CountedTokens(1000)) as store:
            found = store.load()
            assert found is not None
            assert found.state == b"one"
            assert counted.seen(0, np.array([5]), tokens_at(1)).all()


def test_runs_are_joined_and_forgotten(tmp_path: Path) -> None:
    """Of thousands of saves few runs are there at any time, and of 10 horizons little more than one."""
    path = tmp_path / "state.ckpt"
    horizon = 1500  # epochs of 100
    rng = np.random.default_rng(1)
    most = 0
    with FileCheckpoint(path, counted := CountedTokens(horizon)) as store:
        store.load()
        for start in range(0, 10 * horizon, 10):
            counted.add(0, np.arange(start, start + 10), rng.integers(0, 256, (10, 16), np.uint8))
            store.save(Checkpoint("{}", b"", {"0": start}))
            if start % 500 == 490:
                ((runs,), (tokens,), (rows,)) = ask(
                    path,
                    "SELECT count(*) FROM token_runs UNION ALL SELECT sum(tokens) FROM token_runs "
                    "UNION ALL SELECT sum(length(tokens)) / 16 FROM token_chunks",
                )
                most = max(most, int(str(runs)))
                assert tokens == rows
                assert int(str(tokens)) <= horizon + 2 * 100 + 10
    assert most <= 17 + 8
    assert len(ask(path, "SELECT generation FROM token_saves")) == 2


DAMAGE = [
    "UPDATE token_chunks SET tokens = zeroblob(length(tokens)) WHERE place = (SELECT max(place) FROM {})",
    "UPDATE token_chunks SET tokens = substr(tokens, 1, 16) WHERE place = (SELECT max(place) FROM {})",
    "UPDATE token_chunks SET tokens = NULL WHERE place = (SELECT min(place) FROM {})",
    "UPDATE token_chunks SET sha256 = 'x' WHERE place = (SELECT min(place) FROM {})",
    "DELETE FROM token_chunks WHERE place = (SELECT max(place) FROM {})",
    "DELETE FROM token_chunks WHERE place = (SELECT min(place) FROM {})",
    "UPDATE token_chunks SET place = -place WHERE place = (SELECT max(place) FROM {})",
]
LISTED = [
    "DELETE FROM token_runs WHERE run = (SELECT max(run) FROM token_runs)",
    "DELETE FROM token_runs; DELETE FROM token_chunks",
    "UPDATE token_runs SET epoch = epoch - 1",
    "UPDATE token_runs SET partition = 5",
    "UPDATE token_runs SET generation = 99",
    "UPDATE token_runs SET tokens = tokens - 1",
    "UPDATE token_saves SET runs = runs - 1",
    "UPDATE token_saves SET horizon = 7",
    "DELETE FROM token_saves",
    "DROP TABLE token_runs",
    "DROP TABLE token_chunks",
]


def with_tokens(path: Path, count: int = 1000, saves: int = 3) -> Path:
    """Save some checkpoints with tokens 0, 1, .. at offsets 0, 1, .."""
    with FileCheckpoint(path, counted := CountedTokens(100_000)) as store:
        for number in range(saves):
            offsets = np.arange(number * count, (number + 1) * count)
            counted.add(0, offsets, tokens_at(*offsets.tolist()))
            store.save(Checkpoint("{}", b"", {"0": (number + 1) * count}))
    return path


@pytest.mark.parametrize("damage", [*(line.format("token_chunks") for line in DAMAGE), *LISTED])
def test_damaged_tokens_are_never_silently_forgotten(tmp_path: Path, damage: str) -> None:
    """Tokens that are altered or gone make a load say what to do, and leave the file as it is."""
    path = with_tokens(tmp_path / "state.ckpt")
    run_sql(path, damage)
    before = path.read_bytes()
    with (
        FileCheckpoint(path, CountedTokens(100_000)) as store,
        pytest.raises(InvalidSnapshot, match=r"is not a sound checkpoint .* put a sound copy in its place"),
    ):
        store.load()
    assert path.read_bytes() == before


@pytest.mark.parametrize("damage", DAMAGE[:-1])
def test_damage_while_in_use_is_noticed_by_who_asks(tmp_path: Path, damage: str) -> None:
    """A token is never taken for new because the place where it was saved is damaged."""
    path = with_tokens(tmp_path / "state.ckpt")
    with FileCheckpoint(path, counted := CountedTokens(100_000)) as store:
        store.load()
        run_sql(path, damage.format("token_chunks"))
        noticed = []
        for number in range(0, 3000, 7):
            try:
                assert counted.seen(0, np.array([5000]), tokens_at(number)).all()
            except InvalidSnapshot as error:
                noticed.append(str(error))
        assert 0 < len(noticed) < 300
        assert all(str(path) in text and "put a sound copy in its place" in text for text in noticed)


def test_a_file_is_not_made_anew_from_damaged_tokens(tmp_path: Path) -> None:
    """When damage calls for a new file and tokens cannot be carried over, the save is refused."""
    path = with_tokens(tmp_path / "state.ckpt")
    run_sql(path, "UPDATE slot_1 SET state = x'00'")
    with FileCheckpoint(path, counted := CountedTokens(100_000)) as store:
        store.load()
        run_sql(path, DAMAGE[0].format("token_chunks"))
        before = path.read_bytes()
        counted.add(0, np.array([4000]), tokens_at(4000))
        with pytest.raises(InvalidSnapshot, match="do not fit their SHA-256"):
            store.save(Checkpoint("{}", b"", {"0": 4001}))
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_made_anew_while_in_use_has_the_tokens(tmp_path: Path) -> None:
    """When a header that forbids writing shows while saving, the new file has all tokens."""
    path = with_tokens(tmp_path / "state.ckpt")
    content = bytearray(path.read_bytes())
    content[18] = 9  # the format version that a writer must understand
    path.write_bytes(content)
    with FileCheckpoint(path, counted := CountedTokens(100_000)) as store:
        store.load()
        counted.add(0, np.array([4000]), tokens_at(4000))
        store.save(Checkpoint("{}", b"", {"0": 4001}))
        assert path.read_bytes()[18] != 9
        assert counted.seen(0, np.full(3001, 4001), tokens_at(*range(3000), 4000)).all()
        counted.add(0, np.array([4001]), tokens_at(4001))
        store.save(Checkpoint("{}", b"", {"0": 4002}))
    with FileCheckpoint(path, counted := CountedTokens(100_000)) as store:
        store.load()
        assert counted.seen(0, np.full(3002, 4002), tokens_at(*range(3000), 4000, 4001)).all()


def test_every_flipped_bit_and_cut_is_noticed_or_harmless(tmp_path: Path) -> None:
    """With any bit flipped or the end cut off, what loads has all tokens of its save, or nothing loads."""
    content = with_tokens(tmp_path / "state.ckpt", count=300).read_bytes()
    places = random.Random(4)
    path = tmp_path / "damaged.ckpt"
    loaded = refused = 0
    for number in range(300):
        damaged = bytearray(content)
        if number % 10:
            damaged[places.randrange(len(content))] ^= 1 << places.randrange(8)
        else:
            del damaged[places.randrange(len(content)) :]
        path.write_bytes(damaged)
        with FileCheckpoint(path, counted := CountedTokens(100_000)) as store:
            try:
                found = store.load()
            except InvalidSnapshot:
                refused += 1
                continue
            assert found is not None
            loaded += 1
            known = found.position["0"]
            seen = counted.seen(0, np.full(900, 1000), tokens_at(*range(900)))
            assert seen.tolist() == [True] * known + [False] * (900 - known)
    assert loaded > 20
    assert refused > 100


def test_another_horizon_is_refused(tmp_path: Path) -> None:
    """A horizon that would change which reports counted says which one the file was made with."""
    path = with_tokens(tmp_path / "state.ckpt")
    with (
        FileCheckpoint(path, CountedTokens(100_001)) as store,
        pytest.raises(InvalidInput, match="--horizon = 100001: the checkpoint was made with 100000; give"),
    ):
        store.load()


def test_a_file_without_tokens_is_not_gone_on_with(tmp_path: Path) -> None:
    """A checkpoint that kept no tokens is refused where they are needed."""
    path = tmp_path / "state.ckpt"
    with FileCheckpoint(path) as store:
        store.save(Checkpoint("{}", b"", {}))
    with (
        FileCheckpoint(path, CountedTokens()) as store,
        pytest.raises(InvalidInput, match="'replay' or 'ingest', which keep no tokens; choose another file"),
    ):
        store.load()


def test_a_file_with_tokens_is_only_read_without_them(tmp_path: Path) -> None:
    """State and position can be read without the tokens, also while they are in use, and not saved."""
    path = tmp_path / "state.ckpt"
    with FileCheckpoint(path, counted := CountedTokens()) as service:
        service.load()
        for number in range(5):
            counted.add(0, np.array([number]), tokens_at(number))
            service.save(Checkpoint("{}", b"%d" % number, {"0": number}))
            with FileCheckpoint(path) as reader:
                found = reader.load()
                assert found is not None
                assert found.state == b"%d" % number
                with pytest.raises(InvalidInput, match="only 'serve' can go on with it"):
                    reader.save(found)
    with FileCheckpoint(path) as reader, pytest.raises(InvalidInput, match="only 'serve' can go on"):
        reader.save(Checkpoint("{}", b"", {}))


def test_a_file_that_was_not_loaded_is_not_saved_to(tmp_path: Path) -> None:
    """Tokens that were counted without those of the file never replace them."""
    path = with_tokens(tmp_path / "state.ckpt")
    before = path.read_bytes()
    with FileCheckpoint(path, counted := CountedTokens(100_000)) as store:
        counted.add(0, np.array([1]), tokens_at(1))
        with pytest.raises(InvalidInput, match="is there already, and was not loaded"):
            store.save(Checkpoint("{}", b"", {}))
        assert counted.pending == 1
    assert path.read_bytes() == before


def test_a_load_drops_what_was_not_saved(tmp_path: Path) -> None:
    """After a load the tokens are those of the file, or none if there is no file."""
    path = tmp_path / "state.ckpt"
    with FileCheckpoint(path, counted := CountedTokens(1000)) as store:
        counted.add(0, np.array([1]), tokens_at(1))
        assert store.load() is None
        assert not counted.seen(0, np.array([2]), tokens_at(1)).any()
        counted.add(0, np.array([2]), tokens_at(2))
        store.save(Checkpoint("{}", b"", {}))
        counted.add(0, np.array([3]), tokens_at(3))
        store.load()
        assert counted.seen(0, np.full(3, 4), tokens_at(1, 2, 3)).tolist() == [False, True, False]
        assert counted.pending == 0


def test_a_failed_save_leaves_everything_for_the_next(tmp_path: Path) -> None:
    """While the file is full or locked nothing is saved or forgotten; then one save has it all."""
    path = with_tokens(tmp_path / "state.ckpt", count=500)
    with FileCheckpoint(path, counted := CountedTokens(100_000)) as store:
        before = store.load()
        connection = store._connection
        assert connection is not None
        ((pages,),) = connection.execute("PRAGMA page_count").fetchall()
        connection.execute(f"PRAGMA max_page_count = {pages}")
        for number in (1500, 1501):
            counted.add(0, np.array([number * 10]), tokens_at(number))
            with pytest.raises(OSError, match=r"not saved: database or disk is full; what was saved before"):
                store.save(Checkpoint("{}", bytes(100_000), {"0": number}))
        assert counted.pending == 2
        assert counted.seen(0, np.full(1503, 15_010), tokens_at(*range(1503))).tolist() == [True] * 1502 + [
            False
        ]
        with FileCheckpoint(path, CountedTokens(100_000)) as other:
            assert other.load() == before
        connection.execute("PRAGMA max_page_count = 1000000")
        connection.execute("PRAGMA busy_timeout = 10")
        with closing(sqlite3.connect(path)) as locker:
            locker.execute("BEGIN IMMEDIATE")
            with pytest.raises(OSError, match="not saved: database is locked"):
                store.save(Checkpoint("{}", b"", {"0": 1502}))
        store.save(Checkpoint("{}", b"", {"0": 1502}))
        assert counted.pending == 0
    with FileCheckpoint(path, counted := CountedTokens(100_000)) as store:
        store.load()
        assert counted.seen(0, np.full(1502, 15_020), tokens_at(*range(1502))).all()


def test_a_first_save_that_fails_leaves_everything_for_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the new file cannot be put in its place, nothing is lost and nothing is left over in its way."""
    path = tmp_path / "state.ckpt"
    with FileCheckpoint(path, counted := CountedTokens(1000)) as store:
        store.load()
        counted.add(0, np.array([1]), tokens_at(1))
        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError("no room")))
            with pytest.raises(OSError, match="no room"):
                store.save(Checkpoint("{}", b"", {"0": 2}))
        assert counted.pending == 1
        store.save(Checkpoint("{}", b"", {"0": 2}))
        assert counted.seen(0, np.array([3]), tokens_at(1)).all()
    run_sql(path, "UPDATE slot_0 SET state = x'00'")
    with FileCheckpoint(path, counted := CountedTokens(1000)) as store:
        store.load()
        counted.add(0, np.array([4]), tokens_at(4))
        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError("no room")))
            with pytest.raises(OSError, match="no room"):
                store.save(Checkpoint("{}", b"", {"0": 5}))
        assert counted.seen(0, np.full(3, 5), tokens_at(1, 4, 5)).tolist() == [True, True, False]
        store.save(Checkpoint("{}", b"", {"0": 5}))
        assert counted.seen(0, np.full(3, 5), tokens_at(1, 4, 5)).tolist() == [True, True, False]


def test_a_locked_file_is_said_to_be_locked(tmp_path: Path) -> None:
    """Who asks for a token while another program keeps the file locked gets an OSError that says so."""
    path = with_tokens(tmp_path / "state.ckpt")
    with FileCheckpoint(path, counted := CountedTokens(100_000)) as store:
        store.load()
        assert store._connection is not None
        store._connection.execute("PRAGMA busy_timeout = 10")
        with closing(sqlite3.connect(path)) as locker:
            locker.execute("BEGIN EXCLUSIVE")
            with pytest.raises(OSError, match=r"state\.ckpt: cannot be read: database is locked"):
                counted.seen(0, np.array([5000]), tokens_at(1))
        assert counted.seen(0, np.array([5000]), tokens_at(1)).all()


SAVER = """
import sys
import numpy as np
from ldp_stream.connectors.base import Checkpoint
from ldp_stream.connectors.checkpoints import FileCheckpoint
from ldp_stream.connectors.service.tokens import CountedTokens
counted = CountedTokens(15_000)
with FileCheckpoint(sys.argv[1], counted) as store:
    found = store.load()
    at = 0 if found is None else found.position["0"]
    print(at, flush=True)
    while True:
        offsets = np.arange(at, at + 700)
        tokens = np.zeros((700, 16), np.uint8)
        tokens[:, 8:] = offsets.astype(">u8").view(np.uint8).reshape(700, 8)
        assert not counted.seen(0, offsets, tokens).any()
        counted.add(0, offsets, tokens)
        at += 700
        store.save(Checkpoint("{}", b"", {"0": at}))
"""


def test_a_kill_at_any_moment_leaves_tokens_and_position_together(tmp_path: Path) -> None:
    """After SIGKILL the tokens are those before the position, all of the horizon and none after it."""
    path = tmp_path / "state.ckpt"
    pause = random.Random(6)
    reached = 0
    for _ in range(8):
        with subprocess.Popen(
            [sys.executable, "-c", SAVER, str(path)], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            started = int(process.stdout.readline())
            time.sleep(pause.uniform(0.05, 0.25))
            os.kill(process.pid, signal.SIGKILL)
        assert started == reached
        with FileCheckpoint(path, counted := CountedTokens(15_000)) as store:
            found = store.load()
            if found is None:
                continue
            assert not found.recovered
            reached = found.position["0"]
            asked = range(max(0, reached - 15_000), reached + 1000)
            seen = counted.seen(0, np.full(len(asked), reached), tokens_at(*asked))
            assert seen.tolist() == [number < reached for number in asked]
    assert reached > 15_000


def test_a_filter_that_grows_forgets_nothing(tmp_path: Path) -> None:
    """While more and more tokens are counted in an epoch, all are known: those in the file and the others."""
    with FileCheckpoint(tmp_path / "state.ckpt", counted := CountedTokens(150_000)) as store:
        store.load()
        sizes = set()
        for start in range(0, 9000, 500):
            offsets = np.arange(start, start + 500)
            assert not counted.seen(0, offsets, tokens_at(*offsets.tolist())).any()
            assert counted.seen(0, np.full(start, start), tokens_at(*range(start))).all()
            counted.add(0, offsets, tokens_at(*offsets.tolist()))
            sizes.add(counted.nbytes)
            if start % 1500 == 0:
                store.save(Checkpoint("{}", b"", {"0": start}))
        assert len(sizes) == 3


def test_a_save_that_may_not_survive_a_loss_of_power_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the folder cannot be synchronized, the save fails although the file is there; the next works."""

    def fails(folder: Path) -> None:
        raise OSError(f"{folder}: input/output error")

    path = tmp_path / "state.ckpt"
    with FileCheckpoint(path, counted := CountedTokens(1000)) as store:
        store.load()
        counted.add(0, np.array([1]), tokens_at(1))
        with monkeypatch.context() as patch:
            patch.setattr("ldp_stream.connectors.checkpoints.sync_folder", fails)
            with pytest.raises(OSError, match="input/output error"):
                store.save(Checkpoint("{}", b"", {"0": 2}))
        counted.add(0, np.array([2]), tokens_at(2))
        assert counted.seen(0, np.full(2, 3), tokens_at(1, 2)).all()
        store.save(Checkpoint("{}", b"", {"0": 3}))
    with FileCheckpoint(path, counted := CountedTokens(1000)) as store:
        store.load()
        assert counted.seen(0, np.full(2, 3), tokens_at(1, 2)).all()
