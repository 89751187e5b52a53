"""Ellipsoids as values: joint confidence sets of several coefficients.

With centre c (q,) and a positive definite matrix M (q, q),

    E = {b: (b - c)' M^-1 (b - c) <= 1}.

Its volume is pi^(q/2)/Gamma(q/2 + 1) sqrt(det M). The largest and smallest u'b on E are u'c -+ sqrt(u'M u),
so its bounds on coefficient j are c_j -+ sqrt(M_jj). The image under b -> A b + k, A of full row rank, is the
ellipsoid with centre A c + k and matrix A M A': units can change and coefficients can be left out, which
projects. Coefficients in the user's units may differ by many orders of magnitude, so everything is computed
from the correlations of M.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._validate import finite, probability
from ..errors import InvalidInput
from .regions import Interval

__all__ = ["Ellipsoid"]

Array = NDArray[np.float64]
_ASYMMETRY = 1e-9  # of a matrix's entries, as correlations


@dataclass(frozen=True, eq=False)
class Ellipsoid:
    """A joint confidence set of q coefficients, {b: (b - c)' M^-1 (b - c) <= 1}; its surface belongs to it.

    Parameters
    ----------
    names
        Names of the q coefficients, each once.
    centre
        c, shape (q,), in the units of the coefficients.
    matrix
        M, shape (q, q), symmetric and positive definite, in the products of these units.
    level
        Coverage probability in (0, 1) that the set is made for.

    Raises
    ------
    InvalidInput
        If shapes do not agree, a name is repeated, a number is not finite, M is not symmetric and positive
        definite, or the level is outside (0, 1).

    Examples
    --------
    >>> import numpy as np
    >>> disc = Ellipsoid(("a", "b"), np.array([1.0, 0.0]), 4 * np.eye(2), level=0.95)
    >>> disc.contains({"a": 2.0, "b": 1.0}), disc.contains([3.1, 0.0]), round(disc.volume / math.pi, 12)
    (True, False, 4.0)
    >>> disc.bounds["a"]
    Interval(value=1.0, lower=-1.0, upper=3.0, level=0.95)
    """

    names: tuple[str, ...]
    centre: Array
    matrix: Array
    level: float

    def __post_init__(self) -> None:
        """Check the numbers and keep read-only copies."""
        names = tuple(self.names)
        if not names or len(set(names)) < len(names):
            raise InvalidInput(f"names = {names!r}: must be at least one name, each once")
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "centre", _numbers("centre", self.centre, (len(names),)))
        object.__setattr__(self, "matrix", _numbers("matrix", self.matrix, (len(names), len(names))))
        object.__setattr__(self, "level", probability(level=self.level))
        if not (np.diag(self.matrix) > 0).all():
            raise InvalidInput("matrix: must be positive definite, but has a diagonal entry <= 0")
        if np.abs(self._correlations - self._correlations.T).max() > _ASYMMETRY:
            raise InvalidInput("matrix: must be symmetric")
        try:
            _ = self._factor
        except np.linalg.LinAlgError:
            raise InvalidInput("matrix: must be positive definite") from None

    @cached_property
    def _sizes(self) -> Array:
        """Half-widths sqrt(M_jj), (q,)."""
        return np.asarray(np.sqrt(np.diag(self.matrix)))

    @cached_property
    def _correlations(self) -> Array:
        return self.matrix / self._sizes[:, np.newaxis] / self._sizes

    @cached_property
    def _factor(self) -> Array:
        """Cholesky factor of the correlations, (q, q)."""
        return np.asarray(np.linalg.cholesky((self._correlations + self._correlations.T) / 2))

    def distance(self, point: Mapping[str, float] | Sequence[float]) -> float:
        """Return sqrt((b - c)' M^-1 (b - c)): 0 at the centre, 1 on the surface.

        Parameters
        ----------
        point
            b: q numbers in the order of :attr:`names`, or numbers by name, of which others are ignored.

        Raises
        ------
        InvalidInput
            If a name is missing, there are not q numbers, or one is not finite.
        """
        standard = (self._point(point) - self.centre) / self._sizes
        return float(np.linalg.norm(np.linalg.solve(self._factor, standard)))

    def contains(self, point: Mapping[str, float] | Sequence[float]) -> bool:
        """Tell whether a point lies in the ellipsoid; see :meth:`distance`."""
        return self.distance(point) <= 1

    __contains__ = contains

    def _point(self, point: Mapping[str, float] | Sequence[float]) -> Array:
        if isinstance(point, Mapping):
            for name in self.names:
                if name not in point:
                    raise InvalidInput(f"point: has no {name!r}: must have {', '.join(self.names)}")
            point = [finite(**{f"point[{name!r}]": point[name]}) for name in self.names]
        return _numbers("point", point, self.centre.shape)

    @property
    def volume(self) -> float:
        """Volume in the product of the coefficients' units; the length of the interval if q = 1."""
        q = len(self.names)
        ball = q / 2 * math.log(math.pi) - math.lgamma(q / 2 + 1)
        root = math.fsum(np.log(self._sizes)) + math.fsum(np.log(np.diag(self._factor)))
        return math.exp(ball + root)

    @property
    def bounds(self) -> dict[str, Interval]:
        """The smallest box around the ellipsoid: c_j -+ sqrt(M_jj) by name.

        All of them together hold the true values at least as often as the ellipsoid does.
        """
        return {
            name: Interval(float(c), float(c - size), float(c + size), self.level)
            for name, c, size in zip(self.names, self.centre, self._sizes, strict=True)
        }

    @property
    def half_axes(self) -> Array:
        """The half-axes as rows, (q, q), the longest first.

        With q = 2 the curve centre + cos(s) row_0 + sin(s) row_1 is the ellipse. They are orthogonal in the
        coefficients' own units, so their directions depend on the units.
        """
        lengths, directions = np.linalg.eigh(self.matrix)
        axes: Array = (np.sqrt(np.maximum(lengths, 0.0)) * directions).T[::-1]
        return axes

    def transformed(
        self, names: Sequence[str], A: Sequence[Sequence[float]] | Array, shift: Sequence[float] | Array
    ) -> Ellipsoid:
        """Return the image under b -> A b + shift: other units, or fewer coefficients.

        Parameters
        ----------
        names
            Names of the r image coordinates.
        A
            Shape (r, q), of rank r.
        shift
            Shape (r,).

        Raises
        ------
        InvalidInput
            If shapes do not agree, or A has not rank r, so that the image is flat.

        Examples
        --------
        >>> disc = Ellipsoid(("a", "b"), np.array([1.0, 0.0]), 4 * np.eye(2), level=0.95)
        >>> disc.transformed(["difference"], [[1.0, -1.0]], [0.0]).bounds["difference"].upper ** 2 // 1
        14.0
        """
        rows = _numbers("A", A, (len(names), len(self.names)))
        moved = _numbers("shift", shift, (len(names),))
        image = rows @ self.matrix @ rows.T
        return Ellipsoid(tuple(names), rows @ self.centre + moved, (image + image.T) / 2, self.level)

    def as_dict(self) -> dict[str, Any]:
        """Return the set for JSON.

        Keys: names, level, centre (a list), matrix (a list of rows), volume, and
        bounds: {name: {value, lower, upper}}.
        """
        return {
            "names": list(self.names),
            "level": self.level,
            "centre": self.centre.tolist(),
            "matrix": self.matrix.tolist(),
            "volume": self.volume,
            "bounds": {name: interval.as_dict() for name, interval in self.bounds.items()},
        }


def _numbers(name: str, value: object, shape: tuple[int, ...]) -> Array:
    """Return a read-only copy as an array of finite numbers of the given shape."""
    try:
        array = np.array(value, np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(f"{name} = {value!r}: must be numbers of shape {shape}") from None
    if array.shape != shape:
        raise InvalidInput(f"{name}: has shape {array.shape}: must have shape {shape}")
    if not np.isfinite(array).all():
        raise InvalidInput(f"{name} = {array.tolist()!r}: must be finite numbers")
    array.setflags(write=False)
    return array
