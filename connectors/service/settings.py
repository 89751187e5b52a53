"""How the service runs: sizes and times, none of which changes what it counts, but the horizon."""

from __future__ import annotations

from dataclasses import dataclass

from ..._validate import integer_in, positive, probability

__all__ = ["ServiceSettings"]


@dataclass(frozen=True)
class ServiceSettings:
    """Sizes and times of the service.

    Parameters
    ----------
    batch
        Most messages that are taken at once.
    save_seconds
        Time between two checkpoints.
    save_tokens
        Counted tokens after which a checkpoint is due in any case, so that little waits for it.
    publish_seconds
        Time between two estimates.
    repeat_seconds
        Time after which the newest parameters are sent again although the round is the same.
    log_seconds
        Time between two lines about progress.
    retry_seconds
        Time before what failed is tried again.
    level
        Coverage of the published intervals.

    Raises
    ------
    InvalidInput
        If a number is out of range.
    """

    batch: int = 4096
    save_seconds: float = 5.0
    save_tokens: int = 200_000
    publish_seconds: float = 5.0
    repeat_seconds: float = 30.0
    log_seconds: float = 30.0
    retry_seconds: float = 2.0
    level: float = 0.95

    def __post_init__(self) -> None:
        integer_in(1, 1 << 16, batch=self.batch)
        integer_in(1, 1 << 24, save_tokens=self.save_tokens)
        positive(save_seconds=self.save_seconds)
        positive(publish_seconds=self.publish_seconds)
        positive(repeat_seconds=self.repeat_seconds)
        positive(log_seconds=self.log_seconds)
        positive(retry_seconds=self.retry_seconds)
        probability(level=self.level)
