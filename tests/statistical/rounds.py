"""How long a round of parameters may be, and how late a report: many replications of one study at once.

The truth, the users and the campaign are those of :mod:`tests.statistical.studies`. Replications are columns
of arrays, and a round's reports, which all answer coefficients that are known when it begins, are rows, so a
study costs about .2 microseconds a report. A report's category is drawn from the channel's own law, which
for CQX(2, 1) is a straight line in the contribution; steps, rounds and the averaging window are the plan's.

A late report answers the coefficients of an earlier round. Draws do not depend on the rounds, so two studies
with one seed have the same users and the same noise, and differ by their rounds alone.

``python -m tests.statistical.rounds`` prints the tables of docs/rounds.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_stream.campaign import Campaign
from ldp_stream.channels.base import CategoryPayload
from ldp_stream.channels.cqx import CQX
from ldp_stream.inference.critical_values import self_normalized
from ldp_stream.plan import Window

Array = NDArray[np.float64]

TRUTH = (0.3, 0.5, -0.4)
_PIECE = 128  # reports of each replication that are drawn together


@dataclass(frozen=True)
class RoundStudy:
    """One design, how long its rounds are, how late its reports, and how many of each there are.

    ``length`` reports a round; None is the plan's schedule. A fraction ``share`` of the reports is late: all
    of them by ``late`` rounds if it is 1, else each by 1 to ``late``, uniformly. If ``in_bursts``,
    all reports of ``late`` + 1 rounds answer the first one's coefficients: 0 to ``late`` rounds late in turn.
    """

    epsilon: float
    n: int
    replications: int
    length: int | None = None
    late: int = 0
    share: float = 1.0
    in_bursts: bool = False
    tau: float = 0.5
    sigma: float = 0.15

    def campaign(self) -> Campaign:
        """Return the campaign: defaults, all bounds [-1, 1], so the user's units are the working scale."""
        bounds = {"lower": -1, "upper": 1}
        features = {f"x{j}": bounds for j in range(1, len(TRUTH))}
        return Campaign.model_validate(
            {
                "kind": "quantile",
                "name": "rounds",
                "tau": self.tau,
                "epsilon": self.epsilon,
                "target": bounds,
                "features": features,
            }
        )

    @property
    def curvature(self) -> float:
        """Largest eigenvalue of E[density of the residual at 0 given x, times XX'] in the working scale."""
        standard = NormalDist()
        return standard.pdf(standard.inv_cdf(self.tau)) / self.sigma


@dataclass(frozen=True, eq=False)
class Outcome:
    """Average and diagonal of V of each replication, shape (replications, p), and the window's length.

    ``blocks`` and ``categories``, (n, replications), and ``starts`` and ``points`` (where rounds begin and
    their coefficients) are kept on request, for a real server to do it again.
    """

    mean: Array
    V: Array
    length: int
    blocks: NDArray[np.uint32] | None = None
    categories: NDArray[np.uint16] | None = None
    starts: tuple[int, ...] = ()
    points: tuple[Array, ...] = ()

    @property
    def errors(self) -> Array:
        """Root mean square error over the coefficients, of each replication."""
        return np.asarray(np.sqrt(np.mean((self.mean - TRUTH) ** 2, axis=1)))

    @property
    def error(self) -> float:
        """Root mean square error over coefficients and replications."""
        return float(np.sqrt(np.mean(self.errors**2)))

    @property
    def half_widths(self) -> Array:
        """Half-widths of the self-normalized intervals at 95%, (replications, p)."""
        return np.asarray(self_normalized(0.95, (1.0,)) * np.sqrt(self.V / self.length))

    @property
    def covered(self) -> Array:
        """Share of the coefficients that their intervals cover, of each replication."""
        return np.asarray(np.mean(np.abs(self.mean - TRUTH) <= self.half_widths, axis=1))

    @property
    def coverage(self) -> float:
        """Share of all intervals that cover."""
        return float(self.covered.mean())

    @property
    def coverage_error(self) -> float:
        """Monte Carlo standard error of the coverage."""
        return float(self.covered.std() / math.sqrt(len(self.covered)))


