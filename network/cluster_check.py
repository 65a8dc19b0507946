"""Check that a peer belongs to this node's cluster, once per connection, before any other request is sent on it.

A node may listen at an address of our configuration that is of another cluster: a copied file, a port that changed
hands. Its answers decide nothing for us, and our requests (a client's CreateTopics in an envelope, a transaction
marker) must not reach it. DescribeCluster (KIP-700, KIP-919) returns the peer's cluster id.
"""

import asyncio
from collections.abc import Collection, Mapping
from enum import IntEnum
from typing import Final

from kvorum.network.addresses import Address
from kvorum.network.channel import ClientConnection, common_version
from kvorum.network.dial import ChannelError, ConnectionLost, ForeignPeer
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kvorum.runtime.logs import get_logger

WARN_INTERVAL_SECONDS: Final = 60.0
"""Between two warnings about one address."""

log = get_logger("network")


class EndpointType(IntEnum):
    """EndpointType of DescribeCluster."""

    BROKER = 1
    CONTROLLER = 2


class WrongCluster(Exception):
    """All controllers that a node is configured with belong to another cluster."""


class ClusterCheck:
    """The check of all connections that one process makes to peers. Owned by one event loop."""

    __slots__ = ("_endpoint_types", "_warned_at", "cluster_id")

    def __init__(self, cluster_id: str, *endpoint_types: EndpointType) -> None:
        """Expect peers of this cluster that are of one of these types."""
        self.cluster_id = cluster_id
        self._endpoint_types = endpoint_types
        self._warned_at: dict[Address, float] = {}

    async def __call__(self, connection: ClientConnection, address: Address) -> None:
        """Raise ForeignPeer, or ConnectionLost where the peer does not return its cluster id."""
        try:
            version = common_version(DescribeClusterRequest, connection.versions)
        except KafkaError as error:
            raise ConnectionLost(f"is not a {self._kind}: {error}", maybe_sent=False) from error
        answer = DescribeClusterResponse()
        for endpoint_type in self._endpoint_types:
            received = await connection.send(DescribeClusterRequest(endpoint_type=endpoint_type), version)
            assert isinstance(received, DescribeClusterResponse)
            answer = received
            if answer.error_code != ErrorCode.MISMATCHED_ENDPOINT_TYPE:
                break
        if answer.error_code != ErrorCode.NONE:
            code = ErrorCode(answer.error_code).name
            raise ConnectionLost(f"is not a {self._kind} of this cluster: {code}", maybe_sent=False)
        if answer.cluster_id != self.cluster_id:
            self._warn(address, answer.cluster_id)
            raise ForeignPeer(answer.cluster_id)

    @property
    def _kind(self) -> str:
        return " or ".join(each.name.lower() for each in self._endpoint_types)

    def _warn(self, address: Address, cluster_id: str) -> None:
        """Log the peer, not more often than every WARN_INTERVAL_SECONDS."""
        now = asyncio.get_running_loop().time()
        if now - self._warned_at.get(address, -WARN_INTERVAL_SECONDS) < WARN_INTERVAL_SECONDS:
            return
        self._warned_at[address] = now
        log.warning(
            f"{self._kind} of another cluster ignored",
            address=f"{address[0]}:{address[1]}",
            its_cluster_id=cluster_id,
            our_cluster_id=self.cluster_id,
        )


def peer_name(node_id: int, address: Address | None) -> str:
    """Return "1 (HOST:PORT)"; "HOST:PORT" for a bootstrap server, whose id is negative until it is known."""
    text = "unknown address" if address is None else f"{address[0]}:{address[1]}"
    return text if node_id < 0 else f"{node_id} ({text})"


def missing_peers(failures: Mapping[str, ChannelError]) -> str:
    """Return the unreachable peers with reasons: "2 (HOST:PORT), 3 (HOST:PORT): REASON; ..."."""
    by_reason: dict[str, list[str]] = {}
    for name, failure in sorted(failures.items()):
        is_refused = isinstance(failure, ConnectionLost) and failure.refused
        by_reason.setdefault("connection refused" if is_refused else str(failure), []).append(name)
    return "; ".join(f"{', '.join(names)}: {reason}" for reason, names in by_reason.items())


def wrong_cluster(cluster_id: str, failures: Mapping[str, ChannelError], names: Collection[str]) -> str | None:
    """Return why a node with this cluster id must be formatted or configured wrongly, None while it may be right.

    `names` are all controllers it knows, none of which has proven to be of its cluster yet. The node is wrong when each
    of them was tried, most answered, and all that did belong to another cluster. One foreign controller proves nothing:
    the others may start later.
    """
    foreign = {name: each.cluster_id for name, each in failures.items() if isinstance(each, ForeignPeer)}
    if 2 * len(foreign) <= len(names) or not failures.keys() >= {*names}:
        return None
    theirs, listed = ", ".join(sorted({*foreign.values()})), ", ".join(sorted(foreign))
    return (
        f"this node belongs to cluster {cluster_id} (meta.properties), the controllers of its configuration belong to"
        f" cluster {theirs}: {listed}; correct controller.quorum.voters or controller.quorum.bootstrap.servers, or"
        " format a new node with that cluster's id"
    )
