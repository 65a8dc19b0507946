"""Controllers over the real Raft layer, in one process, on loopback and real files, with channels and loaders."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from pathlib import Path

from kvorum.network.addresses import Address, AddressBook
from kvorum.network.server import Listener
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from kvorum.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from kvorum.protocol.messages.broker_registration import BrokerRegistrationRequest, Feature
from kvorum.protocol.messages.broker_registration import Listener as BrokerListener
from kvorum.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse
from kvorum.protocol.uuids import Uuid
from kvorum.quorum.controller.features import SUPPORTED
from kvorum.quorum.controller_channel import ControllerChannel, ControllerNodes
from kvorum.quorum.image.features import KRAFT_VERSION
from kvorum.quorum.loader import MetadataLoader
from kvorum.quorum.raft.opening import format_raft, open_raft
from kvorum.quorum.raft.replicated import RaftMetadataLog
from kvorum.quorum.raft.settings import RaftSettings
from kvorum.quorum.raft.transport import RaftTransport
from kvorum.quorum.server import ControllerServer
from kvorum.runtime.clock import SystemClock
from kvorum.runtime.disk import OsDisk
from tests.unit.quorum.runtime.net_kit import Follower, eventually, within_limit
from tests.unit.quorum.runtime.runtime_kit import CLUSTER_ID, change, settings, topic_record

USUAL = RaftSettings()
"""Kafka's default timeouts: a busy machine holds no elections."""


class Node:
    """One controller of a quorum; `stop` and a new Node on the same path are a restart."""

    def __init__(self, path: Path, node_id: int, count: int, raft: RaftSettings = USUAL) -> None:
        self.faults: list[BaseException] = []
        self.known: dict[int, Address] = {}
        self.book = AddressBook()
        folder = path / f"controller-{node_id}"
        if not folder.exists():
            format_raft(
                OsDisk(),
                str(folder / "raft"),
                cluster_id=CLUSTER_ID,
                node_id=node_id,
                directory_id=bytes([node_id]) * 16,
                voter_ids=list(range(1, count + 1)),
                directories={other: bytes([other]) * 16 for other in range(1, count + 1)},
            )
        peers = [other for other in range(1, count + 1) if other != node_id]
        self.transport = RaftTransport(
            node_id=node_id, cluster_id=CLUSTER_ID, addresses=self.book, peers=peers, chance=random.Random(node_id)
        )
        self.opened = open_raft(OsDisk(), str(folder / "raft"))
        self.log = RaftMetadataLog(
            self.opened,
            link=self.transport,
            settings=raft,
            clock=SystemClock(),
            rng=random.Random(node_id),
            on_fatal=self.faults.append,
        )
        self.transport.attach(self.log.node)
        self.server = ControllerServer(
            settings(metadata_max_idle_interval_ms=100),
            OsDisk(),
            SystemClock(),
            random.Random(node_id),
            self.log,
            cluster_id=CLUSTER_ID,
            on_fault=self.faults.append,
            directory=str(folder),
            voter_addresses=lambda listener: self.known,
            upgrades=self.transport.upgrades,
            membership=self.log.membership,
            voter_endpoints=self.log.voter_endpoints,
        )
        self.listener = Listener(
            "CONTROLLER", "127.0.0.1", 0, self.server.router, on_connection_closed=self.server.on_connection_closed
        )

    async def listen(self) -> Address:
        await self.server.start()
        return "127.0.0.1", await self.listener.start()

    def start(self, known: dict[int, Address]) -> None:
        self.known.update(known)
        self.opened.voters.listens_at = [("CONTROLLER", *known[self.log.node_id])]
        for node_id, address in known.items():
            self.book.put(node_id, address)
        self.transport.start()
        self.log.start()

    async def stop(self) -> None:
        await self.listener.close(grace_ms=0)
        await self.transport.close()
        self.log.stop()
        await self.server.close()
        self.log.node.replica.journal.close()
        assert not self.faults, self.faults


