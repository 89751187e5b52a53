"""Columns of many reports of one campaign: what a server folds fast, and what the codec packs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from .errors import InvalidReport
from .reports import MOST_VALUES, CategoryReport, Report, VectorReport

__all__ = ["ReportBatch"]

_TOKEN_BYTES = 16
_DTYPES = {
    "round": "uint32",
    "chain": "uint16",
    "token": "uint8",
    "block": "uint32",
    "category": "uint16",
    "values": "float64",
}


@dataclass(frozen=True, eq=False)
class ReportBatch:
    """n reports of one campaign in columns, in the order of arrival.

    Parameters
    ----------
    digest
        The first 8 bytes of the campaign's digest, 16 hex digits.
    round, chain
        uint32 and uint16, shape (n,).
    token
        uint8, shape (n, 16).
    block, category
        uint32 and uint16, shape (n,); None for vector reports.
    values
        float64, shape (n, p); None for category reports.

    Raises
    ------
    InvalidReport
        If the columns differ in length or are of neither kind.

    Examples
    --------
    >>> report = CategoryReport(digest="0" * 16, round=0, chain=0, block=1, category=3, token="ab" * 16)
    >>> batch = ReportBatch.from_reports([report, report])
    >>> len(batch), batch.category.tolist(), next(iter(batch)) == report
    (2, [3, 3], True)
    """

    digest: str
    round: NDArray[np.uint32]
    chain: NDArray[np.uint16]
    token: NDArray[np.uint8]
    block: NDArray[np.uint32] | None = None
    category: NDArray[np.uint16] | None = None
    values: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        payload = [column for column in (self.block, self.category, self.values) if column is not None]
        if len(payload) != (2 if self.values is None else 1):
            raise InvalidReport("columns: must be block and category, or values")
        columns = (self.round, self.chain, self.token, *payload)
        lengths = [column.shape[0] for column in columns]
        if lengths.count(lengths[0]) != len(lengths):
            raise InvalidReport(f"columns of lengths {lengths}: must all be equal")
        for name, dtype in _DTYPES.items():
            column = getattr(self, name)
            if column is not None and column.dtype.newbyteorder("=") != dtype:
                raise InvalidReport(f"{name}: is of type {column.dtype}, must be {dtype}")
        if self.token.shape[1:] != (_TOKEN_BYTES,):
            raise InvalidReport(f"token: rows must have {_TOKEN_BYTES} bytes")
        if self.values is not None:
            if self.values.ndim != 2 or not 1 <= self.values.shape[1] <= MOST_VALUES:
                raise InvalidReport(f"values: rows must have 1 to {MOST_VALUES} values")
            if not np.isfinite(self.values).all():
                raise InvalidReport("values: must be finite numbers")

    def __len__(self) -> int:
        return int(self.round.shape[0])

    def __getitem__(self, rows: slice | NDArray[np.bool_] | NDArray[np.int64] | list[int]) -> ReportBatch:
        """Return some of the reports: a slice (the columns are views), a mask or indices."""
        return ReportBatch(
            self.digest,
            self.round[rows],
            self.chain[rows],
            self.token[rows],
            None if self.block is None else self.block[rows],
            None if self.category is None else self.category[rows],
            None if self.values is None else self.values[rows],
        )

    def __iter__(self) -> Iterator[Report]:
        digest, hexed, digits = self.digest, self.token.tobytes().hex(), 2 * _TOKEN_BYTES
        tokens = [hexed[place : place + digits] for place in range(0, len(hexed), digits)]
        common = zip(self.round.tolist(), self.chain.tolist(), tokens, strict=True)
        if self.block is not None and self.category is not None:
            payloads = zip(self.block.tolist(), self.category.tolist(), strict=True)
            for (round_, chain, token), (block, category) in zip(common, payloads, strict=True):
                yield CategoryReport(
                    digest=digest, round=round_, chain=chain, block=block, category=category, token=token
                )
        elif self.values is not None:
            for (round_, chain, token), row in zip(common, self.values.tolist(), strict=True):
                yield VectorReport(digest=digest, round=round_, chain=chain, values=tuple(row), token=token)

    @classmethod
    def from_reports(cls, reports: Iterable[Report]) -> ReportBatch:
        """Put reports of one kind and one campaign into columns.

        Raises
        ------
        InvalidReport
            If there is none, or they differ in kind, campaign or width; the message names the position of the
            first odd one.
        """
        rows = list(reports)
        if not rows:
            raise InvalidReport("reports: at least one is needed to know the campaign")
        kind, digest = type(rows[0]), rows[0].digest
        for place, row in enumerate(rows):
            if type(row) is not kind or row.digest != digest:
                raise InvalidReport(f"reports[{place}]: must be a {kind.__name__} of campaign {digest}")
        round_ = np.array([row.round for row in rows], np.uint32)
        chain = np.array([row.chain for row in rows], np.uint16)
        tokens = bytes.fromhex("".join([row.token for row in rows]))
        token = np.frombuffer(tokens, np.uint8).reshape(-1, _TOKEN_BYTES)
        if kind is VectorReport:
            vectors = [row.values for row in cast("list[VectorReport]", rows)]
            for place, values in enumerate(vectors):
                if len(values) != len(vectors[0]):
                    raise InvalidReport(f"reports[{place}]: must have {len(vectors[0])} values, as the first")
            return cls(digest, round_, chain, token, values=np.array(vectors, np.float64))
        categories = cast("list[CategoryReport]", rows)
        block = np.array([row.block for row in categories], np.uint32)
        category = np.array([row.category for row in categories], np.uint16)
        return cls(digest, round_, chain, token, block, category)
