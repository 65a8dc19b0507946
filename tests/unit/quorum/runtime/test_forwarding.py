"""Envelopes keep the principal and the address of the client, and requests find the active controller."""

import asyncio
import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvorum.network.authorizer import Authorizer, ClusterPrincipals, Operation, ResourceType
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from kvorum.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    OpData,
    RequestEntityData,
    RequestEntryData,
)
from kvorum.protocol.messages.broker_registration import BrokerRegistrationRequest
from kvorum.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from kvorum.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kvorum.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from kvorum.protocol.messages.metadata import MetadataRequest
from kvorum.protocol.schema import Message
from kvorum.quorum import controller_channel
from kvorum.quorum.controller_channel import ControllerChannel, ControllerNodes
from kvorum.quorum.forwarder import Forwarder
from kvorum.quorum.forwarding import (
    decode_address,
    decode_principal,
    encode_address,
    encode_principal,
    has_error,
    unwrap,
    wrap,
)
from kvorum.security.principal import Principal
from tests.unit.quorum.runtime.net_kit import OTHER_CLUSTER_ID, eventually, running, within_limit
from tests.unit.quorum.runtime.runtime_kit import CLUSTER_ID
from tests.unit.quorum.runtime.runtime_kit import settings as node_settings

ALICE = Principal("User", "CN=älice, O=test")
QUOTA = RequestEntryData(
    entity=[RequestEntityData(entity_type="user", entity_name="alice")],
    ops=[OpData(key="producer_byte_rate", value=1.0)],
)


class Watching:
    """Allows everything but topics named `secret...`; remembers who asked for what."""

    version = 0

    def __init__(self) -> None:
        self.requested: list[tuple[Principal, str, Operation, str]] = []

    def authorize(
        self, ctx: RequestContext, operation: Operation, resource_type: ResourceType, resource_name: str
    ) -> bool:
        self.requested.append((ctx.principal, ctx.client_address, operation, resource_name))
        if resource_type is ResourceType.CLUSTER:
            return operation is Operation.CLUSTER_ACTION
        return not resource_name.startswith("secret")


class Published:
    """A loader that has published all there is."""

    async def wait_for_offset(self, offset: int, timeout_ms: int) -> None:
        return


async def forward(channel: ControllerChannel, ctx: RequestContext, request: Message, **changes: object) -> Message:
    return await Forwarder(channel, Published(), node_settings(**changes)).forward(ctx, request)


def client(version: int, key: ApiKey = ApiKey.CREATE_TOPICS) -> RequestContext:
    return RequestContext(
        principal=ALICE,
        api_key=key,
        api_version=version,
        correlation_id=4711,
        client_id="her-client",
        client_address="10.1.2.3",
    )


def topics(*names: str) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
    )


@pytest.mark.parametrize("version", [2, 4, 5, 7])
def test_a_forwarded_request_is_the_clients_own(tmp_path: Path, version: int) -> None:
    async def go() -> None:
        watching = Watching()
        async with running(tmp_path, authorizer=watching) as net:
            net.controllers[0].log.elect()
            channel = net.channel()
            answer = await forward(channel, client(version), topics("good", "secret-plan"))
            await channel.close()
        assert isinstance(answer, CreateTopicsResponse)
        codes = {result.name: ErrorCode(result.error_code) for result in answer.topics}
        assert codes == {
            "good": ErrorCode.INVALID_REPLICATION_FACTOR,  # no broker is there: it was judged, not refused
            "secret-plan": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        }
        assert (ALICE, "10.1.2.3", Operation.CREATE, "good") in watching.requested
        assert {who for who, _, operation, _ in watching.requested if operation is Operation.CREATE} == {ALICE}

    within_limit(go())


def test_requests_go_to_the_new_active_controller(tmp_path: Path) -> None:
    async def go() -> None:
        async with running(tmp_path, 3) as net:
            first, second, _ = net.controllers
            first.log.elect()
            channel = net.channel()
            assert (await forward(channel, client(7), topics("a"))) is not None
            assert channel.nodes.leader_id == 1
            first.log.depose(leader_id=2)
            waiting = asyncio.ensure_future(forward(channel, client(7), topics("b")))
            await asyncio.sleep(0.1)
            assert not waiting.done(), "nobody is active yet"
            second.log.elect()
            await waiting
            assert channel.nodes.leader_id == 2
            await channel.close()

    within_limit(go())


