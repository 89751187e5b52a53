"""Proof by enumeration: the exact law of a finite channel, and the checks that every such channel must pass.

All probabilities are ``Fraction``; the only real number is e^epsilon, of which certified rational bounds are
used. A law comes from one of two places: what the channel says (``stated_law``), or its sampler, run once
along every branch that its integer draws can take (``sampled_law``). The checks look at laws and at a decoder
only, so a wrong channel can be given to them as well.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from random import Random
from typing import Protocol

import mpmath

from ldp_stream.channels.base import CategoryPayload, Decoded, RandomBits
from ldp_stream.channels.cqx import CQX

Law = Mapping[tuple[int, int], Fraction]
Vector = Sequence[float]


class Sampler(Protocol):
    """The device's side of a finite channel."""

    def privatize(self, g: Vector, random: RandomBits, /) -> CategoryPayload:
        """Return one payload."""
        ...


# ---------------------------------------------------------------------- e^epsilon, certified


def _exact(binary: tuple[int, int, int, int]) -> Fraction:
    """Return a binary multiprecision number (sign, mantissa, exponent, bits) as the rational that it is."""
    sign, mantissa, exponent, _ = binary
    return Fraction((-1) ** sign * int(mantissa)) * Fraction(2) ** exponent


def exp_bounds(epsilon: float, bits: int = 400) -> tuple[Fraction, Fraction]:
    """Return rationals low <= e^epsilon <= high, by interval arithmetic with ``bits`` bits."""
    mpmath.iv.prec = bits
    low, high = mpmath.iv.exp(mpmath.iv.mpf(epsilon))._mpi_
    return _exact(low), _exact(high)


# ---------------------------------------------------------------------- the law of a sampler


class _Draw(int):
    """The unknown result of ``bits(k)``: comparing it with a threshold is what branches."""

    tree: _Branches
    size: int

    def __new__(cls, tree: _Branches, size: int) -> _Draw:
        """Make a draw of [0, size) that belongs to a tree of branches."""
        draw = super().__new__(cls, 0)
        draw.tree, draw.size = tree, size
        return draw

    def __lt__(self, threshold: int) -> bool:
        chance = Fraction(min(max(threshold, 0), self.size), self.size)
        return self.tree.choose([chance, 1 - chance]) == 0


@dataclass
class _Branches:
    """A source of "random" numbers that replays given choices and then takes the first possible one."""

    choices: list[int]
    widths: list[int] = field(default_factory=list)
    weight: Fraction = Fraction(1)
    draws: list[str] = field(default_factory=list)

    def choose(self, chances: Sequence[Fraction]) -> int:
        """Return which branch is taken here; branches of probability 0 are never taken."""
        place = len(self.widths)
        possible = [branch for branch, chance in enumerate(chances) if chance]
        self.widths.append(len(possible))
        if place == len(self.choices):
            self.choices.append(0)
        branch = possible[self.choices[place]]
        self.weight *= chances[branch]
        return branch

    def bits(self, k: int, /) -> int:
        """Return an unknown number of [0, 2^k)."""
        self.draws.append(f"bits({k})")
        return _Draw(self, 1 << k)

    def below(self, n: int, /) -> int:
        """Return each number of [0, n) on a branch of its own."""
        self.draws.append(f"below({n})")
        return self.choose([Fraction(1, n)] * n)


@dataclass(frozen=True)
class Enumeration:
    """The exact law of a sampler, and the draws it asks for, by block."""

    law: Law
    draws: Mapping[int, frozenset[tuple[str, ...]]]


def enumerate_sampler(channel: Sampler, g: Vector) -> Enumeration:
    """Run the sampler along every branch."""
    law: defaultdict[tuple[int, int], Fraction] = defaultdict(Fraction)
    draws: dict[int, set[tuple[str, ...]]] = {}
    choices: list[int] = []
    while True:
        tree = _Branches(choices)
        block, category = channel.privatize(g, tree)
        law[block, category] += tree.weight
        draws.setdefault(block, set()).add(tuple(tree.draws))
        choices = tree.choices
        while choices and choices[-1] + 1 == tree.widths[len(choices) - 1]:
            choices.pop()
        if not choices:
            return Enumeration(
                dict(law),
                {block: frozenset(found) for block, found in draws.items()},
            )
        choices[-1] += 1


def sampled_law(channel: Sampler, g: Vector) -> Law:
    """Return the exact law of the payloads that the sampler makes."""
    return enumerate_sampler(channel, g).law


def stated_law(channel: CQX, g: Vector, only: int | None = None) -> Law:
    """Return the law of the payloads that the channel states, with its public blocks, or given one block."""
    shares = {only: Fraction(1)} if only is not None else public_blocks(channel)
    return {
        (block, category): share * probability
        for block, share in shares.items()
        for category, probability in enumerate(channel.law(g, block))
    }


def public_blocks(channel: CQX) -> dict[int, Fraction]:
    """Return the probability of each possible block: omega and 1 - omega, uniform inside either class.

    They are made from the definition, by listing the blocks, not from the channel's own design.
    """
    blocks = list(itertools.combinations(range(channel.p), channel.s))
    with_intercept = [block[0] == 0 for block in blocks]
    if channel.intercept is None:
        return dict.fromkeys(range(len(blocks)), Fraction(1, len(blocks)))
    omega = Fraction(round(Fraction(channel.intercept) * 2**62), 2**62)
    shares = {True: omega / sum(with_intercept), False: (1 - omega) / max(1, with_intercept.count(False))}
    return {number: shares[own] for number, own in enumerate(with_intercept) if shares[own]}