@dataclass(frozen=True)
class Comparison:
    """One study against another of the same users and noise, each figure with its Monte Carlo standard error.

    ``error``: ratio of the root mean square errors; ``coverage``: difference of the coverages.
    """

    error: float
    error_se: float
    coverage: float
    coverage_se: float

    @classmethod
    def of(cls, found: Outcome, base: Outcome) -> Comparison:
        """Compare ``found`` with ``base``, replication by replication."""
        root, squares, gains = math.sqrt(len(base.mean)), base.errors**2, found.covered - base.covered
        ratio = found.error / base.error
        spread = np.std(found.errors**2 - ratio**2 * squares) / (2 * ratio * squares.mean())
        return cls(ratio, float(spread / root), float(gains.mean()), float(gains.std() / root))

    @property
    def harmless(self) -> bool:
        """Whether the error is at most 5% larger and the coverage no lower, allowing 3 standard errors."""
        return self.error - 3 * self.error_se <= 1.05 and self.coverage >= -3 * self.coverage_se


def simulate(study: RoundStudy, seed: int, keep: bool = False) -> Outcome:
    """Return what the study's replications come to after n reports each."""
    campaign = study.campaign()
    law = _Law.of(campaign)
    users, delays = np.random.default_rng(seed), np.random.default_rng([seed, 1])
    lengths = campaign.round_schedule.length if study.length is None else lambda _: study.length or 1
    b = np.zeros((study.replications, len(TRUTH)))
    points, starts, stop = [b], [0], lengths(0)  # coefficients of the last rounds, the newest at the end
    kept: dict[str, list[Any]] = {"blocks": [], "categories": [], "points": [b]}
    sums = _Window(Window(campaign.burn_in).start(study.n), b.shape)
    for first in range(0, study.n, _PIECE):
        piece = _Users.draw(study, law, min(_PIECE, study.n - first), users)
        ages = _ages(study, piece.size, delays)
        steps = np.array([-campaign.levels[0].steps.at(first + i) for i in range(1, piece.size + 1)])
        path = np.empty((piece.size, *b.shape))
        done = 0
        while done < piece.size:
            end = min(piece.size, stop - first)
            rows = slice(done, end)
            if study.in_bursts:
                ages[rows] = (len(starts) - 1) % (study.late + 1)
            faces = piece.faces(rows, _answered(points, ages[rows]))
            path[rows] = _walk(b, piece.gradients(rows, faces) * steps[rows, None, None], campaign.radius)
            b, done = path[end - 1], end
            if keep:
                kept["blocks"].append(piece.block[rows])
                kept["categories"].append(np.where(faces, piece.category[1][rows], piece.category[0][rows]))
            if first + done == stop:
                starts.append(stop)
                stop += lengths(stop)
                points = [*points[-study.late :], b] if study.late else [b]
                kept["points"].append(b)
        sums.add(first, path)
    mean, V = sums.answer()
    if not keep:
        return Outcome(mean, V, sums.length)
    columns = np.vstack(kept["blocks"]).astype(np.uint32), np.vstack(kept["categories"]).astype(np.uint16)
    return Outcome(mean, V, sums.length, *columns, tuple(starts), tuple(kept["points"]))


