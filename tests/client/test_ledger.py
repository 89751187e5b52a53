"""The ledger: one report a campaign, the owner's limits, and what crashes and races leave behind."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

import pytest

from ldp_stream.client._ledger_file import connect
from ldp_stream.client.ledger import Ledger
from ldp_stream.errors import AlreadyReported, BudgetExceeded, InvalidInput, LdpStreamError
from ldp_stream.privacy import PrivacyBudget

TWO = PrivacyBudget(2.0)
NOTHING = PrivacyBudget(0.0)
CHILD = """
import os, signal, sys
from pathlib import Path
from ldp_stream.client.ledger import Ledger
from ldp_stream.errors import AlreadyReported, LdpStreamError
from ldp_stream.privacy import PrivacyBudget

path, digest = sys.argv[1], bytes.fromhex(sys.argv[2])

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def make():
    report = os.urandom(20)
    Path(path + ".made").write_bytes(report)
    return report
"""


def _digest(name: str) -> bytes:
    return sha256(name.encode()).digest()


TRIPS = _digest("trips")


def _must_not_run() -> bytes:
    raise AssertionError("a refused report was made")


def _child(path: Path, body: str) -> subprocess.Popen[str]:
    """Start a process that can use the ledger through the names of CHILD."""
    command = [sys.executable, "-c", CHILD + body, str(path), TRIPS.hex()]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a place for a ledger, with none there yet."""
    return tmp_path / "device.sqlite"


def test_a_report_is_handed_out_and_kept(path: Path) -> None:
    """The first report comes back as it was made, can be had again, and is paid for."""
    with Ledger(path) as ledger:
        assert ledger.stored(TRIPS) is None
        assert ledger.record(TRIPS, "trips", PrivacyBudget(2.0, 1e-7), lambda: b"report") == b"report"
        assert ledger.stored(TRIPS) == b"report"
        assert ledger.spent == PrivacyBudget(2.0, 1e-7)


def test_a_second_report_is_refused_after_reopening(path: Path) -> None:
    """One campaign, one report: also in another run, whatever the budget; the maker is not called."""
    with Ledger(path) as ledger:
        ledger.record(TRIPS, "trips", TWO, lambda: b"first")
    with Ledger(path) as ledger:
        for budget in (TWO, PrivacyBudget(0.1), PrivacyBudget(100.0)):
            with pytest.raises(AlreadyReported, match=TRIPS.hex()):
                ledger.record(TRIPS, "trips", budget, _must_not_run)
            with pytest.raises(AlreadyReported):
                ledger.check(TRIPS, budget)
        assert ledger.stored(TRIPS) == b"first"
        assert ledger.spent == TWO


def test_one_campaign_may_not_ask_for_too_much(path: Path) -> None:
    """An epsilon above the largest is refused with what was asked, what is allowed and what is spent."""
    ledger = Ledger(path, largest_epsilon=3.0)
    ledger.record(TRIPS, "trips", TWO, lambda: b"r")
    ledger.check(_digest("a"), PrivacyBudget(3.0))
    with pytest.raises(BudgetExceeded) as refusal:
        ledger.check(_digest("a"), PrivacyBudget(3.5))
    for part in ("asks for epsilon = 3.5", "epsilon = 3.0 in one", "epsilon = 16.0, delta = 1e-06 in all"):
        assert part in str(refusal.value)
    assert "epsilon = 2.0, delta = 0.0 is spent" in str(refusal.value)


def test_renaming_a_campaign_buys_no_more_than_the_lifetime(path: Path) -> None:
    """Ever new digests get answers up to the lifetime exactly, then none; smaller ones still fit below it."""
    ledger = Ledger(path, lifetime=PrivacyBudget(7.0))
    for i in range(3):
        ledger.record(_digest(f"trips-{i}"), "trips", TWO, lambda: b"r")
    with pytest.raises(BudgetExceeded):
        ledger.record(_digest("trips-3"), "trips", TWO, _must_not_run)
    ledger.record(_digest("trips-4"), "trips", PrivacyBudget(1.0), lambda: b"r")
    with pytest.raises(BudgetExceeded):
        ledger.record(_digest("trips-5"), "trips", PrivacyBudget(1e-9), _must_not_run)
    assert ledger.spent == PrivacyBudget(7.0)


