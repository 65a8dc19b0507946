"""The cluster's own processes over HTTP: their connections and recent log, a controlled shutdown, a snapshot written.

Each process exposes itself on its own pages (admin/v1/cluster/node_pages); authorisation is checked here and there.
"""

from typing import Final

from kvorum.admin.http.operations import Call, NoBody, Operation, Role
from kvorum.admin.http.parameters import BROKER_ID, choice, count, number, optional_number
from kvorum.admin.v1.cluster.cluster_routes import broker_id
from kvorum.admin.v1.cluster.node_models import (
    ClientConnections,
    ControllerSnapshot,
    RecentLog,
    SnapshotWritten,
    Stopping,
)
from kvorum.admin.v1.cluster.node_pages import BROKER, CONTROLLER, NODE, SNAPSHOT_SECONDS, RoleProcess, pages_of
from kvorum.protocol.errors import ErrorCode, KafkaError

CONNECTIONS: Final = count("connections", default=100, most=1_000)
LINES: Final = count("number of last lines", name="lines", default=200, most=1_000)
LEVELS: Final = ("debug", "info", "warning", "error")
LEVEL: Final = choice("level", f"minimum level: {', '.join(LEVELS)} (default info)", LEVELS, "info")
CONTROLLER_ID: Final = number("controller", "id of the controller")
SNAPSHOT_CONTROLLER: Final = optional_number(
    "controller", "controller that writes the snapshot (default: the active one)"
)


async def list_connections(call: Call[NoBody]) -> ClientConnections:
    """List the connections of a broker."""
    params = {"limit": str(CONNECTIONS.of(call))}
    async with pages_of(call.cluster, RoleProcess(BROKER, broker_id(call)), call.nodes) as pages:
        return await pages.get(f"{NODE}/connections", ClientConnections, params)


async def get_broker_log(call: Call[NoBody]) -> RecentLog:
    """Return the last lines of a broker's log, newest last, from the process's memory."""
    return await log_of(call, RoleProcess(BROKER, broker_id(call)))


async def get_controller_log(call: Call[NoBody]) -> RecentLog:
    """Return the last lines of a controller's log, newest last, from the process's memory."""
    return await log_of(call, RoleProcess(CONTROLLER, CONTROLLER_ID.of(call)))


async def log_of(call: Call[NoBody], who: RoleProcess) -> RecentLog:
    """Return the log parameters of a process request. Raises BadInput, and as `pages_of`."""
    params = {"lines": str(LINES.of(call)), "level": LEVEL.of(call)}
    async with pages_of(call.cluster, who, call.nodes) as pages:
        return await pages.get(f"{NODE}/log", RecentLog, params)


async def shut_broker_down(call: Call[NoBody]) -> Stopping:
    """Shut a broker down as SIGTERM does: its leaders move away first, and the rest of its node exits after it.

    The response is sent when the shutdown has begun. The API does not restart the node.
    """
    async with pages_of(call.cluster, RoleProcess(BROKER, broker_id(call)), call.nodes) as pages:
        return await pages.post(f"{NODE}/controlled-shutdown", Stopping)


async def write_snapshot(call: Call[NoBody]) -> ControllerSnapshot:
    """Write a metadata snapshot on a controller and respond when it is written."""
    wanted = SNAPSHOT_CONTROLLER.of(call)
    if wanted is None:
        wanted = (await call.cluster.describe_quorum()).topics[0].partitions[0].leader_id
        if wanted < 0:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, "there is no active controller")
    async with pages_of(call.cluster, RoleProcess(CONTROLLER, wanted), call.nodes) as pages:
        written = await pages.post(f"{NODE}/snapshot", SnapshotWritten, seconds=SNAPSHOT_SECONDS)
    return ControllerSnapshot(controller=wanted, **written.model_dump())


OPERATIONS = [
    Operation.get(
        "/v1/brokers/{broker}/connections",
        "List a broker's connections",
        list_connections,
        ClientConnections,
        parameters=(BROKER_ID, CONNECTIONS),
    ),
    Operation.get(
        "/v1/brokers/{broker}/log",
        "Get a broker's recent log",
        get_broker_log,
        RecentLog,
        parameters=(BROKER_ID, LINES, LEVEL),
    ),
    Operation(
        method="POST",
        path="/v1/brokers/{broker}/controlled-shutdown",
        summary="Controlled shutdown of a broker",
        handle=shut_broker_down,
        answer=Stopping,
        status=202,
        parameters=(BROKER_ID,),
    ),
    Operation.get(
        "/v1/quorum/controllers/{controller}/log",
        "Get a controller's recent log",
        get_controller_log,
        RecentLog,
        parameters=(CONTROLLER_ID, LINES, LEVEL),
    ),
    Operation(
        method="POST",
        path="/v1/metadata/snapshot",
        summary="Write a metadata snapshot",
        handle=write_snapshot,
        answer=ControllerSnapshot,
        parameters=(SNAPSHOT_CONTROLLER,),
        role=Role.OPERATE,
    ),
]
