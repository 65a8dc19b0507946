"""What is asked of brokers, how far it is, and how it is asked: maintenance and decommission (docs/decisions/0024).

What is asked is the broker's dynamic config kvorum.broker.state, which any broker tells; how far it is, Metadata and
the list of reassignments say. So the state told here is worked out by whoever asks:

    active          nothing is asked
    draining        in maintenance, and it still leads `left` partitions that others in sync could lead
    maintenance     it leads nothing, or only the `kept` partitions that nobody else in sync can lead
    returning       maintenance is over, and others still lead `left` partitions that it is the preferred leader of
    moving          it leaves, and still has `left` replicas; `moving` of them are on their way
    decommissioned  it has no replica: it may be stopped and unregistered
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from kvorum.admin.client import ClusterClient, ConfigChange, ConfigOperation, ResourceType, refuse
from kvorum.admin.places import Place
from kvorum.admin.reassignments import Reassignments, UnderWay
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
from kvorum.runtime.config_defs import BROKER_STATE, DECOMMISSION_THROTTLE

DYNAMIC: Final = 2
"""DescribeConfigs' source of a broker's own dynamic config."""
NAMED_MAX: Final = 100
"""Partitions that are named; what there is beyond is counted."""


class Asked(StrEnum):
    """The values of the config."""

    ACTIVE = "active"
    MAINTENANCE = "maintenance"
    DECOMMISSIONED = "decommissioned"


class State(StrEnum):
    """See the head of the module."""

    ACTIVE = "active"
    DRAINING = "draining"
    MAINTENANCE = "maintenance"
    RETURNING = "returning"
    MOVING = "moving"
    DECOMMISSIONED = "decommissioned"


FINISHED: Final = (State.ACTIVE, State.MAINTENANCE, State.DECOMMISSIONED)
"""Where nothing is left to be done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerDuty:
    """A broker: what is asked of it, and how far that is. `kept` are what it leads since nobody else can."""

    broker: int
    host: str
    port: int
    rack: str | None
    fenced: bool
    asked: Asked
    state: State
    leaders: int
    replicas: int
    left: int
    moving: int
    kept: tuple[Place, ...]
    throttle: int | None

    @property
    def done(self) -> bool:
        """Tell whether what was asked is done."""
        return self.state in FINISHED

    @property
    def message(self) -> str:
        """Say in a sentence what the state means, and what may be done now."""
        match self.state:
            case State.ACTIVE:
                return "It serves as any broker."
            case State.DRAINING:
                return f"{self.left} leadership(s) are still to move to other replicas in sync."
            case State.MAINTENANCE if self.kept:
                named = ", ".join(map(str, self.kept[:5])) + (", ..." if len(self.kept) > 5 else "")
                return f"It leads only what nobody else in sync can lead: {named}."
            case State.MAINTENANCE:
                return "It leads nothing: it may be stopped."
            case State.RETURNING:
                return f"{self.left} leadership(s) are still to come back; a partition's does when it is in sync there."
            case State.MOVING:
                return f"{self.left} replica(s) are left, {self.moving} of them on their way to other brokers."
            case State.DECOMMISSIONED:
                return "It has no replica any more: stop it, and unregister it."


@dataclass(slots=True)
class _Holdings:
    """What Metadata says of one broker's partitions."""

    leaders: int = 0
    replicas: int = 0
    relievable: int = 0
    away: int = 0


async def duties(cluster: ClusterClient) -> list[BrokerDuty]:
    """Return all registered brokers, by id. Raises KafkaError, Unreachable."""
    brokers = sorted((await cluster.describe_cluster()).brokers, key=lambda broker: broker.broker_id)
    configs = await asked_of(cluster, [broker.broker_id for broker in brokers])
    rows = [
        (Place(topic.name or "", row.partition_index), row)
        for topic in (await cluster.metadata()).topics
        for row in topic.partitions
    ]
    leaving = any(each.get(BROKER_STATE) == Asked.DECOMMISSIONED for each in configs.values())
    under_way = await Reassignments(cluster).under_way() if leaving else {}
    return [_duty(broker, configs.get(broker.broker_id, {}), rows, under_way) for broker in brokers]


async def duty(cluster: ClusterClient, broker_id: int) -> BrokerDuty:
    """Return one broker. Raises KafkaError BROKER_ID_NOT_REGISTERED, Unreachable."""
    for each in await duties(cluster):
        if each.broker == broker_id:
            return each
    raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"there is no broker {broker_id}")


async def asked_of(cluster: ClusterClient, broker_ids: Sequence[int]) -> dict[int, dict[str, str]]:
    """Return what is set of each broker. Raises KafkaError: on a cluster that does not know of it, INVALID_REQUEST."""
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
        refuse(row.error_code, row.error_message)
        values = {each.name: each.value or "" for each in row.configs if each.config_source == DYNAMIC}
        found[int(row.resource_name)] = values
    return found


