"""Common parts of the three voter requests: authorisation, a voter's endpoint, the wait for the commit."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from kvorum.network.addresses import Address
from kvorum.network.context import RequestContext
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.quorum.raft.membership import Membership
from kvorum.quorum.raft.voters import Endpoint
from kvorum.quorum.services import ControllerServices


class WireListener(Protocol):
    """Listener of AddRaftVoter and UpdateRaftVoter."""

    name: str
    host: str
    port: int


def check_request(ctx: RequestContext, services: ControllerServices, cluster_id: str | None) -> Membership:
    """Return the membership for a change.

    Raises KafkaError.

    INCONSISTENT_CLUSTER_ID; NOT_LEADER_OR_FOLLOWER, for a broker NOT_CONTROLLER: it tries the next controller.
    """
    check_cluster(services, cluster_id)
    if services.membership is None or services.metadata_log.leader_id != services.node_id:
        raise KafkaError(ErrorCode.NOT_CONTROLLER if ctx.forwarded else ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return services.membership


def check_cluster(services: ControllerServices, cluster_id: str | None) -> None:
    """Raise KafkaError INCONSISTENT_CLUSTER_ID for another cluster's."""
    if cluster_id is not None and cluster_id != services.cluster_id:
        message = f'The given id "{cluster_id}" doesn\'t match the cluster id "{services.cluster_id}"'
        raise KafkaError(ErrorCode.INCONSISTENT_CLUSTER_ID, message)


def voter_endpoints(listeners: Sequence[WireListener]) -> list[Endpoint]:
    """Return where a voter listens, in the order given, names upper-cased."""
    return [(each.name.upper(), each.host, each.port) for each in listeners]


def format_endpoints(endpoints: list[Endpoint]) -> str:
    """Return endpoints as Kafka's Endpoints writes itself."""
    found = ", ".join(f"ListenerName({name})={host}/<unresolved>:{port}" for name, host, port in endpoints)
    return f"Endpoints(endpoints={{{found}}})"


def default_address(services: ControllerServices, endpoints: list[Endpoint]) -> Address | None:
    """Return the address of the controllers' default listener among them, None without it."""
    for name, host, port in endpoints:
        if name == services.listener_name and host and port:
            return host, port
    return None


async def committed(change: asyncio.Future[None], timeout_ms: int) -> None:
    """Wait until a change is committed. Raises KafkaError: REQUEST_TIMED_OUT (it may still be), or why it failed."""
    done, _ = await asyncio.wait((change,), timeout=max(0, timeout_ms) / 1000)
    if not done:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)
    change.result()
