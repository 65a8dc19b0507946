"""RaftTransport over real loopback sockets, behind production's listener: who is let in, what comes through."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from kvorum.cluster.local.ports import free_ports
from kvorum.network.addresses import AddressBook
from kvorum.network.authorizer import Authorizer, ClusterPrincipals
from kvorum.network.context import RequestContext
from kvorum.network.dial import ConnectionLost, ForeignPeer
from kvorum.network.router import Handler, Router, supported_apis
from kvorum.network.server import Listener
from kvorum.protocol.api import ApiKey
from kvorum.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kvorum.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kvorum.quorum.raft.messages import MalformedFrame
from kvorum.quorum.raft.transport import GUESTS_MAX, RAFT_KEY, Greeting, RaftTransport
from kvorum.quorum.raft.voters import Endpoints
from kvorum.security.principal import Principal


class Owner:
    """Stands for a QuorumNode."""

    def __init__(self) -> None:
        self.events: list[tuple[str, int]] = []
        self.frames: list[bytes] = []

    def connected(self, peer: int) -> None:
        self.events.append(("connected", peer))

    def disconnected(self, peer: int) -> None:
        self.events.append(("disconnected", peer))

    def refused(self, peer: int) -> None:
        self.events.append(("refused", peer))

    def receive(self, peer: int, frame: bytes | memoryview) -> None:
        if bytes(frame) == b"bad":
            raise MalformedFrame("bad")
        self.frames.append(bytes(frame))


def answering_of(cluster_id: str) -> list[Handler]:
    """Return what a controller answers beside Raft: which cluster it belongs to."""
    served = {int(ApiKey.API_VERSIONS): (0, 4), int(ApiKey.DESCRIBE_CLUSTER): (0, 2)}

    def api_versions(ctx: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
        return ApiVersionsResponse(api_keys=supported_apis(served))

    def describe(ctx: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
        return DescribeClusterResponse(cluster_id=cluster_id)

    return [
        Handler(ApiKey.API_VERSIONS, (0, 4), api_versions),
        Handler(ApiKey.DESCRIBE_CLUSTER, (0, 2), describe),
    ]


class Node:
    """A transport and its listener."""

    def __init__(
        self, node_id: int, ports: dict[int, int], cluster_id: str = "c", authorizer: Authorizer | None = None
    ) -> None:
        self.node_id = node_id
        self.owner = Owner()
        peers = [peer for peer in ports if peer != node_id]
        book = AddressBook({peer: ("127.0.0.1", ports[peer]) for peer in peers})
        self.transport = RaftTransport(
            node_id=node_id,
            cluster_id=cluster_id,
            addresses=book,
            peers=peers,
            chance=random.Random(node_id),
            authorizer=authorizer,
        )
        self.transport.attach(self.owner)
        router = Router(answering_of(cluster_id), upgrades=self.transport.upgrades)
        self.listener = Listener("CONTROLLER", "127.0.0.1", ports[node_id], router)

    async def start(self) -> None:
        await self.listener.start()
        self.transport.start()

    async def stop(self) -> None:
        await self.transport.close()
        await self.listener.close(grace_ms=100)


def two_ports() -> dict[int, int]:
    """Return {node: its port}: none that the kernel gives to clients meanwhile."""
    return dict(zip((1, 2), free_ports(["127.0.0.1"] * 2), strict=True))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110  # what is waited for has no event of its own
            await asyncio.sleep(0.005)


def with_nodes(story: Callable[[dict[int, Node], dict[int, int]], Awaitable[None]], cluster_of_2: str = "c") -> None:
    async def run() -> None:
        ports = two_ports()
        nodes = {1: Node(1, ports), 2: Node(2, ports, cluster_of_2)}
        for node in nodes.values():
            await node.start()
        try:
            await story(nodes, ports)
        finally:
            for node in nodes.values():
                await node.stop()

    asyncio.run(run())


def test_only_a_principal_of_the_cluster_joins_the_quorum() -> None:
    async def story(node: Node, peer: Node) -> None:
        await until(lambda: ("disconnected", 1) in peer.owner.events and 1 in peer.transport.incoming)
        assert node.transport.incoming == {}

    async def run() -> None:
        ports = two_ports()
        strict = ClusterPrincipals({"CONTROLLER": frozenset((Principal("User", "node"),))})
        nodes = (Node(1, ports, authorizer=strict), Node(2, ports))
        for node in nodes:
            await node.start()
        try:
            await story(*nodes)
        finally:
            for node in nodes:
                await node.stop()

    asyncio.run(run())


def test_frames_of_any_size_arrive_in_order() -> None:
    async def story(nodes: dict[int, Node], ports: dict[int, int]) -> None:
        await until(lambda: all(("connected", 3 - node) in nodes[node].owner.events for node in nodes))
        sent = [random.Random(size).randbytes(size) for size in (1, 5, 70_000, 9_000_000, 2)]
        for frame in sent:
            nodes[1].transport.send(2, frame)
        await until(lambda: len(nodes[2].owner.frames) == len(sent))
        assert nodes[2].owner.frames == sent and nodes[1].owner.frames == []

    with_nodes(story)


def test_a_dead_peer_is_lost_then_refused_then_found_again() -> None:
    async def story(nodes: dict[int, Node], ports: dict[int, int]) -> None:
        await until(lambda: ("connected", 2) in nodes[1].owner.events)
        await nodes[2].stop()
        await until(lambda: nodes[1].owner.events[-2:] == [("disconnected", 2), ("refused", 2)])
        nodes[1].transport.send(2, b"into the void")
        nodes[2] = Node(2, ports)
        await nodes[2].start()
        await until(lambda: nodes[1].owner.events.count(("connected", 2)) == 2)
        nodes[1].transport.send(2, b"again")
        await until(lambda: nodes[2].owner.frames == [b"again"])

    with_nodes(story)


def test_another_clusters_voter_is_recognised_and_left_alone_until_a_voter_of_this_cluster_is_back() -> None:
    found: list[int] = []

    async def story(nodes: dict[int, Node], ports: dict[int, int]) -> None:
        transport = nodes[1].transport
        transport.on_foreign = lambda: found.append(1)
        await until(lambda: bool(found))
        (name,) = transport.names()
        assert name == f"2 (127.0.0.1:{ports[2]})" and not transport.is_proven
        assert isinstance(transport.failures()[name], ForeignPeer)
        connections = nodes[1].owner.events.count(("connected", 2))
        await asyncio.sleep(0.5)
        assert nodes[1].owner.events.count(("connected", 2)) == connections, "no greeting is sent in the next seconds"
        await nodes[2].stop()
        nodes[2] = Node(2, ports)
        await nodes[2].start()
        await until(lambda: not transport.failures() and ("connected", 1) in nodes[2].owner.events)
        await until(lambda: nodes[1].owner.events[-1] == ("connected", 2))
        assert transport.is_proven and len(found) == 1

    with_nodes(story, cluster_of_2="another")


def test_a_peer_that_is_missing_is_named_with_the_reason() -> None:
    async def story(nodes: dict[int, Node], ports: dict[int, int]) -> None:
        await until(lambda: ("connected", 2) in nodes[1].owner.events and 2 in nodes[1].transport.incoming)
        assert not nodes[1].transport.failures()
        await nodes[2].stop()
        failures = nodes[1].transport.failures
        await until(lambda: any(isinstance(each, ConnectionLost) and each.refused for each in failures().values()))

    with_nodes(story)


def test_another_clusters_voter_is_not_let_in() -> None:
    async def story(nodes: dict[int, Node], ports: dict[int, int]) -> None:
        await until(lambda: ("disconnected", 2) in nodes[1].owner.events)
        nodes[1].transport.send(2, b"hello")
        await asyncio.sleep(0.05)
        assert nodes[1].owner.frames == nodes[2].owner.frames == []

    with_nodes(story, cluster_of_2="another")


def test_a_reset_makes_a_new_connection() -> None:
    async def story(nodes: dict[int, Node], ports: dict[int, int]) -> None:
        await until(lambda: ("connected", 2) in nodes[1].owner.events)
        nodes[1].transport.reset(2)
        await until(lambda: nodes[1].owner.events.count(("connected", 2)) == 2)
        nodes[1].transport.send(2, b"over the new one")
        await until(lambda: nodes[2].owner.frames == [b"over the new one"])

    with_nodes(story)


async def greeted(port: int, body: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect as a voter would, by hand."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    header = RAFT_KEY.to_bytes(2, "big") + bytes(6) + b"\xff\xff"
    request = header + body
    writer.write(len(request).to_bytes(4, "big") + request)
    return reader, writer


def test_a_newer_connection_silences_the_older() -> None:
    async def story(nodes: dict[int, Node], ports: dict[int, int]) -> None:
        await nodes[2].stop()
        greeting = msgspec.msgpack.encode(Greeting(1, "c", 2))
        _, first = await greeted(ports[1], greeting)
        first.write(b"\0\0\0\3one")
        await until(lambda: nodes[1].owner.frames == [b"one"])
        old = nodes[1].transport.incoming[2]
        _, second = await greeted(ports[1], greeting)
        await until(lambda: nodes[1].transport.incoming.get(2) not in (None, old))
        old.on_frame(memoryview(b"late"))
        second.write(b"\0\0\0\3two")
        await until(lambda: nodes[1].owner.frames == [b"one", b"two"])
        for writer in (first, second):
            writer.close()

    with_nodes(story)


def test_invalid_connections_are_closed_without_effect_on_others() -> None:
    async def story(nodes: dict[int, Node], ports: dict[int, int]) -> None:
        await until(lambda: ("connected", 1) in nodes[2].owner.events)
        bodies = [
            msgspec.msgpack.encode(Greeting(1, "c", 9)),
            msgspec.msgpack.encode(Greeting(1, "other", 2)),
            msgspec.msgpack.encode(Greeting(7, "c", 2)),
            b"\xc1nonsense",
            b"",
        ]
        for body in bodies:
            reader, writer = await greeted(ports[1], body)
            assert await asyncio.wait_for(reader.read(), 30) == b""
            writer.close()
        nodes[2].transport.send(1, b"still here")
        await until(lambda: nodes[1].owner.frames == [b"still here"])
        nodes[2].transport.send(1, b"bad")
        await until(lambda: nodes[2].owner.events.count(("connected", 1)) == 2)

    with_nodes(story)


class Dynamic(Node):
    """A node of a quorum whose controllers come and go: it says where it listens and knows nobody at first."""

    def __init__(self, node_id: int, port: int) -> None:
        self.node_id = node_id
        self.owner = Owner()
        self.transport = RaftTransport(
            node_id=node_id,
            cluster_id="c",
            addresses=AddressBook(),
            peers=[],
            chance=random.Random(node_id),
            listens_at=[("CONTROLLER", "127.0.0.1", port)],
            dynamic=True,
        )
        self.transport.attach(self.owner)
        router = Router(answering_of("c"), upgrades=self.transport.upgrades)
        self.listener = Listener("CONTROLLER", "127.0.0.1", port, router)


def with_dynamic(story: Callable[[Dynamic, Dynamic, dict[int, int]], Awaitable[None]]) -> None:
    async def run() -> None:
        ports = two_ports()
        one, two = Dynamic(1, ports[1]), Dynamic(2, ports[2])
        await one.start()
        await two.start()
        try:
            await story(one, two, ports)
        finally:
            await one.stop()
            await two.stop()

    asyncio.run(run())


def test_an_observer_is_reached_at_its_address_while_it_is_connected() -> None:
    async def story(one: Dynamic, two: Dynamic, ports: dict[int, int]) -> None:
        two.transport.introduce(1, ("127.0.0.1", ports[1]))
        await until(lambda: ("connected", 2) in one.owner.events)
        one.transport.send(2, b"entries")
        await until(lambda: two.owner.frames == [b"entries"])
        await two.stop()
        await until(lambda: one.owner.events.count(("disconnected", 2)) >= 1 and 2 not in one.transport._links)
        one.transport.send(2, b"to nobody")
        one.transport.reset(2)

    with_dynamic(story)


def test_a_peer_is_reached_at_the_listener_that_this_node_uses() -> None:
    """While a cluster moves to another listener, its controllers differ in their default one."""

    async def story(one: Dynamic, two: Dynamic, ports: dict[int, int]) -> None:
        nowhere = ("SECURE", "127.0.0.1", 1)
        one.transport.reach([2], {2: [nowhere, ("CONTROLLER", "127.0.0.1", ports[2])]})
        await until(lambda: ("connected", 2) in one.owner.events)
        greeting = Greeting(1, "c", 7, "127.0.0.1", 1, [nowhere, ("CONTROLLER", "127.0.0.1", ports[2])])
        _, writer = await greeted(ports[1], msgspec.msgpack.encode(greeting))
        await until(lambda: one.transport._addresses.get(7) == ("127.0.0.1", ports[2]))
        writer.close()

    with_dynamic(story)


def test_members_are_reached_at_their_endpoints_until_their_removal() -> None:
    async def story(one: Dynamic, two: Dynamic, ports: dict[int, int]) -> None:
        one.transport.reach([2], {2: [("CONTROLLER", "127.0.0.1", ports[2])]})
        await until(lambda: ("connected", 2) in one.owner.events and ("connected", 1) in two.owner.events)
        alone: Endpoints = {3: [("CONTROLLER", "127.0.0.1", 1)]}
        one.transport.reach([], alone)
        assert 2 in one.transport._links, "it is connected to this node: a guest now"
        two.transport.reach([], alone)
        await two.stop()
        await until(lambda: 2 not in one.transport._links)

    with_dynamic(story)


@pytest.mark.parametrize("leader_first", [False, True])
def test_a_new_observer_connects_again_though_its_log_has_no_voter_set_yet(leader_first: bool) -> None:
    """A guest is disconnected when its own connection ends: of two nodes one must not be the other's guest."""

    async def story(one: Dynamic, two: Dynamic, ports: dict[int, int]) -> None:
        if leader_first:
            one.transport.introduce(2, ("127.0.0.1", ports[2]))
            await until(lambda: ("connected", 1) in two.owner.events)
            one.transport.reach([], {1: [("CONTROLLER", "127.0.0.1", ports[1])]})
        two.transport.introduce(1, ("127.0.0.1", ports[1]))
        two.transport.reach([], {})
        await until(lambda: 2 in one.transport.incoming and 1 in two.transport.incoming)
        before = len(one.owner.events), len(two.owner.events)
        one.transport.incoming[2].link.close()
        await until(lambda: ("connected", 2) in one.owner.events[before[0] :])
        await until(lambda: ("connected", 1) in two.owner.events[before[1] :])

    with_dynamic(story)


