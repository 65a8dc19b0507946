"""Offsets of partitions: first, last, or by time; from their leaders.

Source: Kafka's Admin.listOffsets (ListOffsetsHandler), OffsetSpec.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from kvorum.client.values.offset import OffsetSpec
from kvorum.client.wire.cluster_client import ClusterClient, Unreachable, code_of
from kvorum.client.wire.coordinators import RETRIES, RETRY_PAUSE_SECONDS
from kvorum.network.addresses import Address
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kvorum.protocol.messages.metadata import MetadataResponseTopic
from kvorum.protocol.topic_partition import TopicPartition, by_topic

CONSUMER_REPLICA: Final = -1
UNKNOWN_OFFSET: Final = -1
"""A leader's response if no record is as new as the requested time."""
RETRIED: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)

UNPUBLISHED: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER})
"""Errors of brokers that have not published new partitions yet."""
PUBLICATION_CHECKS: Final = 50
PUBLICATION_PAUSE_SECONDS: Final = 0.1
"""Pause between checks of new partitions, for some 5 s."""


class LeaderOffset(NamedTuple):
    """A leader's response: UNKNOWN_OFFSET and -1 if no record matches, or an error."""

    offset: int
    timestamp: int = -1
    leader_epoch: int = -1
    error: ErrorCode = ErrorCode.NONE


class Leaders(NamedTuple):
    """Leaders of the partitions of some topics, with addresses; -1: no leader. And errors per topic."""

    of: dict[TopicPartition, int]
    addresses: dict[int, Address]
    errors: dict[str, ErrorCode]


async def leaders_of(cluster: ClusterClient, topics: list[str]) -> Leaders:
    """Return the leaders of all partitions of these topics. Raises Unreachable."""
    metadata = await cluster.metadata(topics)
    return Leaders(
        {
            TopicPartition(topic.name or "", row.partition_index): row.leader_id
            for topic in metadata.topics
            for row in topic.partitions
        },
        {broker.node_id: (broker.host, broker.port) for broker in metadata.brokers},
        {topic.name or "": code_of(topic.error_code) for topic in metadata.topics if topic.error_code},
    )


async def list_offsets(
    cluster: ClusterClient, times: Mapping[TopicPartition, int], *, isolation_level: int = 0, attempts: int = RETRIES
) -> dict[TopicPartition, LeaderOffset]:
    """Return the offset of each partition for its time (ms, or an OffsetSpec), or its permanent error.

    Raises Unreachable.
    """
    found: dict[TopicPartition, LeaderOffset] = {}
    left = dict(times)
    for attempt in range(attempts):
        leaders = await leaders_of(cluster, sorted({place.topic for place in left}))
        groups: dict[int, list[TopicPartition]] = {}
        for place in left:
            if place not in leaders.of:
                refusal = leaders.errors.get(place.topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                found[place] = LeaderOffset(UNKNOWN_OFFSET, error=refusal)
                continue
            groups.setdefault(leaders.of[place], []).append(place)
        answers = await asyncio.gather(
            *(
                _of_leader(cluster, leaders.addresses.get(leader), {each: times[each] for each in led}, isolation_level)
                for leader, led in groups.items()
            )
        )
        for answer in answers:
            found |= answer
        left = {place: times[place] for place in times if found[place].error in RETRIED}
        if not left or attempt == attempts - 1:
            break
        await asyncio.sleep(RETRY_PAUSE_SECONDS)
    return {place: found[place] for place in times}


async def _of_leader(
    cluster: ClusterClient, address: Address | None, times: Mapping[TopicPartition, int], isolation_level: int
) -> dict[TopicPartition, LeaderOffset]:
    """Query one broker; if it is unknown or does not answer, its partitions have no leader for now."""
    nobody = {place: LeaderOffset(UNKNOWN_OFFSET, error=ErrorCode.LEADER_NOT_AVAILABLE) for place in times}
    if address is None:
        return nobody
    topics = [
        ListOffsetsTopic(
            name=name,
            partitions=[
                ListOffsetsPartition(partition_index=index, timestamp=times[TopicPartition(name, index)])
                for index in indexes
            ],
        )
        for name, indexes in by_topic(times).items()
    ]
    request = ListOffsetsRequest(
        replica_id=CONSUMER_REPLICA, isolation_level=isolation_level, topics=topics, timeout=cluster.wait_ms
    )
    try:
        answer = await cluster.ask(request, ListOffsetsResponse, address)
    except Unreachable:
        return nobody
    return {
        TopicPartition(topic.name, row.partition_index): LeaderOffset(
            row.offset, row.timestamp, row.leader_epoch, leaders_error(row.error_code)
        )
        for topic in answer.topics
        for row in topic.partitions
    }


def leaders_error(code: int) -> ErrorCode:
    """Return the error of a partition at a broker that leads it, of which that broker may not be aware yet."""
    found = code_of(code)
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if found is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else found


async def wait_for_leaders(cluster: ClusterClient, partition_counts: Mapping[str, int]) -> None:
    """Wait until the leaders of new partitions serve them, for some 5 s; {topic: number of partitions}.

    Apache Kafka responds to CreateTopics and CreatePartitions before its brokers publish the change, Kvorum after.
    """
    left = [TopicPartition(name, index) for name, count in partition_counts.items() for index in range(count)]
    for _ in range(PUBLICATION_CHECKS):
        try:
            found = await list_offsets(cluster, dict.fromkeys(left, int(OffsetSpec.LATEST)), attempts=1)
        except (KafkaError, Unreachable):
            return  # they are created all the same
        left = [place for place, each in found.items() if each.error in UNPUBLISHED]
        if not left:
            return
        await asyncio.sleep(PUBLICATION_PAUSE_SECONDS)


async def fetch_offsets(
    cluster: ClusterClient, places: Sequence[TopicPartition], time: int, *, attempts: int = RETRIES
) -> dict[TopicPartition, int]:
    """Return the offset of each partition for one time. Raises KafkaError where a leader refuses."""
    found = await list_offsets(cluster, dict.fromkeys(places, time), attempts=attempts)
    for place, each in found.items():
        if each.error is not ErrorCode.NONE:
            raise KafkaError(each.error, f"offsets of {place} are not available")
    return {place: each.offset for place, each in found.items()}


async def topic_offsets(
    cluster: ClusterClient, topic: MetadataResponseTopic, time: int, isolation_level: int = 0
) -> dict[int, int | None]:
    """Return {partition: offset} of a topic for one time (ms, or an OffsetSpec); None if its leader did not answer.

    UNKNOWN_OFFSET: no record is that late. Read committed, the latest is the last stable offset. One request per
    leader. Raises Unreachable.
    """
    places = [TopicPartition(topic.name or "", row.partition_index) for row in topic.partitions]
    times = dict.fromkeys(places, time)
    found = await list_offsets(cluster, times, isolation_level=isolation_level, attempts=1)
    return {place.partition: each.offset if each.error is ErrorCode.NONE else None for place, each in found.items()}
