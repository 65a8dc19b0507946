"""Passwords are checked against SCRAM credentials; who exists cannot be found out, and work is bounded."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kvorum.security import passwords
from kvorum.security.credentials import ITERATIONS_MIN, ScramCredential, ScramMechanism
from kvorum.security.errors import AuthenticationError
from kvorum.security.passwords import (
    ACCEPTED_SECONDS,
    CHECKS_MAX,
    PASSWORD_CHARS_MAX,
    WAITING_MAX,
    PasswordChecker,
    TooManyChecks,
    UserCredentials,
)
from kvorum.security.scram_keys import derive_credential

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512


def credential(password: str, mechanism: ScramMechanism = SHA_512) -> ScramCredential:
    return derive_credential(mechanism, password.encode(), b"salt", ITERATIONS_MIN)


class Users:
    """Users in memory, and the number of passwords that were computed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.credentials: dict[str, dict[ScramMechanism, ScramCredential]] = {}
        self.computed: list[int] = []
        real = passwords.fitting_credential

        def counted(password: bytes, credentials: UserCredentials) -> ScramCredential | None:
            self.computed.append(len(credentials))
            return real(password, credentials)

        monkeypatch.setattr(passwords, "fitting_credential", counted)

    async def find(self, user: str) -> UserCredentials:
        return self.credentials.get(user, {})

    def run(self, test: Callable[[PasswordChecker], Awaitable[None]], delay_ms: int = 0) -> None:
        async def main() -> None:
            await test(PasswordChecker(self.find, b"secret", delay_ms))

        asyncio.run(main())


@pytest.fixture
def users(monkeypatch: pytest.MonkeyPatch) -> Users:
    users = Users(monkeypatch)
    users.credentials["alice"] = {SHA_256: credential("first", SHA_256), SHA_512: credential("second")}
    return users


async def failure(checker: PasswordChecker, user: str, password: str) -> AuthenticationError:
    with pytest.raises(AuthenticationError) as failed:
        await checker.check(user, password)
    assert password == "" or password not in str(failed.value)
    return failed.value


def test_the_password_of_either_mechanism_is_accepted(users: Users) -> None:
    async def test(checker: PasswordChecker) -> None:
        await checker.check("alice", "first")
        await checker.check("alice", "second")
        await failure(checker, "alice", "third")
        await failure(checker, "alice", "")

    users.run(test)


def test_unknown_users_are_answered_as_wrong_passwords_with_the_same_work_and_delay(users: Users) -> None:
    users.credentials["alice"].pop(SHA_256)

    async def test(checker: PasswordChecker) -> None:
        loop = asyncio.get_running_loop()
        messages = set()
        for user in ("alice", "bob"):
            began = loop.time()
            messages.add((await failure(checker, user, "guessed")).response_message)
            assert loop.time() - began >= 0.05
        assert messages == {"wrong user name or password"}
        assert users.computed == [1, 1]

    users.run(test, delay_ms=50)


def test_an_accepted_password_is_not_computed_again_for_a_while(users: Users, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(checker: PasswordChecker) -> None:
        for _ in range(3):
            await checker.check("alice", "second")
        assert len(users.computed) == 1
        await failure(checker, "alice", "guessed")
        await checker.check("alice", "second")
        assert len(users.computed) == 2
        monkeypatch.setattr(passwords, "ACCEPTED_SECONDS", -1.0)
        await checker.check("alice", "first")
        await checker.check("alice", "first")
        assert len(users.computed) == 4

    assert ACCEPTED_SECONDS <= 60
    users.run(test)


def test_an_accepted_password_ends_with_its_credential(users: Users) -> None:
    async def test(checker: PasswordChecker) -> None:
        await checker.check("alice", "second")
        users.credentials["alice"] = {SHA_512: credential("changed")}
        await failure(checker, "alice", "second")
        await checker.check("alice", "changed")
        del users.credentials["alice"]
        await failure(checker, "alice", "changed")

    users.run(test)


def test_memory_and_work_are_bounded(users: Users, monkeypatch: pytest.MonkeyPatch) -> None:
    users.credentials["carol"] = {SHA_512: credential("carol")}
    monkeypatch.setattr(passwords, "ACCEPTED_MAX", 1)

    async def test(checker: PasswordChecker) -> None:
        await failure(checker, "alice", "x" * (PASSWORD_CHARS_MAX + 1))
        assert users.computed == []
        await checker.check("alice", "second")
        await checker.check("carol", "carol")
        assert len(checker._accepted) == 1
        for _ in range(CHECKS_MAX):
            await checker._turns.acquire()
        waiting = [asyncio.create_task(checker.check("alice", "second")) for _ in range(WAITING_MAX)]
        await asyncio.sleep(0)
        with pytest.raises(TooManyChecks):
            await checker.check("alice", "second")
        for _ in range(CHECKS_MAX):
            checker._turns.release()
        await asyncio.gather(*waiting)

    users.run(test)


def test_nothing_secret_is_in_the_text_of_a_checker(users: Users) -> None:
    async def test(checker: PasswordChecker) -> None:
        await checker.check("alice", "second")
        assert "secret" not in repr(checker) and "second" not in repr(checker)

    users.run(test)
