"""Delegation tokens at the controller: times, owners and renewers, the order of the errors, the sweep."""

from collections.abc import Callable
from typing import Any

import pytest

from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from kvorum.quorum.controller import delegation_token_control
from kvorum.quorum.controller.delegation_token_control import (
    TokenChange,
    TokenCreation,
    create_delegation_token,
    expire_delegation_token,
    renew_delegation_token,
    sweep_expired_tokens,
)
from kvorum.quorum.image.delegation_tokens import TokenImage
from kvorum.quorum.token_hmacs import TokenHmacs
from kvorum.security.delegation_tokens import token_hmac
from kvorum.security.principal import Principal
from tests.unit.quorum.controller.controller_kit import World

NOW = 1_700_000_000_000
DAY, WEEK = 86_400_000, 604_800_000
ANN, BOB, EVE = (Principal("User", name) for name in ("ann", "bob", "eve"))


class Tokens:
    """A controller with delegation tokens, and a clock."""

    def __init__(self, secret_key: str | None = "secret", **settings: object) -> None:
        self.world = World(**settings)  # type: ignore[arg-type]
        self.hmacs = TokenHmacs(secret_key)
        self.now_ms = NOW

    def create(self, requester: Principal = ANN, **fields: Any) -> CreateDelegationTokenResponse:
        request = CreateDelegationTokenRequest(**fields)
        creation = TokenCreation(requester=requester, request=request, now_ms=self.now_ms)
        return self.world.do(lambda context, made: create_delegation_token(context, made, self.hmacs), creation)

    def renew(self, hmac: bytes, period_ms: int = -1, requester: Principal = ANN) -> int:
        return self._change(renew_delegation_token, hmac, period_ms, requester)

    def expire(self, hmac: bytes, period_ms: int = -1, requester: Principal = ANN) -> int:
        return self._change(expire_delegation_token, hmac, period_ms, requester)

    def _change(self, decide: Callable[..., Any], hmac: bytes, period_ms: int, requester: Principal) -> int:
        change = TokenChange(requester=requester, hmac=hmac, period_ms=period_ms, now_ms=self.now_ms)
        response = self.world.do(lambda context, made: decide(context, made, self.hmacs), change)
        return int(response.expiry_timestamp)

    def token(self, token_id: str) -> TokenImage | None:
        return self.world.image.delegation_tokens.tokens.get(token_id)

    def ids(self) -> set[str]:
        return set(self.world.image.delegation_tokens.tokens)


@pytest.fixture
def tokens() -> Tokens:
    return Tokens()


def code_of(work: Callable[[], object]) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        work()
    return caught.value.code


def renewers(*names: str) -> list[CreatableRenewers]:
    return [CreatableRenewers(principal_type="User", principal_name=name) for name in names]


def test_a_token_has_its_owner_its_times_and_its_hmac(tokens: Tokens) -> None:
    made = tokens.create(max_lifetime=-1, renewers=renewers("bob"))
    assert (made.principal_type, made.principal_name) == ("User", "ann")
    assert (made.token_requester_principal_type, made.token_requester_principal_name) == ("User", "ann")
    assert (made.issue_timestamp, made.expiry_timestamp, made.max_timestamp) == (NOW, NOW + DAY, NOW + WEEK)
    assert len(made.token_id) == 22 and made.hmac == token_hmac("secret", made.token_id) and len(made.hmac) == 64
    token = tokens.token(made.token_id)
    assert token is not None and (token.owner, token.requester, token.renewers) == (ANN, ANN, (BOB,))


@pytest.mark.parametrize(
    ("asked", "lifetime"), [(0, WEEK), (-5, WEEK), (1, 1), (DAY, DAY), (WEEK + 1, WEEK), (2**63 - 1, WEEK)]
)
def test_the_lifetime_is_at_most_the_configured_one(tokens: Tokens, asked: int, lifetime: int) -> None:
    made = tokens.create(max_lifetime=asked)
    assert made.max_timestamp == NOW + lifetime
    assert made.expiry_timestamp == NOW + min(lifetime, DAY)


