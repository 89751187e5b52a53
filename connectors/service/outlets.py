"""Where the service's results go: what it asks of an outlet, and files as one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from ...reports import Parameters
from ..base import Reject
from ..outputs import RejectsFile, write_whole
from .letters import Letter

__all__ = ["FileOutlet", "Outlet"]


class Outlet(Protocol):
    """Takes what the service publishes."""

    def parameters(self, message: Parameters) -> None:
        """Publish the parameters of one partition; the newest counts.

        Raises
        ------
        BrokerUnavailable, OSError
            If that fails; they are taken all the same, here and below.
        """

    def estimate(self, message: bytes) -> None:
        """Publish an estimate, as JSON; the newest counts. Raises as :meth:`parameters` does."""

    def tend(self) -> None:
        """Try again what was taken for publication and failed; raise while some of it is not there."""

    def letters(self, letters: Sequence[Letter]) -> None:
        """Take dead letters; they are safe when :meth:`settle` returns. Raises as :meth:`parameters` does."""

    def settle(self) -> None:
        """Return when everything taken so far is safe.

        Raises
        ------
        BrokerUnavailable, OSError
            If it is not; what is not stays, and the next call tries again.
        """

    def close(self) -> None:
        """Release what is held, within seconds."""


class FileOutlet:
    """Parameters and estimate in files that are replaced whole, dead letters in a file that grows.

    Parameters
    ----------
    parameters, estimates, rejects
        The files; None leaves that kind out.
    """

    def __init__(self, parameters: Path | None, estimates: Path | None, rejects: Path | None) -> None:
        self._parameters = parameters
        self._estimates = estimates
        self._rejects = None if rejects is None else RejectsFile(rejects, append=True)
        self._waiting: list[Letter] = []
        self._unwritten: dict[Path, bytes] = {}

    def parameters(self, message: Parameters) -> None:
        """Replace the file of parameters."""
        if self._parameters is not None:
            self._unwritten[self._parameters] = message.model_dump_json().encode() + b"\n"
            self.tend()

    def estimate(self, message: bytes) -> None:
        """Replace the file of the estimate."""
        if self._estimates is not None:
            self._unwritten[self._estimates] = message + b"\n"
            self.tend()

    def tend(self) -> None:
        """Write what is not written yet."""
        for path, content in list(self._unwritten.items()):
            write_whole(path, content)
            del self._unwritten[path]

    def letters(self, letters: Sequence[Letter]) -> None:
        """Keep the letters for the next settling."""
        if self._rejects is not None:
            self._waiting += letters

    def settle(self) -> None:
        """Append the letters to the file; after a failure those that are in it already are repeated."""
        if self._rejects is not None:
            self._rejects.write(
                Reject(letter.reason, letter.offset + 1, letter.raw.decode("utf-8", "surrogateescape"))
                for letter in self._waiting
            )
            self._rejects.flush()
            if self._waiting:
                self._rejects.sync()
            self._waiting = []

    def close(self) -> None:
        """Close the file of rejects."""
        if self._rejects is not None:
            self._rejects.close()

    def __enter__(self) -> FileOutlet:
        """Return itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close."""
        self.close()
