"""The device's own book: one report a campaign, and never more budget than the device's owner allows.

It is one small SQLite file that stays on the device. It holds the device's secret, what the owner allows,
and a row for each campaign digest that was answered: its budget and the report itself. With ``E_i, D_i``
the budgets of the rows, a campaign that asks for ``(epsilon, delta)`` is answered only when

    ``epsilon <= largest_epsilon``,  ``sum E_i + epsilon <= lifetime.epsilon``,
    ``sum D_i + delta <= lifetime.delta``,

and its digest has no row. These limits belong to no campaign, so a server gains nothing by renaming one.

Formal guarantees: the checks, the making of the report and its row are one transaction, which is on the
disk before the report is handed out. After a crash at any moment either nothing was handed out and nothing
is spent, or the very same report can be sent again. No decision looks at the user's data. What it cannot
see: a second device of the same person, and an owner who deletes the file.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

from .._validate import non_negative
from ..errors import AlreadyReported, BudgetExceeded, InvalidInput, LdpStreamError
from ..privacy import PrivacyBudget, compose
from ._ledger_file import (
    DIGEST_BYTES,
    connect,
    create,
    lay_out,
    read_limits,
    read_spent,
    read_stored,
    refuse_unsound,
    set_limits,
    transaction,
)

__all__ = ["Ledger"]

_MEMORY = ":memory:"
_NEW_LIMITS = (8.0, 16.0, 1e-6)


class Ledger:
    """What this device has reported, what its owner allows, and the device's secret.

    One ledger may be used by several threads and processes, also after a fork: each call opens its own
    connection and of several that race for one campaign exactly one makes the report.

    Parameters
    ----------
    path : str or os.PathLike[str]
        The file. A new one is made, readable by its owner alone, when there is none; a file that is not a
        sound ledger is refused, never replaced. ``":memory:"`` keeps everything in this process and forgets
        it at the end.
    largest_epsilon : float, optional
        The owner's limit for one campaign. ``None`` keeps what the file says (8 in a new one); a number
        changes it.
    lifetime : PrivacyBudget, optional
        The owner's limit for all campaigns together. ``None`` keeps what the file says ((16, 1e-6) in a new
        one).

    Raises
    ------
    InvalidInput
        If the file cannot be made or is not a sound ledger, or a limit is not a finite number >= 0.

    Examples
    --------
    >>> ledger = Ledger(":memory:", lifetime=PrivacyBudget(3.0))
    >>> ledger.record(bytes(32), "trips-2019", PrivacyBudget(2.0), lambda: b"noisy")
    b'noisy'
    >>> ledger.stored(bytes(32)), ledger.spent
    (b'noisy', PrivacyBudget(epsilon=2.0, delta=0.0))
    >>> ledger.check(b"1" * 32, PrivacyBudget(2.0))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ldp_stream.errors.BudgetExceeded: the campaign asks for epsilon = 2.0, delta = 0.0: ...
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        largest_epsilon: float | None = None,
        lifetime: PrivacyBudget | None = None,
    ) -> None:
        self._name = os.fspath(path)
        self._closed = False
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._memory: sqlite3.Connection | None = None
        self._secret: bytes
        if largest_epsilon is not None:
            largest_epsilon = non_negative(largest_epsilon=largest_epsilon)
        if not isinstance(lifetime, PrivacyBudget | None):
            raise InvalidInput(f"lifetime = {lifetime!r}: must be a PrivacyBudget")
        try:
            if self._name == _MEMORY:
                self._memory = sqlite3.connect(_MEMORY, isolation_level=None, check_same_thread=False)
                weakref.finalize(self, self._memory.close)
                lay_out(self._memory, _NEW_LIMITS)
            else:
                self._path = Path(self._name).absolute()
                if not os.path.lexists(self._path):
                    create(self._path, _NEW_LIMITS)
            with self._connection() as db:
                refuse_unsound(db)
                if largest_epsilon is not None or lifetime is not None:
                    set_limits(db, largest_epsilon, lifetime)
                (self._secret,) = db.execute("SELECT secret FROM device").fetchone()
        except (sqlite3.Error, OSError, ValueError) as error:
            raise InvalidInput(
                f"path = {self._name!r}: must be a sound ledger, or a new file in a writable folder: {error}"
            ) from error

    @property
    def secret(self) -> bytes:
        """The device's 32 secret bytes, from the operating system, made with the file. Never send them."""
        return self._secret

    @property
    def largest_epsilon(self) -> float:
        """The most epsilon that the owner allows in one campaign."""
        with self._session() as db:
            return read_limits(db)[0]

    @property
    def lifetime(self) -> PrivacyBudget:
        """The most that the owner allows in all campaigns together."""
        with self._session() as db:
            return read_limits(db)[1]

    @property
    def spent(self) -> PrivacyBudget:
        """What all stored reports cost together (sequential composition)."""
        with self._session() as db:
            return read_spent(db)

    def stored(self, digest: bytes) -> bytes | None:
        """Return the report made for this campaign, to send it again, or ``None`` when there is none.

        Parameters
        ----------
        digest : bytes
            The campaign's SHA-256, 32 bytes.

        Raises
        ------
        InvalidInput
            If ``digest`` is not 32 bytes.
        LdpStreamError
            If the file cannot be read.
        """
        key = _checked_digest(digest)
        with self._session() as db:
            return read_stored(db, key)

    def check(self, digest: bytes, budget: PrivacyBudget) -> None:
        """Return quietly if a report in this campaign is allowed now; nothing is spent.

        Parameters
        ----------
        digest : bytes
            The campaign's SHA-256, 32 bytes.
        budget : PrivacyBudget
            What one report of the campaign costs.

        Raises
        ------
        AlreadyReported
            If this campaign has its report.
        BudgetExceeded
            If the owner does not allow that much.
        InvalidInput
            If ``digest`` is not 32 bytes.
        LdpStreamError
            If the file cannot be read.
        """
        key = _checked_digest(digest)
        with self._session() as db:
            _refuse_unless_allowed(db, key, budget)

    def record(
        self, digest: bytes, name: str, budget: PrivacyBudget, make_report: Callable[[], bytes]
    ) -> bytes:
        """Make this campaign's one report and store it; when it returns, the report is safely on the disk.

        Parameters
        ----------
        digest : bytes
            The campaign's SHA-256, 32 bytes.
        name : str
            The campaign's name, for the owner to read.
        budget : PrivacyBudget
            What the report costs.
        make_report : callable
            Called at most once, after all checks, and never when the report is refused. If it raises,
            nothing is stored or spent.

        Returns
        -------
        bytes
            What ``make_report`` returned. Send exactly this.

        Raises
        ------
        AlreadyReported
            If this campaign has its report: see :meth:`stored`.
        BudgetExceeded
            If the owner does not allow that much.
        InvalidInput
            If ``digest`` is not 32 bytes or the report is not bytes.
        LdpStreamError
            If the file cannot be read or written; then nothing may be sent.
        """
        key = _checked_digest(digest)
        with self._session() as db, transaction(db):
            _refuse_unless_allowed(db, key, budget)
            report = make_report()
            if not isinstance(report, bytes):
                raise InvalidInput(f"report = {report!r}: must be bytes")
            row = (key, name, budget.epsilon, budget.delta, report, int(time.time()))
            db.execute("INSERT INTO reports VALUES (?, ?, ?, ?, ?, ?)", row)
        return report

    def close(self) -> None:
        """Refuse all further use. A file stays; what ``":memory:"`` held is gone."""
        with self._lock:
            self._closed = True
            if self._memory is not None:
                self._memory.close()

    def __enter__(self) -> Ledger:
        """Return the ledger itself."""
        return self

    def __exit__(self, *details: object) -> None:
        """Close it."""
        self.close()

    @contextlib.contextmanager
    def _session(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection; whatever SQLite refuses becomes one of the package's errors."""
        try:
            with self._connection() as db:
                yield db
        except sqlite3.Error as error:
            raise LdpStreamError(f"ledger {self._name!r}: {error}: no report may be sent") from error

    @contextlib.contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        if self._closed:
            raise LdpStreamError(f"ledger {self._name!r}: it is closed")
        if self._memory is None:
            with contextlib.closing(connect(self._path)) as db:
                yield db
            return
        if os.getpid() != self._process:
            raise LdpStreamError(f"ledger {self._name!r}: it belongs to another process; use a file instead")
        with self._lock:
            yield self._memory


def _checked_digest(digest: bytes) -> bytes:
    if not isinstance(digest, bytes) or len(digest) != DIGEST_BYTES:
        raise InvalidInput(f"digest = {digest!r}: must be {DIGEST_BYTES} bytes")
    return digest


def _refuse_unless_allowed(db: sqlite3.Connection, digest: bytes, budget: PrivacyBudget) -> None:
    if read_stored(db, digest) is not None:
        raise AlreadyReported(f"digest = {digest.hex()}: this device has reported in this campaign")
    largest, lifetime = read_limits(db)
    spent = read_spent(db)
    if budget.epsilon > largest or not compose(spent, budget).within(lifetime):
        raise BudgetExceeded(
            f"the campaign asks for {_text(budget)}: this device's owner allows at most "
            f"epsilon = {largest!r} in one campaign and {_text(lifetime)} in all; {_text(spent)} is spent"
        )


def _text(budget: PrivacyBudget) -> str:
    return f"epsilon = {budget.epsilon!r}, delta = {budget.delta!r}"
