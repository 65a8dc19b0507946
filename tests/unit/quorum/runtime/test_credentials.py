"""Users and tokens at a controller: who may change them, and what its own listeners look up, across restarts."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kvorum.network.authorizer import AllowAll
from kvorum.network.context import RequestContext
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kvorum.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from kvorum.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kvorum.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from kvorum.protocol.schema import Message
from kvorum.quorum.bootstrap_file import BOOTSTRAP_FILE, read_bootstrap, write_bootstrap
from kvorum.quorum.image.scram import credential_record
from kvorum.quorum.records import MetadataRecord, UnknownRecord
from kvorum.runtime.disk import OsDisk
from kvorum.runtime.listeners import SecurityProtocol
from kvorum.security.credentials import ScramCredential, ScramMechanism
from kvorum.security.delegation_tokens import token_scram_credential
from kvorum.security.principal import ANONYMOUS, Principal
from kvorum.security.scram_keys import derive_credential, salted_password
from tests.unit.quorum.runtime.runtime_kit import World

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
ANN = Principal("User", "ann")
INTERVAL_MS = 5_000
DAY_MS = 86_400_000


def credential(password: str) -> ScramCredential:
    return derive_credential(SHA_256, password.encode(), b"salt", 4096)


async def set_password(world: World, user: str, password: str) -> tuple[int, str | None]:
    salted = salted_password(SHA_256, password.encode(), b"salt", 4096)
    row = ScramCredentialUpsertion(name=user, mechanism=1, iterations=4096, salt=b"salt", salted_password=salted)
    answer = await world.ask(AlterUserScramCredentialsRequest(upsertions=[row]))
    return answer.results[0].error_code, answer.results[0].error_message


async def delete(world: World, user: str) -> int:
    row = ScramCredentialDeletion(name=user, mechanism=1)
    answer = await world.ask(AlterUserScramCredentialsRequest(deletions=[row]))
    code: int = answer.results[0].error_code
    return code


def known(world: World, user: str) -> ScramCredential | None:
    return world.server.services.credentials.scram_credential(SHA_256, user)


def restarted(world: World, bootstrap: list[MetadataRecord] | None = None) -> World:
    """Start the controller again, whose log has not applied anything yet."""
    world.run(world.server.close())
    again = World.__new__(World)
    again.__dict__.update(world.__dict__)
    again.log = type(world.log)(commits_at_once=True)
    again.server = again.make_server(again.log)
    again.server._bootstrap = bootstrap or []
    again.run(again.server.start())
    return again


def test_a_change_is_answered_once_it_is_committed(world: World) -> None:
    world.elect()
    assert world.run(set_password(world, "ann", "pass")) == (0, None)
    assert known(world, "ann") == credential("pass")
    assert known(world, "bob") is None
    assert world.server.services.credentials.scram_credential(SHA_512, "ann") is None
    assert world.run(delete(world, "ann")) == 0
    assert known(world, "ann") is None


def test_no_other_than_the_active_controller_changes_users(world: World) -> None:
    assert world.run(set_password(world, "ann", "pass"))[0] == ErrorCode.NOT_CONTROLLER


def test_without_permission_each_user_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.elect()
    monkeypatch.setattr(AllowAll, "authorize", lambda *_: False)
    code, _ = world.run(set_password(world, "ann", "pass"))
    assert code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert not world.image.scram.users


def test_a_controller_knows_its_peers_before_it_has_applied_anything(world: World) -> None:
    """Passwords that were changed, and users that were deleted, stay so; else no quorum could form again."""
    world.elect()

    async def change() -> None:
        await set_password(world, "ann", "first")
        await set_password(world, "bob", "pass")
        await set_password(world, "ann", "second")
        await delete(world, "bob")
        await world.create_topic("a topic")

    world.run(change())
    old = [credential_record(user, 1, credential("first")) for user in ("ann", "bob")]
    again = restarted(world, list(old))
    assert again.image.offset == -1, "nothing is applied"
    assert known(again, "ann") == credential("second")
    assert known(again, "bob") is None


def test_a_new_cluster_begins_with_the_users_of_its_format(world: World) -> None:
    bootstrap: list[MetadataRecord] = [credential_record("admin", 1, credential("pass"))]
    again = restarted(world, bootstrap)
    assert known(again, "admin") == credential("pass"), "before the first election"
    again.elect()
    assert list(again.image.scram.users) == ["admin"]
    again.run(delete(again, "admin"))
    assert known(again, "admin") is None
    assert list(again.image.features.levels), "the other first records are there too"


def test_the_records_of_a_format_are_read_back(tmp_path: Path) -> None:
    disk, folder = OsDisk(), str(tmp_path)
    assert read_bootstrap(disk, folder) == []
    written: list[MetadataRecord] = [credential_record(name, 1, credential("p")) for name in ("a", "line\nbreak")]
    write_bootstrap(disk, folder, written)
    assert read_bootstrap(disk, folder) == written
    (tmp_path / BOOTSTRAP_FILE).write_bytes((tmp_path / BOOTSTRAP_FILE).read_bytes() + b'{"type":"Wormhole"}\n')
    with pytest.raises(UnknownRecord, match=f"{BOOTSTRAP_FILE}, line 3"):
        read_bootstrap(disk, folder)


# Delegation tokens


@pytest.fixture
def secured() -> Iterator[World]:
    """An active controller with delegation tokens."""
    world = World(
        **{
            "delegation.token.secret.key": "secret",
            "delegation.token.expiry.check.interval.ms": INTERVAL_MS,
            "delegation.token.max.lifetime.ms": DAY_MS,
        }
    )
    world.elect()
    yield world
    world.end()


async def ask_forwarded(world: World, request: Message, principal: Principal = ANN, **context: object) -> Message:
    """Ask as a broker forwards a client's request."""
    ctx = RequestContext(
        principal=principal,
        api_key=request.API_KEY,
        api_version=request.VERSIONS[1],
        **{"forwarded": True, **context},  # type: ignore[arg-type]
    )
    handler = world.server.router._routes[request.API_KEY].handle
    answer = await handler(ctx, request)  # type: ignore[misc]
    assert answer is not None
    return answer  # type: ignore[return-value]