@contextlib.asynccontextmanager
async def quorum(path: Path, count: int, raft: RaftSettings = USUAL) -> AsyncIterator[list[Node]]:
    nodes = [Node(path, node_id, count, raft) for node_id in range(1, count + 1)]
    known = {node_id: await node.listen() for node_id, node in enumerate(nodes, 1)}
    for node in nodes:
        node.start(known)
    try:
        await eventually(lambda: any(node.server.controller.is_active() for node in nodes))
        yield nodes
    finally:
        for node in nodes:
            await node.stop()


def active(nodes: list[Node]) -> Node:
    (found,) = [node for node in nodes if node.server.controller.is_active()]
    return found


def loader(path: Path, known: ControllerNodes, faults: list[BaseException]) -> MetadataLoader:
    return MetadataLoader(
        settings(),
        OsDisk(),
        SystemClock(),
        known,
        node_id=11,
        cluster_id=CLUSTER_ID,
        chance=random.Random(11),
        on_fault=faults.append,
        directory=str(path / "broker"),
    )


def registration(port: int) -> BrokerRegistrationRequest:
    return BrokerRegistrationRequest(
        broker_id=11,
        cluster_id=CLUSTER_ID,
        incarnation_id=Uuid((1 << 60).to_bytes(16, "big")),
        listeners=[BrokerListener(name="PLAINTEXT", host="127.0.0.1", port=port)],
        features=[
            Feature(name=name, min_supported_version=each.min_supported, max_supported_version=each.max_supported)
            for name, each in SUPPORTED.items()
        ],
        log_dirs=[Uuid((1 << 50).to_bytes(16, "big"))],
        rack=None,
    )


def test_a_restarted_controller_continues_where_it_was(tmp_path: Path) -> None:
    async def go() -> None:
        async with quorum(tmp_path, 1) as nodes:
            for number in range(20):
                await nodes[0].server.controller.submit(change(None, topic_record(number)))
            digest, end_offset = nodes[0].server.store.image.digest(), nodes[0].server.store.end_offset
        async with quorum(tmp_path, 1) as nodes:
            await nodes[0].server.controller.confirm_leadership()
            assert nodes[0].server.store.image.digest() == digest
            await eventually(lambda: nodes[0].server.store.end_offset > end_offset)
            assert nodes[0].server.controller.epoch > 1

    within_limit(go())


def test_brokers_start_from_snapshots_of_raft(tmp_path: Path) -> None:
    small = RaftSettings(snapshot_bytes=5_000, retained_entries=10)

    async def go() -> None:
        async with quorum(tmp_path, 1, small) as nodes:
            (node,) = nodes
            for number in range(200):
                await node.server.controller.submit(change(None, topic_record(number)))
            await eventually(lambda: node.server.store.log_start_offset > 0)
            faults: list[BaseException] = []
            following = loader(tmp_path, ControllerNodes(node.known, CLUSTER_ID), faults)
            await following.start()
            await following.wait_for_offset(node.server.store.end_offset - 1)
            assert following.image.digest() == node.server.store.image.digest()
            assert following.log is not None and following.log.log_start_offset > 0
            await following.close()
            assert not faults
            digest = node.server.store.image.digest()
        async with quorum(tmp_path, 1, small) as nodes:
            await nodes[0].server.controller.confirm_leadership()
            assert nodes[0].server.store.image.digest() == digest

    within_limit(go())


