"""CreateDelegationToken (38): v1-v3 (KIP-48).

v3: an owner other than the requester (KIP-373).
Order: kind of connection, then forward to the active controller (which authorises), answer as it answers.
"""

from kvorum.broker.api.forwarded import forward
from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)

NO_TIME = -1


async def handle(
    ctx: RequestContext, request: CreateDelegationTokenRequest, broker: Broker
) -> CreateDelegationTokenResponse:
    """Forward the creation of a token to the controller."""

    def failed(request: CreateDelegationTokenRequest, error: KafkaError) -> CreateDelegationTokenResponse:
        return refused(ctx, request, error.code)

    if ctx.may_request_tokens:
        return await forward(ctx, request, broker, CreateDelegationTokenResponse, failed)
    response = refused(ctx, request, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    response.throttle_time = broker.throttle(ctx)
    return response


def refused(
    ctx: RequestContext, request: CreateDelegationTokenRequest, code: ErrorCode
) -> CreateDelegationTokenResponse:
    """Return the answer with an error."""
    has_owner = bool(request.owner_principal_name)
    return CreateDelegationTokenResponse(
        error_code=code,
        principal_type=request.owner_principal_type or "" if has_owner else ctx.principal.type,
        principal_name=request.owner_principal_name or "" if has_owner else ctx.principal.name,
        token_requester_principal_type=ctx.principal.type,
        token_requester_principal_name=ctx.principal.name,
        issue_timestamp=NO_TIME,
        expiry_timestamp=NO_TIME,
        max_timestamp=NO_TIME,
    )


HANDLER = BrokerApi(ApiKey.CREATE_DELEGATION_TOKEN, handle)
