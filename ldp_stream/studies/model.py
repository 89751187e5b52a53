"""A linear location-scale model whose quantile coefficients are known exactly, in the working scale.

    y~ = X'theta + sigma (X'gamma)(e - F^-1(tau)),   X = (1, x_1, .., x_d),   x_j uniform on [-1, 1],

e ~ F with variance 1, independent of X, and X'gamma > 0 always: so P(y~ <= X'theta | X) = tau, and theta is
what a quantile regression at tau has to find, whatever the errors are. F is the normal law, or Student's t
with 3 degrees of freedom divided by sqrt(3). gamma = (1, .5/d, -.5/d, ..): the spread goes from sigma/2 to
3 sigma/2 (heteroscedastic). theta = (.5, -a, a, -a, ..) has length 1: chains start at 0, 1 away from it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

__all__ = ["Errors", "Model"]

Array = NDArray[np.float64]
Errors = Literal["gauss", "t3"]
_INTERCEPT = 0.5
_HETEROSCEDASTIC = 0.5
_DEGREES = 3
_UNIT = math.sqrt(3.0)  # standard deviation of Student's t with 3 degrees of freedom


@dataclass(frozen=True)
class Model:
    """One truth.

    Parameters
    ----------
    d
        Number of slopes, at least 1.
    tau
        Quantile level.
    sigma
        Standard deviation of the error at x = 0, in the working scale.
    errors
        "gauss" or "t3".

    Examples
    --------
    >>> model = Model(d=3, tau=0.5, sigma=0.2)
    >>> model.theta.round(3).tolist(), round(float(np.linalg.norm(model.theta)), 12)
    ([0.5, -0.5, 0.5, -0.5], 1.0)
    """

    d: int
    tau: float
    sigma: float
    errors: Errors = "gauss"

    @property
    def p(self) -> int:
        """Number of coefficients."""
        return self.d + 1

    @cached_property
    def theta(self) -> Array:
        """The coefficients of the tau-quantile, (p,)."""
        size = math.sqrt((1 - _INTERCEPT**2) / self.d)
        return np.array([_INTERCEPT, *(size * (-1) ** j for j in range(1, self.p))])

    @cached_property
    def gamma(self) -> Array:
        """The coefficients of the spread over sigma, (p,)."""
        return np.array([1.0, *(-_HETEROSCEDASTIC / self.d * (-1) ** j for j in range(1, self.p))])

    @cached_property
    def quantile(self) -> float:
        """F^-1(tau)."""
        if self.errors == "gauss":
            return NormalDist().inv_cdf(self.tau)
        return float(student.ppf(self.tau, _DEGREES)) / _UNIT

    @cached_property
    def density(self) -> float:
        """The density of e at F^-1(tau)."""
        if self.errors == "gauss":
            return NormalDist().pdf(self.quantile)
        return float(student.pdf(self.quantile * _UNIT, _DEGREES)) * _UNIT

    def draw(self, shape: tuple[int, int], rng: np.random.Generator) -> tuple[Array, Array]:
        """Return features and targets of fresh users: X (T, p, C) and y~ (T, C) for a shape (T, C)."""
        events, columns = shape
        X = rng.random((events, self.p, columns))
        X *= 2.0
        X -= 1.0
        X[:, 0] = 1.0
        e = rng.standard_normal(shape) if self.errors == "gauss" else rng.standard_t(_DEGREES, shape) / _UNIT
        e -= self.quantile
        both = np.stack([self.theta, self.gamma * self.sigma]) @ X
        e *= both[:, 1]
        e += both[:, 0]
        return X, e

    def hessian(self, points: int = 1 << 18) -> Array:
        """Return H = E[density of y~ at X'theta given X, times XX'], (p, p), from fixed draws of X."""
        rng = np.random.default_rng(0)
        x = rng.uniform(-1, 1, (points // 2, self.d))
        X = np.column_stack([np.ones(points), np.vstack([x, -x])])
        weights = self.density / (self.sigma * (X @ self.gamma)) / points
        return np.asarray(X.T @ (X * weights[:, None]))
