"""The main path's benchmarks: single reports, batches, the device, and memory."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from river import linear_model, optim

from ldp_stream import Aggregator, Campaign, PrivateQuantileRegressor, ReportBatch, Reporter
from ldp_stream.channels.base import CategoryPayload
from ldp_stream.channels.cqx import CQX

from .harness import Row, fastest

__all__ = ["rows"]

D = 5
MICRO = 1e6


def campaign() -> Campaign:
    """The campaign that is timed: d = 5, CQX(2, 1), epsilon 2, self-normalized inference."""
    features = {f"x{j}": {"lower": -1, "upper": 1} for j in range(D)}
    target = {"lower": -1, "upper": 1}
    return Campaign.model_validate(
        {
            "kind": "quantile",
            "name": "bench",
            "tau": 0.5,
            "epsilon": 2.0,
            "target": target,
            "features": features,
        }
    )


def cqx_of(contract: Campaign) -> CQX:
    """Return the channel of a campaign that has the default kind."""
    channel = contract.levels[0].mechanism
    assert isinstance(channel, CQX)
    return channel


def random_batch(contract: Campaign, n: int, seed: int) -> ReportBatch:
    """Return n reports with uniform blocks and categories."""
    draw = np.random.default_rng(seed)
    channel = cqx_of(contract)
    return ReportBatch(
        contract.digest_prefix,
        np.zeros(n, np.uint32),
        np.zeros(n, np.uint16),
        draw.integers(0, 256, (n, 16), np.uint8),
        draw.integers(0, channel.n_blocks, n).astype(np.uint32),
        draw.integers(0, channel.categories(0), n).astype(np.uint16),
    )


def plain_loop(contract: Campaign, batch: ReportBatch, table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Fold the batch as the formulas say, a report at a time: step, projection, average, V's sums."""
    p, steps, radius = table.shape[2], contract.levels[0].steps, contract.radius
    b, mean = np.zeros(p), np.zeros(p)
    A, B, C = np.zeros((p, p)), np.zeros(p), 0.0
    assert batch.block is not None
    assert batch.category is not None
    for i, (block, category) in enumerate(zip(batch.block.tolist(), batch.category.tolist(), strict=True), 1):
        b = np.clip(b - steps.at(i) * table[block, category], -radius, radius)
        d = (b - mean) / i
        mean = mean + d
        A = A - np.outer(d, B) - np.outer(B, d) + C * np.outer(d, d)
        B = B - C * d
        C += float(i) ** 2
    return A


def single_reports(count: int, rounds: int) -> Row:
    """``learn_report`` against river's own quantile regression on raw values."""
    draw = random.Random(1)
    names = [f"x{j}" for j in range(D)]
    data = [({name: draw.uniform(-1, 1) for name in names}, draw.uniform(-1, 1)) for _ in range(count)]
    model = PrivateQuantileRegressor(dict.fromkeys(names, (-1, 1)), (-1, 1), epsilon=2.0, seed=1)
    device, parameters = Reporter.simulated(model.campaign, seed=1), model.parameters()
    reports = [device.report(x, y, parameters) for x, y in data]
    river = linear_model.LinearRegression(loss=optim.losses.Quantile(0.5))

    def ours() -> None:
        fresh = model.clone()  # the same reports again and again would drive one model to the edge of its box
        for report in reports:
            fresh.learn_report(report)
        fresh.parameters()

    def theirs() -> None:
        for x, y in data:
            river.learn_one(x, y)

    mine, other = (seconds / count * MICRO for seconds in fastest([ours, theirs], rounds))
    return Row.of(
        "learn_report, one by one, d = 5", "us", mine, "river LinearRegression.learn_one", other, ratio=0.5
    )


