"""Envelopes: a client's request carried from a broker to the active controller with its principal and address
(KIP-590).

Sans-IO. An Envelope contains the client's request with its own header, the principal as Kafka's DefaultPrincipalData
(version 0, flexible: version int16, compact type and name, token_authenticated, no tagged fields), and the client's
address as 4 or 16 bytes.
"""

from ipaddress import ip_address
from typing import Final

from kvorum.network.context import RequestContext
from kvorum.protocol.codec import decode, encode_bytes, message_class, read_varint_tail, write_varint
from kvorum.protocol.errors import ErrorCode, KafkaError, ProtocolError
from kvorum.protocol.headers import (
    RequestHeader,
    decode_response_header,
    encode_request_header,
)
from kvorum.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from kvorum.protocol.schema import Message, Struct
from kvorum.security.principal import Principal

PRINCIPAL_VERSION: Final = 0
PRINCIPAL_BYTES_MAX: Final = 64 * 1024
"""A principal's name can be a certificate's complete subject; longer names are rejected."""


def encode_principal(principal: Principal) -> bytes:
    """Return the principal as brokers pass it on."""
    out = bytearray(PRINCIPAL_VERSION.to_bytes(2, "big"))
    for text in (principal.type, principal.name):
        data = text.encode()
        write_varint(out, len(data) + 1)
        out += data
    out += b"\0\0"
    return bytes(out)


def decode_principal(data: bytes | None) -> Principal:
    """Return the principal of an envelope. Raises KafkaError PRINCIPAL_DESERIALIZATION_FAILURE."""
    try:
        if data is None or len(data) > PRINCIPAL_BYTES_MAX:
            raise ValueError("principal missing or too long")
        view = memoryview(data)
        if int.from_bytes(view[:2], "big", signed=True) != PRINCIPAL_VERSION:
            raise ValueError("unsupported principal version")
        kind, position = _compact_string(view, 2)
        name, position = _compact_string(view, position)
        if position >= len(view):
            raise ValueError("truncated principal")
        return Principal(kind, name)
    except (ValueError, IndexError, ProtocolError) as error:
        raise KafkaError(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE, str(error)) from error


def wrap(ctx: RequestContext, request: Message) -> EnvelopeRequest:
    """Return the envelope for a client's request, in the version in which the client sent it."""
    flexible = ctx.api_version >= request.FLEXIBLE_FROM
    header = RequestHeader(ctx.api_key, ctx.api_version, ctx.correlation_id, ctx.client_id)
    return EnvelopeRequest(
        request_data=encode_request_header(header, 2 if flexible else 1) + encode_bytes(request, ctx.api_version),
        request_principal=encode_principal(ctx.principal),
        client_host_address=encode_address(ctx.client_address),
    )


def unwrap(ctx: RequestContext, request: Message, response: EnvelopeResponse) -> Message:
    """Return the controller's answer to the client's request.

    Raises KafkaError with the envelope's own code; NOT_CONTROLLER means that it may be sent again. An error that the
    client cannot have caused (the brokers are not authorised among themselves) is UNKNOWN_SERVER_ERROR for it, as in
    Kafka's ForwardingManager.
    """
    code = ErrorCode(response.error_code)
    if code is not ErrorCode.NONE:
        inner = code in (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE)
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR if inner else code, "the envelope was rejected")
    if response.response_data is None:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "empty response in an envelope")
    try:
        flexible = ctx.api_version >= request.FLEXIBLE_FROM
        correlation_id, position = decode_response_header(memoryview(response.response_data), 1 if flexible else 0)
        if correlation_id != ctx.correlation_id:
            raise ProtocolError(f"correlation id {correlation_id}, expected {ctx.correlation_id}")
        body = memoryview(response.response_data)[position:]
        return decode(message_class(request.API_KEY, "Response"), ctx.api_version, body)
    except ProtocolError as error:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"damaged response in an envelope: {error}") from error


def has_error(message: Message, code: ErrorCode) -> bool:
    """Return whether a response has this code for the whole request: at the top level, or in any row.

    This depends on the version: an ElectLeaders response of v0 has it only in its rows.
    """
    top = next((field for field in message.FIELDS if field.name == "error_code"), None)
    if top is not None:
        found = getattr(message, top.name)
        if found != ErrorCode.NONE or top.versions[0] <= message.VERSIONS[0]:
            return bool(found == code)
    return _rows_have_error(message, code)


def _rows_have_error(message: Struct, code: ErrorCode) -> bool:
    for field in message.FIELDS:
        if field.name == "error_code" and getattr(message, field.name) == code:
            return True
        value = getattr(message, field.name)
        if field.struct is not None and value is not None:
            rows = value if field.array else (value,)
            if any(_rows_have_error(row, code) for row in rows):
                return True
    return False


def flexible_from(api_key: int) -> int:
    """Return the first version of an API whose headers have tagged fields."""
    return message_class(api_key, "Request").FLEXIBLE_FROM


def encode_address(text: str) -> bytes:
    """Return a client's address (no port) as 4 or 16 bytes; a scope id is left out."""
    return ip_address(text.partition("%")[0]).packed


def decode_address(data: bytes) -> str:
    """Return the client's address. Raises KafkaError INVALID_REQUEST, as Kafka does for another length."""
    if len(data) not in (4, 16):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"invalid client address of {len(data)} bytes")
    return str(ip_address(data))


def _compact_string(view: memoryview, position: int) -> tuple[str, int]:
    size, position = read_varint_tail(view, position)
    end = position + size - 1
    if size == 0 or end > len(view):
        raise ValueError("a string of the principal is null or exceeds it")
    return str(view[position:end], "utf-8"), end