def _ages(study: RoundStudy, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return how many rounds late each report is."""
    if study.share == 1:
        return np.full(size, study.late)
    return np.where(rng.random(size) < study.share, rng.integers(1, study.late + 1, size), 0)


def _answered(points: list[Array], ages: NDArray[np.int64]) -> Array:
    """Return the coefficients that the reports answer: (replications, p), or (reports, replications, p)."""
    places = np.maximum(len(points) - 1 - ages, 0)
    if (places == places[0]).all():
        return points[int(places[0])]
    return np.array([points[place] for place in places])


def _walk(b: Array, moves: Array, radius: float) -> Array:
    """Return the iterates after each move, (reports, replications, p), each projected on the box."""
    moves[0] += b
    path = np.cumsum(moves, axis=0) if len(moves) > 1 else moves.copy()
    if path.max() > radius or path.min() < -radius:
        moves[0] -= b
        for place, move in enumerate(moves):
            b = path[place] = np.clip(b + move, -radius, radius)
    return path


@dataclass(frozen=True, eq=False)
class _Law:
    """Of each block: P(category 1 | coordinate g) = level + slope g, and the decoded values, (p, 2)."""

    level: Array
    slope: Array
    decoded: Array

    @classmethod
    def of(cls, campaign: Campaign) -> _Law:
        channel = campaign.levels[0].mechanism
        assert isinstance(channel, CQX)
        M = max(channel.tau, 1 - channel.tau)
        level, slope, decoded = np.zeros(channel.p), np.zeros(channel.p), np.zeros((channel.p, 2))
        for block in range(channel.p):
            ends = (-channel.tau, 1 - channel.tau) if block == 0 else (-M, M)
            low, high = (float(channel.law([end] * channel.p, block)[1]) for end in ends)
            slope[block] = (high - low) / (ends[1] - ends[0])
            level[block] = low - slope[block] * ends[0]
            decoded[block] = [channel.decode(CategoryPayload(block, c)).values[0] for c in (0, 1)]
        return cls(level, slope, decoded)


@dataclass(frozen=True, eq=False)
class _Users:
    """One fresh user a report and replication, with what each would send on either face.

    ``x`` and ``y``: features and target; ``block``; ``category`` and ``value``: sent and decoded when
    1{y <= X'b} is 0, and when it is 1.
    """

    x: Array
    y: Array
    block: NDArray[np.int64]
    category: tuple[NDArray[np.bool_], NDArray[np.bool_]]
    value: tuple[Array, Array]

    @classmethod
    def draw(cls, study: RoundStudy, law: _Law, size: int, rng: np.random.Generator) -> _Users:
        shape, truth = (size, study.replications), np.array(TRUTH)
        x = rng.uniform(-1, 1, (len(truth) - 1, *shape))
        noise = rng.standard_normal(shape) - NormalDist().inv_cdf(study.tau)
        y = truth[0] + np.tensordot(truth[1:], x, 1) + study.sigma * noise
        block, uniform = rng.integers(0, len(truth), shape), rng.random(shape)
        mine = np.where(block == 0, 1.0, np.where(block == 1, x[0], x[1]))
        level, slope = law.level[block], law.slope[block]
        zero, one = (uniform < level + slope * mine * (face - study.tau) for face in (0, 1))
        value = tuple(law.decoded[block, category.astype(np.int64)] for category in (zero, one))
        return cls(x, y, block, (zero, one), (value[0], value[1]))

    @property
    def size(self) -> int:
        return len(self.y)

    def faces(self, rows: slice, b: Array) -> NDArray[np.bool_]:
        """Return 1{y <= X'b} at coefficients b."""
        fitted = b[..., 0] + sum(b[..., j] * x[rows] for j, x in enumerate(self.x, 1))
        return np.asarray(self.y[rows] <= fitted)

    def gradients(self, rows: slice, faces: NDArray[np.bool_]) -> Array:
        """Return the decoded gradients, (reports, replications, p)."""
        value = np.where(faces, self.value[1][rows], self.value[0][rows])
        return np.asarray(value[..., None] * (self.block[rows, :, None] == np.arange(len(self.x) + 1)))


class _Window:
    """Sums of the iterates after the first ``start``, in each replication and coordinate."""

    def __init__(self, start: int, shape: tuple[int, ...]) -> None:
        self.start, self.length = start, 0
        self._total = np.zeros(shape)
        self._squares, self._weighted = np.zeros(shape), np.zeros(shape)
        self._origin: Array | None = None

    def add(self, before: int, path: Array) -> None:
        """Add iterates number ``before`` + 1 and on."""
        path = path[max(self.start - before, 0) :]
        if not len(path):
            return
        if self._origin is None:
            self._origin = path[0].copy()
        walk = path - self._origin
        walk[0] += self._total
        np.cumsum(walk, axis=0, out=walk)
        t = np.arange(self.length + 1.0, self.length + len(walk) + 1)
        self._weighted += np.tensordot(t, walk, 1)
        self._squares += np.einsum("trp,trp->rp", walk, walk)
        self._total, self.length = walk[-1].copy(), self.length + len(walk)

    def answer(self) -> tuple[Array, Array]:
        """Return the average and the diagonal of V = L^-2 sum_t t^2 (m_t - m)(m_t - m)'."""
        assert self._origin is not None
        L, mean = self.length, self._total / self.length
        moment = L * (L + 1) * (2 * L + 1) / 6
        return self._origin + mean, (self._squares - 2 * mean * self._weighted + mean**2 * moment) / L**2


# ---------------------------------------------------------------------- the tables of docs/rounds.md


def _table(title: str, rows: Sequence[tuple[str, RoundStudy]]) -> None:
    """Simulate and print one table; errors are also given as multiples of the first row's."""
    print(f"\n{title}\n{'':42}{'error':>9}{'of the first':>17}{'coverage, %':>17}")
    base: Outcome | None = None
    for name, study in rows:
        found = simulate(study, seed=7)
        base = base or found
        ratio, coverage = Comparison.of(found, base), 100 * found.coverage
        print(
            f"{name:42}{found.error:9.5f}{ratio.error:9.3f} +- {ratio.error_se:.3f}"
            f"{coverage:9.1f} +- {100 * found.coverage_error:.1f}",
            flush=True,
        )


def _rounds_table(epsilon: float) -> None:
    """Print the table of rounds of fixed lengths."""
    rows = []
    for length in (1, None, 100, 1000, 10_000):
        study = RoundStudy(epsilon, 100_000, 400, length)
        schedule = study.campaign().round_schedule
        _, last = schedule.advance(0, 0, study.n)
        first, final = (
            (length or schedule.length(start)) * schedule.steps.at(start + 1) * study.curvature
            for start in (0, last)
        )
        rows.append((f"N = {length or 'plan'}: N eta lambda {first:.2g} to {final:.2g}", study))
    _table(f"Rounds of N reports: epsilon {epsilon:g}, n = 100,000", rows)


def _late_table(
    study: RoundStudy, all_late: Sequence[int], bursts: Sequence[int], some: Sequence[int]
) -> None:
    """Print the table of late reports in the plan's rounds."""
    rows = [(f"all {k} rounds late", replace(study, late=k)) for k in all_late]
    rows += [(f"0 to {k} late, in bursts", replace(study, late=k, in_bursts=True)) for k in bursts]
    rows += [(f"10% up to {k} late", replace(study, late=k, share=0.1)) for k in some]
    rows.append(("rounds of one report, none late", replace(study, length=1)))
    design = f"tau {study.tau:g}, sigma {study.sigma:g}, lambda {study.curvature:.1f}"
    _table(f"Late reports: {design}, epsilon {study.epsilon:g}, n = {study.n:,}", rows)


def main() -> None:
    """Print the tables."""
    privacies = (1.0, 4.0)
    for epsilon in privacies:
        _rounds_table(epsilon)
    for n, replications in ((10_000, 1000), (100_000, 300)):
        for epsilon in privacies:
            study = RoundStudy(epsilon, n, replications)
            _late_table(study, (0, 1, 2, 4, 8, 16, 32, 64, 128), (4, 8, 16), (32, 128))
    for tau, sigma in ((0.9, 0.15), (0.9, 0.03), (0.5, 0.04), (0.5, 0.03)):
        for epsilon in privacies:
            study = RoundStudy(epsilon, 10_000, 1000, tau=tau, sigma=sigma)
            _late_table(study, (0, 1, 2, 4, 8, 16), (4, 8), (32,))


if __name__ == "__main__":
    main()
