"""Request and response headers against kio's, cut short, and with tagged fields of a later version."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.request_header.v1 import RequestHeader as KioRequestHeaderV1
from kio.schema.request_header.v2 import RequestHeader as KioRequestHeaderV2
from kio.schema.response_header.v0 import ResponseHeader as KioResponseHeaderV0
from kio.schema.response_header.v1 import ResponseHeader as KioResponseHeaderV1
from kio.serial import entity_writer

from kvorum.protocol.errors import ProtocolError
from kvorum.protocol.headers import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request_header,
    encode_response_header,
)

REQUEST_HEADERS = st.builds(
    RequestHeader,
    st.integers(0, 92),
    st.integers(0, 20),
    st.integers(-(1 << 31), (1 << 31) - 1),
    st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
)
VERSIONS = st.sampled_from([1, 2])


def written_by_kio(entity: object) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


@given(REQUEST_HEADERS, VERSIONS)
def test_a_request_header_is_the_bytes_kio_writes_and_reads_back(header: RequestHeader, version: int) -> None:
    cls = KioRequestHeaderV1 if version == 1 else KioRequestHeaderV2
    theirs = cls(
        request_api_key=header.api_key,
        request_api_version=header.api_version,
        correlation_id=header.correlation_id,
        client_id=header.client_id,
    )
    data = encode_request_header(header, version)
    assert data == written_by_kio(theirs)
    assert decode_request_header(memoryview(data + b"body"), version) == (header, len(data))


@given(st.integers(-(1 << 31), (1 << 31) - 1), st.sampled_from([0, 1]))
def test_a_response_header_is_the_bytes_kio_writes_and_reads_back(correlation_id: int, version: int) -> None:
    cls = KioResponseHeaderV0 if version == 0 else KioResponseHeaderV1
    data = encode_response_header(correlation_id, version)
    assert data == written_by_kio(cls(correlation_id=correlation_id))
    assert decode_response_header(memoryview(data + b"body"), version) == (correlation_id, len(data))


@given(REQUEST_HEADERS, VERSIONS)
def test_a_cut_request_header_is_refused(header: RequestHeader, version: int) -> None:
    data = encode_request_header(header, version)
    for size in range(len(data)):
        with pytest.raises(ProtocolError):
            decode_request_header(memoryview(data)[:size], version)


@given(st.binary(max_size=40), VERSIONS)
def test_any_bytes_are_read_or_refused(data: bytes, version: int) -> None:
    try:
        _, position = decode_request_header(memoryview(data), version)
    except ProtocolError:
        return
    assert position <= len(data)


def test_unknown_tagged_fields_are_skipped() -> None:
    head = encode_request_header(RequestHeader(3, 12, 7, "c"), 1)
    header, position = decode_request_header(memoryview(head + b"\x02\x00\x03abc\x85\x01\x00" + b"body"), 2)
    assert header.client_id == "c"
    assert (head + b"\x02\x00\x03abc\x85\x01\x00body")[position:] == b"body"


@pytest.mark.parametrize(
    ("tail", "why"),
    [
        (b"\x7f\xffabc", "client id of 32767"),
        (b"\x00\x00\x01\x00\x7f", "exceeds the frame"),
        (b"\x00\x00\xff\xff\xff\xff\x0f", "too early"),
        (b"\x00\x00\xff\xff\xff\xff\xff\x0f", "varint"),
    ],
)
def test_errors_have_a_reason(tail: bytes, why: str) -> None:
    fixed = bytes.fromhex("0003000c00000007")
    with pytest.raises(ProtocolError, match=why):
        decode_request_header(memoryview(fixed + tail), 2)


def test_a_client_id_is_taken_as_kafka_takes_it() -> None:
    """Any negative length is null, what is no UTF-8 is replaced."""
    fixed = bytes.fromhex("0003000100000007")
    assert decode_request_header(memoryview(fixed + b"\xff\xfebody"), 1)[0].client_id is None
    assert decode_request_header(memoryview(fixed + b"\x00\x03a\xffb"), 1)[0].client_id == "a\ufffdb"
