"""Throttles of reassignments over HTTP: show them, set them for current reassignments, remove them (KIP-73).

A throttle is two things: rates of brokers, and replicas of topics that the rates apply to. Either may be left over from
a completed move, so all brokers and topics are searched.
"""

import asyncio
from collections.abc import Sequence

from pydantic import BaseModel, Field, model_validator

from kvorum.admin.http.operations import Call, NoBody, Operation
from kvorum.admin.v1.models import Strict
from kvorum.admin.v1.partitions.log_dir_routes import moving
from kvorum.admin.v1.reassignments.reassignment_models import Rate
from kvorum.client.partitions.log_dir_moves import LOG_DIRS_RATE
from kvorum.client.reassignments.reassignments import FOLLOWERS, LEADERS, RATES, Reassignments, moves_of
from kvorum.client.wire.cluster_client import ClusterClient, ResourceType, Unreachable, refuse
from kvorum.network.addresses import Address
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from kvorum.protocol.topic_partition import TopicPartition

TOPICS_AT_ONCE = 500
"""Only two configs of each are requested."""
DYNAMIC_BROKER, DYNAMIC_TOPIC = 2, 1
"""Sources of values that are set on a broker, on a topic."""


class BrokerThrottle(BaseModel):
    """Maximum rates of a broker in bytes per second; null: not throttled."""

    broker: int
    leader_rate: int | None = Field(description="Rate at which followers fetch from its throttled replicas")
    follower_rate: int | None = Field(description="Rate at which its throttled replicas fetch")
    log_dirs_rate: int | None = Field(description="Rate of moves between its log directories")


class TopicThrottle(BaseModel):
    """Throttled replicas of a topic, as PARTITION:BROKER,... or *; empty: none."""

    topic: str
    leaders: str
    followers: str


class Throttle(BaseModel):
    """All replication throttles."""

    brokers: list[BrokerThrottle]
    topics: list[TopicThrottle]
    unreachable: list[int] = Field(description="Brokers that did not respond")


class NewThrottle(Strict):
    """Maximum rates of current reassignments, per broker."""

    bytes_per_second: Rate | None = Field(None, description="Maximum rate between brokers; null: unchanged")
    log_dirs_bytes_per_second: Rate | None = Field(None, description="Maximum rate between log directories of a broker")

    @model_validator(mode="after")
    def something(self) -> "NewThrottle":
        """Require at least one rate."""
        if self.bytes_per_second is None and self.log_dirs_bytes_per_second is None:
            raise ValueError("give bytes_per_second, log_dirs_bytes_per_second, or both")
        return self


async def get_throttle(call: Call[NoBody]) -> Throttle:
    """Return the throttles of reassignments: rates of brokers, and their replicas."""
    return await throttles(call.cluster)


async def set_throttle(call: Call[NewThrottle]) -> Throttle:
    """Throttle current reassignments, or change the throttle. A verify removes it once all is completed."""
    body, found = call.body, Reassignments(call.cluster)
    if body.bytes_per_second is not None:
        under_way = await found.under_way()
        if not under_way:
            raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "no reassignment in progress")
        await found.throttle(moves_of(under_way, {}, {}), body.bytes_per_second)
    if body.log_dirs_bytes_per_second is not None:
        brokers = {each.broker for each in await moving(call.cluster)}
        if not brokers:
            raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "no move between log directories in progress")
        await found.moves.throttle(brokers, body.log_dirs_bytes_per_second)
    return await throttles(call.cluster)


async def delete_throttle(call: Call[NoBody]) -> Throttle:
    """Remove all throttles of reassignments, even during one. The response has the former ones."""
    before = await throttles(call.cluster)
    await Reassignments(call.cluster).unthrottle({TopicPartition(each.topic, 0): [] for each in before.topics})
    return before


async def throttles(cluster: ClusterClient) -> Throttle:
    """Return all that are set. Raises KafkaError, Unreachable."""
    metadata = await cluster.metadata()
    names = sorted(topic.name for topic in metadata.topics if topic.name)
    topics: list[TopicThrottle] = []
    for start in range(0, len(names), TOPICS_AT_ONCE):
        topics += await topic_throttles(cluster, names[start : start + TOPICS_AT_ONCE])
    brokers = sorted(metadata.brokers, key=lambda each: each.node_id)
    responses = await asyncio.gather(
        *(broker_throttle(cluster, each.node_id, (each.host, each.port)) for each in brokers)
    )
    rows = [each for each in responses if each is not None]
    silent = {each.node_id for each in brokers} - {each.broker for each in rows}
    throttled = [each for each in rows if any(v is not None for v in each.model_dump(exclude={"broker"}).values())]
    return Throttle(brokers=throttled, topics=topics, unreachable=sorted(silent))


async def topic_throttles(cluster: ClusterClient, names: Sequence[str]) -> list[TopicThrottle]:
    """Return those of some topics that have throttled replicas; topics that were deleted meanwhile have none."""
    resources = [
        DescribeConfigsResource(
            resource_type=ResourceType.TOPIC, resource_name=name, configuration_keys=[LEADERS, FOLLOWERS]
        )
        for name in names
    ]
    answer = await cluster.ask(DescribeConfigsRequest(resources=resources), DescribeConfigsResponse)
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


async def broker_throttle(cluster: ClusterClient, broker: int, address: Address) -> BrokerThrottle | None:
    """Return a broker's rates, from that broker; None: it does not respond. Raises KafkaError."""
    keys = [*RATES, LOG_DIRS_RATE]
    resource = DescribeConfigsResource(
        resource_type=ResourceType.BROKER, resource_name=str(broker), configuration_keys=keys
    )
    try:
        request = DescribeConfigsRequest(resources=[resource])
        answer = await cluster.ask(request, DescribeConfigsResponse, address, timeout_ms=cluster.part_ms)
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


def throttle_state(throttle: Throttle) -> object:
    """Return the part of the throttles that a change could overwrite: all of it."""
    return throttle.model_dump(exclude={"unreachable"})


THROTTLE = "/v1/reassignments/throttle"
GET_THROTTLE = Operation.get(
    THROTTLE, "Get the throttles of reassignments", get_throttle, Throttle, state=throttle_state
)
OPERATIONS = [
    GET_THROTTLE,
    Operation(
        method="PUT",
        path=THROTTLE,
        summary="Throttle reassignments",
        handle=set_throttle,
        body=NewThrottle,
        answer=Throttle,
        guard=GET_THROTTLE,
    ),
    Operation(
        method="DELETE",
        path=THROTTLE,
        summary="Remove all throttles of reassignments",
        handle=delete_throttle,
        answer=Throttle,
        guard=GET_THROTTLE,
    ),
]