def test_a_new_leader_gets_the_requests_that_wait_for_the_old_one(tmp_path: Path) -> None:
    async def go() -> None:
        async with running(tmp_path, 2) as net:
            stuck, second = net.controllers
            stuck.log.elect()
            stuck.log.commits_at_once = False  # it leads and never commits: as if it were stopped
            second.log.elect()
            nodes = net.nodes()
            nodes.learn(1, 1)
            channel = net.channel(nodes)
            waiting = asyncio.ensure_future(
                channel.request(AllocateProducerIdsRequest(broker_id=1, broker_epoch=1), timeout_ms=5_000)
            )
            await asyncio.sleep(0.05)
            nodes.learn(2, 2)
            answer = await waiting
            assert has_error(answer, ErrorCode.STALE_BROKER_EPOCH)
            assert nodes.leader_id == 2
            await channel.close()

    within_limit(go())


def test_a_clients_request_is_not_sent_to_the_new_leader_while_the_old_one_answers(tmp_path: Path) -> None:
    """It could be carried out twice: a removed voter is then one that is not found."""

    async def go() -> None:
        async with running(tmp_path, 2) as net:
            old, new = net.controllers
            old.log.elect()
            new.log.elect()
            nodes = net.nodes()
            nodes.learn(1, 1)
            channel = net.channel(nodes)
            await forward(channel, client(7), topics("a"))
            old.log.commits_at_once = False
            before = len(new.log.batches)
            request = AlterClientQuotasRequest(entries=[QUOTA])
            waiting = asyncio.ensure_future(forward(channel, client(1, ApiKey.ALTER_CLIENT_QUOTAS), request))
            await eventually(lambda: bool(old.log._open))
            nodes.learn(2, 2)
            await asyncio.sleep(0.05)
            assert not waiting.done() and len(new.log.batches) == before
            old.log.commit()
            answer = await waiting
            assert isinstance(answer, AlterClientQuotasResponse)
            assert [each.error_code for each in answer.entries] == [ErrorCode.NONE]
            assert len(new.log.batches) == before
            await channel.close()

    within_limit(go())


def test_a_clients_request_goes_to_the_new_leader_if_the_old_one_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller_channel, "OLD_LEADER_ANSWER_MS", 10)

    async def go() -> None:
        async with running(tmp_path, 2) as net:
            stuck, new = net.controllers
            stuck.log.elect()
            new.log.elect()
            nodes = net.nodes()
            nodes.learn(1, 1)
            channel = net.channel(nodes)
            await forward(channel, client(7), topics("a"))
            stuck.log.commits_at_once = False
            before = len(new.log.batches)
            request = AlterClientQuotasRequest(entries=[QUOTA])
            waiting = asyncio.ensure_future(forward(channel, client(1, ApiKey.ALTER_CLIENT_QUOTAS), request))
            await eventually(lambda: bool(stuck.log._open))
            nodes.learn(2, 2)
            await waiting
            assert len(new.log.batches) == before + 1
            await channel.close()

    within_limit(go())


def test_a_request_never_reaches_a_controller_of_another_cluster(tmp_path: Path) -> None:
    async def go() -> None:
        async with running(tmp_path / "a") as ours, running(tmp_path / "b", cluster_id=OTHER_CLUSTER_ID) as other:
            for net in (ours, other):
                net.controllers[0].log.elect()
            nodes = ControllerNodes({1: other.known[1], 2: ours.known[1], 3: other.known[1]}, CLUSTER_ID)
            nodes.learn(1, 0)
            channel, offset = ours.channel(nodes), other.controllers[0].log.high_watermark
            assert isinstance(await forward(channel, client(7), topics("a")), CreateTopicsResponse)
            assert nodes.leader_id == 2 and nodes.wrong_cluster() is None
            assert other.controllers[0].log.high_watermark == offset
            assert f"controllers 1 (127.0.0.1:{other.known[1][1]})" in nodes.missing()
            assert "another cluster" in nodes.missing()
            await channel.close()

    within_limit(go())


