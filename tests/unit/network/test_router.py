"""Versions, ApiVersions of the future, requests inside an envelope."""

import asyncio
from types import SimpleNamespace

import pytest

from kvorum.network.authorizer import AllowAll, Operation, ResourceType, authorized_operations
from kvorum.network.context import Peer, RequestContext
from kvorum.network.router import AnswerImpossible, Handler, Router, supported_apis, valid_software
from kvorum.protocol.api import BROKER_APIS, ApiKey
from kvorum.protocol.codec import decode_response
from kvorum.protocol.errors import ErrorCode, KafkaError, ProtocolError
from kvorum.protocol.messages.api_versions import ApiVersionsRequest
from kvorum.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kvorum.protocol.messages.metadata import MetadataRequest
from kvorum.protocol.messages.produce import ProduceRequest, ProduceResponse
from kvorum.security.principal import Principal
from tests.unit.network.network_kit import (
    api_versions_handler,
    listener_of,
    metadata_handler,
    read_frame,
    request_frame,
    run,
)

PEER = Peer("c-1", "10.0.0.1")


def body_of(frame: bytes) -> memoryview:
    return memoryview(bytearray(frame[4:]))


def test_api_versions_of_a_version_unknown_here_is_answered_in_v0_with_the_versions_it_has() -> None:
    async def main() -> None:
        listener = listener_of(metadata_handler())
        reader, writer = await asyncio.open_connection("127.0.0.1", await listener.start())
        # Nothing behind the correlation id is read: a later header may look different.
        frame = bytes.fromhex("0012 7fff 00000009") + b"\xff" * 30
        writer.write(len(frame).to_bytes(4, "big") + frame)
        answer = await read_frame(reader)
        assert answer == bytes.fromhex("00000009 0023 00000001 0012 0000 0004")
        writer.write(request_frame(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 4, 10))
        answer = await read_frame(reader)
        response = decode_response(ApiKey.API_VERSIONS, 4, answer[4:])  # its header never has tagged fields
        assert [(api.api_key, api.min_version, api.max_version) for api in response.api_keys] == [  # type: ignore[attr-defined]
            (ApiKey.METADATA, 0, 13),
            (ApiKey.API_VERSIONS, 0, 4),
        ]
        writer.close()
        await listener.close()

    run(main)


def test_produce_is_listed_from_0_and_refused_below_3() -> None:
    router = Router([Handler(ApiKey.PRODUCE, (3, 13), lambda ctx, request: ProduceResponse())])
    listed = supported_apis(router.versions(), {ApiKey.PRODUCE: BROKER_APIS[ApiKey.PRODUCE][0]})
    assert [(api.api_key, api.min_version, api.max_version) for api in listed] == [(0, 0, 13)]
    for version in (0, 1, 2, 14):
        frame = body_of(request_frame(ProduceRequest(), 3))
        frame[2:4] = version.to_bytes(2, "big")
        with pytest.raises(ProtocolError, match=f"Produce v{version}"):
            router.start(PEER, frame, 0)
    assert router.start(PEER, body_of(request_frame(ProduceRequest(), 3)), 0).result == ProduceResponse()


@pytest.mark.parametrize(
    ("name", "version", "valid"),
    [
        ("a", "1", True),
        ("apache-kafka-java", "3.7.0-SNAPSHOT", True),
        ("", "1", False),
        ("a b", "1", False),
        ("-a", "1", False),
        ("a", "1.", False),
        ("a\n", "1", False),
    ],
)
def test_a_client_s_software_is_named_as_kafka_has_it(name: str, version: str, valid: bool) -> None:
    request = ApiVersionsRequest(client_software_name=name, client_software_version=version)
    assert valid_software(request, 3) == valid
    assert valid_software(request, 2)


def test_a_request_in_an_envelope_is_handled_for_the_principal_it_names() -> None:
    seen: list[RequestContext] = []

    async def create(ctx: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
        seen.append(ctx)
        await asyncio.sleep(0)
        return CreateTopicsResponse(throttle_time=5)

    async def main() -> None:
        router = Router([Handler(ApiKey.CREATE_TOPICS, (2, 7), create), metadata_handler()])
        outer = RequestContext(principal=Principal("User", "alice"), client_address="10.1.1.1", correlation_id=99)
        inner = request_frame(CreateTopicsRequest(), 7, 1234, "her-client")
        parts = await router.dispatch_bytes(outer, body_of(inner))
        data = b"".join(bytes(part) for part in parts)  # type: ignore[arg-type]
        assert data[:5] == (1234).to_bytes(4, "big") + b"\0"
        assert decode_response(ApiKey.CREATE_TOPICS, 7, data[5:]) == CreateTopicsResponse(throttle_time=5)
        ctx = seen[0]
        assert (str(ctx.principal), ctx.client_address, ctx.client_id) == ("User:alice", "10.1.1.1", "her-client")
        assert ctx.forwarded
        data = b"".join(
            bytes(part)  # type: ignore[arg-type]
            for part in await router.dispatch_bytes(outer, body_of(request_frame(MetadataRequest(), 12, 6)))
        )
        assert decode_response(ApiKey.METADATA, 12, data[5:]).cluster_id == "test-cluster"  # type: ignore[attr-defined]
        for bad in (b"", b"\0\x13", bytes(20), request_frame(CreateTopicsRequest(), 7)[4:-1]):
            with pytest.raises(ProtocolError):
                await router.dispatch_bytes(outer, memoryview(bytearray(bad)))

    run(main)


def test_an_error_without_a_place_in_the_answer_is_no_answer() -> None:
    def fail(ctx: object, request: object) -> None:
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    router = Router([Handler(ApiKey.PRODUCE, (3, 13), fail)])
    with pytest.raises(AnswerImpossible):
        router.start(PEER, body_of(request_frame(ProduceRequest(), 9)), 0)


@pytest.mark.unexpected("AssertionError")
def test_an_answer_of_another_api_is_our_fault_and_no_answer(log_lines: list[str]) -> None:
    router = Router([Handler(ApiKey.PRODUCE, (3, 13), lambda ctx, request: CreateTopicsResponse())])
    call = router.start(PEER, body_of(request_frame(ProduceRequest(), 9)), 0)
    with pytest.raises(AnswerImpossible):
        router.answer(call, CreateTopicsResponse())
    assert "CreateTopicsResponse for Produce" in log_lines[0]


def test_one_api_has_one_handler() -> None:
    with pytest.raises(AssertionError):
        Router([metadata_handler(), metadata_handler()])
    Router([metadata_handler(), api_versions_handler({})])


def test_authorized_operations_are_the_bits_kafka_sends() -> None:
    ctx = RequestContext()
    assert authorized_operations(AllowAll(), ctx, ResourceType.TOPIC, "t") == 3576
    assert authorized_operations(AllowAll(), ctx, ResourceType.GROUP, "g") == 3400
    only_read = SimpleNamespace(authorize=lambda ctx, operation, kind, name: operation is Operation.READ)
    assert authorized_operations(only_read, ctx, ResourceType.TOPIC, "t") == 1 << Operation.READ
