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
        """Publish the parameters of one partition; the newest counts."""

    def estimate(self, message: bytes) -> None:
        """Publish an estimate, as JSON; the newest counts."""

    def letters(self, letters: Sequence[Letter]) -> None:
        """Take dead letters; they are safe when :meth:`settle` returns."""

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

    def parameters(self, message: Parameters) -> None:
        """Replace the file of parameters."""
        if self._parameters is not None:
            write_whole(self._parameters, message.model_dump_json().encode() + b"\n")

    def estimate(self, message: bytes) -> None:
        """Replace the file of the estimate."""
        if self._estimates is not None:
            write_whole(self._estimates, message + b"\n")

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
