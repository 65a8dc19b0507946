"""Maintenance and decommission of brokers over HTTP: begin, look, take back."""

from kvorum.admin import broker_duty
from kvorum.admin.broker_duty_models import Decommission, Duty
from kvorum.admin.models import INT32_MAX
from kvorum.admin.operations import Call, NoBody, Operation, Role, number_of


async def get_maintenance(call: Call[NoBody]) -> Duty:
    """Return a broker's administrative state and its progress."""
    return await told(call)


async def begin_maintenance(call: Call[NoBody]) -> Duty:
    """Move leadership off a broker to other in-sync replicas; its replicas continue to follow."""
    await broker_duty.begin_maintenance(call.cluster, broker_of(call))
    return await told(call)


async def end_maintenance(call: Call[NoBody]) -> Duty:
    """End maintenance: the broker regains its preferred leaderships."""
    await broker_duty.end_maintenance(call.cluster, broker_of(call))
    return await told(call)


async def get_decommission(call: Call[NoBody]) -> Duty:
    """Return a broker's administrative state and its progress."""
    return await told(call)


async def begin_decommission(call: Call[Decommission]) -> Duty:
    """Move a broker's replicas to other brokers. When it has none it can be stopped and unregistered."""
    throttle, validate_only = call.body.throttle_bytes_per_second, call.body.validate_only
    broker_id = broker_of(call)
    await broker_duty.decommission(call.cluster, broker_id, throttle=throttle, validate_only=validate_only)
    return await told(call)


async def cancel_decommission(call: Call[NoBody]) -> Duty:
    """Cancel a decommission: moves in progress are reverted, completed moves are kept."""
    await broker_duty.recommission(call.cluster, broker_of(call))
    return await told(call)


async def unregister_broker(call: Call[NoBody]) -> None:
    """Unregister a broker that is decommissioned and stopped."""
    await broker_duty.unregister(call.cluster, broker_of(call))


def broker_of(call: Call[NoBody] | Call[Decommission]) -> int:
    """Read the broker's id in the path. Raises BadInput."""
    return number_of("broker", call.path["broker"], 0, INT32_MAX)


async def told(call: Call[NoBody] | Call[Decommission]) -> Duty:
    """Return what is asked of the broker in the path. Raises KafkaError BROKER_ID_NOT_REGISTERED."""
    found = await broker_duty.duty(call.cluster, broker_of(call))
    return Duty(
        broker=found.broker,
        asked=found.asked,
        state=found.state,
        done=found.done,
        message=found.message,
        leaders=found.leaders,
        replicas=found.replicas,
        left=found.left,
        moving=found.moving,
        kept=[str(place) for place in found.kept[: broker_duty.NAMED_MAX]],
        throttle_bytes_per_second=found.throttle,
    )


def duty_state(duty: Duty) -> object:
    """Return what of a broker's duty a change could overwrite: what is asked of it, not how far that is."""
    return duty.asked, duty.throttle_bytes_per_second


MAINTENANCE = "/v1/brokers/{broker}/maintenance"
DECOMMISSION = "/v1/brokers/{broker}/decommission"
GET_MAINTENANCE = Operation.get(MAINTENANCE, "Get the progress of maintenance", get_maintenance, Duty, state=duty_state)
GET_DECOMMISSION = Operation.get(
    DECOMMISSION, "Get the progress of a decommission", get_decommission, Duty, state=duty_state
)
OPERATIONS = [
    GET_MAINTENANCE,
    Operation(
        method="PUT",
        path=MAINTENANCE,
        summary="Start maintenance of a broker",
        handle=begin_maintenance,
        answer=Duty,
        role=Role.OPERATE,
        guard=GET_MAINTENANCE,
    ),
    Operation(
        method="DELETE",
        path=MAINTENANCE,
        summary="End a broker's maintenance",
        handle=end_maintenance,
        answer=Duty,
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
        answer=Duty,
        guard=GET_DECOMMISSION,
    ),
    Operation(
        method="DELETE",
        path=DECOMMISSION,
        summary="Recommission a broker",
        handle=cancel_decommission,
        answer=Duty,
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
