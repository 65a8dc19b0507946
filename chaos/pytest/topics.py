"""Topics and consumer groups of a test's cluster, through an unmodified admin client."""

import time
from collections.abc import Mapping, Sequence
from typing import Final

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec  # type: ignore[attr-defined]

from kvorum.chaos.client_access import ClientAccess
from kvorum.chaos.faults.target_cluster import POLL_SECONDS, LabError

LAG_SECONDS: Final = 30.0
REQUEST_SECONDS: Final = 10.0
LATEST, EARLIEST = OffsetSpec.latest(), OffsetSpec.earliest()  # type: ignore[no-untyped-call]
LISTED_MAX: Final = 5
"""Partitions that a message names; the rest are counted."""


def create(access: ClientAccess, topic: str, partitions: int, replicas: int, configs: Mapping[str, str]) -> None:
    """Create a topic. Raises KafkaException."""
    admin = admin_of(access)
    wanted = NewTopic(topic, num_partitions=partitions, replication_factor=replicas, config=dict(configs))
    admin.create_topics([wanted], operation_timeout=REQUEST_SECONDS)[topic].result(2 * REQUEST_SECONDS)


def wait_for_lag(access: ClientAccess, group: str, topic: str, at_most: int, timeout_seconds: float) -> int:
    """Wait until a group's lag on a topic is at most this; return it. Raises LabError."""
    admin, deadline = admin_of(access), time.monotonic() + timeout_seconds
    found: dict[int, int] = {}
    reason = ""
    while True:
        try:
            found, reason = lags(admin, group, topic), ""
            if found and sum(found.values()) <= at_most:
                return sum(found.values())
        except (KafkaException, TimeoutError) as error:  # no leader, a coordinator that moves: retried
            reason = f"; the last query failed: {str(error) or 'no response in time'}"
        if time.monotonic() >= deadline:
            parts = ", ".join(f"{topic}-{partition}: {lag}" for partition, lag in found.items() if lag)
            raise LabError(
                f"the lag of group {group} on {topic} is not at most {at_most} within {timeout_seconds:g} s:"
                f" it is {sum(found.values())} ({parts or 'no partition is known'}){reason}"
            )
        time.sleep(POLL_SECONDS)


def lags(admin: AdminClient, group: str, topic: str) -> dict[int, int]:
    """Return {partition: end offset less the committed one, or less the first where none is}. Raises KafkaException."""
    known = admin.list_topics(timeout=REQUEST_SECONDS).topics  # of all: a query for one may create it
    count = len(known[topic].partitions) if topic in known else 0
    if not count:
        return {}
    partitions = [TopicPartition(topic, number) for number in range(count)]
    futures = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group, partitions)], require_stable=True)
    committed = {each.partition: each.offset for each in futures[group].result(REQUEST_SECONDS).topic_partitions}
    ends, starts = offsets(admin, partitions, LATEST), offsets(admin, partitions, EARLIEST)
    return {number: max(0, ends[number] - max(committed.get(number, -1), starts[number])) for number in range(count)}


def offsets(admin: AdminClient, partitions: Sequence[TopicPartition], which: OffsetSpec) -> dict[int, int]:
    """Return {partition: its first or last offset}. Raises KafkaException."""
    answers = admin.list_offsets({each: which for each in partitions})
    return {each.partition: answer.result(REQUEST_SECONDS).offset for each, answer in answers.items()}


def join_names(names: Sequence[str]) -> str:
    """Return names for a message, at most LISTED_MAX."""
    more = len(names) - LISTED_MAX
    return ", ".join(names[:LISTED_MAX]) + (f" and {more} more" if more > 0 else "")


def admin_of(access: ClientAccess) -> AdminClient:
    """Return a client that does not log which dead brokers it tried."""
    return AdminClient({**access.librdkafka(), "log_level": 0})
