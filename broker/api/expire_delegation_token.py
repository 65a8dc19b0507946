"""ExpireDelegationToken (40): v1-v2 (KIP-48).

Order: kind of connection, then forward to the active controller, answer as it answers.
"""

from kvorum.broker.api.forwarded import forward
from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse

NO_TIME = -1


async def handle(
    ctx: RequestContext, request: ExpireDelegationTokenRequest, broker: Broker
) -> ExpireDelegationTokenResponse:
    """Forward the expiration of a token to the controller."""
    if ctx.may_request_tokens:
        return await forward(ctx, request, broker, ExpireDelegationTokenResponse, failed)
    return ExpireDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
        expiry_timestamp=NO_TIME,
        throttle_time=broker.throttle(ctx),
    )


def failed(request: ExpireDelegationTokenRequest, error: KafkaError) -> ExpireDelegationTokenResponse:
    """Answer with the failure's code."""
    return ExpireDelegationTokenResponse(error_code=error.code, expiry_timestamp=NO_TIME)


HANDLER = BrokerApi(ApiKey.EXPIRE_DELEGATION_TOKEN, handle)
