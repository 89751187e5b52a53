"""Averages as JSON objects: the parts of a published estimate from which every confidence set can be made.

``kind`` says which: "sn" (mean, scaling matrix, shares of the chains), "dc" (centres of the chains), "higrad"
(estimates of the threads and their dependence), all in the working scale. A message without it is
"sn": those of the first version have none.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Discriminator, FiniteFloat, Tag

from ..errors import InvalidInput
from ..inference.averages import Average
from ..inference.divide_and_conquer import DivideAndConquerAverage
from ..inference.higrad import HiGradAverage
from ..inference.self_normalized import PooledAverage

__all__ = ["AverageMessage", "average_message"]

Row = list[FiniteFloat]


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _SelfNormalized(_Message):
    kind: Literal["sn"] = "sn"
    mean: Row
    scaling: list[Row] | None
    shares: Row

    def made(self, p: int) -> Average:
        """Return the average of p coefficients."""
        W = None if self.scaling is None else _array(self.scaling, (p, p), p)
        return PooledAverage(_array(self.mean, (p,), p), W, tuple(self.shares))


class _DivideAndConquer(_Message):
    kind: Literal["dc"]
    centres: list[Row]
    reason: str | None

    def made(self, p: int) -> Average:
        """Return the average of p coefficients."""
        return DivideAndConquerAverage(_array(self.centres, (len(self.centres), p), p), self.reason)


class _HiGrad(_Message):
    kind: Literal["higrad"]
    threads: list[Row]
    dependence: list[Row]
    reason: str | None

    def made(self, p: int) -> Average:
        """Return the average of p coefficients."""
        count = len(self.threads)
        dependence = _array(self.dependence, (count, count), p)
        average = HiGradAverage(_array(self.threads, (count, p), p), dependence, self.reason)
        try:
            _ = average.mean
        except np.linalg.LinAlgError:
            raise InvalidInput("message: average: dependence: must be positive definite") from None
        return average


def _kind(message: Any) -> str:
    return str(message.get("kind", "sn")) if isinstance(message, dict) else "sn"


AverageMessage = Annotated[
    Annotated[_SelfNormalized, Tag("sn")]
    | Annotated[_DivideAndConquer, Tag("dc")]
    | Annotated[_HiGrad, Tag("higrad")],
    Discriminator(_kind),
]


def average_message(average: Average) -> dict[str, Any]:
    """Return an average of any kind as an object for JSON; ``made(p)`` of the model goes back."""
    if isinstance(average, PooledAverage):
        scaling = None if average.W is None else average.W.tolist()
        parts = {"mean": average.mean.tolist(), "scaling": scaling, "shares": list(average.shares)}
    elif isinstance(average, DivideAndConquerAverage):
        parts = {"centres": average.centres.tolist(), "reason": average.reason}
    elif isinstance(average, HiGradAverage):
        parts = {
            "threads": average.threads.tolist(),
            "dependence": average.dependence.tolist(),
            "reason": average.reason,
        }
    else:
        raise TypeError(f"an average of type {type(average).__name__} has no message")
    return {"kind": average.kind, **parts}


def _array(numbers: Row | list[Row], shape: tuple[int, ...], p: int) -> NDArray[np.float64]:
    """Return numbers as an array of the given shape."""
    try:
        array = np.array(numbers, np.float64)
    except ValueError:
        array = np.empty(0)
    if array.size == 0 and 0 in shape:
        return np.empty(shape)
    if array.shape != shape:
        raise InvalidInput(f"message: average: must be of {p} coefficients")
    return array
