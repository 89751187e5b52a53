"""What a command starts from: a campaign's file, or a checkpoint, which holds its campaign."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from ...campaign import Campaign
from ...errors import InvalidCampaign, InvalidInput, InvalidSnapshot
from ...server.aggregator import Aggregator
from ..base import Checkpoint
from ..checkpoints import FileCheckpoint
from .console import note

__all__ = ["Stored", "is_checkpoint", "load_campaign", "load_either", "open_checkpoint", "read_checkpoint"]

_DATABASE = b"SQLite format 3\x00"


@dataclass(frozen=True)
class Stored:
    """A checkpoint that was read.

    Parameters
    ----------
    campaign
        Its campaign.
    server
        The restored state.
    position
        Where its source stood; empty if the reports came from files of reports.
    """

    campaign: Campaign
    server: Aggregator
    position: dict[str, int]


def is_checkpoint(path: Path) -> bool:
    """Say whether the file is a database, as checkpoints are; False if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(len(_DATABASE)) == _DATABASE
    except OSError:
        return False


def load_campaign(path: Path) -> Campaign:
    """Read a campaign's file; InvalidCampaign or InvalidInput says what is wrong."""
    if is_checkpoint(path):
        raise InvalidInput(f"{path}: is a checkpoint, and a campaign's file is needed here")
    return Campaign.load(path)


def read_checkpoint(path: Path) -> Stored:
    """Read a checkpoint, with the campaign that it holds.

    Raises
    ------
    InvalidInput
        If there is no such file.
    InvalidSnapshot
        If it is not a sound checkpoint.
    """
    if path.suffix.lower() in (".toml", ".json") and not is_checkpoint(path):
        raise InvalidInput(f"{path}: is a campaign's file, and a checkpoint is needed here, or --kafka")
    with FileCheckpoint(path) as store:
        checkpoint = store.load()
    if checkpoint is None:
        raise InvalidInput(f"{path}: there is no such file")
    return open_checkpoint(path, checkpoint)


def open_checkpoint(path: Path, checkpoint: Checkpoint) -> Stored:
    """Restore campaign and state of a checkpoint; say so if its newest save was damaged."""
    try:
        campaign = Campaign.model_validate(json.loads(checkpoint.campaign))
    except (InvalidCampaign, ValueError) as error:
        raise InvalidSnapshot(
            f"{path}: does not hold a campaign that this release can read: {error}"
        ) from None
    if checkpoint.recovered:
        note(f"{path}: one of its two saves is damaged; this is the sound one")
    return Stored(campaign, Aggregator.restore(campaign, checkpoint.state), dict(checkpoint.position))


def load_either(path: Path) -> Stored:
    """Read a checkpoint, or a campaign's file with an empty state."""
    if is_checkpoint(path):
        return read_checkpoint(path)
    campaign = Campaign.load(path)
    return Stored(campaign, Aggregator(campaign), {})
