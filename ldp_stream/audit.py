"""Whether a campaign holds what it claims: its exact epsilon and bias, by enumeration over its channel's law.

For a finite channel the law of the report is enumerated in rationals, for every input of a list that has the
corners of both faces and every point of every grid, in one block of each class (with or without the
intercept, for each interval): given a class, blocks with the same intervals behave alike. The largest ratio
of the probabilities of one report under two inputs is exact, and is compared with certified bounds of
e^epsilon. More inputs cannot raise CQX's: every law is a mixture of those of grid points. The mean of the
decoded reports is compared with the input. Alphabets of thousands of categories get fewer inputs, at least
both faces of a corner.

Direct Laplace, Piecewise and Hybrid have infinitely many reports, but their ratio is a formula in whole
numbers and rationals, which is evaluated; PrivUnitG's is one in floats. Their means are not enumerated.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

from .campaign import Campaign
from .channels.base import CategoryPayload
from .channels.cqx import CQX
from .channels.kinds import FiniteChannel, Mechanism
from .channels.laplace import DirectLaplace
from .channels.piecewise import Piecewise
from .channels.privunit import PrivUnitG
from .channels.scalar import ScalarHybrid
from .codec import encode_report
from .planning import expected_width, reports_for
from .reports import CategoryReport, Report, VectorReport

__all__ = ["Audit", "LevelAudit", "audit"]

_DIGITS = 60  # of the logarithm of the largest ratio
_MOST_PROBABILITIES = 1 << 17  # of one block
_CORNERS = 16
_LARGEST_EPSILON = 300.0  # no finite channel here has a larger ratio than e^300, whatever its epsilon


@dataclass(frozen=True)
class LevelAudit:
    """What enumeration finds for one quantile level.

    Parameters
    ----------
    tau
        The level.
    epsilon_exact
        ln of the largest ratio; infinite without privacy.
    max_bias
        Largest |E g~_j - g_j| in the working scale; None where reports cannot be enumerated.
    categories
        Sizes of the alphabets; empty for a channel that sends vectors.
    problems
        What does not hold.
    """

    tau: float
    epsilon_exact: float
    max_bias: float | None
    categories: tuple[int, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True)
class Audit:
    """The answer of :func:`audit`: what the campaign claims, what was found, and what to expect of it."""

    campaign: Campaign
    levels: tuple[LevelAudit, ...]
    report_bytes: int
    width_at: dict[int, dict[float, dict[str, float]]]
    reports_for_width: dict[float, dict[str, int]]
    width: float
    level: float
    spread: float

    @property
    def problems(self) -> tuple[str, ...]:
        """What does not hold, of all levels."""
        return tuple(problem for level in self.levels for problem in level.problems)

    @property
    def holds(self) -> bool:
        """Whether the campaign holds what it claims."""
        return not self.problems

    def as_dict(self) -> dict[str, Any]:
        """Return what a JSON document says; figures of several levels are the worst, or by level."""
        biases = [level.max_bias for level in self.levels if level.max_bias is not None]
        exact = max(level.epsilon_exact for level in self.levels)
        several = len(self.levels) > 1

        def by_level(of: dict[float, Any]) -> Any:
            return {f"{tau:g}": value for tau, value in of.items()} if several else next(iter(of.values()))

        return {
            "campaign": self.campaign.name,
            "digest": self.campaign.digest,
            "holds": self.holds,
            "problems": list(self.problems),
            "epsilon": self.campaign.epsilon,
            "epsilon_exact": exact if math.isfinite(exact) else None,
            "max_bias": max(biases, default=None),
            "categories": sorted({size for level in self.levels for size in level.categories}),
            "report_bytes": self.report_bytes,
            "level": self.level,
            "spread": self.spread,
            "width_at": {str(n): by_level(widths) for n, widths in self.width_at.items()},
            "width": self.width,
            "reports_for_width": by_level(self.reports_for_width),
        }


def audit(
    campaign: Campaign,
    *,
    level: float = 0.95,
    spread: float = 0.2,
    reports: Sequence[int] = (10_000, 100_000, 1_000_000),
    width: float | None = None,
) -> Audit:
    """Check a campaign's privacy and unbiasedness by enumeration, and plan its intervals.

    Parameters
    ----------
    campaign
        The campaign.
    level
        Coverage of the planned intervals.
    spread
        Planning standard deviation of y~ around its fit, in the working scale.
    reports
        Numbers of reports at which widths are given.
    width
        The width, in a coefficient's units, for which reports are counted; 5% of the target's range unless
        given.

    Examples
    --------
    >>> campaign = Campaign(kind="quantile", name="x", tau=0.5, epsilon=2, target={"lower": 0, "upper": 2},
    ...                     features={"a": {"lower": -1, "upper": 1}})
    >>> found = audit(campaign)
    >>> found.holds, round(found.levels[0].epsilon_exact, 12), found.report_bytes
    (True, 2.0, 37)
    """
    if width is None:
        width = (campaign.target.upper - campaign.target.lower) / 20
    taus = [at.tau for at in campaign.levels]
    planned = {"level": level, "spread": spread}
    return Audit(
        campaign,
        tuple(_level(at.mechanism, campaign.epsilon) for at in campaign.levels),
        len(encode_report(_report(campaign))),
        {n: {tau: expected_width(campaign, n, tau, **planned) for tau in taus} for n in reports},
        {tau: reports_for(campaign, width, tau, **planned) for tau in taus},
        width,
        level,
        spread,
    )


def _report(campaign: Campaign) -> Report:
    head: dict[str, Any] = {"digest": campaign.digest_prefix, "round": 0, "chain": 0, "token": "00" * 16}
    if isinstance(campaign.levels[0].mechanism, FiniteChannel):
        return CategoryReport(block=0, category=0, **head)
    return VectorReport(values=(0.0,) * campaign.p, **head)


# ---------------------------------------------------------------------- one level


def _level(channel: Mechanism, epsilon: float | None) -> LevelAudit:
    problems = []
    name = f"tau = {channel.tau:g}"
    sizes: tuple[int, ...] = ()
    bias: float | None = None
    if isinstance(channel, FiniteChannel):
        found = _enumerated(channel)
        sizes, bias, ratio = found.categories, found.bias, found.ratio
        exact = math.inf if ratio is None else _log(ratio)
        if epsilon is not None and (ratio is None or not _within(ratio, epsilon)):
            problems.append(f"{name}: the exact epsilon {exact:.17g} is above the claimed {epsilon!r}")
        if isinstance(channel, CQX) and bias > found.allowed:
            problems.append(f"{name}: the decoded mean is off by {bias:.3g}, {found.allowed:.3g} is allowed")
    else:
        exact = _formula(channel)
        bias = 0.0 if epsilon is None else None
        if epsilon is not None and exact > epsilon * (1 + 1e-12):
            problems.append(f"{name}: the exact epsilon {exact:.17g} is above the claimed {epsilon!r}")
    return LevelAudit(channel.tau, exact, bias, sizes, tuple(problems))


@dataclass(frozen=True)
class _Enumerated:
    ratio: Fraction | None  # None: a report is possible for some inputs and impossible for others
    bias: float
    allowed: float
    categories: tuple[int, ...]


def _enumerated(channel: FiniteChannel) -> _Enumerated:
    ratio: Fraction | None = Fraction(1)
    bias = largest = 0.0
    sizes = set()
    blocks = _blocks(channel)
    laws: dict[tuple[int, int], tuple[Fraction, ...]] = {}
    points = _inputs(channel, max(channel.categories(block) for block in blocks))
    for block in blocks:
        sizes.add(channel.categories(block))
        for place, g in enumerate(points):
            laws[block, place] = channel.law(g, block)
        for chances in zip(*(laws[block, place] for place in range(len(points))), strict=True):
            low, high = min(chances), max(chances)
            if low <= 0:
                ratio = None
            elif ratio is not None:
                ratio = max(ratio, high / low)
    decoded = {block: _decoded(channel, block) for block in blocks}
    for place, g in enumerate(points):
        for j, parts in _parts(channel).items():
            mean = Fraction(0)
            for block, chance in parts:
                values = [row.get(j, 0.0) for row in decoded[block]]
                largest = max(largest, *map(abs, values))
                law = laws[block, place]
                mean += chance * sum(p * Fraction(v) for p, v in zip(law, values, strict=True))
            bias = max(bias, abs(float(mean - Fraction(g[j]))))
    return _Enumerated(ratio, bias, max(1e-12, 8 * largest * 2.0**-53), tuple(sorted(sizes)))


def _decoded(channel: FiniteChannel, block: int) -> list[dict[int, float]]:
    found = []
    for category in range(channel.categories(block)):
        coordinates, values = channel.decode(CategoryPayload(block, category))
        found.append(dict(zip(coordinates, values, strict=True)))
    return found


def _representatives(channel: FiniteChannel) -> dict[int, tuple[int | None, int | None, int | None]]:
    """Return blocks for one coordinate of each kind: with it and the intercept, without it, it alone."""
    if not isinstance(channel, CQX):
        return dict.fromkeys(range(channel.p), (0, None, None))
    found: dict[int, tuple[int | None, int | None, int | None]] = {}
    kinds = {interval: j for j, interval in reversed(list(enumerate(channel.intervals, start=1)))}
    for j in (0, *sorted(kinds.values())):
        blocks = [_with(channel, {0, j}, set()), _with(channel, {0}, {j}), _with(channel, {j}, {0})]
        found[j] = (blocks[0], blocks[1] if j else None, blocks[2] if j else None)
    return found


def _with(channel: CQX, inside: set[int], outside: set[int]) -> int | None:
    """Return a block that can occur, with some coordinates and without others, if there is one."""
    others = [j for j in range(channel.p) if j not in inside | outside and j > 0]
    if not 0 <= channel.s - len(inside) <= len(others):
        return None
    block = tuple(sorted([*inside, *others[: channel.s - len(inside)]]))
    number = _rank(block, channel.p)
    return number if channel.design.probability(number) else None


def _rank(block: tuple[int, ...], p: int) -> int:
    """Return the number of a block among the combinations in lexicographic order."""
    s, number, start = len(block), 0, 0
    for place, j in enumerate(block):
        number += sum(math.comb(p - 1 - i, s - 1 - place) for i in range(start, j))
        start = j + 1
    return number


def _blocks(channel: FiniteChannel) -> list[int]:
    found = {block for blocks in _representatives(channel).values() for block in blocks if block is not None}
    return sorted(found)


def _parts(channel: FiniteChannel) -> dict[int, list[tuple[int, Fraction]]]:
    """Return, for one coordinate of each kind, (block, probability of its class)."""
    if not isinstance(channel, CQX):
        return {j: [(0, Fraction(1))] for j in range(channel.p)}
    omega, (both, alone) = channel.design.omega, channel.design.shares
    found: dict[int, list[tuple[int, Fraction]]] = {}
    for j, own in _representatives(channel).items():
        chances = (omega, Fraction(0), Fraction(0)) if j == 0 else (both, omega - both, alone)
        found[j] = [
            (block, chance)
            for block, chance in zip(own, chances, strict=True)
            if block is not None and chance
        ]
    return found


def _inputs(channel: FiniteChannel, categories: int) -> list[list[float]]:
    """Return contributions: corners of both faces, and points of every grid."""
    most = max(4, _MOST_PROBABILITIES // categories)
    corners = itertools.islice(itertools.product(*channel.intervals), min(_CORNERS, max(1, most // 4)))
    rows = [list(corner) for corner in corners]
    rows += [[high for _, high in channel.intervals], [low for low, _ in channel.intervals]]
    for k in range(1, channel.q - 1):
        share = k / (channel.q - 1)
        rows.append([low + share * (high - low) for low, high in channel.intervals])
    rows = rows[: max(2, most // 2)]
    return [g for row in rows for g in _faces(channel.tau, row)]


def _faces(tau: float, row: list[float]) -> Iterator[list[float]]:
    for a in (-tau, 1.0 - tau):
        yield [a, *(a * x for x in row)]


# ---------------------------------------------------------------------- epsilon


def _log(ratio: Fraction) -> float:
    """Return ln of a ratio as the float next to it."""
    context = Context(prec=_DIGITS)
    return float(context.ln(context.divide(Decimal(ratio.numerator), Decimal(ratio.denominator))))


def _within(ratio: Fraction, epsilon: float) -> bool:
    """Whether ratio <= e^epsilon, certified: decimal exp is rounded correctly, its neighbour is below."""
    epsilon = min(epsilon, _LARGEST_EPSILON)
    context = Context(prec=_DIGITS)
    return ratio <= Fraction(Decimal(epsilon).exp(context).next_minus(context))


def _formula(channel: Mechanism) -> float:
    """Return the epsilon of a channel that sends vectors, from its own integers and rationals."""
    if isinstance(channel, DirectLaplace):
        return float(channel.lattice_sensitivity * channel.noise.rate)
    if isinstance(channel, Piecewise):
        scalar = channel.scalar
        own = scalar.piecewise if isinstance(scalar, ScalarHybrid) else scalar
        ratios = [own.inside / own.outside] if own.outside else []
        if isinstance(scalar, ScalarHybrid):
            ratios.append(scalar.response.pi / scalar.response.rho)
        return channel.sampled * max(map(_log, ratios))
    if isinstance(channel, PrivUnitG):
        return math.log(channel.cap.inside / channel.cap.outside)
    return math.inf
