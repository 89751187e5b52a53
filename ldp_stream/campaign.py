"""The campaign: the frozen public contract of one collection, read alike by devices, servers and people.

It fixes what is asked (features with public bounds, target, quantile level), how it is protected (epsilon,
channel) and how it is estimated (steps, averaging window, projection, rounds, inference). Its digest, the
SHA-256 of its canonical JSON, travels in every report, so that a report can never be read under another
contract. Two files that say the same thing in another order or spelling (1 and 1.0) have the same digest.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ModelWrapValidatorHandler, ValidationError, model_validator

from .campaign_auto import resolved
from .campaign_parts import (
    Channel,
    CQXChannel,
    Epsilon,
    Features,
    HiGrad,
    Inference,
    Name,
    NoChannel,
    PowerSteps,
    Real,
    Rounds,
    Section,
    SelfNormalized,
    Target,
    Taus,
    Tuning,
    Whole,
)
from .campaign_problems import field_problems, joint_problems
from .channels.kinds import Mechanism
from .channels.no_privacy import NoPrivacy
from .errors import InvalidCampaign, InvalidInput
from .plan import TRAVEL, RoundSchedule, StepRule, Window
from .privacy import PrivacyBudget
from .scale import WorkingScale
from .tree import ChainTree

__all__ = ["Campaign", "QuantileLevel"]

_FOREVER = 1 << 62  # events
_PREFIX = 16  # hex digits of the digest's first 8 bytes, which a report carries


@dataclass(frozen=True)
class QuantileLevel:
    """One quantile level of a campaign: its tau, its channel, and the step sizes of its chains."""

    tau: float
    mechanism: Mechanism
    steps: StepRule

    @cached_property
    def settling(self) -> float:
        """Reports of one path before intervals are given: until its steps add up to TRAVEL.

        A public count. Before it the average is still on its way from the start and its fluctuation says
        nothing about the rest of the way.
        """
        return self.steps.events_to_travel(TRAVEL)


class Campaign(Section):
    """One collection's public contract: frozen, and refused whole when any field is wrong.

    Parameters
    ----------
    kind
        "quantile".
    name
        1 to 80 of the characters A-Z a-z 0-9 _ -.
    tau
        Quantile level in (0, 1), or several that increase: each report serves one, which its token names.
    epsilon
        Privacy of one report, finite and > 0; absent with ``channel = {kind = "none"}`` only.
    target
        ``{lower, upper}``: public range, in the user's units.
    features
        Name to ``{lower, upper, centre}``, in the user's units; the centre is the midpoint unless given.
    channel
        ``{kind = "cqx", q, s, intercept, shear}`` (default q = 2, s = 1), or ``{kind = "auto"}`` (with a
        ``criterion``, "expected" or "worst"), which is replaced by the best of these; for comparison
        ``{kind = "laplace", support}``, ``{kind = "face_exponential", q}`` (biased), ``{kind = "piecewise",
        k}``, ``{kind = "hybrid", k}``, ``{kind = "privunit_g"}``; without privacy ``{kind = "none"}``.
    inference
        ``{kind = "sn"}``, ``{kind = "dc", chains}`` or ``{kind = "higrad", branching, segments}`` (or a
        ``horizon`` of reports and a ``ratio`` of segments instead of ``segments``).
    steps, radius, burn_in, rounds, partitions
        Tuning, with defaults that need none: the step rule, the projection on the box |b_j| <= radius in the
        working scale, the fraction left out of the average, the rounds of parameters and how late a report
        may answer one, the partitions of the report stream.

    Raises
    ------
    InvalidCampaign
        One message that names every bad field, its value and what is allowed.

    Examples
    --------
    >>> campaign = Campaign.model_validate({
    ...     "kind": "quantile", "name": "trips", "tau": 0.5, "epsilon": 2,
    ...     "target": {"lower": 0, "upper": 4.8},
    ...     "features": {
    ...         "log_miles": {"lower": -2.4, "upper": 3.5},
    ...         "rush": {"lower": 0, "upper": 1, "centre": 0},
    ...     },
    ... })
    >>> (campaign.channel.q, campaign.channel.s), campaign.scale.names
    ((2, 1), ('intercept', 'log_miles', 'rush'))
    >>> Campaign(**{**campaign.model_dump(), "tau": 2.0, "target": {"lower": 0}})
    Traceback (most recent call last):
    ...
    ldp_stream.errors.InvalidCampaign: tau = 2.0: Input should be less than 1; target.upper: missing
    """

    kind: Literal["quantile"]
    name: Name
    tau: Taus
    epsilon: Epsilon | None = None
    target: Target
    features: Features
    channel: Channel = CQXChannel()
    inference: Inference = SelfNormalized()
    steps: PowerSteps = PowerSteps()
    radius: Tuning = 3.0
    burn_in: Annotated[Real, Field(ge=0, lt=1)] = 0.1
    rounds: Rounds = Rounds()
    partitions: Annotated[Whole, Field(ge=1, le=1 << 16)] = 1

    @model_validator(mode="wrap")
    @classmethod
    def _checked(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        problems: list[str] = []
        campaign: Self | None = None
        try:
            if isinstance(data, Mapping):
                data = resolved(data)
        except ValidationError as error:
            problems += [f"channel.{problem}" for problem in field_problems(error)]
            data = {**data, "channel": CQXChannel()}
        try:
            campaign = handler(data)
        except ValidationError as error:
            problems += field_problems(error)
        if isinstance(data, Mapping):
            problems += joint_problems(data)
        if campaign is None or problems:
            raise InvalidCampaign("; ".join(problems))
        return campaign

    # ------------------------------------------------------------------ reading and writing

    @classmethod
    def load(cls, path: str | Path) -> Campaign:
        """Read a campaign from a ``.toml`` or ``.json`` file.

        Raises
        ------
        InvalidCampaign
            If the file cannot be read or parsed, or the campaign is refused; the path comes first.
        """
        try:
            text = Path(path).read_text(encoding="utf-8")
            data = _parse_json(text) if Path(path).suffix.lower() == ".json" else tomllib.loads(text)
        except OSError as error:
            raise InvalidCampaign(f"{path}: cannot be read: {error.strerror or error}") from None
        except (ValueError, RecursionError) as error:  # a parser's error or undecodable bytes are ValueErrors
            raise InvalidCampaign(f"{path}: {error}") from None
        try:
            return cls.model_validate(data)
        except InvalidCampaign as error:
            raise InvalidCampaign(f"{path}: {error}") from None

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray, **options: Any) -> Self:
        """Read a campaign from JSON text; broken JSON is refused with InvalidCampaign, too."""
        try:
            return super().model_validate_json(json_data, **options)
        except ValidationError as error:
            raise InvalidCampaign("; ".join(field_problems(error))) from None

    @cached_property
    def canonical(self) -> str:
        """The canonical JSON: all fields, also defaults, keys sorted, no white space, floats as in Python."""
        return json.dumps(
            self.model_dump(exclude_none=True), sort_keys=True, separators=(",", ":"), allow_nan=False
        )

    @cached_property
    def digest(self) -> str:
        """SHA-256 of :attr:`canonical`, 64 hex digits."""
        return hashlib.sha256(self.canonical.encode()).hexdigest()

    @property
    def digest_prefix(self) -> str:
        """The first 8 bytes of the digest, 16 hex digits: what a report carries."""
        return self.digest[:_PREFIX]

    # ------------------------------------------------------------------ what it means

    @property
    def private(self) -> bool:
        """Whether reports are protected; False for the reference channel "none" only."""
        return self.epsilon is not None

    @property
    def budget(self) -> PrivacyBudget:
        """What one report costs its user.

        Raises
        ------
        InvalidInput
            If the channel is "none": no finite budget covers it.
        """
        if self.epsilon is None:
            raise InvalidInput('channel = "none": no finite privacy budget covers it')
        return PrivacyBudget(self.epsilon)

    @cached_property
    def scale(self) -> WorkingScale:
        """The map between the user's units and the working scale; features in alphabetical order."""
        axes = tuple(feature.axis(name) for name, feature in self.features.items())
        return WorkingScale(axes, self.target.lower, self.target.upper)

    @cached_property
    def levels(self) -> tuple[QuantileLevel, ...]:
        """What estimates each quantile level: its channel and its chains."""
        taus = self.tau if isinstance(self.tau, tuple) else (self.tau,)
        return tuple(self._level(tau) for tau in taus)

    def _level(self, tau: float) -> QuantileLevel:
        mechanism: Mechanism
        if self.epsilon is None or isinstance(self.channel, NoChannel):
            mechanism = NoPrivacy(tau, self.scale.intervals)
        else:
            mechanism = self.channel.mechanism(self.epsilon, tau, self.scale.intervals)
        steps = StepRule(self.steps.gain, self.steps.exponent, self.steps.delay, mechanism.second_moment)
        return QuantileLevel(tau, mechanism, steps)

    @property
    def p(self) -> int:
        """Number of coefficients of a level, the intercept included."""
        return len(self.features) + 1

    @property
    def trees(self) -> int:
        """Trees of chains that share the reports: one for each quantile level in each partition."""
        return len(self.levels) * self.partitions

    @cached_property
    def tree(self) -> ChainTree:
        """The tree of the chains of one level in one partition."""
        return self.inference.tree(self.trees)

    def window(self, level: QuantileLevel, depth: int) -> Window:
        """Return which events a chain at a depth of the tree leaves out of its average.

        SN and DC leave out a fraction of every chain; HiGrad leaves out the first events of each path, the
        same fraction of the planned path but no fewer than it takes to leave the start behind.
        """
        if not isinstance(self.inference, HiGrad):
            return Window(fraction=self.burn_in)
        planned = self.inference.planned(self.trees)
        left_out = max(self.burn_in * sum(planned), min(level.settling, _FOREVER))
        return Window(count=max(0, ceil(left_out) - self.tree.events_before(depth)))

    @property
    def chains(self) -> int:
        """Chains that parameters and reports name in each partition: the leaves of every level's tree."""
        return len(self.levels) * self.tree.leaves

    def level_of(self, chain: int) -> QuantileLevel:
        """Return the quantile level that a chain serves."""
        return self.levels[chain // self.tree.leaves]

    @cached_property
    def round_schedule(self) -> RoundSchedule:
        """Where rounds of parameters begin, in accepted reports of one partition."""
        steps = tuple(level.steps for level in self.levels)
        return RoundSchedule(steps, self.tree, self.rounds.stability, self.rounds.curvature)

    def route(self, token: int) -> tuple[int, int]:
        """Return the (partition, chain) where the report with this token belongs: public arithmetic alone."""
        return token % self.partitions, token // self.partitions % self.chains

    # ------------------------------------------------------------------ a value, compared and copied as one

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Campaign) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _from_canonical, (self.canonical,)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a campaign with some fields replaced, validated as a whole like any other."""
        del deep
        return type(self).model_validate({**self.model_dump(exclude_none=True), **(update or {})})


def _from_canonical(text: str) -> Campaign:
    return Campaign.model_validate(json.loads(text))


def _parse_json(text: str) -> Any:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise ValueError(f"key {key!r} appears twice")
            found[key] = value
        return found

    return json.loads(text, object_pairs_hook=unique)