def test_brokers_and_requests_follow_when_the_active_controller_goes(tmp_path: Path) -> None:
    async def go() -> None:
        async with quorum(tmp_path, 3) as nodes:
            first = active(nodes)
            known = ControllerNodes(dict(first.known), CLUSTER_ID)
            channel = ControllerChannel(known, settings(), client_id="broker-11", chance=random.Random(5))
            faults: list[BaseException] = []
            following = loader(tmp_path, known, faults)
            follower = Follower()
            following.install(follower)
            await following.start()
            answer = await channel.register_broker(registration(9))
            assert answer.error_code == ErrorCode.NONE
            await following.wait_for_offset(answer.broker_epoch)
            nodes.remove(first)
            await first.stop()
            beat = await channel.heartbeat(
                BrokerHeartbeatRequest(
                    broker_id=11, broker_epoch=answer.broker_epoch, current_metadata_offset=following.offset
                )
            )
            assert (beat.error_code, beat.is_fenced) == (ErrorCode.NONE, False)
            second = active(nodes)
            assert second is not first and known.leader_id == second.log.node_id
            await following.wait_for_offset(second.server.store.end_offset - 1)
            assert not following.image.cluster.brokers[11].fenced
            await eventually(lambda: len({node.server.store.image.digest() for node in nodes}) == 1)
            assert following.image.digest() == second.server.store.image.digest()
            await channel.close()
            await following.close()
            assert not faults

    within_limit(go())


def test_a_block_of_producer_ids_is_allocated_once_despite_controller_failures(tmp_path: Path) -> None:
    async def go() -> None:
        async with quorum(tmp_path, 3) as nodes:
            known = ControllerNodes(dict(nodes[0].known), CLUSTER_ID)
            channel = ControllerChannel(known, settings(), client_id="broker-11", chance=random.Random(5))
            registered = await channel.register_broker(registration(9))
            given: list[int] = []

            async def allocate() -> None:
                request = AllocateProducerIdsRequest(broker_id=11, broker_epoch=registered.broker_epoch)
                while len(given) < 150:
                    try:
                        answer = await channel.allocate_producer_ids(request)
                    except KafkaError as error:
                        assert error.code is ErrorCode.REQUEST_TIMED_OUT
                        continue
                    assert (answer.error_code, answer.producer_id_len) == (ErrorCode.NONE, 1000)
                    given.append(answer.producer_id_start)

            writers = [asyncio.ensure_future(allocate()) for _ in range(5)]
            for round_number in (1, 2):
                await eventually(lambda count=round_number * 40: len(given) >= count)
                # Leadership goes away with appends open: the next leader (it may be the same) may have them or not.
                await eventually(lambda: any(node.server.controller.is_active() for node in nodes))
                leader = active(nodes)
                epoch = leader.server.controller.epoch
                leader.log.node.leader.start_transfer()
                await eventually(lambda old=epoch: any(node.server.controller.epoch > old for node in nodes))
            await asyncio.gather(*writers)
            assert len(set(given)) == len(given), "no block twice"
            await channel.close()
            await eventually(lambda: len({node.server.store.image.digest() for node in nodes}) == 1)
            assert active(nodes).server.store.image.producer_ids.next_producer_id > max(given)

    within_limit(go())


def update(level: int, kind: int = 1, *, dry: bool = False) -> UpdateFeaturesRequest:
    key = FeatureUpdateKey(feature=KRAFT_VERSION, max_version_level=level, upgrade_type=kind)
    return UpdateFeaturesRequest(feature_updates=[key], validate_only=dry)


async def everybody_is_known(nodes: list[Node]) -> None:
    """Wait until the leader could upgrade the quorum: each voter said where it listens."""

    def known() -> bool:
        try:
            active(nodes).log.membership.check_upgrade()
        except KafkaError:
            return False
        return True

    await eventually(known)


