"""Face-exponential by exact enumeration: privacy, sampler, bias; and against the definition in reals."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction

import pytest

from ldp_stream.channels.base import CategoryPayload
from ldp_stream.channels.face_exponential import FaceExponential
from ldp_stream.errors import InvalidInput
from tests.channels.comparison import contributions, dense, support
from tests.channels.enumeration import check_private, check_total, check_unbiased, exp_bounds

CHANNELS = {
    "no features": FaceExponential(1.0, 0.5, ()),
    "midpoints": FaceExponential(1.0, 0.5, ((-1.0, 1.0),) * 3),
    "extreme level": FaceExponential(4.0, 0.95, ((-1.0, 1.0),) * 3, q=3),
    "uneven": FaceExponential(2.5, 0.7, ((-1.0, 0.25), (0.0, 1.0)), q=4),
    "tiny epsilon": FaceExponential(1e-9, 0.3, ((-1.0, 1.0), (0.0, 1.0))),
    "large epsilon": FaceExponential(60.0, 0.3, ((-1.0, 1.0), (0.0, 1.0)), q=3),
    "beyond the largest epsilon": FaceExponential(1e4, 0.5, ((-1.0, 1.0),)),
}
every_channel = pytest.mark.parametrize("channel", CHANNELS.values(), ids=CHANNELS)


class _Draw(int):
    """An unknown number of a range: comparing it with a threshold splits the range."""

    tree: _Tree
    low: int
    high: int

    def __new__(cls, tree: _Tree, n: int) -> _Draw:
        """Make a draw of [0, n)."""
        draw = super().__new__(cls, 0)
        draw.tree, draw.low, draw.high = tree, 0, n
        return draw

    def __lt__(self, threshold: int) -> bool:
        cut = min(max(threshold, self.low), self.high)
        below = self.tree.choose(Fraction(cut - self.low, self.high - self.low))
        self.low, self.high = (self.low, cut) if below else (cut, self.high)
        return below

    def __sub__(self, shift: int) -> _Draw:
        moved = _Draw(self.tree, 1)
        moved.low, moved.high = self.low - shift, self.high - shift
        return moved


class _Tree:
    """Replays given outcomes of comparisons, then takes the first possible one."""

    def __init__(self, outcomes: list[bool]) -> None:
        self.outcomes, self.place, self.weight = outcomes, 0, Fraction(1)
        self.open: list[bool] = []  # whether the other outcome was possible, too

    def choose(self, chance: Fraction) -> bool:
        """Return the outcome of a comparison that is true with this chance."""
        if self.place == len(self.outcomes):
            self.outcomes.append(chance > 0)
        outcome = self.outcomes[self.place]
        self.place += 1
        self.open.append(0 < chance < 1)
        self.weight *= chance if outcome else 1 - chance
        return outcome

    def below(self, n: int, /) -> int:
        """Return an unknown number of [0, n)."""
        return _Draw(self, n)

    def bits(self, k: int, /) -> int:
        """Return an unknown number of [0, 2^k)."""
        return _Draw(self, 1 << k)


def _sampled(channel: FaceExponential, g: Sequence[float]) -> dict[int, Fraction]:
    """Return the exact law of the sampler, along every branch of its draws."""
    law: defaultdict[int, Fraction] = defaultdict(Fraction)
    outcomes: list[bool] = []
    while True:
        tree = _Tree(outcomes)
        law[channel.privatize(g, tree).category] += tree.weight
        while outcomes and not (outcomes[-1] and tree.open[len(outcomes) - 1]):
            outcomes.pop()
        if not outcomes:
            return dict(law)
        outcomes[-1] = False


def _laws(channel: FaceExponential, points: list[list[float]]) -> list[dict[tuple[int, int], Fraction]]:
    return [{(0, c): chance for c, chance in enumerate(channel.law(g))} for g in points]


@every_channel
def test_the_law_is_private(channel: FaceExponential) -> None:
    """Over all corners and interior points: sum 1, and ratio <= e^epsilon with no tolerance."""
    laws = _laws(channel, [*contributions(channel), [7.0] * channel.p, [-7.0] * channel.p])
    check_total(laws)
    check_private(laws, channel.epsilon)


@every_channel
def test_no_weight_changes_by_more_than_half_of_epsilon(channel: FaceExponential) -> None:
    """For each point the product over coordinates of the extreme weights is within e^(eps/2), in rationals.

    That is over all inputs at once: each coordinate is taken to its nearest and farthest place of a face.
    """
    low, _ = exp_bounds(channel.epsilon / 2)
    weight, ends = channel._weight, channel._ends
    for f, near, far in itertools.product((0, 1), repeat=3):
        ratio = Fraction(1)
        for j in range(channel.p):
            points = [ends[f][0][0]] if j == 0 else channel._places[f][j - 1]
            ratio *= max(
                Fraction(
                    weight(max(ends[near][j][0] - u, u - ends[near][j][1], 0)),
                    weight(max(abs(u - end) for end in ends[far][j])),
                )
                for u in points
            )
        assert ratio <= low


@every_channel
def test_the_sampler_has_exactly_the_stated_law(channel: FaceExponential) -> None:
    """Followed along every branch of its draws, it has the stated law, rational for rational."""
    for g in contributions(channel, interior=1)[::5]:
        stated = dict(enumerate(channel.law(g)))
        assert _sampled(channel, g) == {c: chance for c, chance in stated.items() if chance}


@every_channel
def test_the_law_is_the_exponential_mechanism(channel: FaceExponential) -> None:
    """Probabilities follow exp(-eps ||u - g||_1/(2 Delta_1)) up to the measuring of distances in steps."""
    epsilon, delta = min(channel.epsilon, 256.0), support(channel).sensitivity
    for g in contributions(channel, interior=2)[::3]:
        points = [dense(channel, channel.decode(CategoryPayload(0, c))) for c in range(channel.categories(0))]
        distances = [math.fsum(abs(u - x) for u, x in zip(point, g, strict=True)) for point in points]
        nearest = min(distances)
        weights = [math.exp(-epsilon * (distance - nearest) / (2 * delta)) for distance in distances]
        expected = [weight / math.fsum(weights) for weight in weights]
        tolerance = 3 * channel.p * epsilon / (2 * delta) / 1024
        for mine, theirs in zip(channel.law(g), expected, strict=True):
            assert abs(float(mine) - theirs) <= tolerance * theirs + 1e-12


@every_channel
def test_the_mean_shift_is_that_of_the_enumerated_law(channel: FaceExponential) -> None:
    """The factorised mean agrees with the sum over the alphabet to 1e-12, and a decoder of it is biased."""
    for g in contributions(channel, interior=2)[::3]:
        law = channel.law(g)
        mean = [0.0] * channel.p
        for category, chance in enumerate(law):
            for j, u in enumerate(dense(channel, channel.decode(CategoryPayload(0, category)))):
                mean[j] += float(chance) * u
        shifted = [x + s for x, s in zip(g, channel.mean_shift(g), strict=True)]
        assert shifted == pytest.approx(mean, abs=1e-12)
        (own,) = _laws(channel, [g])
        check_unbiased([(shifted, own)], channel.decode, channel.p)


def test_the_unbiasedness_check_rejects_it() -> None:
    """The check that unbiased channels pass fails here."""
    channel = CHANNELS["midpoints"]
    g = contributions(channel)[0]
    with pytest.raises(AssertionError, match="decoded mean is off"):
        check_unbiased([(g, _laws(channel, [g])[0])], channel.decode, channel.p)


def test_the_bias_vanishes_as_epsilon_grows() -> None:
    """At a corner the mean goes to the contribution itself."""
    shifts = [
        max(map(abs, FaceExponential(epsilon, 0.75, ((-1.0, 1.0),) * 2).mean_shift([0.25, 0.25, -0.25])))
        for epsilon in (0.5, 2.0, 8.0, 32.0, 128.0)
    ]
    assert shifts == sorted(shifts, reverse=True)
    assert shifts[0] > 0.3
    assert shifts[-1] < 1e-4


def test_twenty_slopes_have_a_mean_shift_but_no_reports() -> None:
    """2^21 grid points: the mean is found by factors, the alphabet is refused."""
    channel = FaceExponential(1.0, 0.75, ((-1.0, 1.0),) * 20)
    g = [0.25] * 21
    assert len(set(channel.mean_shift(g)[1:])) == 1
    for act in (channel.check_alphabet, lambda: channel.law(g), lambda: channel.privatize(g, _Tree([]))):
        with pytest.raises(InvalidInput, match=r"2097152 grid points .* more than 2\^16"):
            act()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": 1e-10}, "epsilon"),
        ({"tau": 0.0}, "tau"),
        ({"intervals": ((0.5, 1.0),)}, "intervals"),
        ({"intervals": ((-1.0, 1.0),) * 100}, "intervals: 100 slopes"),
        ({"q": 1}, "q = 1"),
    ],
)
def test_nonsense_is_refused(changes: dict[str, object], message: str) -> None:
    """The message names the parameter."""
    with pytest.raises(InvalidInput, match=message):
        FaceExponential(**{"epsilon": 1.0, "tau": 0.5, "intervals": (), **changes})  # type: ignore[arg-type]
