"""What a device sends and what it reads: one private report, and the parameters message it answers.

A report says under which contract (first 8 bytes of the campaign's digest), at which round and chain it was
made, carries the channel's payload, and a token: HMAC-SHA256(device secret, digest) cut to 16 bytes, one per
user and campaign, unlinkable across campaigns. It holds nothing else of its user.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from .channels.base import CategoryPayload, VectorPayload

__all__ = ["MOST_VALUES", "CategoryReport", "ChainParameters", "Parameters", "Report", "VectorReport"]

MOST_VALUES = 1 << 12  # of one vector report

_Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
_Token = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
_UInt16 = Annotated[int, Field(ge=0, lt=1 << 16)]
_UInt32 = Annotated[int, Field(ge=0, lt=1 << 32)]
_Finite = Annotated[float, Field(allow_inf_nan=False)]


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class CategoryReport(_Message):
    """One report of a finite channel: a category of the alphabet of a public block.

    Parameters
    ----------
    digest
        The first 8 bytes of the campaign's digest, 16 hex digits.
    round
        The round of the parameters that the device used, < 2^32.
    chain
        The chain whose parameters it used, < 2^16.
    block, category
        The channel's payload, < 2^32 and < 2^16.
    token
        16 bytes as 32 hex digits.
    """

    kind: Literal["category"] = "category"
    digest: _Digest
    round: _UInt32
    chain: _UInt16
    block: _UInt32
    category: _UInt16
    token: _Token

    @property
    def payload(self) -> CategoryPayload:
        """The channel's payload."""
        return CategoryPayload(self.block, self.category)


class VectorReport(_Message):
    """One report of a channel on R^p: one finite float for each coordinate, the rest as in CategoryReport."""

    kind: Literal["vector"] = "vector"
    digest: _Digest
    round: _UInt32
    chain: _UInt16
    values: Annotated[tuple[_Finite, ...], Field(min_length=1, max_length=MOST_VALUES)]
    token: _Token

    @property
    def payload(self) -> VectorPayload:
        """The channel's payload."""
        return VectorPayload(self.values)


Report = CategoryReport | VectorReport


class ChainParameters(_Message):
    """One chain's coefficients: p finite floats in the working scale, intercept first."""

    chain: _UInt16
    beta: tuple[_Finite, ...]


class Parameters(_Message):
    """The coefficients at which devices of one partition make their reports during one round.

    Parameters
    ----------
    digest
        The first 8 bytes of the campaign's digest, 16 hex digits.
    partition
        The partition of the report stream that these parameters serve.
    round
        The round's number, from 0.
    n
        Reports that the partition had accepted when the round began.
    chains
        The coefficients of each chain of the partition.
    """

    digest: _Digest
    partition: _UInt16
    round: _UInt32
    n: Annotated[int, Field(ge=0)]
    chains: tuple[ChainParameters, ...]
