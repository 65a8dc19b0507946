"""AlterUserScramCredentials: each user alone, with Kafka's codes and messages."""

import pytest

from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kvorum.quorum.controller import scram_control
from kvorum.quorum.controller.scram_control import alter_user_scram_credentials
from kvorum.security.credentials import ScramMechanism
from kvorum.security.scram_keys import derive_credential, salted_password
from tests.unit.quorum.controller.controller_kit import World

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
TWICE = (ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")
MISSING = (ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
DONE = (ErrorCode.NONE, None)


@pytest.fixture
def world() -> World:
    return World()


def upsert(user: str, mechanism: int = SHA_256, *, iterations: int = 4096, salt: bytes = b"salt") -> tuple[str, object]:
    kind = ScramMechanism(mechanism) if mechanism in (1, 2) else SHA_256
    salted = salted_password(kind, b"password", salt, max(iterations, 1)) if iterations < 20_000 else b"salted"
    row = ScramCredentialUpsertion(
        name=user, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=salted
    )
    return "upsertions", row


def delete(user: str, mechanism: int = SHA_256) -> tuple[str, object]:
    return "deletions", ScramCredentialDeletion(name=user, mechanism=mechanism)


def alter(world: World, *entries: tuple[str, object]) -> dict[str, tuple[int, str | None]]:
    request = AlterUserScramCredentialsRequest()
    for kind, row in entries:
        getattr(request, kind).append(row)
    rows: list[AlterUserScramCredentialsResult] = world.do(alter_user_scram_credentials, request).results
    assert len({row.user for row in rows}) == len(rows)
    return {row.user: (row.error_code, row.error_message) for row in rows}


def stored(world: World) -> dict[str, list[int]]:
    return {user: sorted(world.image.scram.of(user)) for user in sorted(world.image.scram.users)}


def test_a_user_gets_credentials_one_mechanism_at_a_time(world: World) -> None:
    assert alter(world, upsert("ann"), upsert("bob", SHA_512, iterations=8192)) == {"ann": DONE, "bob": DONE}
    assert alter(world, upsert("ann", SHA_512)) == {"ann": DONE}
    assert stored(world) == {"ann": [SHA_256, SHA_512], "bob": [SHA_512]}
    assert world.image.scram.of("bob")[SHA_512] == derive_credential(SHA_512, b"password", b"salt", 8192)


def test_a_credential_is_replaced_and_deleted(world: World) -> None:
    alter(world, upsert("ann"), upsert("bob"))
    assert alter(world, upsert("ann", iterations=5000), delete("bob")) == {"ann": DONE, "bob": DONE}
    assert stored(world) == {"ann": [SHA_256]}
    assert world.image.scram.of("ann")[SHA_256].iterations == 5000
    assert alter(world, delete("ann", SHA_512), delete("bob")) == {"ann": MISSING, "bob": MISSING}


@pytest.mark.parametrize(
    "entries",
    [
        (upsert("ann"), upsert("ann")),
        (upsert("ann", SHA_256), upsert("ann", SHA_512)),
        (delete("ann"), delete("ann", SHA_512)),
        (delete("ann"), upsert("ann", SHA_512)),
        (delete("ann"), delete("ann"), upsert("ann")),
    ],
)
def test_a_user_named_twice_is_left_as_it_is(world: World, entries: tuple[tuple[str, object], ...]) -> None:
    alter(world, upsert("ann", iterations=6000))
    alter(world, upsert("ann", SHA_512, iterations=6000))
    before = world.image
    assert alter(world, *entries, upsert("bob")) == {"ann": TWICE, "bob": DONE}
    assert world.image.scram.of("ann") == before.scram.of("ann")


@pytest.mark.parametrize(
    ("entry", "code", "message"),
    [
        (upsert(""), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        (delete(""), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        (upsert("", 9), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        (upsert("x", 0), ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (upsert("x", 3, iterations=1), ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (delete("x", -1), ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (upsert("x", iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        (upsert("x", iterations=-1), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        (upsert("x", iterations=16_385), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
        (upsert("x", salt=b"s" * 1025), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Salt must not have more than 1024 bytes"),
        (upsert("x" * 32_768), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not have more than 32767 bytes"),
    ],
)
def test_a_bad_entry_fails_alone(world: World, entry: tuple[str, object], code: ErrorCode, message: str) -> None:
    rows = alter(world, entry, upsert("ann"))
    assert rows.pop("ann") == DONE
    assert list(rows.values()) == [(code, message)]
    assert stored(world) == {"ann": [SHA_256]}


def test_of_two_errors_of_a_user_the_first_counts(world: World) -> None:
    assert alter(world, delete("ann"), upsert("ann"), upsert("ann", 9)) == {"ann": MISSING}


def test_the_longest_name_fits_a_record(world: World) -> None:
    name = "\x01" * 32_767
    assert alter(world, upsert(name)) == {name: DONE}


def test_a_request_with_too_many_changes_is_rejected(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scram_control, "RECORDS_MAX", 2)
    assert alter(world, upsert("a"), upsert("b")) == {"a": DONE, "b": DONE}
    request = AlterUserScramCredentialsRequest(deletions=[ScramCredentialDeletion(name=name) for name in "abc"])
    with pytest.raises(KafkaError) as caught:
        world.do(alter_user_scram_credentials, request)
    assert caught.value.code is ErrorCode.POLICY_VIOLATION


def test_a_request_does_not_show_salted_passwords() -> None:
    _, row = upsert("ann")
    assert "salt" not in repr(AlterUserScramCredentialsRequest(upsertions=[row]))  # type: ignore[list-item]
