"""Delegation tokens (KIP-48, DelegationTokenControlManager): create (38), renew (39), expire (40), sweep expired ones.

A token is named by its HMAC, which is computed and never stored. Only its owner and its renewers may renew or expire
it; super users have no exception. Order of the checks: enabled, then as in Kafka; see each function. Added by Kvorum:
principals whose record would not be read back equal are rejected, and sizes that a record takes are limited.
"""

from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from kvorum.protocol.messages.expire_delegation_token import ExpireDelegationTokenResponse
from kvorum.protocol.messages.renew_delegation_token import RenewDelegationTokenResponse
from kvorum.quorum.controller.context import Context
from kvorum.quorum.controller.result import Result
from kvorum.quorum.image.delegation_tokens import TokenImage
from kvorum.quorum.records import MetadataRecord, RemoveDelegationToken
from kvorum.quorum.steps import Steps
from kvorum.quorum.token_hmacs import TOKENS_MAX, TokenHmacs
from kvorum.security.principal import USER, Principal

RENEWERS_MAX: Final = 1_000
"""Limit of a token's renewers."""
PRINCIPAL_BYTES_MAX: Final = 64 * 1024
"""Limit of all names of a token's principals together: escaped they fit into a record."""
SWEEP_RECORDS_MAX: Final = 1_000
"""Tokens removed by one decision of a sweep (MAX_RECORDS_PER_EXPIRATION)."""
TIME_MAX: Final = 2**63 - 1
"""The last time on the wire."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCreation:
    """A request for a token, with the requester and the wall time."""

    requester: Principal
    request: CreateDelegationTokenRequest
    now_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenChange:
    """A request to renew a token, or to expire it, with the requester and the wall time."""

    requester: Principal
    hmac: bytes = field(repr=False)
    period_ms: int
    now_ms: int


def owner_of(request: CreateDelegationTokenRequest, requester: Principal) -> Principal:
    """Return the owner of a requested token: the requester, if no other is named (KIP-373)."""
    if not request.owner_principal_name:
        return requester
    return Principal(request.owner_principal_type or "", request.owner_principal_name)


def create_delegation_token(
    context: Context, creation: TokenCreation, hmacs: TokenHmacs
) -> Result[CreateDelegationTokenResponse]:
    """Create a token.

    Raises KafkaError: DELEGATION_TOKEN_AUTH_DISABLED, INVALID_PRINCIPAL_TYPE, INVALID_REQUEST (too large),
    POLICY_VIOLATION (too many tokens).
    """
    request, settings, now_ms = creation.request, context.settings, creation.now_ms
    _require_enabled(hmacs)
    owner = owner_of(request, creation.requester)
    renewers = tuple(Principal(each.principal_type, each.principal_name) for each in request.renewers)
    if owner != creation.requester and (not owner.type or ":" in owner.type):
        raise KafkaError(ErrorCode.INVALID_PRINCIPAL_TYPE, "The principal type of the owner is not valid")
    if any(renewer.type != USER for renewer in renewers):
        raise KafkaError(ErrorCode.INVALID_PRINCIPAL_TYPE, f"Renewers must be of the principal type {USER}")
    _check_sizes([owner, creation.requester, *renewers])
    if len(context.image.delegation_tokens.tokens) >= TOKENS_MAX:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, f"The cluster has the maximum of {TOKENS_MAX} delegation tokens")
    lifetime_ms = settings.token_lifetime_ms_max
    if request.max_lifetime > 0:
        lifetime_ms = min(lifetime_ms, request.max_lifetime)
    max_at_ms = _after(now_ms, lifetime_ms)
    token = TokenImage(
        token_id=str(context.random_uuid()),
        owner=owner,
        requester=creation.requester,
        renewers=renewers,
        issued_at_ms=now_ms,
        max_at_ms=max_at_ms,
        expires_at_ms=min(max_at_ms, _after(now_ms, settings.token_expiry_ms)),
    )
    response = CreateDelegationTokenResponse(
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=creation.requester.type,
        token_requester_principal_name=creation.requester.name,
        issue_timestamp=now_ms,
        expiry_timestamp=token.expires_at_ms,
        max_timestamp=max_at_ms,
        token_id=token.token_id,
        hmac=hmacs.of(token.token_id),
    )
    return Result(records=[token.to_record()], response=response)


def renew_delegation_token(
    context: Context, change: TokenChange, hmacs: TokenHmacs
) -> Steps[Result[RenewDelegationTokenResponse]]:
    """Set a new expiration, from now on.

    Raises KafkaError: DELEGATION_TOKEN_AUTH_DISABLED, DELEGATION_TOKEN_NOT_FOUND, DELEGATION_TOKEN_EXPIRED,
    DELEGATION_TOKEN_OWNER_MISMATCH, in this order.
    """
    token = yield from _token_of(context, change, hmacs)
    _require_alive(token, change.now_ms)
    _require_own(token, change.requester)
    period_ms = context.settings.token_expiry_ms
    if change.period_ms > 0:
        period_ms = min(period_ms, change.period_ms)
    renewed = replace(token, expires_at_ms=min(token.max_at_ms, _after(change.now_ms, period_ms)))
    response = RenewDelegationTokenResponse(expiry_timestamp=renewed.expires_at_ms)
    return Result(records=[renewed.to_record()], response=response)


def expire_delegation_token(
    context: Context, change: TokenChange, hmacs: TokenHmacs
) -> Steps[Result[ExpireDelegationTokenResponse]]:
    """Set an expiration, or remove the token at once (period below 0), which is possible for an expired one too.

    Raises KafkaError: DELEGATION_TOKEN_AUTH_DISABLED, DELEGATION_TOKEN_NOT_FOUND, DELEGATION_TOKEN_OWNER_MISMATCH,
    DELEGATION_TOKEN_EXPIRED, in this order.
    """
    token = yield from _token_of(context, change, hmacs)
    _require_own(token, change.requester)
    if change.period_ms < 0:
        response = ExpireDelegationTokenResponse(expiry_timestamp=change.now_ms)
        return Result(records=[RemoveDelegationToken(token_id=token.token_id)], response=response)
    _require_alive(token, change.now_ms)
    ending = replace(token, expires_at_ms=min(token.max_at_ms, _after(change.now_ms, change.period_ms)))
    response = ExpireDelegationTokenResponse(expiry_timestamp=ending.expires_at_ms)
    return Result(records=[ending.to_record()], response=response)


def sweep_expired_tokens(context: Context, now_ms: int) -> Result[int]:
    """Remove expired tokens and return their number; SWEEP_RECORDS_MAX means that more may be left."""
    tokens = context.image.delegation_tokens.tokens.values()
    expired = islice((token.token_id for token in tokens if token.has_expired(now_ms)), SWEEP_RECORDS_MAX)
    records: list[MetadataRecord] = [RemoveDelegationToken(token_id=token_id) for token_id in expired]
    return Result(records=records, response=len(records))


def _after(now_ms: int, period_ms: int) -> int:
    return min(now_ms + period_ms, TIME_MAX)


def _check_sizes(principals: list[Principal]) -> None:
    if len(principals) > RENEWERS_MAX + 2:  # owner and requester
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"A token has at most {RENEWERS_MAX} renewers")
    if sum(len(str(each).encode()) for each in principals) > PRINCIPAL_BYTES_MAX:
        message = f"The principals of a token have at most {PRINCIPAL_BYTES_MAX} bytes together"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)


def _require_enabled(hmacs: TokenHmacs) -> None:
    if not hmacs.enabled:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, "delegation.token.secret.key is not set")


def _token_of(context: Context, change: TokenChange, hmacs: TokenHmacs) -> Steps[TokenImage]:
    _require_enabled(hmacs)
    token = yield from hmacs.find(context.image.delegation_tokens, change.hmac)
    if token is None:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND, "No delegation token has this HMAC")
    return token


def _require_alive(token: TokenImage, now_ms: int) -> None:
    if token.has_expired(now_ms):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED, "The delegation token has expired")


def _require_own(token: TokenImage, requester: Principal) -> None:
    if not token.belongs_to(requester):
        message = f"{requester} is neither the owner nor a renewer of the delegation token"
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, message)
