"""River's loop over Kafka: a private median from a topic of reports, and from a topic of raw trips.

    make broker                                  # in another terminal: Kafka on 127.0.0.1:9092
    python examples/kafka_river_loop.py
    python examples/kafka_river_loop.py --kafka broker:9092 --trips 100000

Two ways to learn the median of log minutes of taxi trips, ten lines each:

- ``learn_report``: devices have made the reports, so the topic holds nothing that could give a trip away. The
  devices are simulated here; in life ``ldp-stream serve`` publishes the parameters that they answer.
- ``learn_one``: the topic holds raw trips, and the model privatizes each on the spot. Whoever can read the
  topic can read the trips; what the model keeps is private.

The topics are new ones with made-up trips; they stay in the broker.
"""

from __future__ import annotations

import argparse
import json
import secrets
import sys
from collections.abc import Iterator
from itertools import islice

from kafka.admin import KafkaAdminClient
from rich.console import Console
from rich.progress import track
from rich.table import Table

from ldp_stream import Aggregator, Campaign, PrivateQuantileRegressor, Reporter
from ldp_stream.codec import decode_report, encode_report
from ldp_stream.connectors.kafka import KafkaSink, KafkaSource, KeyedValue
from ldp_stream.connectors.kafka_options import KafkaSettings
from ldp_stream.connectors.kafka_topics import ensure_topics
from ldp_stream.datasets.taxi import TaxiTrips
from ldp_stream.errors import LdpStreamError, UnusableRow


def learn_from_reports(kafka: KafkaSettings, topic: str, model: PrivateQuantileRegressor) -> None:
    """Fold a topic of reports; what is not a report is told."""
    with KafkaSource(kafka, topic, decode=decode_report, until_end=True) as source:
        for batch in source.batches(size=500):
            for reject in batch.rejected:
                print(reject, file=sys.stderr)
            for report in batch.items:
                model.learn_report(report)


def learn_from_trips(kafka: KafkaSettings, topic: str, model: PrivateQuantileRegressor) -> None:
    """Privatize and fold a topic of raw trips; what is not a trip is told."""
    with KafkaSource(kafka, topic, decode=read_trip, until_end=True) as source:
        for batch in source.batches(size=500):
            for reject in batch.rejected:
                print(reject, file=sys.stderr)
            for x, y in batch.items:
                model.learn_one(x, y)


def read_trip(message: bytes) -> tuple[dict[str, float], float]:
    """Return the features and the target of one JSON object."""
    try:
        trip = json.loads(message)
        return trip, trip.pop("log_minutes")
    except (ValueError, AttributeError, KeyError):
        raise UnusableRow("not a trip") from None


def send_reports(kafka: KafkaSettings, campaign: Campaign, trips: int) -> str:
    """Fill the campaign's topic of reports as so many devices would, and return its name."""
    topic = ensure_topics(kafka, campaign).reports
    server, devices = Aggregator(campaign), Reporter.simulated(campaign, seed=7)
    with KafkaSink(kafka, topic) as sink:
        for x, y in city_trips(trips, "devices report"):
            report = devices.report(x, y, server.parameters())
            sink.write([KeyedValue(bytes.fromhex(report.token), encode_report(report))])
            server.ingest(report)
        sink.flush()
    return topic


def send_trips(kafka: KafkaSettings, campaign: Campaign, trips: int) -> str:
    """Fill a new topic with raw trips, and return its name."""
    topic = f"{campaign.name}.trips"
    admin = KafkaAdminClient(bootstrap_servers=kafka.servers)
    admin.create_topics({topic: {"num_partitions": 1, "replication_factor": -1}})
    admin.close()
    with KafkaSink(kafka, topic) as sink:
        for x, y in city_trips(trips, "trips are sent"):
            sink.write([KeyedValue(None, json.dumps({**x, "log_minutes": y}).encode())])
        sink.flush()
    return topic


def city_trips(n: int, text: str) -> Iterator[tuple[dict[str, float], float]]:
    """Yield n made-up trips, none to the airport, with a progress bar."""
    trips = (trip for trip in TaxiTrips(2 * n, seed=1) if not trip[0]["airport"])
    yield from track(islice(trips, n), text, total=n, console=Console(stderr=True))


def main() -> None:
    """Read the command line, fill both topics, learn from them and print what was learnt."""
    parser = argparse.ArgumentParser(description="River's loop over Kafka.")
    parser.add_argument("--kafka", default="127.0.0.1:9092", help="the broker (%(default)s)")
    parser.add_argument("--trips", type=int, default=30_000, help="trips in each topic (%(default)s)")
    parser.add_argument("--epsilon", type=float, default=4.0, help="privacy of one report (%(default)s)")
    parser.add_argument("--wait-seconds", type=float, default=10.0, help="for the broker (%(default)s)")
    given = parser.parse_args()
    try:
        kafka = KafkaSettings(given.kafka, wait_seconds=given.wait_seconds)
        campaign = Campaign.model_validate({
            "kind": "quantile", "name": f"river-loop-{secrets.token_hex(4)}", "tau": 0.5,
            "epsilon": given.epsilon, "target": {"lower": 0, "upper": 4.8},
            "features": {
                "log_miles": {"lower": -2.4, "upper": 3.5},
                "rush": {"lower": 0, "upper": 1, "centre": 0},
                "night": {"lower": 0, "upper": 1, "centre": 0},
            },
        })  # fmt: skip
        by_report = PrivateQuantileRegressor.from_campaign(campaign)
        learn_from_reports(kafka, send_reports(kafka, campaign, given.trips), by_report)
        by_trip = PrivateQuantileRegressor.from_campaign(campaign, seed=7)
        learn_from_trips(kafka, send_trips(kafka, campaign, given.trips), by_trip)
    except LdpStreamError as error:
        parser.error(str(error))
    print(f"{by_report.n_reports:,} reports and {by_trip.n_reports:,} trips, epsilon {given.epsilon:g}")
    table = Table("coefficient", "reports", "95% interval", "trips", "95% interval", "truth")
    truth = TaxiTrips(1).true_coefficients(0.5)
    for name in by_report.coefficients:
        cells = []
        for model in (by_report, by_trip):
            interval = model.confidence_interval(name, level=0.95)
            cells += [f"{interval.value:.3f}", f"{interval.lower:.3f} to {interval.upper:.3f}"]
        table.add_row(name, *cells, f"{truth[name]:.3f}")
    Console().print(table)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