def test_times_end_with_the_last_one_on_the_wire() -> None:
    tokens = Tokens(token_lifetime_ms_max=2**63 - 1, token_expiry_ms=2**63 - 1)
    made = tokens.create()
    assert made.max_timestamp == made.expiry_timestamp == 2**63 - 1
    assert tokens.renew(made.hmac) == 2**63 - 1


def test_a_token_may_have_another_owner(tokens: Tokens) -> None:
    made = tokens.create(BOB, owner_principal_type="User", owner_principal_name="ann")
    token = tokens.token(made.token_id)
    assert token is not None and (token.owner, token.requester) == (ANN, BOB)
    assert (made.principal_name, made.token_requester_principal_name) == ("ann", "bob")
    assert code_of(lambda: tokens.renew(made.hmac, requester=BOB)) is ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert tokens.renew(made.hmac, requester=ANN)


@pytest.mark.parametrize(
    "fields",
    [
        {"renewers": [CreatableRenewers(principal_type="Group", principal_name="g")]},
        {"renewers": [CreatableRenewers(principal_type="user", principal_name="g")]},
        {"owner_principal_type": "", "owner_principal_name": "ann"},
        {"owner_principal_type": None, "owner_principal_name": "ann"},
        {"owner_principal_type": "a:b", "owner_principal_name": "ann"},
    ],
)
def test_principals_of_other_types_are_rejected(tokens: Tokens, fields: dict[str, Any]) -> None:
    assert code_of(lambda: tokens.create(BOB, **fields)) is ErrorCode.INVALID_PRINCIPAL_TYPE
    assert not tokens.ids()


def test_names_with_colons_are_read_back_as_they_were(tokens: Tokens) -> None:
    owner = Principal("User", "CN=a:b,O=c")
    made = tokens.create(owner, renewers=renewers("x:y", ""))
    token = tokens.token(made.token_id)
    assert token is not None and token.owner == owner
    assert token.renewers == (Principal("User", "x:y"), Principal("User", ""))


def test_principals_that_do_not_fit_a_record_are_rejected(tokens: Tokens) -> None:
    made = tokens.create(renewers=renewers(*["\x01" * 60] * 990))
    assert tokens.token(made.token_id) is not None
    assert code_of(lambda: tokens.create(renewers=renewers(*["x"] * 1001))) is ErrorCode.INVALID_REQUEST
    assert code_of(lambda: tokens.create(renewers=renewers("x" * 70_000))) is ErrorCode.INVALID_REQUEST


def test_the_number_of_tokens_is_limited(tokens: Tokens, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delegation_token_control, "TOKENS_MAX", 2)
    made = [tokens.create() for _ in range(2)]
    assert code_of(tokens.create) is ErrorCode.POLICY_VIOLATION
    tokens.expire(made[0].hmac)
    tokens.create()


@pytest.mark.parametrize("secret_key", [None, ""])
def test_without_a_secret_key_all_is_disabled(secret_key: str | None) -> None:
    tokens = Tokens(secret_key)
    for work in (tokens.create, lambda: tokens.renew(b"x"), lambda: tokens.expire(b"x")):
        assert code_of(work) is ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


def test_a_token_is_renewed_by_its_owner_and_its_renewers(tokens: Tokens) -> None:
    made = tokens.create(renewers=renewers("bob"))
    tokens.now_ms += 1000
    assert tokens.renew(made.hmac) == NOW + 1000 + DAY
    assert tokens.renew(made.hmac, 5000, BOB) == NOW + 6000
    assert tokens.renew(made.hmac, 2 * DAY) == NOW + 1000 + DAY, "at most the configured period"
    assert code_of(lambda: tokens.renew(made.hmac, 1, EVE)) is ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    token = tokens.token(made.token_id)
    assert token is not None and token.expires_at_ms == NOW + 1000 + DAY and token.issued_at_ms == NOW


