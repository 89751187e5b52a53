"""The checkpoint of a replay: found at the start, saved now and then, saved at the end."""

from __future__ import annotations

import time
from pathlib import Path
from types import TracebackType
from typing import Self

from ...campaign import Campaign
from ...errors import CampaignMismatch
from ...server.aggregator import Aggregator
from ..base import Checkpoint, Position
from ..checkpoints import FileCheckpoint
from .files_out import check_writable
from .stored import Stored, open_checkpoint

__all__ = ["Saver"]


class Saver:
    """Keeps a campaign's state and the rows' position in a checkpoint file.

    Parameters
    ----------
    path
        The file; None keeps nothing.
    campaign
        The campaign whose checkpoint it must be.
    seconds
        Time between two saves.

    Attributes
    ----------
    found
        What the file held at the start, or None.

    Raises
    ------
    CampaignMismatch
        If the file holds another campaign's checkpoint.
    InvalidInput, InvalidSnapshot
        If the file cannot be written, or is not a sound checkpoint.
    """

    def __init__(self, path: Path | None, campaign: Campaign, seconds: float) -> None:
        self._campaign = campaign
        self._seconds = seconds
        self._store: FileCheckpoint | None = None
        self.found: Stored | None = None
        if path is not None:
            check_writable(path, "--checkpoint")
            self._store = FileCheckpoint(path)
            try:
                self.found = self._find(self._store, path)
            except BaseException:
                self._store.close()
                raise
        self._next = time.monotonic() + seconds

    def _find(self, store: FileCheckpoint, path: Path) -> Stored | None:
        checkpoint = store.load()
        if checkpoint is None:
            return None
        stored, own = open_checkpoint(path, checkpoint), self._campaign
        if stored.campaign != own:
            raise CampaignMismatch(
                f"{path}: is a checkpoint of campaign {stored.campaign.name} "
                f"({stored.campaign.digest_prefix}), not of {own.name} ({own.digest_prefix}); "
                "choose another --checkpoint"
            )
        return stored

    @property
    def keeps(self) -> bool:
        """Whether there is a file to save to."""
        return self._store is not None

    @property
    def due(self) -> bool:
        """Whether it is time to save."""
        return self._store is not None and time.monotonic() >= self._next

    def save(self, server: Aggregator, position: Position) -> None:
        """Save now; OSError if that fails, and the save before stays."""
        if self._store is not None:
            self._store.save(Checkpoint(self._campaign.canonical, server.snapshot(), position))
            self._next = time.monotonic() + self._seconds

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file; nothing is saved by this."""
        if self._store is not None:
            self._store.close()
