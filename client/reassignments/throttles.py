"""Throttles of reassignments: the replicas that they apply to, and those that are set (KIP-73).

A throttle is two things: rates of brokers, and replicas of topics that the rates apply to. Either may be left over from
a completed move, so all brokers and topics are searched. Source: Kafka's ReassignPartitionsCommand (calculateMoveMap).
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from kvorum.client.partitions.log_dir_moves import LOG_DIRS_RATE
from kvorum.client.values.reassignment import BrokerThrottle, Reassignment, Throttles, TopicThrottle
from kvorum.client.wire.cluster_client import ClusterClient, ResourceType, Unreachable, refuse
from kvorum.network.addresses import Address
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from kvorum.protocol.topic_partition import TopicPartition

RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LEADERS: Final = "leader.replication.throttled.replicas"
FOLLOWERS: Final = "follower.replication.throttled.replicas"
TOPICS_AT_ONCE: Final = 500
"""Only two configs of each are requested."""
DYNAMIC_TOPIC: Final = 1
DYNAMIC_BROKER: Final = 2
"""Sources of values that are set on a topic, on a broker."""


class Copy(NamedTuple):
    """Source and target brokers of a partition's copy."""

    sources: frozenset[int]
    destinations: frozenset[int]


def find_copies(
    reassignments: Mapping[TopicPartition, Reassignment],
    current: Mapping[TopicPartition, Sequence[int]],
    plan: Mapping[TopicPartition, Sequence[int]],
) -> dict[TopicPartition, Copy]:
    """Return the copies of current reassignments and of a plan to start."""
    copies = {
        partition: Copy(frozenset(each.replicas) - {*each.adding}, frozenset(each.adding))
        for partition, each in reassignments.items()
    }
    for partition, replicas in plan.items():
        sources = copies[partition].sources if partition in copies else frozenset(current[partition])
        copies[partition] = Copy(sources, frozenset(replicas) - sources)
    return copies


def throttle_configs(copies: Mapping[TopicPartition, Copy]) -> dict[str, dict[str, str]]:
    """Return {topic: {config: PARTITION:BROKER,...}}: sources are throttled as leaders, destinations as followers."""
    pairs: dict[str, tuple[set[tuple[int, int]], set[tuple[int, int]]]] = {}
    for partition, copy in copies.items():
        leaders, followers = pairs.setdefault(partition.topic, (set(), set()))
        leaders |= {(partition.partition, broker) for broker in copy.sources}
        followers |= {(partition.partition, broker) for broker in copy.destinations}
    return {
        topic: {
            key: ",".join(f"{partition}:{broker}" for partition, broker in sorted(side))
            for key, side in ((LEADERS, leaders), (FOLLOWERS, followers))
        }
        for topic, (leaders, followers) in pairs.items()
    }


async def read_throttles(client: ClusterClient) -> Throttles:
    """Return all throttles that are set. Raises KafkaError, Unreachable."""
    names = sorted(topic.name for topic in (await client.metadata()).topics if topic.name)
    topics: list[TopicThrottle] = []
    for start in range(0, len(names), TOPICS_AT_ONCE):
        topics += await read_topic_throttles(client, names[start : start + TOPICS_AT_ONCE])
    addresses = {each.broker_id: (each.host, each.port) for each in (await client.describe_cluster()).brokers}
    responses = await asyncio.gather(*(read_broker_throttle(client, *each) for each in sorted(addresses.items())))
    rows = [each for each in responses if each is not None]
    return Throttles(
        brokers=tuple(each for each in rows if each != no_throttle(each.broker)),
        topics=tuple(topics),
        unreachable=tuple(sorted(addresses.keys() - {each.broker for each in rows})),
    )


def no_throttle(broker: int) -> BrokerThrottle:
    """Return the throttle of a broker without one."""
    return BrokerThrottle(broker=broker, leader_rate=None, follower_rate=None, log_dirs_rate=None)


async def read_topic_throttles(client: ClusterClient, names: Sequence[str]) -> list[TopicThrottle]:
    """Return the throttled ones of some topics; topics that were deleted meanwhile have no throttle."""
    resources = [
        DescribeConfigsResource(
            resource_type=ResourceType.TOPIC, resource_name=name, configuration_keys=[LEADERS, FOLLOWERS]
        )
        for name in names
    ]
    answer = await client.ask(DescribeConfigsRequest(resources=resources), DescribeConfigsResponse)
    found = []
    for row in answer.results:
        if row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            continue
        refuse(row.error_code, row.error_message or f"topic {row.resource_name!r}")
        own = values_of(row.configs, DYNAMIC_TOPIC)
        leaders, followers = own.get(LEADERS, ""), own.get(FOLLOWERS, "")
        if leaders or followers:
            found.append(TopicThrottle(topic=row.resource_name, leaders=leaders, followers=followers))
    return found


async def read_broker_throttle(client: ClusterClient, broker: int, address: Address) -> BrokerThrottle | None:
    """Return a broker's rates, from that broker; None: it does not respond. Raises KafkaError."""
    keys = [*RATES, LOG_DIRS_RATE]
    resource = DescribeConfigsResource(
        resource_type=ResourceType.BROKER, resource_name=str(broker), configuration_keys=keys
    )
    try:
        request = DescribeConfigsRequest(resources=[resource])
        answer = await client.ask(request, DescribeConfigsResponse, address, timeout_ms=client.part_ms)
    except Unreachable:
        return None
    row = answer.results[0]
    refuse(row.error_code, row.error_message or f"broker {broker}")
    own = values_of(row.configs, DYNAMIC_BROKER)
    leader, follower, log_dirs = (int(own[key]) if key in own else None for key in keys)
    return BrokerThrottle(broker=broker, leader_rate=leader, follower_rate=follower, log_dirs_rate=log_dirs)


def values_of(configs: Sequence[DescribeConfigsResourceResult], source: int) -> dict[str, str]:
    """Return the values that come from one source."""
    return {each.name: each.value for each in configs if each.config_source == source and each.value is not None}