def batches(count: int, rounds: int) -> list[Row]:
    """``ingest_many`` of columns and of report objects against the plain loop."""
    contract = campaign()
    batch = random_batch(contract, count, seed=2)
    few = max(count // 100, 100)
    small = batch[:few]
    objects = list(batch[: max(count // 10, 100)])
    mechanism = cqx_of(contract)
    table = np.zeros((mechanism.n_blocks, 2, mechanism.p))
    for block in range(table.shape[0]):
        for category in range(2):
            coordinates, values = mechanism.decode(CategoryPayload(block, category))
            table[block, category, list(coordinates)] = values
    columns, things, loop = fastest(
        [
            lambda: Aggregator(contract).ingest_many(batch),
            lambda: Aggregator(contract).ingest_many(objects),
            lambda: plain_loop(contract, small, table),
        ],
        rounds,
    )
    plain = loop / few * MICRO
    name = "numpy, event by event"
    return [
        Row.of(
            f"ingest_many of {count:,} in columns, p = 6",
            "us",
            columns / count * MICRO,
            name,
            plain,
            figure=0.1,
        ),
        Row.of(
            "ingest_many of report objects, p = 6",
            "us",
            things / len(objects) * MICRO,
            name,
            plain,
            ratio=0.1,
        ),
    ]


def trees(count: int, rounds: int) -> list[Row]:
    """``ingest_many`` of columns into many chains against one."""
    contract = campaign()
    kinds = {
        "dc, 20 chains": {"kind": "dc", "chains": 20},
        "higrad, 4 leaves": {"kind": "higrad", "horizon": count},
    }
    contracts = [contract, *(contract.model_copy(update={"inference": kind}) for kind in kinds.values())]
    draw = np.random.default_rng(7)
    given = []
    for each in contracts:
        batch = random_batch(each, count, seed=2)
        batch.chain[:] = draw.integers(0, each.chains, count)
        given.append(batch)

    def fold(place: int) -> Callable[[], None]:
        return lambda: Aggregator(contracts[place]).ingest_many(given[place])

    one, *others = fastest([fold(place) for place in range(len(contracts))], rounds)
    return [
        Row.of(
            f"ingest_many in columns, {name}",
            "us",
            seconds / count * MICRO,
            "sn, one chain",
            one / count * MICRO,
            ratio=1.5,
        )
        for name, seconds in zip(kinds, others, strict=True)
    ]


def device(count: int, rounds: int) -> Row:
    """A device's report with the system's entropy and no ledger, against one draw of that entropy."""
    contract = campaign()
    reporter, parameters = Reporter.simulated(contract), Aggregator(contract).parameters()
    x = {f"x{j}": 0.1 * j for j in range(D)}

    def report() -> None:
        for _ in range(count):
            reporter.report(x, 0.3, parameters)

    def draw() -> None:
        for _ in range(count):
            os.urandom(8)

    mine, other = (seconds / count * MICRO for seconds in fastest([report, draw], rounds))
    return Row.of("a device's report, no ledger, d = 5", "us", mine, "os.urandom(8)", other, figure=20.0)


_MEMORY = """
import sys
from ldp_stream import Aggregator
from tests.benchmarks.harness import peak_kib
from tests.benchmarks.quantile import campaign, random_batch
contract, n = campaign(), int(sys.argv[1])
server = Aggregator(contract)
step = 50_000
for start in range(0, n, step):
    server.ingest_many(random_batch(contract, min(step, n - start), seed=start))
server.estimate()
print(len(server.snapshot()), peak_kib())
"""


def memory(few: int, many: int) -> list[Row]:
    """Bytes of state and peak memory after few and many reports, each in a process of its own."""
    found = {}
    for n in (few, many):
        done = subprocess.run(
            [sys.executable, "-c", _MEMORY, str(n)], capture_output=True, text=True, check=True
        )
        found[n] = [int(word) for word in done.stdout.split()]
    rows = []
    for place, (name, unit, per) in enumerate((("state", "KiB", 1024.0), ("peak memory", "MiB", 1024.0))):
        high, low = found[many][place] / per, found[few][place] / per
        rows.append(Row.of(f"{name} after {many:,} reports", unit, high, f"after {few:,}", low, ratio=1.1))
    return rows


def rows(scale: float = 1.0) -> list[Row]:
    """Return the rows; ``scale`` below 1 makes every size smaller, to try the program."""

    def size(n: int) -> int:
        return max(int(n * scale), 100)

    repeats = 9 if scale == 1.0 else 1
    return [
        single_reports(size(20_000), repeats),
        *batches(size(1_000_000), repeats),
        *trees(size(1_000_000), repeats),
        device(size(5_000), repeats),
        *memory(size(100_000), size(10_000_000)),
    ]
