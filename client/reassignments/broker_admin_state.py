"""Administrative state of brokers and its progress: maintenance and decommission (docs/decisions/0024).

The requested state is the dynamic broker config kvorum.broker.state. The client computes the progress from the
responses to Metadata and ListPartitionReassignments:

    active          no administrative state
    draining        in maintenance, still leads `left` partitions with another in-sync replica
    maintenance     leads nothing, or only the `kept` partitions without another in-sync replica
    returning       maintenance has ended, and others still lead `left` partitions that prefer this broker
    moving          in decommission, still has `left` replicas; `moving` of them are being reassigned
    decommissioned  has no replica: it can be stopped and unregistered
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kvorum.client.namespaces.reassignments import Reassignments
from kvorum.client.values.broker import AdminState, BrokerState, RequestedState
from kvorum.client.values.reassignment import Reassignment
from kvorum.client.wire.cluster_client import ClusterClient, ConfigChange, ConfigOperation, ResourceType, refuse
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.describe_cluster import DescribeClusterBroker
from kvorum.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from kvorum.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kvorum.protocol.messages.metadata import MetadataResponsePartition
from kvorum.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.runtime.config_defs import BROKER_STATE, DECOMMISSION_THROTTLE

DYNAMIC: Final = 2
"""DescribeConfigs' source of a broker's own dynamic config."""
NAMED_MAX: Final = 100
"""Partitions that are listed; further ones are counted only."""


@dataclass(slots=True)
class _ReplicaCounts:
    """Counts of one broker's partitions in the Metadata response."""

    leaders: int = 0
    replicas: int = 0
    relievable: int = 0
    away: int = 0


async def broker_states(cluster: ClusterClient) -> list[BrokerState]:
    """Return all registered brokers, by id. Raises KafkaError, Unreachable."""
    brokers = sorted((await cluster.describe_cluster()).brokers, key=lambda broker: broker.broker_id)
    configs = await state_configs(cluster, [broker.broker_id for broker in brokers])
    rows = [
        (TopicPartition(topic.name or "", row.partition_index), row)
        for topic in (await cluster.metadata()).topics
        for row in topic.partitions
    ]
    leaving = any(each.get(BROKER_STATE) == RequestedState.DECOMMISSIONED for each in configs.values())
    under_way = await Reassignments(cluster).list() if leaving else {}
    return [_broker_state(broker, configs.get(broker.broker_id, {}), rows, under_way) for broker in brokers]


async def broker_state(cluster: ClusterClient, broker_id: int) -> BrokerState:
    """Return one broker. Raises KafkaError BROKER_ID_NOT_REGISTERED, Unreachable."""
    for each in await broker_states(cluster):
        if each.broker == broker_id:
            return each
    raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"there is no broker {broker_id}")


async def state_configs(cluster: ClusterClient, broker_ids: Sequence[int]) -> dict[int, dict[str, str]]:
    """Return the state configs per broker. Raises KafkaError UNSUPPORTED_VERSION: the cluster is not Kvorum."""
    keys = [BROKER_STATE, DECOMMISSION_THROTTLE]
    resources = [
        DescribeConfigsResource(
            resource_type=ResourceType.BROKER, resource_name=str(broker_id), configuration_keys=list(keys)
        )
        for broker_id in broker_ids
    ]
    answer = await cluster.ask(DescribeConfigsRequest(resources=resources), DescribeConfigsResponse)
    found: dict[int, dict[str, str]] = {}
    for row in answer.results:
        # A broker of Apache Kafka returns its own configs only, and does not have these.
        if row.error_code == ErrorCode.INVALID_REQUEST or BROKER_STATE not in {each.name for each in row.configs}:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"the brokers do not support {BROKER_STATE}")
        refuse(row.error_code, row.error_message)
        values = {each.name: each.value or "" for each in row.configs if each.config_source == DYNAMIC}
        found[int(row.resource_name)] = values
    return found


def _broker_state(
    broker: DescribeClusterBroker,
    configs: Mapping[str, str],
    rows: Iterable[tuple[TopicPartition, MetadataResponsePartition]],
    under_way: Mapping[TopicPartition, Reassignment],
) -> BrokerState:
    broker_id = broker.broker_id
    held = _ReplicaCounts()
    kept: list[TopicPartition] = []
    for place, row in rows:
        held.replicas += broker_id in row.replica_nodes
        held.away += row.replica_nodes[:1] == [broker_id] and row.leader_id != broker_id
        if row.leader_id == broker_id:
            held.leaders += 1
            if len(row.isr_nodes) > 1:
                held.relievable += 1
            else:
                kept.append(place)
    moving = sum(broker_id in each.removing for each in under_way.values())
    wanted = configs.get(BROKER_STATE, RequestedState.ACTIVE)
    requested = next((each for each in RequestedState if each == wanted), RequestedState.ACTIVE)
    state, left = AdminState.ACTIVE, 0
    if requested is RequestedState.MAINTENANCE:
        state, left = (AdminState.DRAINING, held.relievable) if held.relievable else (AdminState.MAINTENANCE, 0)
    elif requested is RequestedState.DECOMMISSIONED:
        state, left = (AdminState.MOVING, held.replicas) if held.replicas else (AdminState.DECOMMISSIONED, 0)
    elif BROKER_STATE in configs:
        state, left = AdminState.RETURNING, held.away
    throttle = configs.get(DECOMMISSION_THROTTLE)
    return BrokerState(
        broker=broker_id,
        host=broker.host,
        port=broker.port,
        rack=broker.rack,
        is_fenced=broker.is_fenced,
        requested=requested,
        state=state,
        leaders=held.leaders,
        replicas=held.replicas,
        left=left,
        moving=moving,
        kept=tuple(kept) if requested is RequestedState.MAINTENANCE else (),
        throttle_bytes_per_second=int(throttle) if throttle is not None and throttle.isdecimal() else None,
    )


