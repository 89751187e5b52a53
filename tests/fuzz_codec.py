"""Fuzzing of the report parsers: whatever the bytes, a sound report comes back or one tidy ``InvalidReport``.

The tests run some thousands of inputs; a long run is ``python -m tests.fuzz_codec 1000000 --seed 1``. Half of
the inputs go to the parser of single reports and half to that of columns. They are random bytes, valid
messages, valid messages that were cut, spliced, repeated or had bits flipped, and JSON with wrong types, huge
numbers, NaN, duplicate and unknown keys, deep nesting, lone surrogates and bytes that are not UTF-8.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Callable
from random import Random

import numpy as np

from ldp_stream.batch_codec import batch_to_json, decode_batch, encode_batch
from ldp_stream.codec import decode_report, encode_report, report_to_json
from ldp_stream.errors import InvalidReport
from ldp_stream.report_batch import ReportBatch
from ldp_stream.reports import CategoryReport, Report, VectorReport

CANARY = "kAnArY"
_LONGEST_MESSAGE = 200
_ODD_NUMBERS = (
    "0", "-0", "-1", "1.0", "1e0", "0.5", "65535", "65536", "4294967295", "4294967296",
    "18446744073709551616",
    "1e400", "-1e400", "1e-400", "9" * 400, "9" * 5000, "0." + "3" * 400, "01", "+1", "1_000", "0x1", "NaN",
    "Infinity", "-Infinity", "nan", "5e-324", "1.7976931348623157e308", "1.8e308",
)  # fmt: skip
_ODD_VALUES = (
    *_ODD_NUMBERS, "true", "false", "null", '""', f'"{CANARY}"',
    '"\\ud800"', '"\\udc00\\ud800"', '"\\u0000"', '"\\n"',
    '"\n"', "[]", "{}", "[[]]", "[null]", f'["{CANARY}\\n"]', f'{{"{CANARY}": 1}}', "[0, 0]", "[0.5]",
    "[[0.5], [0.25]]",
    "[[0.5], [0.25, 1]]", '["category"]', '"category"', '"vector"',
    '"0000000000000000"', '"000000000000000G"',
    f'"{"0" * 32}"', f'"{"٣" * 16}"', "[" * 300 + "]" * 300, "[" * 9, '{"a":' * 300 + "1" + "}" * 300, "",
)  # fmt: skip
_ODD_KEYS = (
    "kind",
    "digest",
    "round",
    "chain",
    "token",
    "block",
    "category",
    "values",
    CANARY,
    f"{CANARY}\\n",
    "",
    "\\ud800",
)


def _category(random: Random) -> CategoryReport:
    return CategoryReport(
        digest=random.randbytes(8).hex(),
        round=random.getrandbits(32),
        chain=random.getrandbits(16),
        block=random.getrandbits(32),
        category=random.getrandbits(16),
        token=random.randbytes(16).hex(),
    )


def _vector(random: Random, width: int) -> VectorReport:
    return VectorReport(
        digest="0" * 16,
        round=random.getrandbits(32),
        chain=random.getrandbits(16),
        values=tuple(
            random.choice([random.gauss(0, 1), 0.0, -0.0, 5e-324, 1e308, 1.0]) for _ in range(width)
        ),
        token=random.randbytes(16).hex(),
    )


def _valid(random: Random, columns: bool) -> bytes:
    """Return a message that the parser must accept."""
    width = random.randint(1, 5)
    report: Report = _category(random) if random.random() < 0.5 else _vector(random, width)
    if not columns:
        return (encode_report if random.random() < 0.5 else report_to_json)(report)
    rows = [report.model_copy(update={"round": number}) for number in range(random.randint(1, 4))]
    return (encode_batch if random.random() < 0.5 else batch_to_json)(ReportBatch.from_reports(rows))


def _mutated(random: Random, data: bytes, other: bytes) -> bytes:
    """Return the message with one to four cuts, flips, splices or repeats."""
    for _ in range(random.randint(1, 4)):
        a, b = sorted((random.randint(0, len(data)), random.randint(0, len(data))))
        kind = random.randrange(7)
        if kind == 0:
            data = data[:a]
        elif kind == 1:
            data = data[:a] + data[b:]
        elif kind == 2:
            data = data[:b] + data[a:b] + data[b:]
        elif kind == 3:
            data = data[:a] + random.randbytes(random.randint(1, 8)) + data[a:]
        elif kind == 4:
            data = data[:a] + other[random.randint(0, len(other)) :]
        elif kind == 5 and data:
            place = random.randrange(len(data))
            data = data[:place] + bytes([data[place] ^ 1 << random.randrange(8)]) + data[place + 1 :]
        else:
            data = data[:a] + random.choice((*_ODD_VALUES, *_ODD_KEYS)).encode() + data[b:]
    return data


def _odd_json(random: Random, columns: bool) -> bytes:
    """Return JSON of a report in which some fields are replaced, added, doubled or dropped."""
    data = b""
    while data[:1] != b"{":
        data = _valid(random, columns)
    fields = [(key, json.dumps(value)) for key, value in json.loads(data).items()]
    for _ in range(random.randint(1, 3)):
        place = random.randrange(len(fields))
        kind = random.randrange(6)
        if kind == 0 and len(fields) > 1:
            del fields[place]
        elif kind == 1:
            fields.insert(place, (random.choice(_ODD_KEYS), random.choice(_ODD_VALUES)))
        elif kind == 2:
            fields.insert(place, fields[random.randrange(len(fields))])
        else:
            fields[place] = (fields[place][0], random.choice(_ODD_VALUES))
    text = ",".join(f'"{key}":{value}' for key, value in fields)
    return f"{{{text}}}".encode("utf-8", "surrogatepass")


def generate(random: Random, columns: bool) -> tuple[str, bytes]:
    """Return one input and what it is."""
    kind = random.randrange(8)
    if kind == 0:
        first = random.choice([b"", b"\x01", b"\x02", b"\x11", b"\x12", b"{", b"[", b'"'])
        return "random", first + random.randbytes(random.randint(0, 120))
    if kind == 1:
        return "valid", _valid(random, columns)
    if kind in (2, 3, 4):
        other = _valid(random, random.random() < 0.5)
        return "mutated", _mutated(random, _valid(random, columns), other)
    return "odd JSON", _odd_json(random, columns)


def check(data: bytes, columns: bool) -> bool:
    """Return whether the bytes are accepted; AssertionError unless it is soundly, or refused tidily."""
    try:
        found = decode_batch(data) if columns else decode_report(data)
    except InvalidReport as error:
        message = str(error)
        assert 0 < len(message) <= _LONGEST_MESSAGE, f"a message of {len(message)} characters for {data!r}"
        assert message.isprintable(), f"{message!r} for {data!r}"
        assert CANARY not in message, f"{message!r} repeats {data!r}"
        return False
    if isinstance(found, ReportBatch):
        _check_columns(found)
    else:
        assert decode_report(encode_report(found)) == found == decode_report(report_to_json(found))
    return True


def _check_columns(batch: ReportBatch) -> None:
    """Every accepted set of columns can be read row by row and written again in both forms."""
    assert len(list(batch)) == len(batch)
    if batch.values is not None:
        assert math.isfinite(float(np.abs(batch.values).max(initial=0.0)))
    binary = encode_batch(batch)
    assert encode_batch(decode_batch(binary)) == binary
    if len(batch):
        assert encode_batch(decode_batch(batch_to_json(batch))) == binary


def fuzz(count: int, seed: int, progress: Callable[[int], None] | None = None) -> Counter[tuple[str, bool]]:
    """Check ``count`` inputs; return how many of each kind were accepted (True) and refused (False)."""
    random = Random(seed)
    seen: Counter[tuple[str, bool]] = Counter()
    for number in range(count):
        columns = bool(number % 2)
        kind, data = generate(random, columns)
        accepted = check(data, columns)
        assert accepted or kind != "valid", f"refused: {data!r}"
        seen[kind, accepted] += 1
        if progress is not None and number % 50_000 == 0:
            progress(number)
    return seen


def main() -> None:
    """Run as many inputs as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("count", type=int, help="number of inputs, half of them for each parser")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    seen = fuzz(arguments.count, arguments.seed, lambda done: print(f"{done:>9} inputs", flush=True))
    for (kind, accepted), number in sorted(seen.items()):
        print(f"{number:>9} {kind}, {'accepted' if accepted else 'refused'}")


if __name__ == "__main__":
    main()