def _duty(
    broker: DescribeClusterBroker,
    configs: Mapping[str, str],
    rows: Iterable[tuple[Place, MetadataResponsePartition]],
    under_way: Mapping[Place, UnderWay],
) -> BrokerDuty:
    broker_id = broker.broker_id
    held = _Holdings()
    kept: list[Place] = []
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
    wanted = configs.get(BROKER_STATE, Asked.ACTIVE)
    asked = next((each for each in Asked if each == wanted), Asked.ACTIVE)
    state, left = State.ACTIVE, 0
    if asked is Asked.MAINTENANCE:
        state, left = (State.DRAINING, held.relievable) if held.relievable else (State.MAINTENANCE, 0)
    elif asked is Asked.DECOMMISSIONED:
        state, left = (State.MOVING, held.replicas) if held.replicas else (State.DECOMMISSIONED, 0)
    elif BROKER_STATE in configs:
        state, left = State.RETURNING, held.away
    throttle = configs.get(DECOMMISSION_THROTTLE)
    return BrokerDuty(
        broker=broker_id,
        host=broker.host,
        port=broker.port,
        rack=broker.rack,
        fenced=broker.is_fenced,
        asked=asked,
        state=state,
        leaders=held.leaders,
        replicas=held.replicas,
        left=left,
        moving=moving,
        kept=tuple(kept) if asked is Asked.MAINTENANCE else (),
        throttle=int(throttle) if throttle is not None and throttle.isdecimal() else None,
    )


async def begin_maintenance(cluster: ClusterClient, broker_id: int) -> None:
    """Have a broker lead nothing. Raises KafkaError; INVALID_REQUEST where it is being decommissioned."""
    await _require(cluster, broker_id, Asked.ACTIVE, Asked.MAINTENANCE)
    await _ask(cluster, broker_id, [ConfigChange(name=BROKER_STATE, value=Asked.MAINTENANCE)])


async def end_maintenance(cluster: ClusterClient, broker_id: int) -> None:
    """Give a broker back what it is the preferred leader of. Raises KafkaError; INVALID_REQUEST: not in maintenance."""
    await _require(cluster, broker_id, Asked.MAINTENANCE)
    await _ask(cluster, broker_id, [ConfigChange(name=BROKER_STATE, value=Asked.ACTIVE)])


async def decommission(
    cluster: ClusterClient, broker_id: int, *, throttle: int | None = None, validate_only: bool = False
) -> None:
    """Have a broker's replicas moved to others, at so many bytes a second at the most.

    Raises KafkaError INVALID_REPLICATION_FACTOR: the other brokers are too few.
    """
    changes = [ConfigChange(name=BROKER_STATE, value=Asked.DECOMMISSIONED)]
    if throttle is not None:
        changes.append(ConfigChange(name=DECOMMISSION_THROTTLE, value=str(throttle)))
    await _ask(cluster, broker_id, changes, validate_only=validate_only)


async def recommission(cluster: ClusterClient, broker_id: int) -> None:
    """Have a broker stay: what has moved stays where it is. Raises KafkaError; INVALID_REQUEST: it is not leaving."""
    await _require(cluster, broker_id, Asked.DECOMMISSIONED)
    await _ask(cluster, broker_id, [ConfigChange(name=BROKER_STATE, operation=ConfigOperation.DELETE)])


async def unregister(cluster: ClusterClient, broker_id: int) -> None:
    """Forget a broker that is decommissioned, and was stopped.

    Raises KafkaError INVALID_REQUEST: it is not decommissioned, still has replicas, or runs: it would register again.
    """
    found = await duty(cluster, broker_id)
    if found.state is not State.DECOMMISSIONED:
        message = f"broker {broker_id} has {found.replicas} replica(s) and is {found.state}: decommission it first"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    if not found.fenced:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"broker {broker_id} is running: stop it first, otherwise it registers again"
        )
    answer = await cluster.ask(UnregisterBrokerRequest(broker_id=broker_id), UnregisterBrokerResponse)
    refuse(answer.error_code, answer.error_message)


async def _require(cluster: ClusterClient, broker_id: int, *wanted: Asked) -> None:
    asked = (await duty(cluster, broker_id)).asked
    if asked not in wanted:
        is_what = {Asked.ACTIVE: "active", Asked.MAINTENANCE: "in maintenance"}.get(asked, "being decommissioned")
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"broker {broker_id} is {is_what}, not {' or '.join(wanted)}")


async def _ask(
    cluster: ClusterClient, broker_id: int, changes: Sequence[ConfigChange], *, validate_only: bool = False
) -> None:
    """Change a broker's configs at whichever broker answers: that one may be down. Raises KafkaError."""
    configs = [AlterableConfig(name=c.name, config_operation=c.operation, value=c.value) for c in changes]
    resource = AlterConfigsResource(resource_type=ResourceType.BROKER, resource_name=str(broker_id), configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    answer = (await cluster.ask(request, IncrementalAlterConfigsResponse)).responses[0]
    refuse(answer.error_code, answer.error_message)
