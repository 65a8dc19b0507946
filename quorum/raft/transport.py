"""Raft frames over the CONTROLLER listener: one outgoing and one incoming connection per peer.

A connection begins with a private request (key 10000) that identifies its node; only a configured voter of this cluster
is accepted. In a dynamic quorum (KIP-853) it may be any controller of the cluster, which sends its address: a voter is
reached at its latest address, any other node is a guest, answered over a connection of our own as long as its
connection exists. Frames to a peer are sent on our connection, its frames arrive on its own. When a peer connects
again, the rest of its older connection is ignored: a frame never arrives after a newer connection's.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from random import Random
from typing import Any, Final, Protocol

import msgspec

from kvorum.network.addresses import Address, AddressBook
from kvorum.network.authorizer import CLUSTER_NAME, AllowAll, Authorizer, Operation, ResourceType
from kvorum.network.channel import Channel
from kvorum.network.cluster_check import ClusterCheck, EndpointType, peer_name
from kvorum.network.context import RequestContext
from kvorum.network.dial import ChannelError, ForeignPeer, is_refusing
from kvorum.network.raw_link import RawLink
from kvorum.network.router import PRIVATE_KEY_MIN
from kvorum.network.traffic import Traffic
from kvorum.network.upgrade import Upgrade, UpgradeLink
from kvorum.protocol.errors import ProtocolError
from kvorum.quorum.raft.messages import MalformedFrame
from kvorum.quorum.raft.voters import Endpoint, Endpoints, dial_address
from kvorum.runtime.logs import get_logger
from kvorum.runtime.ordered_set import OrderedSet
from kvorum.security.client import PLAINTEXT, ClientSecurity

RAFT_KEY: Final = PRIVATE_KEY_MIN
"""The private api key of the request that opens a link. Never advertised."""
GREETING_VERSION: Final = 1
DIRECT_PROBE_TIMEOUT_MS: Final = 200
FOREIGN_SECONDS: Final = 10.0
"""A controller of another cluster is ignored for this time: it logs each rejected greeting."""
GUESTS_MAX: Final = 16
"""Limit of observing controllers; one more is rejected. An operator adds them one at a time."""

log = get_logger("quorum")


class Greeting(msgspec.Struct, array_like=True):
    """The body of the private request."""

    version: int
    cluster_id: str
    node_id: int
    host: str = ""
    """Default endpoint of the sender; in a static quorum it is configured."""
    port: int = 0
    endpoints: list[Endpoint] = []
    """All endpoints of the sender; empty from earlier releases."""


class LinkOwner(Protocol):
    """User of the links: QuorumNode."""

    def connected(self, peer: int) -> None:
        """Frames to the peer can go out."""
        ...

    def disconnected(self, peer: int) -> None:
        """They cannot any more."""
        ...

    def refused(self, peer: int) -> None:
        """The peer's own address refuses connections."""
        ...

    def receive(self, peer: int, frame: bytes | memoryview) -> None:
        """Process a frame. Raises MalformedFrame."""
        ...


class Outgoing:
    """The listener of one RawLink."""

    __slots__ = ("_peer", "_transport")

    def __init__(self, transport: "RaftTransport", peer: int) -> None:
        """Represent one peer."""
        self._transport = transport
        self._peer = peer

    def on_connected(self) -> None:
        """See LinkListener."""
        self._transport.owner.connected(self._peer)

    def on_frame(self, frame: memoryview) -> None:
        """A peer answers over its own connection, never over ours."""
        raise ProtocolError(f"node {self._peer} sent a frame on a receive-only connection")

    def on_disconnected(self) -> None:
        """See LinkListener."""
        self._transport.owner.disconnected(self._peer)
        self._transport.peer_closed(self._peer)

    def on_refused(self) -> None:
        """See LinkListener."""
        self._transport.peer_refused(self._peer)


class Incoming:
    """Receiver of a connection from a peer."""

    __slots__ = ("_peer", "_transport", "link")

    def __init__(self, transport: "RaftTransport", peer: int, link: UpgradeLink) -> None:
        """Listen to one peer."""
        self._transport = transport
        self._peer = peer
        self.link = link

    def on_frame(self, frame: memoryview) -> None:
        """Pass a frame on, unless the peer has a newer connection."""
        if self._transport.incoming.get(self._peer) is not self:
            return
        self._transport.traffic.received(len(frame))
        try:
            self._transport.owner.receive(self._peer, frame)
        except MalformedFrame as error:
            raise ProtocolError(f"malformed Raft frame from node {self._peer}: {error}") from error

    def on_closed(self) -> None:
        """Forget the connection."""
        if self._transport.incoming.get(self._peer) is self:
            del self._transport.incoming[self._peer]
            self._transport.guest_gone(self._peer)


