"""RenewDelegationToken (39): v1-v2 (KIP-48).

Order: kind of connection, then forward to the active controller, answer as it answers.
"""

from kvorum.broker.api.forwarded import forward
from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse

NO_TIME = -1


async def handle(
    ctx: RequestContext, request: RenewDelegationTokenRequest, broker: Broker
) -> RenewDelegationTokenResponse:
    """Forward the renewal of a token to the controller."""
    if ctx.may_request_tokens:
        return await forward(ctx, request, broker, RenewDelegationTokenResponse, failed)
    return RenewDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
        expiry_timestamp=NO_TIME,
        throttle_time=broker.throttle(ctx),
    )


def failed(request: RenewDelegationTokenRequest, error: KafkaError) -> RenewDelegationTokenResponse:
    """Answer with the failure's code."""
    return RenewDelegationTokenResponse(error_code=error.code, expiry_timestamp=NO_TIME)


HANDLER = BrokerApi(ApiKey.RENEW_DELEGATION_TOKEN, handle)
