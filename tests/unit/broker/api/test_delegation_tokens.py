"""Delegation tokens as a broker's clients see them: described from its metadata, changed by the controller."""

from typing import Any

import pytest

from kvorum.network.authorizer import Operation, ResourceType
from kvorum.network.context import RequestContext
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from kvorum.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from kvorum.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kvorum.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from kvorum.protocol.schema import Message
from kvorum.quorum.records import DelegationToken
from kvorum.quorum.token_hmacs import TokenHmacs
from kvorum.runtime.listeners import SecurityProtocol
from kvorum.security.delegation_tokens import token_hmac
from kvorum.security.principal import ANONYMOUS, Principal
from tests.unit.broker.api.api_kit import Forwarded, a_broker, ask, three_brokers

SASL, SSL, PLAINTEXT = SecurityProtocol.SASL_SSL, SecurityProtocol.SSL, SecurityProtocol.PLAINTEXT
ANN, BOB, EVE = (Principal("User", name) for name in ("ann", "bob", "eve"))
NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
REQUESTS = [
    CreateDelegationTokenRequest(),
    RenewDelegationTokenRequest(hmac=b"x"),
    ExpireDelegationTokenRequest(hmac=b"x"),
    DescribeDelegationTokenRequest(owners=None),
]


def token(token_id: str, owner: str, *renewers: str) -> DelegationToken:
    return DelegationToken(
        owner=owner,
        requester="User:admin",
        renewers=renewers,
        issue_timestamp=1,
        max_timestamp=3,
        expiration_timestamp=2,
        token_id=token_id,
    )


TOKENS = [token("1", "User:ann"), token("2", "User:bob", "User:ann"), token("3", "User:bob")]


class OwnOnly:
    """An authorizer that permits what is listed."""

    version = 0

    def __init__(self, *permitted: tuple[Operation, ResourceType, str]) -> None:
        self._permitted = permitted

    def authorize(self, ctx: RequestContext, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        return (operation, resource_type, name) in self._permitted


def describe(
    principal: Principal,
    owners: list[Principal] | None,
    *permitted: tuple[Operation, ResourceType, str],
    version: int = 3,
    secret_key: str | None = "secret",
) -> Any:
    broker = a_broker(*three_brokers(), *TOKENS, authorizer=OwnOnly(*permitted), token_hmacs=TokenHmacs(secret_key))
    wanted = owners
    if owners is not None:
        wanted = [DescribeDelegationTokenOwner(principal_type=each.type, principal_name=each.name) for each in owners]  # type: ignore[misc]
    request = DescribeDelegationTokenRequest(owners=wanted)  # type: ignore[arg-type]
    return ask(broker, request, version, principal=principal, security_protocol=SASL)


def ids(answer: Any) -> list[str]:
    assert answer.error_code == 0
    return [each.token_id for each in answer.tokens]


def test_owners_and_renewers_see_their_tokens() -> None:
    assert ids(describe(ANN, None)) == ["1", "2"]
    assert ids(describe(BOB, None)) == ["2", "3"]
    assert ids(describe(EVE, None)) == []


def test_owners_select_the_tokens_and_none_of_them_selects_none() -> None:
    assert ids(describe(ANN, [BOB])) == ["2"]
    assert ids(describe(ANN, [ANN, BOB])) == ["1", "2"]
    assert ids(describe(ANN, [EVE])) == []
    assert ids(describe(ANN, [])) == []


def test_tokens_of_others_need_a_right() -> None:
    one = (Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, "3")
    of_bob = (Operation.DESCRIBE_TOKENS, ResourceType.USER, "User:bob")
    assert ids(describe(EVE, None, one)) == ["3"]
    assert ids(describe(EVE, None, of_bob)) == ["2", "3"]
    assert ids(describe(EVE, [ANN], of_bob)) == ["2"]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_token_is_described_with_its_hmac(version: int) -> None:
    _, row = describe(ANN, None, version=version).tokens
    assert (row.principal_type, row.principal_name) == ("User", "bob")
    assert row.token_requester_principal_name == ("admin" if version == 3 else "")
    assert (row.issue_timestamp, row.expiry_timestamp, row.max_timestamp) == (1, 2, 3)
    assert row.hmac == token_hmac("secret", "2")
    assert [(each.principal_type, each.principal_name) for each in row.renewers] == [("User", "ann")]


def test_without_a_secret_key_tokens_are_disabled() -> None:
    answer = describe(ANN, [], secret_key=None)
    assert answer.error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED and not answer.tokens


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: type(request).__name__)
@pytest.mark.parametrize(
    ("protocol", "principal", "allowed"),
    [
        (SASL, ANN, True),
        (SecurityProtocol.SASL_PLAINTEXT, ANN, True),
        (SSL, ANN, True),
        (SSL, ANONYMOUS, False),
        (PLAINTEXT, ANONYMOUS, False),
        (PLAINTEXT, ANN, False),
        (SASL, Principal("User", "ann", token_authenticated=True), False),
    ],
)
def test_tokens_are_managed_by_authenticated_users_only(
    request_: Message, protocol: SecurityProtocol, principal: Principal, allowed: bool
) -> None:
    other = ErrorCode.REQUEST_TIMED_OUT
    broker = a_broker(controller=Forwarded(KafkaError(other, "no controller")), token_hmacs=TokenHmacs("secret"))
    answer = ask(broker, request_, request_.VERSIONS[1], principal=principal, security_protocol=protocol)
    if not allowed:
        assert answer.error_code == NOT_ALLOWED
        assert not broker.controller.seen
    elif isinstance(request_, DescribeDelegationTokenRequest):
        assert answer.error_code == ErrorCode.NONE
    else:
        assert answer.error_code == other
        assert len(broker.controller.seen) == 1


def test_an_answer_with_an_error_names_owner_and_requester() -> None:
    request = CreateDelegationTokenRequest(owner_principal_type="User", owner_principal_name="bob")
    broker = a_broker(controller=Forwarded(KafkaError(ErrorCode.REQUEST_TIMED_OUT, "")))
    answer = ask(broker, request, 3, principal=ANN, security_protocol=SASL)
    assert (answer.principal_name, answer.token_requester_principal_name) == ("bob", "ann")
    assert answer.issue_timestamp == answer.expiry_timestamp == answer.max_timestamp == -1


def test_a_new_token_is_answered_as_the_controller_answers() -> None:
    made = CreateDelegationTokenResponse(principal_type="User", principal_name="ann", token_id="1", hmac=b"hmac")
    broker = a_broker(controller=Forwarded(lambda request: made))
    assert ask(broker, CreateDelegationTokenRequest(), 3, principal=ANN, security_protocol=SASL) == made
