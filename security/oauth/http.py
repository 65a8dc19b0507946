"""Documents of an identity provider, over HTTP or from a file, with limits of size and time."""

import asyncio
import os
import ssl
from collections.abc import Mapping
from typing import Final

import aiohttp

from kvorum.runtime import blocking

TIMEOUT_MS: Final = 10_000
RESPONSE_BYTES_MAX: Final = 1024 * 1024
REDIRECTS_MAX: Final = 3


class FetchError(Exception):
    """The document could not be fetched. The text names its place and the reason."""


async def fetch(url: str, *, context: ssl.SSLContext | None = None, timeout_ms: int = TIMEOUT_MS) -> bytes:
    """Return the document at a URL. Raises FetchError."""
    return await _request("GET", url, context=context, timeout_ms=timeout_ms)


async def post(
    url: str,
    form: Mapping[str, str],
    headers: Mapping[str, str],
    *,
    context: ssl.SSLContext | None = None,
    timeout_ms: int = TIMEOUT_MS,
) -> bytes:
    """Send a form and return the response. Raises FetchError, without the form or the response."""
    return await _request("POST", url, form, headers, context=context, timeout_ms=timeout_ms)


async def _request(
    method: str,
    url: str,
    form: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    *,
    context: ssl.SSLContext | None,
    timeout_ms: int,
) -> bytes:
    try:
        async with (
            asyncio.timeout(timeout_ms / 1000),
            aiohttp.ClientSession() as session,
            session.request(
                method,
                url,
                data=form,
                headers=headers,
                ssl=context if context is not None else True,
                max_redirects=REDIRECTS_MAX,
                allow_redirects=form is None,
            ) as response,
        ):
            if response.status != 200:
                raise FetchError(f"{url} responded with status {response.status}")
            data = await response.content.read(RESPONSE_BYTES_MAX + 1)
            while len(data) <= RESPONSE_BYTES_MAX and (more := await response.content.read(RESPONSE_BYTES_MAX)):
                data += more
    except TimeoutError:
        raise FetchError(f"{url} did not respond within {timeout_ms} ms") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise FetchError(f"{url} cannot be fetched: {error or type(error).__name__}") from None
    if len(data) > RESPONSE_BYTES_MAX:
        raise FetchError(f"{url} has more than {RESPONSE_BYTES_MAX} bytes")
    return data


class WatchedFile:
    """A file that is read again when it has changed."""

    __slots__ = ("_path", "_seen")

    def __init__(self, path: str) -> None:
        """Read it at the first call."""
        self._path = path
        self._seen: tuple[int, int, int] | None = None

    async def read(self) -> bytes | None:
        """Return the content, None if it is that of the call before. Raises FetchError."""
        return await blocking.run(asyncio.get_running_loop(), self._read)

    def _read(self) -> bytes | None:
        try:
            state = os.stat(self._path)
            seen = (state.st_mtime_ns, state.st_size, state.st_ino)
            if seen == self._seen:
                return None
            with open(self._path, "rb") as file:
                data = file.read(RESPONSE_BYTES_MAX + 1)
        except OSError as error:
            raise FetchError(f"file {self._path} cannot be read: {error.strerror}") from None
        if len(data) > RESPONSE_BYTES_MAX:
            raise FetchError(f"file {self._path} has more than {RESPONSE_BYTES_MAX} bytes")
        self._seen = seen
        return data
