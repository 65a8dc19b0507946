"""A password verifier of the user: `kvorum.sasl.plain.verifier=module:function`, called as function(user, password).

It returns whether the password is right: True or False. A coroutine function runs in the event loop; another one runs
in a thread, and may block. One that raises, takes too long, or returns something else rejects the user.
"""

import asyncio
import importlib
import inspect
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from kvorum.runtime.logs import get_logger
from kvorum.security.errors import AuthenticationError

TIMEOUT_MS: Final = 10_000
THREADS_MAX: Final = 16
"""Verifications in threads at a time; one whose time is up counts until it ends. Others wait, within their time."""

log = get_logger("security")


def load_function(text: str) -> Callable[[str, str], Any]:
    """Return the function MODULE:FUNCTION. Raises ValueError with the reason."""
    name, colon, attribute = text.partition(":")
    if not (name and colon and attribute):
        raise ValueError("is not of the form MODULE:FUNCTION")
    try:
        found = importlib.import_module(name)
        for part in attribute.split("."):
            found = getattr(found, part)
    except Exception as error:  # importing runs the user's code
        raise ValueError(f"cannot be imported: {type(error).__name__}: {error}") from None
    if not callable(found):
        raise ValueError(f"{attribute} is not a function")
    return found


class FunctionVerifier:
    """A PasswordVerifier that calls a function of the user."""

    def __init__(self, function: Callable[[str, str], Any], timeout_ms: int = TIMEOUT_MS) -> None:
        """Call the function with a time limit."""
        self._function = function
        self._timeout_ms = timeout_ms
        self._is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004  # an object with an async __call__
        )
        self._threads = asyncio.Semaphore(THREADS_MAX)

    async def __call__(self, user: str, password: str) -> bool:
        """Return whether the password is the user's. Raises AuthenticationError if that is unknown."""
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                call = self._function(user, password) if self._is_async else self._call_in_thread(user, password)
                found = await call
        except TimeoutError:
            raise self._failure(f"did not return within {self._timeout_ms} ms") from None
        except Exception as error:  # any exception of the user's code; its text may contain the password
            raise self._failure(f"raised {type(error).__name__}") from None
        if not isinstance(found, bool):
            raise self._failure(f"returned {type(found).__name__} instead of True or False")
        return found

    def _failure(self, what: str) -> AuthenticationError:
        log.error("password verifier failed", function=getattr(self._function, "__qualname__", "?"), reason=what)
        text = "Authentication failed: credentials for user could not be verified"
        return AuthenticationError(f"{text}: the verifier {what}", text)

    async def _call_in_thread(self, user: str, password: str) -> object:
        await self._threads.acquire()
        loop = asyncio.get_running_loop()
        result: asyncio.Future[object] = loop.create_future()

        def finish(value: object, error: BaseException | None) -> None:
            self._threads.release()
            if result.done():
                return
            if error is None:
                result.set_result(value)
            else:
                result.set_exception(error)

        def run() -> None:
            value: object = None
            error: BaseException | None = None
            try:
                value = self._function(user, password)
            except BaseException as raised:
                error = raised if isinstance(raised, Exception) else RuntimeError(type(raised).__name__)
            with suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(finish, value, error)

        # Not the loop's executor: a function that never returns must not block it, nor the end of the process.
        threading.Thread(target=run, name="password verifier", daemon=True).start()
        return await result