class RaftTransport:
    """RaftLink over the network. Construct, hand to the node as its link, `attach` the node, `start`; `close` once."""

    owner: LinkOwner

    def __init__(
        self,
        *,
        node_id: int,
        cluster_id: str,
        addresses: AddressBook,
        peers: list[int],
        chance: Random,
        listens_at: Sequence[Endpoint] = (),
        dynamic: bool = False,
        authorizer: Authorizer | None = None,
        security: ClientSecurity = PLAINTEXT,
    ) -> None:
        """Prepare the links to `peers`, this node's id left out; it `listens_at` these, the default listener first.

        It connects to the peers' listener of the same name as its own default one.
        A quorum that is not `dynamic` becomes it with the first `reach`. `authorizer` permits incoming connections:
        CLUSTER_ACTION on the cluster; `security` is that of outgoing ones.
        """
        assert node_id not in peers
        self._authorizer = authorizer or AllowAll()
        self._security = security
        self._node_id = node_id
        self._cluster_id = cluster_id
        self._addresses = addresses
        self._chance = chance
        self._dynamic = dynamic
        self.on_dynamic: Callable[[], None] | None = None
        self.on_foreign: Callable[[], None] | None = None
        """Called when a controller of another cluster listens at a peer's address."""
        self.on_voters: Callable[[], None] | None = None
        """Called whenever the voters are others, or elsewhere, or committed."""
        """Called once, with the first `reach`."""
        self._listener, host, port = listens_at[0] if listens_at else ("", "", 0)
        greeting = Greeting(GREETING_VERSION, cluster_id, node_id, host, port, list(listens_at))
        self._greeting = msgspec.msgpack.encode(greeting)
        self._members = set(peers)
        """Those to keep a connection to; further links are to guests."""
        self._started = False
        self._links: dict[int, RawLink] = {peer: self._link(peer) for peer in peers}
        self.incoming: dict[int, Incoming] = {}
        self.traffic = Traffic()
        self._probes: OrderedSet[asyncio.Task[None]] = OrderedSet()
        self._check = ClusterCheck(cluster_id, EndpointType.CONTROLLER)
        self._foreign: dict[int, ForeignPeer] = {}
        """Peers at whose address a controller of another cluster listens."""
        self._checked_until: dict[int, float] = {}
        """When a peer's cluster is checked again at the earliest; a foreign one is left alone until then."""
        self.is_proven = False
        """A peer of this cluster has connected since the start."""

    def _link(self, peer: int) -> RawLink:
        return RawLink(
            partial(self._address, peer),
            self._greeting,
            Outgoing(self, peer),
            chance=self._chance,
            api_key=RAFT_KEY,
            client_id=f"raft-{self._node_id}",
            security=self._security,
        )

    @property
    def upgrades(self) -> dict[int, Upgrade]:
        """Upgrades that the listener's router must pass on."""
        return {RAFT_KEY: self._accept}

    def attach(self, owner: LinkOwner) -> None:
        """Set the owner of the links; before `start`."""
        self.owner = owner

    def start(self) -> None:
        """Start to connect."""
        self._started = True
        for link in self._links.values():
            link.start()

    def reach(self, peers: Sequence[int], endpoints: Endpoints) -> None:
        """See RaftLink."""
        self._dynamic = True
        on_dynamic, self.on_dynamic = self.on_dynamic, None
        if on_dynamic is not None:
            on_dynamic()
        if self.on_voters is not None:
            self.on_voters()
        for peer in peers:
            address = dial_address(endpoints.get(peer, ()), self._listener)
            if address is not None and peer not in self.incoming:
                self._addresses.put(peer, address)
            self._keep(peer)
        if not peers and not endpoints:
            return  # the log of a new observer has no voter set yet: its members are the introduced controllers
        left, self._members = self._members.difference(peers), set(peers)
        for peer in sorted(left):
            self.guest_gone(peer)

    def introduce(self, peer: int, address: Address) -> None:
        """Connect to a controller unless it is connected: the log may have no voter set, or former addresses."""
        if peer == self._node_id:
            return
        self._members.add(peer)
        link = self._links.get(peer)
        if link is None or not link.connected:
            self._addresses.put(peer, address)
            self._keep(peer)

    def _keep(self, peer: int) -> None:
        if peer not in self._links:
            self._links[peer] = self._link(peer)
            if self._started:
                self._links[peer].start()

    def guest_gone(self, peer: int) -> None:
        """Close the connection to a node that is neither a voter nor connected to this node."""
        if peer in self._members or peer in self.incoming:
            return
        link = self._links.pop(peer, None)
        if link is None:
            return
        self._in_background(link.close())
        self.owner.disconnected(peer)

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._probes.add(task)
        task.add_done_callback(self._probes.discard)

    def send(self, peer: int, frame: bytes) -> None:
        """See RaftLink."""
        link = self._links.get(peer)
        if link is not None and link.send(frame):
            self.traffic.sent(len(frame))

    def reset(self, peer: int) -> None:
        """See RaftLink."""
        link = self._links.get(peer)
        if link is not None:
            link.reset()

    def is_known(self, peer: int) -> bool:
        """Return whether this node knows the endpoint of another, or is that one."""
        return peer == self._node_id or self._addresses.get(peer) is not None

    async def close(self) -> None:
        """Disconnect for good."""
        for probe in tuple(self._probes):
            probe.cancel()
        await asyncio.gather(*(link.close() for link in self._links.values()))
        for incoming in tuple(self.incoming.values()):
            incoming.link.close()

    def peer_refused(self, peer: int) -> None:
        """An attempt was refused: a sign of death only at the peer's own address, so that one is then checked."""
        direct = self._addresses.direct(peer)
        if direct is None or direct == self._addresses.get(peer):
            self.owner.refused(peer)
            return
        self._in_background(self._probe(peer, direct))

    async def _probe(self, peer: int, direct: Address) -> None:
        if await is_refusing(*direct, timeout_ms=DIRECT_PROBE_TIMEOUT_MS):
            self.owner.refused(peer)

    def peer_closed(self, peer: int) -> None:
        """A connection to a peer was lost. If it was closed at once, the controller may belong to another cluster."""
        link, now = self._links.get(peer), asyncio.get_running_loop().time()
        if link is None or link.failure is None or peer in self.incoming or now < self._checked_until.get(peer, 0.0):
            return
        self._checked_until[peer] = now + FOREIGN_SECONDS
        self._in_background(self._check_cluster(peer))

    async def _check_cluster(self, peer: int) -> None:
        client_id = f"controller-{self._node_id}"
        channel = Channel(
            partial(self._address, peer),
            client_id=client_id,
            chance=self._chance,
            check=self._check,
            security=self._security,
        )
        try:
            await channel.connect()
        except ForeignPeer as foreign:
            self._foreign[peer] = foreign
            if self.on_foreign is not None:
                self.on_foreign()
        except ChannelError:
            pass  # the link itself notes why it has no connection
        finally:
            await channel.close()

    def failures(self) -> dict[str, ChannelError]:
        """Return why peers are not connected, by `peer_name`."""
        found: dict[str, ChannelError] = {}
        for peer, link in sorted(self._links.items()):
            failure = self._foreign.get(peer, link.failure)
            if peer not in self.incoming and failure is not None:
                found[peer_name(peer, self._addresses.get(peer))] = failure
        return found

    def names(self) -> list[str]:
        """Return the ids and addresses of all peers."""
        return [peer_name(peer, self._addresses.get(peer)) for peer in sorted(self._links)]

    def _address(self, peer: int) -> Address | None:
        """Return where to connect to, None if that is not known or a controller of another cluster listens there."""
        if peer in self._foreign:
            if asyncio.get_running_loop().time() < self._checked_until[peer]:
                return None
            del self._foreign[peer]
        return self._addresses.get(peer)

    def _accept(self, link: UpgradeLink, ctx: RequestContext, body: memoryview) -> Incoming:
        """Take over a peer's connection. Raises ProtocolError for an invalid one."""
        if not self._authorizer.authorize(ctx, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
            raise ProtocolError(
                f"Raft greeting of {ctx.principal}, which is not a principal of the cluster (super.users)"
            )
        try:
            greeting = msgspec.msgpack.decode(body, type=Greeting)
        except msgspec.MsgspecError as error:
            raise ProtocolError(f"not a Raft greeting: {error}") from error
        if greeting.version != GREETING_VERSION:
            raise ProtocolError(f"Raft greeting of version {greeting.version}, supported is {GREETING_VERSION}")
        if greeting.cluster_id != self._cluster_id:
            raise ProtocolError(
                f"Raft greeting of cluster {greeting.cluster_id!r}, this cluster is {self._cluster_id!r}"
            )
        if self._dynamic and greeting.port and greeting.node_id != self._node_id:
            self._welcome(greeting)
        elif greeting.node_id not in self._links:
            raise ProtocolError(f"Raft greeting of node {greeting.node_id}, which is not a voter")
        self._foreign.pop(greeting.node_id, None)
        self.is_proven = True
        older = self.incoming.get(greeting.node_id)
        incoming = self.incoming[greeting.node_id] = Incoming(self, greeting.node_id, link)
        if older is not None:
            older.link.close()
        log.info("voter connected", voter=greeting.node_id, address=link.peer_address)
        return incoming

    def _welcome(self, greeting: Greeting) -> None:
        """Store the endpoint of a controller of a dynamic quorum, and connect to it. Raises ProtocolError: too many."""
        guests = self._links.keys() - self._members
        if greeting.node_id not in self._links and len(guests) >= GUESTS_MAX:
            raise ProtocolError(f"Raft greeting of node {greeting.node_id} rejected: {GUESTS_MAX} observers already")
        address = dial_address(greeting.endpoints, self._listener) or (greeting.host, greeting.port)
        self._addresses.put(greeting.node_id, address)
        self._keep(greeting.node_id)