def test_the_lifetime_delta_is_a_limit_too(path: Path) -> None:
    """Deltas add up like epsilons and are refused beyond what is allowed."""
    ledger = Ledger(path, lifetime=PrivacyBudget(16.0, 1e-6))
    ledger.record(TRIPS, "trips", PrivacyBudget(1.0, 8e-7), lambda: b"r")
    ledger.check(_digest("a"), PrivacyBudget(1.0, 1e-7))
    with pytest.raises(BudgetExceeded):
        ledger.check(_digest("a"), PrivacyBudget(1.0, 4e-7))


def test_the_limits_of_a_new_ledger(path: Path) -> None:
    """Without the owner's word, one campaign gets 8 and all together (16, 1e-6)."""
    ledger = Ledger(path)
    assert (ledger.largest_epsilon, ledger.lifetime) == (8.0, PrivacyBudget(16.0, 1e-6))


def test_limits_persist_until_the_owner_changes_them(path: Path) -> None:
    """A limit given once holds in later runs; giving one leaves the other; 0 stops everything."""
    Ledger(path, largest_epsilon=1.0).close()
    Ledger(path, lifetime=PrivacyBudget(5.0, 1e-5)).close()
    with Ledger(path) as ledger:
        assert (ledger.largest_epsilon, ledger.lifetime) == (1.0, PrivacyBudget(5.0, 1e-5))
        with pytest.raises(BudgetExceeded):
            ledger.check(TRIPS, TWO)
    with Ledger(path, largest_epsilon=0) as ledger, pytest.raises(BudgetExceeded):
        ledger.check(TRIPS, PrivacyBudget(1e-300))


def test_another_process_sees_changed_limits_at_once(path: Path) -> None:
    """A limit lowered through a second ledger object binds the first."""
    ledger = Ledger(path)
    Ledger(path, lifetime=PrivacyBudget(1.0))
    with pytest.raises(BudgetExceeded):
        ledger.record(TRIPS, "trips", TWO, _must_not_run)


def test_the_secret_persists_and_is_each_devices_own(path: Path, tmp_path: Path) -> None:
    """32 bytes, the same in every run on one device, others on another."""
    secret = Ledger(path).secret
    assert len(secret) == 32
    assert Ledger(path).secret == secret
    assert Ledger(tmp_path / "other").secret != secret


