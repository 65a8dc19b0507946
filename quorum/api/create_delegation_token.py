"""CreateDelegationToken (38): v1-v3 (KIP-48). The rules: controller/delegation_token_control.py.

v3: an owner other than the requester (KIP-373).
Order: kind of connection, authorise (CREATE_TOKENS on another owner), decide, answer when committed.
"""

from kvorum.network.authorizer import Operation, ResourceType
from kvorum.network.context import RequestContext
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from kvorum.quorum.controller.delegation_token_control import TokenCreation, create_delegation_token, owner_of
from kvorum.quorum.services import ControllerServices
from kvorum.security.principal import Principal

NO_TIME = -1
"""The times in an answer with an error."""


async def handle(
    ctx: RequestContext, request: CreateDelegationTokenRequest, services: ControllerServices
) -> CreateDelegationTokenResponse:
    """Create a token."""
    owner = owner_of(request, ctx.principal)
    try:
        if not ctx.may_request_tokens:
            raise not_allowed()
        if owner != ctx.principal and not services.may(ctx, Operation.CREATE_TOKENS, ResourceType.USER, str(owner)):
            message = f"{ctx.principal} may not create tokens for {owner}"
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED, message)
        return await services.submit(
            ctx,
            lambda context, creation: create_delegation_token(context, creation, services.token_hmacs),
            TokenCreation(requester=ctx.principal, request=request, now_ms=services.clock.wall_ms()),
            name="createDelegationToken",
        )
    except KafkaError as error:
        return refused(owner, ctx.principal, error)


def refused(owner: Principal, requester: Principal, error: KafkaError) -> CreateDelegationTokenResponse:
    """Return the answer with an error."""
    return CreateDelegationTokenResponse(
        error_code=error.code,
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp=NO_TIME,
        expiry_timestamp=NO_TIME,
        max_timestamp=NO_TIME,
    )


def not_allowed() -> KafkaError:
    """Return the error of a request over an unsuitable connection."""
    return KafkaError(
        ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
        "Delegation token requests are not allowed on PLAINTEXT/1-way SSL channels and "
        "on delegation token authenticated channels.",
    )
