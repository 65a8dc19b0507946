"""HTTP operations for maintenance and decommission of brokers."""

from kvorum.admin.http.operations import Call, NoBody, Operation, Role, number_of
from kvorum.admin.v1.cluster.broker_admin_state_models import BrokerAdminState, Decommission
from kvorum.admin.v1.models import INT32_MAX
from kvorum.client.reassignments import broker_admin_state


async def get_maintenance(call: Call[NoBody]) -> BrokerAdminState:
    """Return a broker's administrative state and its progress."""
    return await response_of(call)


async def begin_maintenance(call: Call[NoBody]) -> BrokerAdminState:
    """Move leadership off a broker to other in-sync replicas; its replicas continue to follow."""
    await broker_admin_state.begin_maintenance(call.cluster, broker_of(call))
    return await response_of(call)


async def end_maintenance(call: Call[NoBody]) -> BrokerAdminState:
    """End maintenance: the broker regains its preferred leaderships."""
    await broker_admin_state.end_maintenance(call.cluster, broker_of(call))
    return await response_of(call)


async def get_decommission(call: Call[NoBody]) -> BrokerAdminState:
    """Return a broker's administrative state and its progress."""
    return await response_of(call)


async def begin_decommission(call: Call[Decommission]) -> BrokerAdminState:
    """Move a broker's replicas to other brokers. When it has none it can be stopped and unregistered."""
    throttle, validate_only = call.body.throttle_bytes_per_second, call.body.validate_only
    broker_id = broker_of(call)
    await broker_admin_state.decommission(call.cluster, broker_id, throttle=throttle, validate_only=validate_only)
    return await response_of(call)


async def cancel_decommission(call: Call[NoBody]) -> BrokerAdminState:
    """Cancel a decommission: moves in progress are reverted, completed moves are kept."""
    await broker_admin_state.recommission(call.cluster, broker_of(call))
    return await response_of(call)


async def unregister_broker(call: Call[NoBody]) -> None:
    """Unregister a broker that is decommissioned and stopped."""
    await broker_admin_state.unregister(call.cluster, broker_of(call))


def broker_of(call: Call[NoBody] | Call[Decommission]) -> int:
    """Read the broker's id in the path. Raises BadInput."""
    return number_of("broker", call.path["broker"], 0, INT32_MAX)


async def response_of(call: Call[NoBody] | Call[Decommission]) -> BrokerAdminState:
    """Return the administrative state of the broker in the path. Raises KafkaError BROKER_ID_NOT_REGISTERED."""
    found = await broker_admin_state.broker_state(call.cluster, broker_of(call))
    return BrokerAdminState(
        broker=found.broker,
        requested=found.requested,
        state=found.state,
        done=found.done,
        message=found.message,
        leaders=found.leaders,
        replicas=found.replicas,
        left=found.left,
        moving=found.moving,
        kept=[str(place) for place in found.kept[: broker_admin_state.NAMED_MAX]],
        throttle_bytes_per_second=found.throttle,
    )


def requested_state(found: BrokerAdminState) -> object:
    """Return the parts that the ETag covers: the requested state and its throttle, not the progress."""
    return found.requested, found.throttle_bytes_per_second


MAINTENANCE = "/v1/brokers/{broker}/maintenance"
DECOMMISSION = "/v1/brokers/{broker}/decommission"
GET_MAINTENANCE = Operation.get(
    MAINTENANCE, "Get the progress of maintenance", get_maintenance, BrokerAdminState, state=requested_state
)
GET_DECOMMISSION = Operation.get(
    DECOMMISSION, "Get the progress of a decommission", get_decommission, BrokerAdminState, state=requested_state
)
OPERATIONS = [
    GET_MAINTENANCE,
    Operation(
        method="PUT",
        path=MAINTENANCE,
        summary="Start maintenance of a broker",
        handle=begin_maintenance,
        answer=BrokerAdminState,
        role=Role.OPERATE,
        guard=GET_MAINTENANCE,
    ),
    Operation(
        method="DELETE",
        path=MAINTENANCE,
        summary="End a broker's maintenance",
        handle=end_maintenance,
        answer=BrokerAdminState,
        role=Role.OPERATE,
        guard=GET_MAINTENANCE,
    ),
    GET_DECOMMISSION,
    Operation(
        method="PUT",
        path=DECOMMISSION,
        summary="Decommission a broker",
        handle=begin_decommission,
        body=Decommission,
        answer=BrokerAdminState,
        guard=GET_DECOMMISSION,
    ),
    Operation(
        method="DELETE",
        path=DECOMMISSION,
        summary="Recommission a broker",
        handle=cancel_decommission,
        answer=BrokerAdminState,
        guard=GET_DECOMMISSION,
    ),
    Operation(
        method="DELETE",
        path="/v1/brokers/{broker}",
        summary="Unregister a decommissioned broker",
        handle=unregister_broker,
        status=204,
        guard=GET_DECOMMISSION,
    ),
]