def test_a_controller_that_is_introduced_again_is_reached_at_its_new_address() -> None:
    async def story(one: Dynamic, two: Dynamic, ports: dict[int, int]) -> None:
        two.transport.introduce(1, ("127.0.0.1", 1))
        await until(lambda: ("refused", 1) in two.owner.events)
        two.transport.introduce(1, ("127.0.0.1", ports[1]))
        await until(lambda: ("connected", 2) in one.owner.events)
        two.transport.introduce(1, ("127.0.0.1", 1))
        assert two.transport._addresses.get(1) == ("127.0.0.1", ports[1]), "it is connected where it is"

    with_dynamic(story)


def test_there_is_a_limit_to_guests() -> None:
    async def story(one: Dynamic, two: Dynamic, ports: dict[int, int]) -> None:
        held = []
        for guest in range(10, 10 + GUESTS_MAX):
            body = msgspec.msgpack.encode(Greeting(1, "c", guest, "127.0.0.1", 1))
            held.append(await greeted(ports[1], body))
        await until(lambda: len(one.transport.incoming) == GUESTS_MAX)
        reader, writer = await greeted(ports[1], msgspec.msgpack.encode(Greeting(1, "c", 99, "127.0.0.1", 1)))
        assert await reader.read() == b"" and 99 not in one.transport._links
        for _, each in (*held, (reader, writer)):
            each.close()
            await each.wait_closed()

    with_dynamic(story)