def test_a_token_is_not_renewed_beyond_its_lifetime(tokens: Tokens) -> None:
    made = tokens.create(max_lifetime=DAY + 10)
    tokens.now_ms += DAY
    assert tokens.renew(made.hmac) == NOW + DAY + 10
    tokens.now_ms = NOW + DAY + 11
    assert code_of(lambda: tokens.renew(made.hmac)) is ErrorCode.DELEGATION_TOKEN_EXPIRED


def test_the_order_of_the_errors(tokens: Tokens) -> None:
    made = tokens.create(max_lifetime=10)
    assert code_of(lambda: tokens.renew(b"unknown")) is ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    assert code_of(lambda: tokens.expire(made.token_id.encode())) is ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    tokens.now_ms += 11
    assert code_of(lambda: tokens.renew(made.hmac, 1, EVE)) is ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert code_of(lambda: tokens.expire(made.hmac, 1, EVE)) is ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert code_of(lambda: tokens.expire(made.hmac, 1)) is ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert tokens.expire(made.hmac, -1) == tokens.now_ms, "an expired token can be removed"
    assert code_of(lambda: tokens.expire(made.hmac)) is ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_a_token_expires_at_a_time_or_is_removed_at_once(tokens: Tokens) -> None:
    first, second = tokens.create(renewers=renewers("bob")), tokens.create()
    assert tokens.expire(first.hmac, 5, BOB) == NOW + 5
    assert tokens.expire(first.hmac, 2 * WEEK) == NOW + WEEK, "at most its lifetime"
    assert tokens.expire(second.hmac, 0) == NOW
    assert tokens.ids() == {first.token_id, second.token_id}
    tokens.expire(first.hmac)
    assert tokens.ids() == {second.token_id}


def test_the_sweep_removes_expired_tokens_in_portions(tokens: Tokens, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delegation_token_control, "SWEEP_RECORDS_MAX", 2)
    short = [tokens.create(max_lifetime=10).token_id for _ in range(3)]
    long = tokens.create().token_id
    tokens.world.do(sweep_expired_tokens, NOW + 10)
    assert tokens.ids() == {*short, long}, "a token is valid at the time of its expiration"
    assert tokens.world.do(sweep_expired_tokens, NOW + 11) == 2
    assert tokens.world.do(sweep_expired_tokens, NOW + 11) == 1
    assert tokens.ids() == {long}
    assert tokens.world.do(sweep_expired_tokens, NOW + DAY + 1) == 1


def test_requests_and_answers_do_not_show_hmacs(tokens: Tokens) -> None:
    made = tokens.create()
    assert "hmac" not in repr(made)
    assert "hmac" not in repr(TokenChange(requester=ANN, hmac=made.hmac, period_ms=1, now_ms=NOW))


def test_a_token_is_found_by_a_controller_that_did_not_create_it(tokens: Tokens) -> None:
    made = [tokens.create() for _ in range(3)]
    tokens.hmacs = TokenHmacs("secret")
    for each in made:
        assert tokens.renew(each.hmac) == NOW + DAY
    assert code_of(lambda: tokens.renew(b"unknown")) is ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    tokens.expire(made[0].hmac)
    assert code_of(lambda: tokens.renew(made[0].hmac)) is ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    later = tokens.create()
    assert tokens.renew(later.hmac) == NOW + DAY


def test_hmacs_of_removed_tokens_are_dropped_beyond_the_limit(tokens: Tokens, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvorum.quorum.token_hmacs.TOKENS_MAX", 3)
    kept = [tokens.create() for _ in range(2)]
    for _ in range(10):
        tokens.expire(tokens.create().hmac)
        assert len(tokens.hmacs._by_id) == len(tokens.hmacs._ids) <= 6
        for each in kept:
            assert tokens.renew(each.hmac) == NOW + DAY
        assert code_of(lambda: tokens.renew(b"unknown")) is ErrorCode.DELEGATION_TOKEN_NOT_FOUND