def test_a_node_among_controllers_of_another_cluster_learns_that_its_cluster_id_is_wrong(tmp_path: Path) -> None:
    async def go() -> None:
        async with running(tmp_path, 3, cluster_id=OTHER_CLUSTER_ID) as other:
            other.controllers[0].log.elect()
            channel = other.channel(ControllerNodes(other.known, CLUSTER_ID))
            with pytest.raises(KafkaError, match="this node belongs to cluster") as caught:
                await channel.register_broker(BrokerRegistrationRequest(broker_id=1, cluster_id=CLUSTER_ID))
            assert caught.value.code is ErrorCode.INCONSISTENT_CLUSTER_ID
            assert all(f":{port})" in str(caught.value) for _, port in other.known.values())
            assert OTHER_CLUSTER_ID in str(caught.value)
            await channel.close()

    within_limit(go())


def test_a_request_that_another_than_the_leader_does_not_know_goes_to_the_next(tmp_path: Path) -> None:
    """In a rolling upgrade an old controller that does not lead says nothing about the leader."""

    class Old(ControllerChannel):
        async def send_to(self, node_id: int, message: Message, *, timeout_ms: int) -> Message:
            if node_id == 1:
                raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "it is not served")
            return await super().send_to(node_id, message, timeout_ms=timeout_ms)

    async def go() -> None:
        async with running(tmp_path, 2) as net:
            net.controllers[1].log.elect()
            channel = Old(net.nodes(), node_settings(), client_id="test", chance=random.Random(1))
            for _ in range(2):
                assert isinstance(await forward(channel, client(7), topics("a")), CreateTopicsResponse)
                channel.nodes.deny(2)
            channel.nodes.learn(1, 5)
            with pytest.raises(KafkaError, match="it is not served"):
                await forward(channel, client(7), topics("a"))
            await channel.close()

    within_limit(go())


def test_bootstrap_servers_are_enough_and_the_one_that_leads_is_kept() -> None:
    nodes = ControllerNodes.of(
        node_settings(controller_quorum_voters="", controller_quorum_bootstrap_servers="a:1,b:2,c:3"), CLUSTER_ID
    )
    assert sorted(nodes.addresses.ids()) == [-4, -3, -2]
    assert {nodes.pick() for _ in range(3)} == {-4, -3, -2}, "each in turn"
    nodes.confirm(-3)
    assert {nodes.pick() for _ in range(3)} == {-3} and nodes.leader_id is None
    nodes.deny(-3)
    assert len({nodes.pick() for _ in range(3)}) == 3
    nodes.learn(7, 4, ("c", 3))
    assert nodes.pick() == nodes.leader_id == 7


def test_leader_information_counts_by_its_epoch() -> None:
    nodes = ControllerNodes({1: ("a", 1), 2: ("b", 2)}, CLUSTER_ID)
    nodes.learn(1, 5)
    nodes.learn(2, 4)
    assert (nodes.leader_id, nodes.epoch) == (1, 5)
    nodes.learn(3, 6)
    assert (nodes.leader_id, nodes.epoch) == (None, 6), "nobody said where 3 is"
    nodes.learn(3, 6, ("c", 3))
    assert nodes.pick() == 3


def test_a_request_that_no_controller_takes_times_out(tmp_path: Path) -> None:
    async def go() -> None:
        async with running(tmp_path) as net:
            channel = net.channel()
            with pytest.raises(KafkaError) as caught:
                await forward(channel, client(7), topics("a"), request_timeout_ms=200)
            assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT
            await channel.close()

    within_limit(go())


def test_a_request_is_sent_no_longer_than_its_client_waits(tmp_path: Path) -> None:
    """Else a CreateTopics that its client gave up could bring back a topic that was deleted meanwhile."""

    async def go() -> None:
        async with running(tmp_path) as net:
            channel = net.channel()
            request = replace(topics("a"), timeout=200)
            with pytest.raises(KafkaError) as caught:
                await forward(channel, client(7), request, request_timeout_ms=600_000)
            assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT
            await channel.close()

    within_limit(go())


def test_a_direct_request_without_an_active_controller_is_refused_in_its_rows(tmp_path: Path) -> None:
    async def go() -> None:
        async with running(tmp_path) as net:
            channel = net.channel()
            answer = await channel.send_to(1, topics("a", "b"), timeout_ms=1_000)
            await channel.close()
            assert isinstance(answer, CreateTopicsResponse)
            assert [each.error_code for each in answer.topics] == [ErrorCode.NOT_CONTROLLER] * 2
            assert has_error(answer, ErrorCode.NOT_CONTROLLER)

    within_limit(go())


