"""Private quantile regression as a river regressor.

``learn_one`` plays both sides: it privatizes the raw record on the spot, at the latest coefficients,
forgets it, and folds the report. ``learn_report`` folds a report that a device made elsewhere. What the
model holds and answers is a function of private reports alone.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self, cast, overload

from river import base, conf

from ..campaign import Campaign
from ..client.reporter import Reporter
from ..errors import InvalidCampaign, InvalidInput
from ..inference.ellipsoid import Ellipsoid
from ..inference.regions import Interval
from ..report_batch import ReportBatch
from ..reports import Parameters, Report
from ..server.aggregator import Aggregator
from ..server.estimates import Estimates

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["PrivateQuantileRegressor"]


class PrivateQuantileRegressor(base.MiniBatchRegressor):
    """Locally private online linear quantile regression.

    Parameters
    ----------
    features
        Name to public bounds ``(lower, upper)`` or ``(lower, upper, centre)``, in the features' own units.
        A missing feature takes its centre (the midpoint unless given), one out of range is clipped, unknown
        ones are ignored.
    target
        Public range ``(lower, upper)`` of the target, in its own units.
    tau
        Quantile level in (0, 1), or several that increase: each record then serves one, drawn at random, and
        ``predict_one`` and ``coefficients`` are of the level nearest the median.
    epsilon
        Privacy of one record, finite and > 0; None with ``channel="none"`` only.
    channel
        "cqx" (q = 2, s = 1), a dict such as ``{"kind": "cqx", "q": 2, "s": 3}``, another kind of a campaign
        such as "laplace", or "none", the non-private reference.
    inference
        "sn": self-normalized confidence sets from one chain. ``{"kind": "dc", "chains": 10}``: from the
        spread of independent chains. ``{"kind": "higrad", "horizon": 100_000}``: from a tree of chains.
    steps, radius, burn_in
        Tuning with defaults that need none; see :class:`~ldp_stream.campaign.Campaign`.
    rounds
        How long reports are made at the same coefficients, see Campaign; None: always at the latest.
    name
        The campaign's name.
    seed
        Seed of the randomizer, for studies that must be repeatable: it protects nobody. None draws from the
        operating system.

    Raises
    ------
    InvalidCampaign
        If the parameters make no campaign, at the first use; the message names every bad one.

    Attributes
    ----------
    campaign
        The public contract that devices need to make reports for this model.

    Examples
    --------
    >>> from ldp_stream.datasets.taxi import TaxiTrips
    >>> model = PrivateQuantileRegressor(
    ...     features={"log_miles": (-2.4, 3.5), "rush": (0, 1, 0)}, target=(0.0, 4.8), tau=0.5, epsilon=4.0,
    ...     seed=7)
    >>> for x, y in TaxiTrips(3000, seed=1):
    ...     model.learn_one(x, y)
    >>> interval = model.predict_one({"log_miles": 1.0, "rush": 1}, with_interval=True)
    >>> interval.lower < model.predict_one({"log_miles": 1.0, "rush": 1}) < interval.upper
    True
    >>> sorted(model.coefficients)
    ['intercept', 'log_miles', 'rush']

    Notes
    -----
    A river Pipeline calls ``predict_one`` without keywords, so ``with_interval=True`` reaches the model only
    when it is called on the model itself:
    ``pipeline[-1].predict_one(pipeline.transform_one(x), with_interval=True)``.
    """

    def __init__(
        self,
        features: Mapping[str, tuple[float, ...]],
        target: tuple[float, float],
        tau: float | Sequence[float] = 0.5,
        epsilon: float | None = None,
        channel: str | Mapping[str, Any] = "cqx",
        inference: str | Mapping[str, Any] = "sn",
        steps: Mapping[str, Any] | None = None,
        radius: float = 3.0,
        burn_in: float = 0.1,
        rounds: Mapping[str, Any] | None = None,
        name: str = "river",
        seed: int | None = None,
    ) -> None:
        self.features = features
        self.target = target
        self.tau = tau
        self.epsilon = epsilon
        self.channel = channel
        self.inference = inference
        self.steps = steps
        self.radius = radius
        self.burn_in = burn_in
        self.rounds = rounds
        self.name = name
        self.seed = seed

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        features = {"ordinal_date": (735000, 740000), "gallup": (0, 100), "ipsos": (0, 100, 40)}
        for channel in ("cqx", {"kind": "cqx", "q": 3, "s": 2}):
            yield {"features": features, "target": (0, 100), "epsilon": 2.0, "channel": channel, "seed": 1}

    # ------------------------------------------------------------------ the campaign behind it

    @functools.cached_property
    def campaign(self) -> Campaign:
        """The public contract that the parameters make."""
        if problems := [*_misshapen(self.features, self.target)]:
            raise InvalidCampaign("; ".join(problems))
        given = {
            "kind": "quantile",
            "name": self.name,
            "tau": self.tau,
            "epsilon": self.epsilon,
            "target": dict(zip(("lower", "upper"), self.target, strict=True)),
            "features": {name: _bounds(bounds) for name, bounds in self.features.items()},
            "channel": _section(self.channel),
            "inference": _section(self.inference),
            "steps": self.steps,
            "radius": self.radius,
            "burn_in": self.burn_in,
            "rounds": {"stability": 0} if self.rounds is None else self.rounds,
        }
        return Campaign.model_validate({key: value for key, value in given.items() if value is not None})

    @classmethod
    def from_campaign(cls, campaign: Campaign, seed: int | None = None) -> Self:
        """Return the estimator of a campaign, which accepts the reports that devices make in it.

        Raises
        ------
        InvalidInput
            If the campaign has several partitions: each is served by an :class:`~ldp_stream.Aggregator`.
        """
        if campaign.partitions != 1:
            raise InvalidInput(f"campaign.partitions = {campaign.partitions}: must be 1 for one estimator")
        sections = campaign.model_dump()
        kept = ("tau", "epsilon", "channel", "inference", "steps", "radius", "burn_in", "rounds", "name")
        return cls(
            features={
                name: (f["lower"], f["upper"], f["centre"]) for name, f in sections["features"].items()
            },
            target=(campaign.target.lower, campaign.target.upper),
            seed=seed,
            **{key: sections[key] for key in kept},
        )

    @functools.cached_property
    def _server(self) -> Aggregator:
        return Aggregator(self.campaign)

    @functools.cached_property
    def _device(self) -> Reporter:
        return Reporter.simulated(self.campaign, self.seed)

    def parameters(self) -> Parameters:
        """Return the message that devices answer now."""
        return self._server.parameters()

    @property
    def _main(self) -> float:
        """The level that plain predictions and coefficients are of: the one nearest the median."""
        return min((level.tau for level in self.campaign.levels), key=lambda tau: abs(tau - 0.5))

    @property
    def n_reports(self) -> int:
        """Reports folded so far."""
        return self._server.n_reports

    # ------------------------------------------------------------------ learning

    def learn_one(self, x: dict[base.typing.FeatureName, Any], y: base.typing.RegTarget) -> None:
        """Privatize a raw record on the spot and fold the report; the record is not kept.

        A missing or NaN target counts as the middle of its range, as on a device.
        """
        server = self._server
        device = self._device
        chain = device.new_chain()
        server.fold(device.privatize(cast("dict[str, Any]", x), y, server.beta(chain), chain), chain)

    def learn_many(self, X: pd.DataFrame, y: pd.Series) -> None:
        """Privatize and fold the rows of a frame in order: the same state as the loop of ``learn_one``."""
        names: list[base.typing.FeatureName] = list(X.columns)
        for values, target in zip(X.itertuples(index=False, name=None), y, strict=True):
            self.learn_one(dict(zip(names, values, strict=True)), target)

    def learn_report(self, report: Report) -> None:
        """Fold a report that a device made for :attr:`campaign`.

        Raises
        ------
        InvalidReport
            If the report is not of this campaign; nothing changes.
        """
        self._server.ingest(report)

    def learn_reports(self, reports: ReportBatch | Iterable[Report]) -> None:
        """Fold many reports in order, all or none: the same state as the loop of ``learn_report``."""
        self._server.ingest_many(reports)

    # ------------------------------------------------------------------ answers

    @overload
    def predict_one(
        self,
        x: dict[base.typing.FeatureName, Any],
        *,
        with_interval: Literal[False] = ...,
        level: float = ...,
    ) -> float: ...
    @overload
    def predict_one(
        self, x: dict[base.typing.FeatureName, Any], *, with_interval: Literal[True], level: float = ...
    ) -> conf.Interval: ...
    def predict_one(
        self, x: dict[base.typing.FeatureName, Any], *, with_interval: bool = False, level: float = 0.95
    ) -> float | conf.Interval:
        """Return the fitted tau-quantile at x, in the target's units; before any report, the range's middle.

        Parameters
        ----------
        x
            Features by name.
        with_interval
            Return the confidence interval of the fitted quantile instead (not a prediction interval of y); it
            is infinite while no interval can be vouched for.
        level
            Its coverage.
        """
        if with_interval:
            interval = self.predict_quantiles(x, level)[self._main]
            return conf.Interval(interval.lower, interval.upper)
        return self._server.fitted(cast("dict[str, Any]", x), self._main)

    def predict_quantiles(
        self, x: dict[base.typing.FeatureName, Any], level: float = 0.95
    ) -> dict[float, Interval]:
        """Return the fitted quantile at x of each level tau, with its interval; they never cross.

        Parameters
        ----------
        x
            Features by name.
        level
            Coverage of the intervals, which are infinite while none can be vouched for.
        """
        return self._server.estimates(level).quantiles(cast("dict[str, Any]", x))

    def predict_many(self, X: pd.DataFrame) -> pd.Series:
        """Return the fitted quantiles of the frame's rows, in the target's units."""
        import pandas as pd

        names: list[base.typing.FeatureName] = list(X.columns)
        rows = (dict(zip(names, values, strict=True)) for values in X.itertuples(index=False, name=None))
        return pd.Series([self.predict_one(row) for row in rows], index=X.index, dtype="float64")

    @property
    def coefficients(self) -> dict[str, float]:
        """The estimated coefficients in the user's units, "intercept" included."""
        return {name: interval.value for name, interval in self._server.estimate(tau=self._main).items()}

    def estimates(self, level: float = 0.95) -> Estimates:
        """Return the estimate of each quantile level, with every confidence set of its coefficients.

        Raises
        ------
        InvalidInput
            If the level is outside (0, 1).
        """
        return self._server.estimates(level)

    def confidence_interval(self, of: str | Mapping[str, float], level: float = 0.95) -> Interval:
        """Return the interval of one coefficient, or of a contrast, in the user's units.

        Parameters
        ----------
        of
            "intercept", a feature's name, or weights by name for a linear combination.
        level
            Coverage in (0, 1).

        Raises
        ------
        InvalidInput
            If a name is unknown or the level outside (0, 1).
        """
        return self._server.estimate(level, self._main).contrast({of: 1.0} if isinstance(of, str) else of)

    def confidence_region(self, names: Iterable[str] | None = None, level: float = 0.95) -> Ellipsoid:
        """Return the joint confidence set of coefficients, in the user's units.

        Parameters
        ----------
        names
            The coefficients, "intercept" and all features unless given.
        level
            Coverage, from .8 to .999.

        Raises
        ------
        NoConfidenceSet
            If there is none yet; the message says why.
        InvalidInput
            If a name is unknown or repeated, or the level out of range.
        """
        return self._server.estimate(level, self._main).ellipsoid(names)


def _misshapen(features: object, target: object) -> Iterator[str]:
    """Yield what is no mapping of names to bounds, and no range."""
    if not isinstance(features, Mapping):
        yield f"features = {features!r}: must map names to (lower, upper) or (lower, upper, centre)"
    else:
        for name, bounds in features.items():
            if not isinstance(bounds, tuple | list) or len(bounds) not in (2, 3):
                yield f"features[{name!r}] = {bounds!r}: must be (lower, upper) or (lower, upper, centre)"
    if not isinstance(target, tuple | list) or len(target) != 2:
        yield f"target = {target!r}: must be (lower, upper)"


def _bounds(bounds: tuple[float, ...]) -> dict[str, float]:
    return dict(zip(("lower", "upper", "centre"), bounds, strict=False))


def _section(value: str | Mapping[str, Any]) -> Mapping[str, Any]:
    return {"kind": value} if isinstance(value, str) else value
