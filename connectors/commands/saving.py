"""The checkpoint of a replay: found at the start, saved now and then, saved at the end."""

from __future__ import annotations

import time
from pathlib import Path

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
        self._path = path
        self._campaign = campaign
        self._seconds = seconds
        self._store: FileCheckpoint | None = None
        self.found: Stored | None = None
        if path is not None:
            check_writable(path, "--checkpoint")
            self._store = FileCheckpoint(path)
            checkpoint = self._store.load()
            if checkpoint is not None:
                self.found = open_checkpoint(path, checkpoint)
                self._check(self.found.campaign)
        self._next = time.monotonic() + seconds

    def _check(self, stored: Campaign) -> None:
        if stored != self._campaign:
            raise CampaignMismatch(
                f"{self._path}: is a checkpoint of campaign {stored.name} ({stored.digest_prefix}), not of "
                f"{self._campaign.name} ({self._campaign.digest_prefix}); choose another --checkpoint"
            )

    @property
    def due(self) -> bool:
        """Whether it is time to save."""
        return self._store is not None and time.monotonic() >= self._next

    def save(self, server: Aggregator, position: Position) -> None:
        """Save now; OSError if that fails, and the save before stays."""
        if self._store is not None:
            self._store.save(Checkpoint(self._campaign.canonical, server.snapshot(), position))
            self._next = time.monotonic() + self._seconds

    def close(self) -> None:
        """Close the file."""
        if self._store is not None:
            self._store.close()