@pytest.mark.skipif(os.name != "posix", reason="file modes are a POSIX matter")
def test_the_file_is_its_owners_alone(path: Path) -> None:
    """Nobody else may read the secret, whatever the umask; no draft stays beside the file."""
    before = os.umask(0)
    try:
        Ledger(path).record(TRIPS, "trips", TWO, lambda: b"r")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_file_system_without_hard_links_will_do(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where links are refused the new file is written in place, private as well."""

    def refuse(*_: object) -> None:
        raise PermissionError("no links")

    monkeypatch.setattr(os, "link", refuse)
    secret = Ledger(path).secret
    assert Ledger(path).secret == secret
    assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0 or os.name != "posix"
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_maker_that_fails_costs_nothing(path: Path) -> None:
    """If the report cannot be made, the error passes on, nothing is spent, and one can be made later."""
    ledger = Ledger(path)

    def fail() -> bytes:
        raise RuntimeError("no entropy")

    with pytest.raises(RuntimeError, match="no entropy"):
        ledger.record(TRIPS, "trips", TWO, fail)
    with pytest.raises(InvalidInput, match="must be bytes"):
        ledger.record(TRIPS, "trips", TWO, lambda: "text")  # type: ignore[arg-type, return-value]
    assert (ledger.stored(TRIPS), ledger.spent) == (None, NOTHING)
    assert ledger.record(TRIPS, "trips", TWO, lambda: b"r") == b"r"


def test_the_maker_may_read_the_ledger(path: Path) -> None:
    """Secret, limits and spent budget can be read while a report is made, in a file and in memory."""
    for ledger in (Ledger(path), Ledger(":memory:")):

        def make(book: Ledger = ledger) -> bytes:
            return book.secret + repr(book.spent).encode()

        assert ledger.record(TRIPS, "trips", TWO, make) == ledger.secret + repr(NOTHING).encode()


def test_the_report_is_on_record_before_it_is_handed_out(path: Path) -> None:
    """While the report is made nobody sees it; once it is returned, an independent reader does."""
    other, seen = Ledger(path), []
    ledger = Ledger(path)

    def make() -> bytes:
        seen.append(other.stored(TRIPS))
        return b"r"

    ledger.record(TRIPS, "trips", TWO, make)
    seen.append(other.stored(TRIPS))
    assert seen == [None, b"r"]


def test_a_commit_outlives_a_power_cut(path: Path) -> None:
    """Connections sync the folder too (EXTRA, 3), or a rollback journal could come back and undo a commit."""
    Ledger(path).close()
    with contextlib.closing(connect(path)) as db:
        assert db.execute("PRAGMA synchronous").fetchone() == (3,)
        assert db.execute("PRAGMA journal_mode").fetchone() == ("delete",)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs kill -9")
def test_killed_between_commit_and_sending_the_same_report_is_sent(path: Path) -> None:
    """After kill -9 of a process that had its report but had not sent it, the same bytes are there."""
    child = _child(path, "Ledger(path).record(digest, 'trips', PrivacyBudget(2.0), make)\ndie()\n")
    assert child.communicate()[0] == ""
    assert child.returncode == -signal.SIGKILL
    with Ledger(path) as ledger:
        assert ledger.stored(TRIPS) == Path(f"{path}.made").read_bytes()
        assert ledger.spent == TWO
        with pytest.raises(AlreadyReported):
            ledger.record(TRIPS, "trips", TWO, _must_not_run)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs kill -9")
@pytest.mark.parametrize("moment", ["lambda: die()", "lambda: (make(), die())"])
def test_killed_before_the_commit_nothing_is_spent(path: Path, moment: str) -> None:
    """After kill -9 while the report is made, none is stored or paid for, and a new one can be made."""
    secret = Ledger(path).secret
    child = _child(path, f"Ledger(path).record(digest, 'trips', PrivacyBudget(2.0), {moment})\n")
    child.communicate()
    assert child.returncode == -signal.SIGKILL
    with Ledger(path) as ledger:
        assert (ledger.stored(TRIPS), ledger.spent, ledger.secret) == (None, NOTHING, secret)
        assert ledger.record(TRIPS, "trips", TWO, lambda: b"new") == b"new"


def test_an_uncommitted_row_on_the_disk_is_undone(path: Path) -> None:
    """A half-written transaction with its rollback journal, as a crash leaves them, counts as never begun."""
    Ledger(path).record(_digest("a"), "a", TWO, lambda: b"r" * 9000)
    journal = path.with_name(path.name + "-journal")
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA cache_size = 1")
        db.execute("PRAGMA cache_spill = 1")
        db.execute("BEGIN IMMEDIATE")
        db.execute("INSERT INTO reports VALUES (?, 'trips', 2.0, 0.0, ?, 0)", (TRIPS, b"x" * 200_000))
        crashed, hot = path.read_bytes(), journal.read_bytes()
        db.execute("ROLLBACK")
    whole = path.read_bytes()
    path.write_bytes(crashed)
    journal.write_bytes(hot)
    assert crashed != whole
    with Ledger(path) as ledger:
        assert (ledger.stored(TRIPS), ledger.spent) == (None, TWO)


def test_of_racing_processes_exactly_one_reports(path: Path) -> None:
    """Processes that create one ledger and report at once share a secret and make one report."""
    body = """
print("ready", flush=True)
sys.stdin.readline()
ledger = Ledger(path)
try:
    answer = ledger.record(digest, "trips", PrivacyBudget(2.0), lambda: os.urandom(20)).hex()
except AlreadyReported:
    answer = "refused " + ledger.stored(digest).hex()
print(answer, ledger.secret.hex())
"""
    children = [_child(path, body) for _ in range(4)]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    answers = [child.communicate()[0].split() for child in children]
    ledger = Ledger(path)
    report = ledger.stored(TRIPS)
    assert report is not None
    secret = ledger.secret.hex()
    expected = [[report.hex(), secret], *[["refused", report.hex(), secret]] * 3]
    assert sorted(answers, key=len) == expected
    assert ledger.spent == TWO


@pytest.mark.parametrize("kind", ["file", "memory"])
def test_of_racing_threads_exactly_one_reports(path: Path, kind: str) -> None:
    """Threads that share one ledger object make one report a campaign and never exceed the lifetime."""
    ledger = Ledger(path if kind == "file" else ":memory:", lifetime=PrivacyBudget(6.0))

    def attempt(i: int) -> bool:
        with contextlib.suppress(AlreadyReported, BudgetExceeded):
            return ledger.record(_digest(f"campaign {i % 5}"), "c", TWO, lambda: b"r") == b"r"
        return False

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(attempt, range(40))) == 3
    assert ledger.spent == PrivacyBudget(6.0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize(("kind", "expected"), [("file", "AlreadyReported"), ("memory", "LdpStreamError")])
def test_a_forked_process_cannot_report_again(path: Path, kind: str, expected: str) -> None:
    """A child that inherits the ledger sees later reports of its parent, and has no use of one in memory."""
    body = f"""
ledger = Ledger(path if {kind == "file"} else ":memory:")
reading, writing = os.pipe()
forked = os.fork()
if forked == 0:
    os.read(reading, 1)
    try:
        print(ledger.record(digest, "trips", PrivacyBudget(2.0), lambda: b"second"))
    except LdpStreamError as error:
        print(type(error).__name__)
else:
    ledger.record(digest, "trips", PrivacyBudget(2.0), lambda: b"first")
    os.write(writing, b"!")
    os.waitpid(forked, 0)
"""
    assert _child(path, body).communicate()[0].split() == [expected]


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _text(path: Path) -> None:
    path.write_text("digest,epsilon\n" * 1000)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-4096])


def _scribble(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4096 : 2 * 4096] = b"\xff" * 4096
    path.write_bytes(content)


def _sql(*statements: str) -> Callable[[Path], None]:
    def run(path: Path) -> None:
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
            for statement in ("PRAGMA ignore_check_constraints = 1", *statements):
                db.execute(statement)

    return run


DAMAGES = {
    "empty": _empty,
    "text": _text,
    "cut short": _cut,
    "scribbled over": _scribble,
    "another database": _sql("PRAGMA application_id = 0"),
    "a later format": _sql("PRAGMA user_version = 2"),
    "no device": _sql("DELETE FROM device"),
    "no reports": _sql("DROP TABLE reports"),
    "short secret": _sql("UPDATE device SET secret = x'00'"),
    "endless limit": _sql("UPDATE device SET largest_epsilon = 9e999"),
    "negative cost": _sql("UPDATE reports SET epsilon = -100.0"),
    "cost as text": _sql("UPDATE reports SET epsilon = 'cheap'"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_an_unsound_file_is_refused_and_left_alone(path: Path, damage: Callable[[Path], None]) -> None:
    """Damage is said, with the path; the file is not replaced by a fresh ledger that would allow a report."""
    Ledger(path).record(TRIPS, "trips", TWO, lambda: b"r" * 5000)
    damage(path)
    before = path.read_bytes()
    for _ in range(2):
        with pytest.raises(InvalidInput, match=r"device\.sqlite.*must be a sound ledger"):
            Ledger(path)
    assert path.read_bytes() == before


def test_a_file_that_goes_bad_or_missing_stops_reports(path: Path) -> None:
    """A ledger damaged or deleted while in use refuses to report and does not start afresh."""
    ledger = Ledger(path)
    path.write_bytes(b"")
    with pytest.raises(LdpStreamError, match="no report may be sent"):
        ledger.record(TRIPS, "trips", TWO, _must_not_run)
    path.unlink()
    with pytest.raises(LdpStreamError, match="no report may be sent"):
        ledger.record(TRIPS, "trips", TWO, _must_not_run)
    assert not path.exists()


def test_a_place_that_cannot_hold_a_ledger_is_refused(tmp_path: Path) -> None:
    """A missing folder, a folder in the file's place and a broken link raise the package's error."""
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for place in (tmp_path / "missing" / "ledger", tmp_path, tmp_path / "link", "nul\0byte"):
        with pytest.raises(InvalidInput, match="path = "):
            Ledger(place)


def test_a_name_with_signs_of_an_address_is_a_plain_name(tmp_path: Path) -> None:
    """Question marks, number signs, percent signs and blanks in the file name are taken literally."""
    path = tmp_path / "a ?mode=memory#%41.sqlite"
    Ledger(path).record(TRIPS, "trips", TWO, lambda: b"r")
    assert Ledger(path).stored(TRIPS) == b"r"
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_changing_the_working_folder_keeps_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path means the folder at opening, so no second ledger comes into being."""
    monkeypatch.chdir(tmp_path)
    ledger = Ledger("device.sqlite")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    ledger.record(TRIPS, "trips", TWO, lambda: b"r")
    assert Ledger(tmp_path / "device.sqlite").stored(TRIPS) == b"r"


def test_a_locked_file_stops_the_report(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When another program never lets go of the file, the report is refused and not made."""
    ledger = Ledger(path)
    monkeypatch.setattr("ldp_stream.client._ledger_file._SECONDS_TO_WAIT", 0.01)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN EXCLUSIVE")
        with pytest.raises(LdpStreamError, match="locked"):
            ledger.record(TRIPS, "trips", TWO, _must_not_run)
    assert ledger.record(TRIPS, "trips", TWO, lambda: b"r") == b"r"


@pytest.mark.parametrize("place", ["file", ":memory:"])
def test_a_closed_ledger_refuses(tmp_path: Path, place: str) -> None:
    """After close, and after a with block, every use raises; closing twice is harmless."""
    with Ledger(place if place == ":memory:" else tmp_path / place) as ledger:
        ledger.check(TRIPS, TWO)
    ledger.close()
    with pytest.raises(LdpStreamError, match="closed"):
        ledger.record(TRIPS, "trips", TWO, _must_not_run)


@pytest.mark.parametrize("digest", [b"", b"1" * 31, "1" * 32, None])
def test_a_digest_is_32_bytes(digest: object) -> None:
    """Anything else would let one campaign pass as two."""
    with pytest.raises(InvalidInput, match=r"digest = .*32 bytes"):
        Ledger(":memory:").check(digest, TWO)  # type: ignore[arg-type]


@pytest.mark.parametrize("largest", [-1.0, float("inf"), float("nan"), "8"])
def test_a_limit_is_a_finite_number(path: Path, largest: object) -> None:
    """Nonsense limits are refused before the file is touched."""
    with pytest.raises(InvalidInput, match="largest_epsilon"):
        Ledger(path, largest_epsilon=largest)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="lifetime"):
        Ledger(path, lifetime=(16.0, 1e-6))  # type: ignore[arg-type]
    assert not path.exists()