def test_a_static_quorum_is_upgraded_by_its_feature_and_never_goes_back(tmp_path: Path) -> None:
    async def go() -> None:
        async with quorum(tmp_path, 3) as nodes:
            await everybody_is_known(nodes)
            leader = active(nodes)
            known = ControllerNodes(dict(leader.known), CLUSTER_ID)
            channel = ControllerChannel(known, settings(), client_id="admin", chance=random.Random(5))

            async def ask(request: UpdateFeaturesRequest) -> tuple[int, str]:
                answer = await channel.ask(request, UpdateFeaturesResponse, timeout_ms=20_000)
                return answer.error_code, answer.error_message or ""

            assert await ask(update(1, dry=True)) == (ErrorCode.NONE, "")
            assert (await ask(update(2)))[0] == (await ask(update(1, 2)))[0] == ErrorCode.INVALID_UPDATE_VERSION
            assert not leader.log.voter_endpoints() and not leader.server.store.image.features.level(KRAFT_VERSION)
            for _ in range(2):
                assert await ask(update(1)) == (ErrorCode.NONE, "")
                assert leader.server.store.image.features.level(KRAFT_VERSION) == 1
            endpoints = {node_id: [("CONTROLLER", *address)] for node_id, address in leader.known.items()}
            await eventually(lambda: all(node.log.voter_endpoints() == endpoints for node in nodes))
            for kind, words in (
                (1, "without setting the upgrade type"),
                (2, "of this feature."),
                (3, "of this feature."),
            ):
                code, message = await ask(update(0, kind))
                assert code == ErrorCode.INVALID_UPDATE_VERSION and words in message and "Can't downgrade" in message
            await channel.close()
        async with quorum(tmp_path, 3) as nodes:
            assert all(node.log.voter_endpoints() == endpoints for node in nodes)
            assert active(nodes).server.store.image.features.level(KRAFT_VERSION) == 1

    within_limit(go())


def test_an_unwritten_upgrade_is_written_by_the_next_leader(tmp_path: Path) -> None:
    async def go() -> None:
        async with quorum(tmp_path, 3) as nodes:
            await everybody_is_known(nodes)
            leader = active(nodes)
            change = leader.log.membership.upgrade()
            assert change is not None
            await change
            assert not leader.server.store.image.features.level(KRAFT_VERSION)
            leader.log.node.leader.start_transfer()
            await eventually(lambda: all(node.server.store.image.features.level(KRAFT_VERSION) == 1 for node in nodes))

    within_limit(go())


def test_an_upgrade_waits_for_a_voter_that_is_away(tmp_path: Path) -> None:
    async def go() -> None:
        async with quorum(tmp_path, 3) as nodes:
            leader = active(nodes)
            away = next(node for node in nodes if node is not leader)
            nodes.remove(away)
            await away.stop()
            known = ControllerNodes(dict(leader.known), CLUSTER_ID)
            channel = ControllerChannel(known, settings(), client_id="admin", chance=random.Random(5))
            for dry in (True, False):
                answer = await channel.ask(update(1, dry=dry), UpdateFeaturesResponse, timeout_ms=20_000)
                assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
                assert "because not all of the voters support it" in (answer.error_message or "")
            await channel.close()
            assert not any(node.log.voter_endpoints() for node in nodes)

    within_limit(go())


def test_a_broker_that_dies_is_fenced_long_before_its_session_ends(tmp_path: Path) -> None:
    async def go() -> None:
        async with quorum(tmp_path, 1) as nodes:
            store = nodes[0].server.store
            door = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
            known = ControllerNodes(dict(nodes[0].known), CLUSTER_ID)
            channel = ControllerChannel(known, settings(), client_id="broker-11", chance=random.Random(5))
            answer = await channel.register_broker(registration(door.sockets[0].getsockname()[1]))
            await channel.heartbeat(
                BrokerHeartbeatRequest(
                    broker_id=11, broker_epoch=answer.broker_epoch, current_metadata_offset=answer.broker_epoch
                )
            )
            assert not store.image.cluster.brokers[11].fenced
            await channel.close()
            await asyncio.sleep(0.1)
            assert not store.image.cluster.brokers[11].fenced, "its door still opens"
            again = ControllerChannel(known, settings(), client_id="broker-11", chance=random.Random(6))
            await again.heartbeat(
                BrokerHeartbeatRequest(
                    broker_id=11, broker_epoch=answer.broker_epoch, current_metadata_offset=answer.broker_epoch
                )
            )
            door.close()
            await door.wait_closed()
            began = asyncio.get_running_loop().time()
            await again.close()
            await eventually(lambda: store.image.cluster.brokers[11].fenced)
            assert asyncio.get_running_loop().time() - began < 8, "a session lasts nine seconds"

    within_limit(go())
