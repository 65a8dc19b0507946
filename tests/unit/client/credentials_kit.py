"""Users and delegation tokens of a fake cluster: the controller's own decisions, the brokers' own descriptions."""

import random
from collections.abc import Callable, Generator
from types import SimpleNamespace
from typing import Any

from kvorum.broker.api import describe_delegation_token, describe_user_scram_credentials
from kvorum.network.authorizer import AllowAll
from kvorum.network.context import RequestContext
from kvorum.protocol.errors import KafkaError
from kvorum.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from kvorum.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from kvorum.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from kvorum.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from kvorum.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from kvorum.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from kvorum.protocol.uuids import Uuid
from kvorum.quorum.controller.context import ControllerSettings
from kvorum.quorum.controller.delegation_token_control import (
    TokenChange,
    TokenCreation,
    create_delegation_token,
    expire_delegation_token,
    renew_delegation_token,
)
from kvorum.quorum.controller.scram_control import alter_user_scram_credentials
from kvorum.quorum.image import MetadataDelta, MetadataImage
from kvorum.quorum.steps import finish
from kvorum.quorum.token_hmacs import TokenHmacs
from kvorum.runtime.listeners import SecurityProtocol
from kvorum.security.principal import Principal

NOW_MS = 1_700_000_000_000


class Credentials:
    """See the module. `me` is the principal of all requests."""

    def __init__(self) -> None:
        self.image = MetadataImage()
        self.me = Principal("User", "admin")
        self.hmacs = TokenHmacs("secret")
        self.now_ms = NOW_MS
        self._random = random.Random(7)

    def users(self) -> dict[str, list[int]]:
        """Return {user: mechanisms}."""
        return {user: sorted(self.image.scram.of(user)) for user in sorted(self.image.scram.users)}

    def tokens(self) -> list[str]:
        """Return the ids of all tokens."""
        return sorted(self.image.delegation_tokens.tokens)

    def answer(self, request: Any) -> Any:
        """Answer one of the six requests."""
        return ANSWERS[type(request)](self, request)

    def _decide(self, decide: Callable[..., Any], *arguments: Any, failed: type[Any] | None = None) -> Any:
        context = SimpleNamespace(
            image=self.image,
            settings=ControllerSettings(cluster_id="c", node_id=1),
            random_uuid=lambda: Uuid(b"\x10" + self._random.randbytes(15)),
        )
        try:
            decision = decide(context, *arguments)
            result = finish(decision) if isinstance(decision, Generator) else decision
        except KafkaError as error:
            assert failed is not None
            return failed(error_code=error.code)
        delta = MetadataDelta(self.image)
        for record in result.records:
            delta.replay(record)
        self.image = delta.apply(self.image.offset + 1, 1)
        return result.response

    def _described(self, handle: Callable[..., Any], request: Any) -> Any:
        broker = SimpleNamespace(
            authorizer=AllowAll(),
            metadata=SimpleNamespace(image=self.image),
            throttle=lambda ctx: 0,
            token_hmacs=self.hmacs,
        )
        ctx = RequestContext(principal=self.me, security_protocol=SecurityProtocol.SASL_SSL)
        return handle(ctx, request, broker)

    def _alter(self, request: AlterUserScramCredentialsRequest) -> Any:
        return self._decide(alter_user_scram_credentials, request)

    def _create(self, request: CreateDelegationTokenRequest) -> Any:
        creation = TokenCreation(requester=self.me, request=request, now_ms=self.now_ms)
        return self._decide(create_delegation_token, creation, self.hmacs, failed=CreateDelegationTokenResponse)

    def _renew(self, request: RenewDelegationTokenRequest) -> Any:
        change = TokenChange(requester=self.me, hmac=request.hmac, period_ms=request.renew_period, now_ms=self.now_ms)
        return self._decide(renew_delegation_token, change, self.hmacs, failed=RenewDelegationTokenResponse)

    def _expire(self, request: ExpireDelegationTokenRequest) -> Any:
        change = TokenChange(
            requester=self.me, hmac=request.hmac, period_ms=request.expiry_time_period, now_ms=self.now_ms
        )
        return self._decide(expire_delegation_token, change, self.hmacs, failed=ExpireDelegationTokenResponse)


ANSWERS: dict[type, Callable[[Credentials, Any], Any]] = {
    AlterUserScramCredentialsRequest: Credentials._alter,
    DescribeUserScramCredentialsRequest: lambda found, request: found._described(
        describe_user_scram_credentials.handle, request
    ),
    CreateDelegationTokenRequest: Credentials._create,
    RenewDelegationTokenRequest: Credentials._renew,
    ExpireDelegationTokenRequest: Credentials._expire,
    DescribeDelegationTokenRequest: lambda found, request: found._described(describe_delegation_token.handle, request),
}