def envelope_code(tmp_path: Path, envelope: EnvelopeRequest, authorizer: Authorizer | None = None) -> ErrorCode:
    async def go() -> ErrorCode:
        async with running(tmp_path, authorizer=authorizer) as net:
            net.controllers[0].log.elect()
            channel = net.channel()
            answer = await channel.send_to(1, envelope, timeout_ms=1_000)
            await channel.close()
            assert isinstance(answer, EnvelopeResponse)
            return ErrorCode(answer.error_code)

    return within_limit(go())


def test_an_envelope_of_a_client_is_refused(tmp_path: Path) -> None:
    of_nodes = ClusterPrincipals({"CONTROLLER": frozenset((Principal("User", "node"),))})
    code = envelope_code(tmp_path, wrap(client(7), topics("a")), of_nodes)
    assert code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_envelopes_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    good = wrap(client(7), topics("a"))
    cases = {
        ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE: EnvelopeRequest(
            request_data=good.request_data, request_principal=b"\0\7", client_host_address=good.client_host_address
        ),
        ErrorCode.INVALID_REQUEST: EnvelopeRequest(
            request_data=b"nonsense", request_principal=good.request_principal, client_host_address=bytes(4)
        ),
    }
    for number, (code, envelope) in enumerate(cases.items()):
        assert envelope_code(tmp_path / str(number), envelope) is code
    bad_address = EnvelopeRequest(
        request_data=good.request_data, request_principal=good.request_principal, client_host_address=b"123"
    )
    assert envelope_code(tmp_path / "address", bad_address) is ErrorCode.INVALID_REQUEST
    unserved = wrap(client(12, ApiKey.METADATA), MetadataRequest(topics=None))
    assert envelope_code(tmp_path / "api", unserved) is ErrorCode.INVALID_REQUEST
    nested = wrap(client(0, ApiKey.ENVELOPE), good)
    answer = envelope_code(tmp_path / "nested", nested)
    assert answer is ErrorCode.NONE, "the outer one is sound, the inner one was refused"


def test_an_answer_in_an_envelope_is_the_clients(tmp_path: Path) -> None:
    async def go() -> None:
        async with running(tmp_path) as net:
            net.controllers[0].log.elect()
            channel = net.channel()
            ctx = client(2, ApiKey.DESCRIBE_CLUSTER)
            answer = await forward(channel, ctx, DescribeClusterRequest(endpoint_type=2))
            await channel.close()
            assert isinstance(answer, DescribeClusterResponse)
            assert answer.controller_id == 1

    within_limit(go())


@settings(deadline=None)
@given(kind=st.text(max_size=20), name=st.text(max_size=300), by_token=st.booleans())
def test_principals_survive_the_way(kind: str, name: str, by_token: bool) -> None:
    found = decode_principal(encode_principal(Principal(kind, name, by_token)))
    assert (found, found.token_authenticated) == (Principal(kind, name), by_token)


def test_a_principal_is_written_as_kafka_does() -> None:
    assert encode_principal(Principal("User", "alice")) == b"\0\0\x05User\x06alice\0\0"
    by_token = Principal("User", "alice", token_authenticated=True)
    assert encode_principal(by_token) == b"\0\0\x05User\x06alice\1\0"
    assert decode_principal(encode_principal(by_token)).token_authenticated


@settings(deadline=None)
@given(data=st.binary(max_size=40))
def test_any_other_principal_is_refused(data: bytes) -> None:
    try:
        principal = decode_principal(data)
    except KafkaError as error:
        assert error.code is ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE
    else:
        assert data.startswith(encode_principal(principal)[:-2])


@pytest.mark.parametrize("text", ["10.1.2.3", "::1", "fe80::1%eth0"])
def test_addresses_survive_the_way(text: str) -> None:
    assert decode_address(encode_address(text)) == text.partition("%")[0]


@pytest.mark.parametrize(
    ("sent", "reported"),
    [
        (ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_CONTROLLER),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST),
    ],
)
def test_an_envelopes_own_error_becomes_the_clients(sent: ErrorCode, reported: ErrorCode) -> None:
    with pytest.raises(KafkaError) as caught:
        unwrap(client(7), topics("a"), EnvelopeResponse(error_code=sent))
    assert caught.value.code is reported
