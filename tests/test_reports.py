"""Report and parameters models: frozen, strict, and exact about their ranges."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from ldp_stream.channels.base import CategoryPayload, VectorPayload
from ldp_stream.reports import MOST_VALUES, CategoryReport, ChainParameters, Parameters, VectorReport

CATEGORY: dict[str, Any] = {
    "digest": "0123456789abcdef",
    "round": 7,
    "chain": 0,
    "block": 3,
    "category": 1,
    "token": "ab" * 16,
}
VECTOR: dict[str, Any] = {
    "digest": "0123456789abcdef",
    "round": 7,
    "chain": 0,
    "values": (0.5, -0.25),
    "token": "ab" * 16,
}
START: dict[str, Any] = {
    "digest": "0123456789abcdef",
    "partition": 0,
    "round": 0,
    "n": 0,
    "chains": (ChainParameters(chain=0, beta=(0.0, 1.5)),),
}


def test_a_report_knows_its_payload() -> None:
    """The payload is what the channel decodes, and the kind is part of the report."""
    category, vector = CategoryReport(**CATEGORY), VectorReport(**VECTOR)
    assert (category.kind, category.payload) == ("category", CategoryPayload(3, 1))
    assert (vector.kind, vector.payload) == ("vector", VectorPayload((0.5, -0.25)))


@pytest.mark.parametrize(
    ("model", "fields", "change"),
    [
        *((CategoryReport, CATEGORY, {name: value}) for name, value in [
            ("kind", "vector"),
            ("digest", "0123456789abcde"), ("digest", "0123456789ABCDEF"), ("digest", "0123456789abcdef\n"),
            ("digest", "٣" * 16), ("digest", b"0123456789abcdef"), ("digest", None),
            ("round", -1), ("round", 1 << 32), ("round", 1.0), ("round", "1"), ("round", True),
            ("round", None),
            ("chain", -1), ("chain", 1 << 16),
            ("block", -1), ("block", 1 << 32), ("block", 0.5),
            ("category", -1), ("category", 1 << 16),
            ("token", "ab" * 15), ("token", "AB" * 16), ("token", "ab" * 16 + "\n"), ("token", bytes(16)),
            ("user", "me"), ("values", (0.5,)),
        ]),
        *((VectorReport, VECTOR, {name: value}) for name, value in [
            ("kind", "category"),
            ("values", ()), ("values", (float("nan"),)), ("values", (float("inf"),)), ("values", ("1",)),
            ("values", (True,)), ("values", [0.5]), ("values", 0.5), ("values", (0.0,) * (MOST_VALUES + 1)),
            ("block", 0),
        ]),
        *((Parameters, START, {name: value}) for name, value in [
            ("n", -1), ("round", 1 << 32), ("partition", 1 << 16), ("chains", None), ("digest", "0"),
            ("tau", 0.5),
        ]),
        (ChainParameters, {"chain": 0, "beta": (0.0,)}, {"beta": (float("nan"),)}),
        (ChainParameters, {"chain": 0, "beta": (0.0,)}, {"chain": 1 << 16}),
    ],
)  # fmt: skip
def test_a_field_out_of_range_is_refused(model: Any, fields: dict[str, Any], change: dict[str, Any]) -> None:
    """No number is cut or converted, no text is trimmed, no field is added."""
    model(**fields)
    with pytest.raises(ValidationError):
        model(**{**fields, **change})


@pytest.mark.parametrize(
    ("model", "fields"), [(CategoryReport, CATEGORY), (VectorReport, VECTOR), (Parameters, START)]
)
def test_messages_are_frozen_values(model: Any, fields: dict[str, Any]) -> None:
    """Equal fields make equal, hashable messages that cannot be changed; JSON gives them back."""
    message = model(**fields)
    assert message == model(**fields)
    assert hash(message) == hash(model(**fields))
    assert message != model(**{**fields, "round": 8})
    assert model.model_validate_json(message.model_dump_json()) == message
    with pytest.raises(ValidationError, match="frozen"):
        message.round = 9


def test_a_report_holds_nothing_else() -> None:
    """The fields are the contract: campaign, round, chain, payload, token."""
    common = {"kind", "digest", "round", "chain", "token"}
    assert set(CategoryReport.model_fields) == common | {"block", "category"}
    assert set(VectorReport.model_fields) == common | {"values"}


def test_the_limits_are_allowed() -> None:
    """The largest number of each field, and 4,096 values."""
    CategoryReport(
        **{**CATEGORY, "round": 2**32 - 1, "chain": 2**16 - 1, "block": 2**32 - 1, "category": 2**16 - 1}
    )
    VectorReport(**{**VECTOR, "values": (1e308,) * MOST_VALUES})
