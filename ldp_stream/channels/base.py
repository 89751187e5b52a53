"""What every channel offers: a frozen value that turns one contribution into one private report payload.

A channel works on the contribution ``g`` of one user, a vector of p coordinates (the estimating function of
quantile regression, ``g = X (1{Y <= X'b} - tau)``, in the working scale), and knows three things:

=============  =======================================================================================
``privatize``  draws the payload on the device, from integers that a :class:`RandomBits` hands out
``decode``     the affine map of the server: payload -> sparse unbiased estimate of g
``law``        the exact probabilities of all payloads given g, so that privacy is proved by enumeration
=============  =======================================================================================

The random payload is either a category inside a public block of coordinates, or a vector of floats.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

__all__ = ["CategoryPayload", "Decoded", "Payload", "RandomBits", "VectorPayload"]


class RandomBits(Protocol):
    """A source of uniform integers: the operating system's on a device, a seeded one in simulations."""

    def bits(self, k: int, /) -> int:
        """Return an integer drawn uniformly from [0, 2^k)."""
        ...

    def below(self, n: int, /) -> int:
        """Return an integer drawn exactly uniformly from [0, n)."""
        ...


class CategoryPayload(NamedTuple):
    """A category of a finite alphabet, inside a block of coordinates drawn independently of the data."""

    block: int
    category: int


class VectorPayload(NamedTuple):
    """One float for each of the p coordinates."""

    values: tuple[float, ...]


Payload = CategoryPayload | VectorPayload


class Decoded(NamedTuple):
    """A sparse vector of R^p: ``values[k]`` at coordinate ``coordinates[k]``, zero elsewhere."""

    coordinates: tuple[int, ...]
    values: tuple[float, ...]
