"""The sections of a campaign: frozen pydantic models of what a file says; the defaults need no tuning."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    model_validator,
)

from .scale import INTERCEPT, Axis

__all__ = [
    "CQXChannel",
    "Channel",
    "Epsilon",
    "Feature",
    "Features",
    "Name",
    "NoChannel",
    "PowerSteps",
    "Real",
    "Rounds",
    "SelfNormalized",
    "Target",
    "Tau",
    "Tuning",
    "Whole",
]

_MAX_STALENESS = 4  # rounds: (4 + 1) stability <= 3/2, so that late reports leave the chain stable
_LARGEST_BOUND, _SMALLEST_WIDTH = 1e30, 1e-30  # of a range, so that no coefficient overflows


def _number(value: object) -> object:
    if isinstance(value, bool | str | bytes):
        raise ValueError("must be a number")
    return value


def _unsigned_zero(value: float) -> float:
    return value + 0.0


Real = Annotated[float, BeforeValidator(_number), AfterValidator(_unsigned_zero), Field(allow_inf_nan=False)]
Whole = Annotated[int, BeforeValidator(_number)]  # 2 and 2.0 are the same number, 2.5 is refused
Epsilon = Annotated[Real, Field(gt=0)]
Tau = Annotated[Real, Field(gt=0, lt=1)]
Tuning = Annotated[Real, Field(ge=1e-9, le=1e9)]  # so that no step, round or coefficient over- or underflows
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,80}$")]


class Section(BaseModel):
    """Base of every section: frozen, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class _Range(Section):
    lower: Real
    upper: Real

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.lower < self.upper:
            raise ValueError(f"lower = {self.lower!r} must be below upper = {self.upper!r}")
        if max(-self.lower, self.upper) > _LARGEST_BOUND or self.upper - self.lower < _SMALLEST_WIDTH:
            raise ValueError(
                f"[{self.lower!r}, {self.upper!r}] must be inside [-1e30, 1e30] and at least 1e-30 wide"
            )
        return self


class Feature(_Range):
    """Public bounds of a feature, in the user's units, and its public centre (the midpoint unless given).

    A missing value is replaced by the centre. A centre at a bound (0 of a 0/1 feature) makes the channel's
    grid one-sided, which is worth much at quantile levels far from .5.
    """

    centre: Real | None = None

    @model_validator(mode="after")
    def _centred(self) -> Self:
        if self.centre is not None and not self.lower <= self.centre <= self.upper:
            raise ValueError(
                f"centre = {self.centre!r} must be in [lower, upper] = [{self.lower!r}, {self.upper!r}]"
            )
        return self

    def axis(self, name: str) -> Axis:
        """Return the feature as an axis of the working scale."""
        centre = (self.lower + self.upper) / 2 if self.centre is None else self.centre
        return Axis(name, self.lower, self.upper, centre)

    def resolved(self, name: str) -> dict[str, float]:
        """Return the bounds and the centre in force, so that an explicit midpoint and none say the same."""
        return {"lower": self.lower, "upper": self.upper, "centre": self.axis(name).centre}


class Target(_Range):
    """Public range of the target, in the user's units."""


def _frozen_features(features: Mapping[str, Feature]) -> Mapping[str, Feature]:
    for name in features:
        if not name or name == INTERCEPT:
            raise ValueError(f'{name!r} cannot be a feature\'s name: must not be empty or "{INTERCEPT}"')
    return MappingProxyType(dict(sorted(features.items())))


Features = Annotated[
    Mapping[str, Feature],
    AfterValidator(_frozen_features),
    PlainSerializer(lambda features: {name: feature.resolved(name) for name, feature in features.items()}),
]


class CQXChannel(Section):
    """The CQX(q, s) channel: grids of q points, blocks of s coordinates."""

    kind: Literal["cqx"] = "cqx"
    q: Annotated[Whole, Field(ge=2, le=1 << 16)] = 2
    s: Annotated[Whole, Field(ge=1)] = 1


class NoChannel(Section):
    """No privacy: the reference of a study, refused by a real device."""

    kind: Literal["none"] = "none"


Channel = Annotated[CQXChannel | NoChannel, Field(discriminator="kind")]


class SelfNormalized(Section):
    """Self-normalized (random scaling) confidence intervals from one chain of averages."""

    kind: Literal["sn"] = "sn"


class PowerSteps(Section):
    """Steps eta_i = gain (i + delay v)^-exponent / sqrt(v), v the channel's public second moment."""

    kind: Literal["power"] = "power"
    gain: Tuning = 3.0
    exponent: Annotated[Real, Field(gt=0.5, lt=1)] = 0.75
    delay: Annotated[Real, Field(ge=0, le=1e9)] = 1000.0


class Rounds(Section):
    """How long devices see the same parameters: N reports, N eta curvature <= stability; 0 means N = 1.

    A report counts if it answers a round at most ``max_staleness`` rounds old. Left at its default that field
    is not part of the canonical JSON, so that campaigns from before it have their digest still.
    """

    stability: Annotated[Real, Field(ge=0, lt=2)] = 0.3
    curvature: Tuning = 10.0
    max_staleness: Annotated[
        Whole, Field(ge=0, le=1 << 20, exclude_if=lambda value: value == _MAX_STALENESS)
    ] = _MAX_STALENESS
