"""The sections of a campaign: frozen pydantic models of what a file says; the defaults need no tuning."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from math import floor, prod
from types import MappingProxyType
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PlainSerializer,
    Tag,
    model_validator,
)

from .channels.cqx import CQX
from .channels.face_exponential import FaceExponential
from .channels.laplace import DirectLaplace
from .channels.piecewise import Piecewise
from .channels.privunit import PrivUnitG
from .scale import INTERCEPT, Axis
from .tree import ChainTree

__all__ = [
    "CQXChannel",
    "Channel",
    "DivideAndConquer",
    "Epsilon",
    "FaceExponentialChannel",
    "Feature",
    "Features",
    "HiGrad",
    "HybridChannel",
    "Inference",
    "Intervals",
    "LaplaceChannel",
    "Name",
    "NoChannel",
    "PiecewiseChannel",
    "PowerSteps",
    "PrivUnitGChannel",
    "PrivateChannel",
    "Real",
    "Rounds",
    "SelfNormalized",
    "Target",
    "Tau",
    "Taus",
    "Tuning",
    "Whole",
]

_MAX_STALENESS = 4  # rounds: (4 + 1) stability <= 3/2, so that late reports leave the chain stable
_MOST_CHAINS = 1 << 10  # of one quantile level in one partition
_LARGEST_BOUND, _SMALLEST_WIDTH = 1e30, 1e-30  # of a range, so that no coefficient overflows


def _number(value: object) -> object:
    if isinstance(value, bool | str | bytes):
        raise ValueError("must be a number")
    return value


def _unsigned_zero(value: float) -> float:
    return value + 0.0


Real = Annotated[float, BeforeValidator(_number), AfterValidator(_unsigned_zero), Field(allow_inf_nan=False)]
Whole = Annotated[int, BeforeValidator(_number)]  # 2 and 2.0 are the same number, 2.5 is refused
Intervals = tuple[tuple[float, float], ...]
Epsilon = Annotated[Real, Field(gt=0)]
Tau = Annotated[Real, Field(gt=0, lt=1)]


def _is_several(value: object) -> str:
    return "several" if isinstance(value, list | tuple) else "one"


def _increasing(levels: tuple[float, ...]) -> tuple[float, ...]:
    if any(a >= b for a, b in pairwise(levels)):
        raise ValueError(f"{list(levels)} must increase")
    return levels


_Levels = Annotated[tuple[Tau, ...], Field(min_length=2, max_length=64), AfterValidator(_increasing)]
Taus = Annotated[Annotated[Tau, Tag("one")] | Annotated[_Levels, Tag("several")], Discriminator(_is_several)]
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
    """The CQX(q, s) channel: grids of q points, blocks of s coordinates.

    ``intercept`` is the probability that a block contains the intercept (uniform blocks unless given), and
    with ``shear`` slopes go through the channel about the middle of their intervals. Left at their defaults
    they are not part of the canonical JSON, so that campaigns from before them have their digest still.
    """

    kind: Literal["cqx"] = "cqx"
    q: Annotated[Whole, Field(ge=2, le=1 << 16)] = 2
    s: Annotated[Whole, Field(ge=1)] = 1
    intercept: Annotated[Real | None, Field(gt=0, le=1, exclude_if=lambda value: value is None)] = None
    shear: Annotated[bool, Field(strict=True, exclude_if=lambda value: not value)] = False

    def mechanism(self, epsilon: float, tau: float, intervals: Intervals) -> CQX:
        """Return the channel."""
        return CQX(epsilon, tau, intervals, self.q, self.s, self.intercept, self.shear)


class LaplaceChannel(Section):
    """Laplace noise on every coordinate, for the diameter of the support ("aware") or of a cube ("blind")."""

    kind: Literal["laplace"] = "laplace"
    support: Literal["aware", "blind"] = "aware"

    def mechanism(self, epsilon: float, tau: float, intervals: Intervals) -> DirectLaplace:
        """Return the channel."""
        return DirectLaplace(epsilon, tau, intervals, self.support)


class FaceExponentialChannel(Section):
    """A grid point of the support by the exponential mechanism, q points a slope; biased."""

    kind: Literal["face_exponential"] = "face_exponential"
    q: Annotated[Whole, Field(ge=2, le=1 << 16)] = 2

    def mechanism(self, epsilon: float, tau: float, intervals: Intervals) -> FaceExponential:
        """Return the channel."""
        channel = FaceExponential(epsilon, tau, intervals, self.q)
        channel.check_alphabet()
        return channel


class PiecewiseChannel(Section):
    """The piecewise mechanism on k sampled coordinates."""

    kind: Literal["piecewise"] = "piecewise"
    k: Annotated[Whole, Field(ge=1)] | None = None

    def mechanism(self, epsilon: float, tau: float, intervals: Intervals) -> Piecewise:
        """Return the channel."""
        return Piecewise(epsilon, tau, intervals, self.k)


class HybridChannel(Section):
    """The mixture of the piecewise and the two-valued mechanism on k sampled coordinates."""

    kind: Literal["hybrid"] = "hybrid"
    k: Annotated[Whole, Field(ge=1)] | None = None

    def mechanism(self, epsilon: float, tau: float, intervals: Intervals) -> Piecewise:
        """Return the channel."""
        return Piecewise(epsilon, tau, intervals, self.k, hybrid=True)


class PrivUnitGChannel(Section):
    """A Gaussian vector that leans towards the contribution."""

    kind: Literal["privunit_g"] = "privunit_g"

    def mechanism(self, epsilon: float, tau: float, intervals: Intervals) -> PrivUnitG:
        """Return the channel."""
        return PrivUnitG(epsilon, tau, intervals)


class NoChannel(Section):
    """No privacy: the reference of a study, refused by a real device."""

    kind: Literal["none"] = "none"


PrivateChannel = (
    CQXChannel | LaplaceChannel | FaceExponentialChannel | PiecewiseChannel | HybridChannel | PrivUnitGChannel
)
Channel = Annotated[PrivateChannel | NoChannel, Field(discriminator="kind")]


class SelfNormalized(Section):
    """Self-normalized (random scaling) confidence sets from one chain of averages."""

    kind: Literal["sn"] = "sn"

    def tree(self, trees: int) -> ChainTree:
        """Return the tree of a quantile level in a partition; ``trees`` of them share the reports."""
        del trees
        return ChainTree()


class DivideAndConquer(Section):
    """Confidence sets from the spread of the averages of ``chains`` independent chains in each partition."""

    kind: Literal["dc"] = "dc"
    chains: Annotated[Whole, Field(ge=2, le=_MOST_CHAINS)]

    def tree(self, trees: int) -> ChainTree:
        """Return the tree of the chains of a level in a partition: leaves under a root that folds nothing."""
        del trees
        return ChainTree((self.chains,), (0,))


_Branching = Annotated[tuple[Annotated[Whole, Field(ge=2, le=64)], ...], Field(min_length=1, max_length=6)]


class HiGrad(Section):
    """Confidence sets from a tree of chains (HiGrad).

    Either ``segments``, the reports n_0..n_L that each node of level l folds, of each quantile level in each
    partition, or ``horizon``, the reports of the whole campaign, and ``ratio``, n_{l+1}/n_l.
    """

    kind: Literal["higrad"] = "higrad"
    branching: _Branching = (2, 2)
    segments: tuple[Annotated[Whole, Field(ge=1)], ...] | None = None
    horizon: Annotated[Whole, Field(ge=1, le=1 << 53)] | None = None
    ratio: Annotated[Real, Field(ge=0.01, le=100)] | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if prod(self.branching) > _MOST_CHAINS:
            raise ValueError(f"branching = {list(self.branching)}: must have at most {_MOST_CHAINS} leaves")
        if (self.segments is None) == (self.horizon is None):
            raise ValueError("must have either segments or horizon (with or without ratio)")
        if self.segments is None:
            return self
        if self.ratio is not None:
            raise ValueError("ratio goes with horizon, not with segments")
        if len(self.segments) != len(self.branching) + 1:
            raise ValueError(
                f"segments = {list(self.segments)}: must have one more entry than branching = "
                f"{list(self.branching)}"
            )
        return self

    def planned(self, trees: int) -> tuple[int, ...]:
        """Return n_0..n_L of each of the trees that share the reports."""
        if self.segments is not None:
            return self.segments
        assert self.horizon is not None
        ratio = 2.0 if self.ratio is None else self.ratio
        widths = [prod(self.branching[:level]) for level in range(len(self.branching) + 1)]
        share = self.horizon / trees / sum(width * ratio**level for level, width in enumerate(widths))
        return tuple(max(1, floor(share * ratio**level)) for level in range(len(widths)))

    def tree(self, trees: int) -> ChainTree:
        """Return the tree of a quantile level in a partition; ``trees`` of them share the reports."""
        return ChainTree(self.branching, self.planned(trees)[:-1])


Inference = Annotated[SelfNormalized | DivideAndConquer | HiGrad, Field(discriminator="kind")]


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
