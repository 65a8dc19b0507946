"""What handlers of the controller's requests share: taking them there, and saying so when that failed.

A request of the controller's goes to the active one in an Envelope, with the client's principal and address, and its
answer comes back as it is; the controller authorises it. What cannot be taken there in time answers with the code
of the failure for everything the request named, as Kafka does. Source: Kafka's ForwardingManager.
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
    """Return the controller's answer, or what `failed` makes of the reason there is none."""
    try:
        response = await broker.controller.forward(ctx, request)
    except KafkaError as error:
        return failed(request, error)
    assert isinstance(response, response_class), f"{type(response).__name__} for {type(request).__name__}"
    ctx.throttle_ms = getattr(response, "throttle_time", 0)  # DescribeQuorum's answer has none
    return response