async def begin_maintenance(cluster: ClusterClient, broker_id: int) -> None:
    """Start maintenance of a broker. Raises KafkaError; INVALID_REQUEST: the broker is being decommissioned."""
    await _require(cluster, broker_id, RequestedState.ACTIVE, RequestedState.MAINTENANCE)
    await _ask(cluster, broker_id, [ConfigChange(name=BROKER_STATE, value=RequestedState.MAINTENANCE)])


async def end_maintenance(cluster: ClusterClient, broker_id: int) -> None:
    """End maintenance: preferred leaderships return. Raises KafkaError; INVALID_REQUEST: not in maintenance."""
    await _require(cluster, broker_id, RequestedState.MAINTENANCE)
    await _ask(cluster, broker_id, [ConfigChange(name=BROKER_STATE, value=RequestedState.ACTIVE)])


async def decommission(
    cluster: ClusterClient, broker_id: int, *, throttle: int | None = None, validate_only: bool = False
) -> None:
    """Move a broker's replicas to other brokers, with at most `throttle` bytes per second.

    Raises KafkaError INVALID_REPLICATION_FACTOR: the other brokers are too few.
    """
    changes = [ConfigChange(name=BROKER_STATE, value=RequestedState.DECOMMISSIONED)]
    if throttle is not None:
        changes.append(ConfigChange(name=DECOMMISSION_THROTTLE, value=str(throttle)))
    await state_configs(cluster, [broker_id])
    await _ask(cluster, broker_id, changes, validate_only=validate_only)


async def recommission(cluster: ClusterClient, broker_id: int) -> None:
    """Cancel a decommission; moved replicas are not moved back. Raises KafkaError; INVALID_REQUEST: none to cancel."""
    await _require(cluster, broker_id, RequestedState.DECOMMISSIONED)
    await _ask(cluster, broker_id, [ConfigChange(name=BROKER_STATE, operation=ConfigOperation.DELETE)])


async def unregister(cluster: ClusterClient, broker_id: int) -> None:
    """Unregister a broker that is decommissioned and stopped. Apache Kafka has no states: the caller checks them.

    Raises KafkaError INVALID_REQUEST: not decommissioned, has replicas, or is running and would register again.
    """
    try:
        _check_unregistrable(await broker_state(cluster, broker_id))
    except KafkaError as error:
        if error.code is not ErrorCode.UNSUPPORTED_VERSION:
            raise
    answer = await cluster.ask(UnregisterBrokerRequest(broker_id=broker_id), UnregisterBrokerResponse)
    refuse(answer.error_code, answer.error_message)


def _check_unregistrable(found: BrokerState) -> None:
    """Raise KafkaError INVALID_REQUEST unless a broker is decommissioned and stopped."""
    if found.state is not AdminState.DECOMMISSIONED:
        message = f"broker {found.broker} has {found.replicas} replica(s) and is {found.state}: decommission it first"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    if not found.is_fenced:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"broker {found.broker} is running: stop it first, otherwise it registers again"
        )


async def _require(cluster: ClusterClient, broker_id: int, *wanted: RequestedState) -> None:
    requested = (await broker_state(cluster, broker_id)).requested
    if requested not in wanted:
        is_what = {RequestedState.ACTIVE: "active", RequestedState.MAINTENANCE: "in maintenance"}.get(
            requested, "being decommissioned"
        )
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"broker {broker_id} is {is_what}, not {' or '.join(wanted)}")


async def _ask(
    cluster: ClusterClient, broker_id: int, changes: Sequence[ConfigChange], *, validate_only: bool = False
) -> None:
    """Change a broker's configs through any broker, because that one may be down. Raises KafkaError."""
    configs = [AlterableConfig(name=c.name, config_operation=c.operation, value=c.value) for c in changes]
    resource = AlterConfigsResource(resource_type=ResourceType.BROKER, resource_name=str(broker_id), configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    answer = (await cluster.ask(request, IncrementalAlterConfigsResponse)).responses[0]
    refuse(answer.error_code, answer.error_message)
