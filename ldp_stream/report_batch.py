"""Columns of many reports of one campaign: what a server folds fast, and what the codec packs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .errors import InvalidReport
from .reports import CategoryReport, Report, VectorReport

__all__ = ["ReportBatch"]


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
        payload = (
            (self.values,) if self.block is None and self.category is None else (self.block, self.category)
        )
        if any(column is None for column in payload) or (self.values is not None and self.block is not None):
            raise InvalidReport("columns: must be block and category, or values")
        shapes = [
            column.shape[0] for column in (self.round, self.chain, self.token, *payload) if column is not None
        ]
        if any(length != shapes[0] for length in shapes):
            raise InvalidReport(f"columns of lengths {shapes}: must all be equal")
        if self.values is not None and not np.isfinite(self.values).all():
            raise InvalidReport("values: must be finite numbers")

    def __len__(self) -> int:
        return int(self.round.shape[0])

    def __getitem__(self, rows: slice) -> ReportBatch:
        """Return a slice of the batch; the columns are views."""
        columns = (self.round, self.chain, self.token, self.block, self.category, self.values)
        return ReportBatch(self.digest, *(None if column is None else column[rows] for column in columns))  #
        type: ignore[arg-type]

    def __iter__(self) -> Iterator[Report]:
        tokens = self.token.tobytes()
        common = zip(self.round.tolist(), self.chain.tolist(), range(len(self)), strict=True)
        for (round_, chain, k), payload in zip(common, self._payloads(), strict=True):
            token = tokens[16 * k : 16 * k + 16].hex()
            if self.values is None:
                block, category = payload
                yield CategoryReport(
                    digest=self.digest, round=round_, chain=chain, block=block, category=category, token=token
                )
            else:
                yield VectorReport(
                    digest=self.digest, round=round_, chain=chain, values=tuple(payload), token=token
                )

    def _payloads(self) -> Iterable[tuple[int, int]] | list[list[float]]:
        if self.block is not None and self.category is not None:
            return zip(self.block.tolist(), self.category.tolist(), strict=True)
        assert self.values is not None
        return self.values.tolist()  # type: ignore[no-any-return]

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
        first = rows[0]
        width = len(first.values) if isinstance(first, VectorReport) else 0
        for place, row in enumerate(rows):
            if type(row) is not type(first) or row.digest != first.digest:
                raise InvalidReport(
                    f"reports[{place}]: must be a {type(first).__name__} of campaign {first.digest}"
                )
            if width and len(row.values) != width:  # type: ignore[union-attr]
                raise InvalidReport(f"reports[{place}]: must have {width} values")
        return cls(
            first.digest,
            np.array([row.round for row in rows], np.uint32),
            np.array([row.chain for row in rows], np.uint16),
            np.frombuffer(bytes.fromhex("".join([row.token for row in rows])), np.uint8).reshape(-1, 16),
            **_payload_columns(rows),
        )


def _payload_columns(rows: list[Report]) -> dict[str, NDArray[np.generic]]:
    if isinstance(rows[0], VectorReport):
        return {"values": np.array([row.values for row in rows], np.float64)}  # type: ignore[union-attr]
    return {
        "block": np.array([row.block for row in rows], np.uint32),  # type: ignore[union-attr]
        "category": np.array([row.category for row in rows], np.uint16),  # type: ignore[union-attr]
    }
