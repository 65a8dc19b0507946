"""Envelope (58): v0. A client's request, forwarded by a broker, with the client's principal and address (KIP-590).

The embedded request is handled as if the client had sent it here; the complete response is returned, with its header,
and with the offset of the committed metadata (`metadata_offset`, Kvorum's own tagged field): the broker waits until it
has published that offset. If the embedded response has NOT_CONTROLLER, the envelope has it too, so that the broker
finds the new active controller. Order: authorise, principal, address, activity, dispatch, respond. Responses are sent
as soon as they are complete.
"""

from kvorum.network.authorizer import Operation
from kvorum.network.context import RequestContext
from kvorum.network.router import AnswerImpossible, Router
from kvorum.protocol.codec import decode_response
from kvorum.protocol.errors import ErrorCode, KafkaError, ProtocolError
from kvorum.protocol.headers import decode_response_header, peek_request
from kvorum.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from kvorum.protocol.parts import FileSlice
from kvorum.quorum.forwarding import decode_address, decode_principal, flexible_from, has_error
from kvorum.quorum.services import ControllerServices


async def handle(
    ctx: RequestContext, request: EnvelopeRequest, services: ControllerServices, router: Router
) -> EnvelopeResponse:
    """Execute the embedded request for its original client."""
    services.authorize_cluster(ctx, Operation.CLUSTER_ACTION)
    if ctx.forwarded:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "an envelope must not contain an envelope")
    client = RequestContext(
        principal=decode_principal(request.request_principal),
        listener=ctx.listener,
        security_protocol=ctx.security_protocol,
        client_address=decode_address(request.client_host_address),
        software_name=ctx.software_name,
        software_version=ctx.software_version,
        connection_id=ctx.connection_id,
        received_ms=ctx.received_ms,
        forwarded=True,
    )
    services.controller.require_active()
    epoch = services.controller.epoch
    data = memoryview(request.request_data)
    try:
        parts = await router.dispatch_bytes(client, data)
    except ProtocolError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error
    except AnswerImpossible as error:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error
    answer = bytearray()
    for part in parts:
        assert not isinstance(part, FileSlice), "what is forwarded is answered from memory"
        answer += part
    # Decoded only if it may matter: a decode costs more than the rest of this.
    if services.controller.epoch != epoch and _says_not_controller(data, answer):
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "leadership was lost during the request")
    return EnvelopeResponse(response_data=bytes(answer), metadata_offset=services.store.image.offset)


def _says_not_controller(request: memoryview, answer: bytearray) -> bool:
    api_key, api_version, _ = peek_request(request)
    view = memoryview(answer)
    _, position = decode_response_header(view, 1 if api_version >= flexible_from(api_key) else 0)
    return has_error(decode_response(api_key, api_version, view[position:]), ErrorCode.NOT_CONTROLLER)
