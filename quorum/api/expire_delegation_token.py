"""ExpireDelegationToken (40): v1-v2 (KIP-48). The rules: controller/delegation_token_control.py.

Order: kind of connection, decide, answer when committed.
"""

from kvorum.network.context import RequestContext
from kvorum.protocol.errors import KafkaError
from kvorum.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from kvorum.quorum.api.create_delegation_token import NO_TIME, not_allowed
from kvorum.quorum.controller.delegation_token_control import TokenChange, expire_delegation_token
from kvorum.quorum.services import ControllerServices


async def handle(
    ctx: RequestContext, request: ExpireDelegationTokenRequest, services: ControllerServices
) -> ExpireDelegationTokenResponse:
    """Set a token's expiration, or remove it."""
    try:
        if not ctx.may_request_tokens:
            raise not_allowed()
        return await services.submit(
            ctx,
            lambda context, change: expire_delegation_token(context, change, services.token_hmacs),
            TokenChange(
                requester=ctx.principal,
                hmac=request.hmac,
                period_ms=request.expiry_time_period,
                now_ms=services.clock.wall_ms(),
            ),
            name="expireDelegationToken",
        )
    except KafkaError as error:
        return ExpireDelegationTokenResponse(error_code=error.code, expiry_timestamp=NO_TIME)
