"""Delegation tokens over HTTP (KIP-48): list, create, renew, remove.

A token is named by its id. Its HMAC, which is its password, is in the answer that creates it, and nowhere else. The
admin process must be authenticated to the cluster; unless another owner is named, the tokens are its own.
"""

from typing import Annotated

from pydantic import BaseModel, Field

from kvorum.admin.http.commands import Command
from kvorum.admin.http.operations import Call, NoBody, Operation, Rows
from kvorum.admin.http.paging import behind, next_query
from kvorum.admin.http.parameters import INT64_MAX, ROWS, BadInput, optional_text, text
from kvorum.admin.v1.models import Strict
from kvorum.client.namespaces.tokens import Tokens
from kvorum.client.values.delegation_token import DelegationToken
from kvorum.protocol.errors import ErrorCode, KafkaError

RENEWERS_MAX = 1_000
PRINCIPAL_CHARS_MAX = 32_767
Principal = Annotated[str, Field(min_length=1, max_length=PRINCIPAL_CHARS_MAX, examples=["User:alice"])]
PeriodMs = Annotated[int, Field(ge=1, le=INT64_MAX)]
TOKEN_ID = text("token_id", "id of the token")
OWNER = optional_text("owner", "tokens of this owner or renewer, as User:alice")
AFTER = optional_text("after", "id of the last token of the previous page")


class TokenEntry(BaseModel):
    """A delegation token, without its HMAC. Times are milliseconds since 1970."""

    token_id: str
    owner: str = Field(examples=["User:alice"])
    requester: str
    renewers: list[str]
    issued_at_ms: int
    expires_at_ms: int
    max_at_ms: int = Field(description="The token cannot be renewed beyond this time")


class CreatedToken(TokenEntry):
    """A new delegation token. A client logs in with SCRAM: user token_id, password hmac, tokenauth=true."""

    hmac: str = Field(description="Password, returned only here")


class TokenCreate(Strict):
    """A delegation token to create."""

    owner: Principal | None = Field(None, description="Owner; null: the principal of the admin process")
    renewers: list[Principal] = Field(
        default_factory=list, max_length=RENEWERS_MAX, description="Principals that may renew it besides the owner"
    )
    max_lifetime_ms: PeriodMs | None = Field(None, description="null: delegation.token.max.lifetime.ms")


class TokenRenewal(Strict):
    """A renewal of a token."""

    period_ms: PeriodMs | None = Field(None, description="From now on; null: delegation.token.expiry.time.ms")


class Expiration(BaseModel):
    """The new expiration of a token."""

    expires_at_ms: int


def fields_of(token: DelegationToken) -> dict[str, object]:
    """Return the fields of a token for HTTP, without its HMAC."""
    return {
        "token_id": token.token_id,
        "owner": token.owner,
        "requester": token.requester,
        "renewers": list(token.renewers),
        "issued_at_ms": token.issued_at_ms,
        "expires_at_ms": token.expires_at_ms,
        "max_at_ms": token.max_at_ms,
    }


async def list_tokens(call: Call[NoBody]) -> Rows:
    """List the delegation tokens that the admin process may see, by id."""
    owner = OWNER.of(call)
    try:
        tokens = await Tokens(call.cluster).describe(None if owner is None else [owner])
    except ValueError as error:
        raise BadInput("owner", str(error)) from None
    page, more = behind(tokens, lambda token: token.token_id, AFTER.of(call), ROWS.of(call))
    return Rows(
        rows=[TokenEntry.model_validate(fields_of(each)) for each in page],
        next_query=next_query(call, page[-1].token_id) if more else None,
    )


async def create_token(call: Call[TokenCreate]) -> BaseModel:
    """Create a delegation token."""
    body = call.body
    try:
        token = await Tokens(call.cluster).create(
            owner=body.owner, renewers=body.renewers, max_lifetime_ms=body.max_lifetime_ms
        )
    except ValueError as error:
        raise BadInput("renewers" if body.owner is None else "owner", str(error)) from None
    return CreatedToken.model_validate({**fields_of(token), "hmac": token.password})


async def renew_token(call: Call[TokenRenewal]) -> BaseModel:
    """Renew a delegation token."""
    token = await named_token(call)
    return Expiration(expires_at_ms=await Tokens(call.cluster).renew(token.hmac, call.body.period_ms))


async def delete_token(call: Call[NoBody]) -> None:
    """Remove a delegation token at once. Connections that use it end at its expiration."""
    token = await named_token(call)
    await Tokens(call.cluster).expire(token.hmac)


async def named_token(call: Call[NoBody] | Call[TokenRenewal]) -> DelegationToken:
    """Return the token of the path. Raises KafkaError DELEGATION_TOKEN_NOT_FOUND."""
    token_id = TOKEN_ID.of(call)
    for token in await Tokens(call.cluster).describe():
        if token.token_id == token_id:
            return token
    raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND, f"there is no delegation token {token_id}")


TOKENS = "/v1/tokens"
TOKEN = "/v1/tokens/{token_id}"
OPERATIONS = [
    Operation.get(
        TOKENS,
        "List delegation tokens",
        list_tokens,
        TokenEntry,
        many=True,
        parameters=(OWNER, AFTER, ROWS),
        command=Command(
            name="tokens list",
            examples=("", "--owner User:alice"),
            columns=("token_id", "owner", "requester?", "renewers", "expires_at_ms", "max_at_ms"),
        ),
    ),
    Operation(
        method="POST",
        path=TOKENS,
        summary="Create a delegation token",
        handle=create_token,
        body=TokenCreate,
        answer=CreatedToken,
        status=201,
        parameters=(),
        command=Command(
            name="tokens create",
            examples=("--renewers User:scheduler", "--owner User:alice --max-lifetime-ms 3600000"),
        ),
    ),
    Operation(
        method="POST",
        path=f"{TOKEN}/renew",
        summary="Renew a delegation token",
        handle=renew_token,
        body=TokenRenewal,
        answer=Expiration,
        parameters=(TOKEN_ID,),
        command=Command(name="tokens renew", examples=("MvDxzVmcRsaTz33bUuRU6A --period-ms 3600000",)),
    ),
    Operation(
        method="DELETE",
        path=TOKEN,
        summary="Remove a delegation token",
        handle=delete_token,
        status=204,
        parameters=(TOKEN_ID,),
        command=Command(
            name="tokens delete",
            examples=("MvDxzVmcRsaTz33bUuRU6A",),
            each="token_id",
            done="{token_id} deleted",
        ),
    ),
]
