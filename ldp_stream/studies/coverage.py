"""How often 95% intervals hold the truth: one cell of the coverage study, and what it is compared with.

A cell is a campaign with default settings, a model of :mod:`~ldp_stream.studies.model`, n and a method.
``distance`` is the root mean square of the Euclidean error of the coefficients (working scale), ``bound`` the
same for an efficient estimator from the same reports, sqrt(tr(H^-1 S H^-1)/n) with H the curvature and
S = Cov(g~) at the truth. A cell is regular when the bound for x'b over the spread of the errors is below .1.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from ..adaptive import PublicScale
from ..campaign import Campaign
from ..channels.cqx import CQX
from ..channels.no_privacy import NoPrivacy
from .devices import Devices
from .model import Errors, Model
from .plan import Found, Method, Plan, Steps
from .runs import run

__all__ = ["LEVEL", "Cell", "Row", "rows", "simulate"]

Array = NDArray[np.float64]
LEVEL = 0.95
_OPTIMUM_DRAWS = (4000, 100)


@dataclass(frozen=True)
class Cell:
    """One campaign, one truth, one method.

    Parameters
    ----------
    method, steps, n
        As in :class:`~ldp_stream.studies.plan.Plan`.
    tau, epsilon
        Quantile level, and privacy of a report; None for the channel "none".
    d, errors, spread
        Slopes, law of the errors and their standard deviation, in the working scale.
    """

    method: Method
    tau: float
    epsilon: float | None
    d: int
    errors: Errors
    spread: float
    n: int
    steps: Steps = "adaptive"

    @cached_property
    def campaign(self) -> Campaign:
        """The campaign: defaults, all bounds [-1, 1], so the user's units are the working scale."""
        bounds = {"lower": -1, "upper": 1}
        protected = {"channel": {"kind": "none"}} if self.epsilon is None else {"epsilon": self.epsilon}
        return Campaign.model_validate(
            {
                "kind": "quantile",
                "name": "coverage",
                "tau": self.tau,
                "target": bounds,
                "features": {f"x{j}": bounds for j in range(1, self.d + 1)},
                **protected,
            }
        )

    @property
    def model(self) -> Model:
        """The truth."""
        return Model(self.d, self.tau, self.spread, self.errors)

    @property
    def devices(self) -> Devices:
        """The users."""
        mechanism = self.campaign.levels[0].mechanism
        assert isinstance(mechanism, CQX | NoPrivacy)  # of a cell's campaign
        return Devices(self.model, mechanism)

    @property
    def plan(self) -> Plan:
        """What is public."""
        campaign = self.campaign
        public = PublicScale(self.tau, campaign.levels[0].mechanism.second_moments)
        return Plan(
            self.method,
            self.steps,
            self.n,
            public,
            campaign.levels[0].steps,
            radius=campaign.radius,
            burn_in=campaign.burn_in,
            level=LEVEL,
        )

    @property
    def covariance(self) -> Array:
        """H^-1 S H^-1/n, (p, p)."""
        return _asymptotic(self.devices) / self.n

    @property
    def relative(self) -> float:
        """The bound for x'b at a random x, over the spread: below .1 the cell is regular."""
        weights = np.array([1.0, *[1 / 3] * self.d])
        return float(math.sqrt(weights @ np.diag(self.covariance)) / self.spread)


@lru_cache(maxsize=256)
def _asymptotic(devices: Devices) -> Array:
    """Return H^-1 S H^-1, S from 400,000 reports at the truth."""
    model = devices.model
    piece = devices.draw(*_OPTIMUM_DRAWS, np.random.default_rng(0))
    face = piece.y <= np.einsum("tpc,p->tc", piece.X, model.theta)
    g = np.moveaxis(piece.zero + piece.change * face[:, None], 1, 2).reshape(-1, model.p)
    inverse = np.linalg.inv(model.hessian())
    return np.asarray(inverse @ (g.T @ g / len(g)) @ inverse)


@dataclass(frozen=True)
class Row:
    """What came out for one coefficient of a cell; ``coefficient`` 0 is the intercept.

    ``mc_error`` is the Monte Carlo standard error of ``coverage``; ``width`` the mean width of the interval.
    """

    method: str
    tau: float
    epsilon: float | None
    d: int
    errors: str
    spread: float
    n: int
    coefficient: int
    coverage: float
    mc_error: float
    width: float
    distance: float
    bound: float

    def as_dict(self) -> dict[str, object]:
        """Return the row as a plain dictionary."""
        return asdict(self)


def simulate(cell: Cell, replications: int, seed: int) -> Found:
    """Return what R replications of a cell come to.

    Examples
    --------
    >>> cell = Cell("sn", tau=0.5, epsilon=4.0, d=1, errors="gauss", spread=0.2, n=500, steps="power")
    >>> simulate(cell, replications=3, seed=1).mean.shape
    (3, 2)
    """
    return run(cell.plan, cell.devices, replications, np.random.Generator(np.random.SFC64(seed)))


def rows(cell: Cell, found: Found) -> list[Row]:
    """Return the rows of a cell, one a coefficient."""
    error = found.mean - cell.model.theta
    coverage = (np.abs(error) <= found.half_width).mean(axis=0)
    distance = float(np.sqrt((error**2).sum(axis=1).mean()))
    bound = float(np.sqrt(np.trace(cell.covariance)))
    return [
        Row(
            cell.method,
            cell.tau,
            cell.epsilon,
            cell.d,
            cell.errors,
            cell.spread,
            cell.n,
            j,
            float(share),
            math.sqrt(share * (1 - share) / len(error)),
            float(2 * found.half_width[:, j].mean()),
            distance,
            bound,
        )
        for j, share in enumerate(coverage.tolist())
    ]
