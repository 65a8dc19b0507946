"""Delegation tokens: create, renew, expire, describe (KIP-48, KIP-373).

Source: Kafka's Admin.createDelegationToken, renewDelegationToken, expireDelegationToken, describeDelegationToken.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from kvorum.client.values.delegation_token import DelegationToken, created_token, split_principal, token_value
from kvorum.client.wire.cluster_client import ClusterClient, refuse
from kvorum.protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from kvorum.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from kvorum.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from kvorum.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse

CLUSTERS_OWN: Final = -1
"""Period that stands for the cluster's config; of an expiration: at once."""


class Tokens:
    """Delegation tokens. All methods raise KafkaError and Unreachable.

    KafkaError DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: the connection is not authenticated, or by a token.
    """

    def __init__(self, client: ClusterClient) -> None:
        """Use this client."""
        self._client = client

    async def create(
        self, *, owner: str | None = None, renewers: Iterable[str] = (), max_lifetime_ms: int | None = None
    ) -> DelegationToken:
        """Create a token, for another owner or for the own principal; principals as TYPE:NAME.

        Raises ValueError for another form. Without `max_lifetime_ms` the cluster's delegation.token.max.lifetime.ms.
        """
        owner_type, owner_name = (None, None) if owner is None else split_principal(owner)
        names = tuple(renewers)
        request = CreateDelegationTokenRequest(
            owner_principal_type=owner_type,
            owner_principal_name=owner_name,
            renewers=[
                CreatableRenewers(principal_type=kind, principal_name=name)
                for kind, name in map(split_principal, names)
            ],
            max_lifetime=CLUSTERS_OWN if max_lifetime_ms is None else max_lifetime_ms,
        )
        answer = await self._client.ask(request, CreateDelegationTokenResponse)
        refuse(answer.error_code, None)
        return created_token(answer, names)

    async def renew(self, hmac: bytes, period_ms: int | None = None) -> int:
        """Set the expiration to `period_ms` from now, and return it; at most delegation.token.expiry.time.ms."""
        request = RenewDelegationTokenRequest(hmac=hmac, renew_period=CLUSTERS_OWN if period_ms is None else period_ms)
        answer = await self._client.ask(request, RenewDelegationTokenResponse)
        refuse(answer.error_code, None)
        return answer.expiry_timestamp

    async def expire(self, hmac: bytes, period_ms: int | None = None) -> int:
        """Set the expiration to `period_ms` from now, or remove the token at once; return the time."""
        period = CLUSTERS_OWN if period_ms is None else period_ms
        request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period=period)
        answer = await self._client.ask(request, ExpireDelegationTokenResponse)
        refuse(answer.error_code, None)
        return answer.expiry_timestamp

    async def describe(self, owners: Iterable[str] | None = None) -> Sequence[DelegationToken]:
        """Return tokens by id: those of owners or renewers (TYPE:NAME), or all that the principal may see."""
        wanted = None
        if owners is not None:
            wanted = [
                DescribeDelegationTokenOwner(principal_type=kind, principal_name=name)
                for kind, name in map(split_principal, owners)
            ]
        answer = await self._client.ask(DescribeDelegationTokenRequest(owners=wanted), DescribeDelegationTokenResponse)
        refuse(answer.error_code, None)
        return sorted(map(token_value, answer.tokens), key=lambda token: token.token_id)
