"""Common parts of handlers whose requests are forwarded to the controller, and of their errors.

A request for the controller is sent to the active one in an Envelope, with the client's principal and address. Its
answer is returned unchanged, once this broker has published the change (quorum/forwarder); the controller authorises
it. If the request cannot be forwarded in time, everything named in it gets the code of the failure, as in Kafka. The
longer of the controller's throttle time and this broker's own is used. Source: Kafka's ForwardingManager.
"""

from collections.abc import Callable
from typing import TypeVar

from kvorum.broker.services import Broker
from kvorum.network.context import RequestContext
from kvorum.protocol.errors import KafkaError
from kvorum.protocol.schema import Message

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)


async def forward(
    ctx: RequestContext,
    request: Request,
    broker: Broker,
    response_class: type[Response],
    failed: Callable[[Request, KafkaError], Response],
) -> Response:
    """Return the controller's answer, or the result of `failed` for the failure."""
    try:
        answer = await broker.controller.forward(ctx, request)
    except KafkaError as error:
        response = failed(request, error)
    else:
        assert isinstance(answer, response_class), f"{type(answer).__name__} for {type(request).__name__}"
        response = answer
    throttle_ms = broker.throttle(ctx)
    if hasattr(response, "throttle_time"):  # DescribeQuorum's answer has none
        response.throttle_time = ctx.throttle_ms = max(response.throttle_time, throttle_ms)
    return response
