"""A password verifier of the user: functions and coroutine functions, within a time limit."""

import asyncio
import threading
from typing import Any

import pytest

from kvorum.security.errors import AuthenticationError
from kvorum.security.sasl import verifier
from kvorum.security.sasl.plain import PlainServer
from kvorum.security.sasl.verifier import FunctionVerifier, load_function
from tests.unit.network.network_kit import run
from tests.unit.security.sasl.sasl_kit import PASSWORD, USER, plain_token

RELEASE = threading.Event()


def check(user: str, password: str) -> bool:
    return (user, password) == (USER, PASSWORD)


async def check_async(user: str, password: str) -> bool:
    await asyncio.sleep(0)
    return check(user, password)


class Checker:
    def check(self, user: str, password: str) -> bool:
        return check(user, password)

    async def __call__(self, user: str, password: str) -> bool:
        return check(user, password)


CHECKER = Checker()


@pytest.mark.parametrize("name", ["check", "check_async", "CHECKER", "CHECKER.check"])
def test_a_function_decides(name: str) -> None:
    async def main() -> None:
        verify = FunctionVerifier(load_function(f"{__name__}:{name}"))
        assert await verify(USER, PASSWORD) is True
        assert await verify(USER, "wrong") is False
        server = PlainServer(verify)
        await server.evaluate(plain_token())
        assert server.principal is not None

    run(main)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("check", "MODULE:FUNCTION"),
        (":check", "MODULE:FUNCTION"),
        ("a:", "MODULE:FUNCTION"),
        ("no_such_module_here:check", "cannot be imported: ModuleNotFoundError"),
        (f"{__name__}:none", "cannot be imported: AttributeError"),
        (f"{__name__}:PASSWORD", "not a function"),
    ],
)
def test_a_function_that_cannot_be_called_is_an_error(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        load_function(text)


def raising(user: str, password: str) -> bool:
    raise ValueError(f"{password} is wrong")


async def raising_async(user: str, password: str) -> bool:
    raise ValueError(f"{password} is wrong")


def exiting(user: str, password: str) -> bool:
    raise SystemExit


def stuck(user: str, password: str) -> bool:
    RELEASE.wait()
    return True


async def stuck_async(user: str, password: str) -> bool:
    await asyncio.Event().wait()
    return True


def truthy(user: str, password: str) -> Any:
    return "yes"


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (raising, "raised ValueError"),
        (raising_async, "raised ValueError"),
        (exiting, "raised RuntimeError"),
        (stuck, "did not return within 20 ms"),
        (stuck_async, "did not return within 20 ms"),
        (truthy, "returned str instead of True or False"),
    ],
)
def test_a_function_that_fails_rejects_the_user(function: Any, reason: str, log_lines: list[str]) -> None:
    async def main() -> None:
        timeout_ms = 20 if "20 ms" in reason else 30_000
        with pytest.raises(AuthenticationError, match=reason) as caught:
            await FunctionVerifier(function, timeout_ms)(USER, PASSWORD)
        assert caught.value.response_message == "Authentication failed: credentials for user could not be verified"
        RELEASE.set()

    try:
        run(main)
    finally:
        RELEASE.clear()
    assert any(reason in line for line in log_lines)
    assert not any(PASSWORD in line for line in log_lines)


def test_stuck_functions_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifier, "THREADS_MAX", 2)
    started: list[str] = []
    release = threading.Event()

    def slow(user: str, password: str) -> bool:
        started.append(user)
        release.wait()
        return True

    async def main() -> None:
        verify = FunctionVerifier(slow, 30)
        results = await asyncio.gather(*(verify(str(number), "x") for number in range(5)), return_exceptions=True)
        assert all(isinstance(result, AuthenticationError) for result in results)
        assert len(started) == 2
        release.set()
        while True:
            try:
                assert await verify("last", "x")
                return
            except AuthenticationError:  # the threads have not ended yet
                await asyncio.sleep(0.01)

    run(main)