# ---------------------------------------------------------------------- inputs


def contribution(tau: float, face: int, slopes: Vector) -> list[float]:
    """Return g = X (f - tau) for the slopes x~, in floats, as a device computes it."""
    a = (1.0 if face else 0.0) - tau
    return [a, *(a * slope for slope in slopes)]


def inputs(channel: CQX, *, interior: int = 6, corners: int = 64, seed: int = 0) -> list[list[float]]:
    """Return contributions of both faces: corners, points of every grid, zeros, random interior points."""
    random = Random(seed)
    intervals, anchors = channel.intervals, channel.anchors
    rows: list[Vector] = list(itertools.islice(itertools.product(*intervals), corners))
    rows += [[random.choice(interval) for interval in intervals] for _ in range(4)]
    rows += [[random.uniform(*interval) for interval in intervals] for _ in range(interior)]
    rows.append([0.0] * len(intervals))
    found = [contribution(channel.tau, face, row) for face in (0, 1) for row in rows]
    for face, own in itertools.product((0, 1), (True, False)):
        for _ in range(3):
            g = contribution(channel.tau, face, [0.0] * len(intervals))
            for j, (low, high) in enumerate(intervals, start=1):
                lower, upper = low - anchors[j - 1], high - anchors[j - 1]
                ends = _face_interval(channel.tau, face, lower, upper)
                grid = ends if own else _hull(channel.tau, lower, upper)
                points = [
                    grid[0] + k * (grid[1] - grid[0]) / (channel.q - 1) for k in range(min(channel.q, 1000))
                ]
                g[j] = random.choice([point for point in points if ends[0] <= point <= ends[1]] or [0.0])
                g[j] += anchors[j - 1] * g[0]
            found.append(g)
    return found


def _face_interval(tau: float, face: int, lower: float, upper: float) -> tuple[float, float]:
    """Return the ends of a_f [l, u]."""
    ends = (face - tau) * lower, (face - tau) * upper
    return min(ends), max(ends)


def _hull(tau: float, lower: float, upper: float) -> tuple[float, float]:
    """Return the hull of both faces' intervals."""
    zero, one = _face_interval(tau, 0, lower, upper), _face_interval(tau, 1, lower, upper)
    return min(zero[0], one[0]), max(zero[1], one[1])


# ---------------------------------------------------------------------- what must hold


def total(chances: Iterable[Fraction]) -> Fraction:
    """Return the exact sum, over one common denominator (many times faster than adding fractions)."""
    parts = list(chances)
    common = math.lcm(*{part.denominator for part in parts})
    return Fraction(sum(part.numerator * (common // part.denominator) for part in parts), common)


def check_total(laws: Sequence[Law]) -> None:
    """Every law is one: no negative probability, and the sum is exactly 1."""
    for law in laws:
        assert min(chance.numerator for chance in law.values()) >= 0, "a probability is negative"
        assert total(law.values()) == 1, f"the law sums to {float(total(law.values()))!r}, not to 1"


def check_private(laws: Sequence[Law], epsilon: float) -> Fraction:
    """No two inputs' probabilities of a payload differ by a factor above e^epsilon; no tolerance."""
    common = math.lcm(*{chance.denominator for law in laws for chance in law.values()})
    scaled = [{c: p.numerator * (common // p.denominator) for c, p in law.items()} for law in laws]
    above, below = 1, 1
    for payload in set().union(*scaled):
        chances = [law.get(payload, 0) for law in scaled]
        high, low = max(chances), min(chances)
        assert low > 0, f"{payload} is impossible for some inputs and possible for others"
        if high * below > above * low:
            above, below = high, low
    largest = Fraction(above, below)
    assert largest <= exp_bounds(epsilon)[0], f"the ratio {float(largest)!r} is above e^{epsilon!r}"
    return largest


def check_public_blocks(laws: Sequence[Law], shares: Mapping[int, Fraction]) -> None:
    """Every block has exactly its public probability, whatever the input."""
    for law in laws:
        found: defaultdict[int, list[Fraction]] = defaultdict(list)
        for (block, _), chance in law.items():
            found[block].append(chance)
        sums = {block: total(chances) for block, chances in found.items()}
        assert sums == shares, "the block depends on the input, or its probability is not the public one"


def check_unbiased(
    pairs: Iterable[tuple[Vector, Law]], decode: Callable[[CategoryPayload], Decoded], p: int
) -> None:
    """The mean of the decoded payloads is g to 1e-12.

    Decoded values are rounded once to a float, so a mean of values of size M is known to some M 2^-53. Only
    where M is above some 2,000 is that more than 1e-12 (at tiny epsilon, decoded values grow as 1/epsilon),
    and there 4 M 2^-53 is allowed.
    """
    for g, law in pairs:
        chances: list[dict[float, list[Fraction]]] = [{0.0: [Fraction(0)]} for _ in range(p)]
        for (block, category), chance in law.items():
            coordinates, values = decode(CategoryPayload(block, category))
            for j, value in zip(coordinates, values, strict=True):
                chances[j].setdefault(value, []).append(chance)
        largest = max(abs(value) for found in chances for value in found)
        allowed = max(1e-12, 4 * largest * 2.0**-53)
        means = [total(Fraction(value) * total(parts) for value, parts in found.items()) for found in chances]
        errors = [abs(float(mean - Fraction(value))) for mean, value in zip(means, g, strict=True)]
        assert max(errors) <= allowed, (
            f"the decoded mean is off by {max(errors):.3g}, {allowed:.3g} is allowed"
        )
