"""DescribeDelegationToken (41): v1-v3 (KIP-48). Answered from this broker's own metadata.

v3: the requester of a token. The answer has the tokens' HMACs. Owners null: all tokens that the principal may see; no
owner: no token. Visible: own tokens (as owner or renewer), tokens with DESCRIBE on the token, or DESCRIBE_TOKENS on
its owner; others are left out. Order: kind of connection, enabled, owners.
"""

from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.authorizer import Operation, ResourceType
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from kvorum.quorum.image.delegation_tokens import TokenImage
from kvorum.security.principal import Principal


def handle(
    ctx: RequestContext, request: DescribeDelegationTokenRequest, broker: Broker
) -> DescribeDelegationTokenResponse:
    """Describe the tokens of owners and renewers."""
    code, tokens = ErrorCode.NONE, []
    if not ctx.may_request_tokens:
        code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    elif not broker.token_hmacs.enabled:
        code = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    elif request.owners != []:
        wanted = None
        if request.owners is not None:
            wanted = {Principal(owner.principal_type, owner.principal_name) for owner in request.owners}
        tokens = [
            described(token, broker.token_hmacs.of(token.token_id))
            for token in broker.metadata.image.delegation_tokens.sorted_tokens()
            if (wanted is None or any(map(token.belongs_to, wanted))) and is_visible(ctx, broker, token)
        ]
    return DescribeDelegationTokenResponse(error_code=code, tokens=tokens, throttle_time=broker.throttle(ctx))


def is_visible(ctx: RequestContext, broker: Broker, token: TokenImage) -> bool:
    """Return whether the request's principal may see a token."""
    may = broker.authorizer.authorize
    return (
        token.belongs_to(ctx.principal)
        or may(ctx, Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id)
        or may(ctx, Operation.DESCRIBE_TOKENS, ResourceType.USER, str(token.owner))
    )


def described(token: TokenImage, hmac: bytes) -> DescribedDelegationToken:
    """Return the row of a token."""
    return DescribedDelegationToken(
        principal_type=token.owner.type,
        principal_name=token.owner.name,
        token_requester_principal_type=token.requester.type,
        token_requester_principal_name=token.requester.name,
        issue_timestamp=token.issued_at_ms,
        expiry_timestamp=token.expires_at_ms,
        max_timestamp=token.max_at_ms,
        token_id=token.token_id,
        hmac=hmac,
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=renewer.type, principal_name=renewer.name)
            for renewer in token.renewers
        ],
    )


HANDLER = BrokerApi(ApiKey.DESCRIBE_DELEGATION_TOKEN, handle)