async def create(world: World, **fields: int) -> CreateDelegationTokenResponse:
    answer = await ask_forwarded(world, CreateDelegationTokenRequest(**fields))  # type: ignore[arg-type]
    assert isinstance(answer, CreateDelegationTokenResponse)
    return answer


def test_a_token_is_known_by_its_credential_until_it_is_removed(secured: World) -> None:
    made = secured.run(create(secured))
    credentials = secured.server.services.credentials
    for mechanism in ScramMechanism:
        found = credentials.token_credential(mechanism, made.token_id)
        assert found is not None
        assert (found.owner, found.owner.token_authenticated) == (ANN, True)
        assert found.expires_at_ms == made.expiry_timestamp
        assert found.credential == token_scram_credential(mechanism, made.hmac)
    assert credentials.scram_credential(SHA_256, made.token_id) is None, "a token is no user"
    secured.run(ask_forwarded(secured, ExpireDelegationTokenRequest(hmac=made.hmac, expiry_time_period=-1)))
    assert credentials.token_credential(SHA_256, made.token_id) is None


def test_expired_tokens_are_swept_by_the_active_controller(secured: World) -> None:
    short = secured.run(create(secured, max_lifetime=INTERVAL_MS // 2))
    long = secured.run(create(secured))
    secured.advance(INTERVAL_MS - 1000)
    assert set(secured.image.delegation_tokens.tokens) == {short.token_id, long.token_id}
    secured.advance(1100)
    assert set(secured.image.delegation_tokens.tokens) == {long.token_id}


ALL_THREE = [
    CreateDelegationTokenRequest(),
    RenewDelegationTokenRequest(hmac=b"x"),
    ExpireDelegationTokenRequest(hmac=b"x"),
]


@pytest.mark.parametrize("request_", ALL_THREE, ids=lambda request: type(request).__name__)
def test_tokens_are_not_managed_with_a_token_or_without_authentication(secured: World, request_: Message) -> None:
    refused = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    by_token = Principal("User", "ann", token_authenticated=True)

    async def codes() -> list[int]:
        answers = [
            await ask_forwarded(secured, request_, by_token),
            await ask_forwarded(secured, request_, forwarded=False),
            await ask_forwarded(secured, request_, ANONYMOUS, forwarded=False, security_protocol=SecurityProtocol.SSL),
            await ask_forwarded(secured, request_, forwarded=False, security_protocol=SecurityProtocol.SSL),
            await ask_forwarded(secured, request_, forwarded=False, security_protocol=SecurityProtocol.SASL_PLAINTEXT),
        ]
        return [answer.error_code for answer in answers]  # type: ignore[attr-defined]

    found = secured.run(codes())
    assert found[:3] == [refused] * 3
    assert refused not in found[3:]


def test_a_token_for_another_owner_needs_a_right(secured: World, monkeypatch: pytest.MonkeyPatch) -> None:
    request = CreateDelegationTokenRequest(owner_principal_type="User", owner_principal_name="bob")
    monkeypatch.setattr(AllowAll, "authorize", lambda *_: False)
    answer = secured.run(ask_forwarded(secured, request))
    assert isinstance(answer, CreateDelegationTokenResponse)
    assert answer.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    assert (answer.principal_name, answer.token_requester_principal_name) == ("bob", "ann")
    own = CreateDelegationTokenRequest(owner_principal_type="User", owner_principal_name="ann")
    mine = secured.run(ask_forwarded(secured, own))
    assert isinstance(mine, CreateDelegationTokenResponse) and mine.error_code == ErrorCode.NONE


def test_without_a_secret_key_tokens_are_disabled(world: World) -> None:
    world.elect()

    async def codes() -> list[int]:
        return [(await ask_forwarded(world, request)).error_code for request in ALL_THREE]  # type: ignore[attr-defined]

    assert world.run(codes()) == [ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED] * 3
    assert world.server.services.credentials.token_credential(SHA_256, "x") is None


def test_derived_credentials_are_stored_up_to_a_limit(secured: World, monkeypatch: pytest.MonkeyPatch) -> None:
    made = secured.run(create(secured))
    monkeypatch.setattr("kvorum.quorum.credentials.DERIVED_MAX", 1)
    credentials = secured.server.services.credentials
    calls: list[ScramMechanism] = []

    def derive(mechanism: ScramMechanism, hmac: bytes) -> ScramCredential:
        calls.append(mechanism)
        return credential("x")

    monkeypatch.setattr("kvorum.quorum.credentials.token_scram_credential", derive)
    for mechanism in (SHA_256, SHA_256, SHA_512, SHA_512, SHA_256):
        assert credentials.token_credential(mechanism, made.token_id) is not None
    assert calls == [SHA_256, SHA_512, SHA_256]
