"""The topics of a campaign: their names, making and checking them, and the newest values of a compacted one.

Names begin with the campaign's name and the first 8 hex digits of its digest, so that two campaigns, or two
versions of one, never share a topic.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import BrokerUnavailable, InvalidInput
from .kafka_clients import Say, never, open_client, silent, translated
from .kafka_options import KafkaSettings, kafka_module

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..campaign import Campaign

__all__ = ["Topics", "ensure_topics", "partitions_of"]

_LIMIT_MS = 10_000  # for the broker to make the topics, and for one answer


@dataclass(frozen=True)
class Topics:
    """The names of a campaign's topics.

    Parameters
    ----------
    reports
        Reports, keyed by token; as many partitions as the campaign says.
    parameters
        The newest parameters of each partition, keyed by its number as text; one partition, compacted.
    estimates
        The newest estimate; one partition, compacted.
    rejected
        Dead letters; one partition.
    """

    reports: str
    parameters: str
    estimates: str
    rejected: str

    @classmethod
    def of(cls, campaign: Campaign) -> Topics:
        """Return the names for a campaign."""
        base = f"{campaign.name}-{campaign.digest[:8]}"
        return cls(f"{base}.reports", f"{base}.parameters", f"{base}.estimates", f"{base}.rejected")


def ensure_topics(
    settings: KafkaSettings,
    campaign: Campaign,
    replication: int | None = None,
    say: Say = silent,
    stopping: Callable[[], bool] = never,
) -> Topics:
    """Make the topics of a campaign that are not there yet.

    Parameters
    ----------
    settings
        Where Kafka is; it is waited for.
    campaign
        Whose topics.
    replication
        Copies of each topic; the broker's default when None.
    say, stopping
        As in :func:`~ldp_stream.connectors.kafka_clients.wait_for_broker`.

    Returns
    -------
    Topics
        Their names.

    Raises
    ------
    InvalidInput
        If a topic is there with another number of partitions, or the broker refuses to make one.
    BrokerUnavailable
        If Kafka does not answer in time.
    """
    topics = Topics.of(campaign)
    compacted = {"cleanup.policy": "compact"}
    wanted: dict[str, tuple[int, dict[str, str]]] = {
        topics.reports: (campaign.partitions, {}),
        topics.parameters: (1, compacted),
        topics.estimates: (1, compacted),
        topics.rejected: (1, {}),
    }
    errors = kafka_module("kafka.errors")
    with _admin(settings, say, stopping) as admin:
        there = _counts(admin, tuple(wanted))
        missing = {
            name: {
                "num_partitions": count,
                "replication_factor": -1 if replication is None else replication,
                "configs": configs,
            }
            for name, (count, configs) in wanted.items()
            if name not in there
        }
        if missing:
            answer = admin.create_topics(missing, timeout_ms=_LIMIT_MS, raise_errors=False)
            for made in answer["topics"]:
                error = errors.for_code(made["error_code"])
                if error not in (errors.NoError, errors.TopicAlreadyExistsError):
                    why = made.get("error_message") or error.__name__
                    raise InvalidInput(f"topic {made['name']!r} cannot be made: {why}")
            admin.wait_for_topics(list(missing), timeout_ms=_LIMIT_MS)
            there = _counts(admin, tuple(wanted))
    for name, (count, _) in wanted.items():
        if there.get(name) != count:
            raise InvalidInput(
                f"topic {name!r} has {there.get(name)} partitions: must have {count}, as the campaign says; "
                f"delete the topic or use a campaign with another name"
            )
    return topics


def partitions_of(
    settings: KafkaSettings, topic: str, say: Say = silent, stopping: Callable[[], bool] = never
) -> int:
    """Return the number of partitions of a topic.

    Raises
    ------
    InvalidInput
        If there is no such topic.
    BrokerUnavailable
        If Kafka does not answer in time.
    """
    with _admin(settings, say, stopping) as admin:
        count = _counts(admin, (topic,)).get(topic)
    if count is None:
        raise InvalidInput(f"topic {topic!r} does not exist: `ldp-stream serve` makes a campaign's topics")
    return count


@contextmanager
def _admin(settings: KafkaSettings, say: Say, stopping: Callable[[], bool]) -> Iterator[Any]:
    with closing(open_client(settings, "KafkaAdminClient", say, stopping)) as admin, translated(settings):
        yield admin


def _counts(admin: Any, names: tuple[str, ...]) -> dict[str, int]:
    """Return the number of partitions of each topic that is there."""
    errors = kafka_module("kafka.errors")
    counts = {}
    for topic in admin.describe_topics(list(names)):
        error = errors.for_code(topic["error_code"])
        if error is errors.NoError:
            counts[topic["name"]] = len(topic["partitions"])
        elif error is errors.InvalidTopicError:
            raise InvalidInput(f"topic {topic['name']!r}: must be 1 to 249 of A-Z, a-z, 0-9, ., _ and -")
        elif error is not errors.UnknownTopicOrPartitionError:
            raise BrokerUnavailable(f"topic {topic['name']!r}: {error.__name__}")
    return counts
