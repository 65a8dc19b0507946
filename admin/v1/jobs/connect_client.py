"""Client of Kafka Connect's REST interface: of `kvorum pipelines connect`, or Apache Kafka's.

Only the addresses of the node's configuration are used, and only these parts of a request are forwarded: its path below
/v1/jobs, the known parameters and its checked body; no header, so no token. Several addresses are workers of one
Connect cluster. The one that answered last is tried first; the next one if none is reached, or if a read was
interrupted. A change that may have reached a worker is not repeated.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urlencode

import aiohttp
from yarl import URL

from kvorum.admin.http.access import HttpError
from kvorum.admin.v1.jobs.job_answers import unintelligible

REACH_SECONDS: Final = 5.0
"""Timeout of a connection to a worker."""
LOOK_SECONDS: Final = 45.0
CHANGE_SECONDS: Final = 100.0
"""Connect itself waits 90 s for the leader of its workers."""
ANSWER_BYTES_MAX: Final = 16 << 20
"""Some thousand connectors with their configs."""
PIECE_BYTES: Final = 1 << 16
CONNECTIONS_MAX: Final = 16
NOT_REACHED: Final = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
"""No byte of the request was sent."""
NOT_CONFIGURED: Final = (
    "kvorum.connect.urls of this node is not set: start `kvorum pipelines connect` or Kafka Connect, and set it "
    "to the address"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A response and the URL that sent it."""

    url: str
    status: int
    content: bytes


class ConnectionAbort(aiohttp.ClientError):
    """A connection that ended before an answer had come."""


async def once(request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Send a request. aiohttp would repeat a PUT or a DELETE after a lost connection. Raises ConnectionAbort."""
    try:
        return await send(request)
    except NOT_REACHED:
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise ConnectionAbort(str(error) or type(error).__name__) from error


class ConnectClient:
    """The workers of one Connect cluster, as one admin server knows them."""

    def __init__(self, urls: Sequence[str] = ()) -> None:
        """Store the addresses, without trailing slashes; without addresses every request is rejected."""
        self._urls = [*urls]
        self._session: aiohttp.ClientSession | None = None

    async def ask(
        self, method: str, parts: Sequence[str], *, query: Sequence[tuple[str, str]] = (), body: bytes | None = None
    ) -> Answer:
        """Return the first answer, whatever its status.

        Raises HttpError without one.

        `parts` are those of the path, not escaped.
        """
        if not self._urls:
            raise HttpError(404, "CONNECT_NOT_CONFIGURED", NOT_CONFIGURED)
        path = "/" + "/".join(quote(part, safe="") for part in parts) + (f"?{urlencode(query)}" if query else "")
        silent = []
        for url in [*self._urls]:
            try:
                found = await self._ask_one(method, url, path, body)
            except NOT_REACHED as error:
                silent.append(f"{url}: {error}")
            except TimeoutError as error:
                left = "" if method == "GET" else ": the change may or may not have been made"
                raise HttpError(504, "CONNECT_TIMED_OUT", f"{url} did not respond in time{left}") from error
            except aiohttp.ClientError as error:
                if method != "GET":
                    text = f"{url} closed the connection without a response: the change may or may not have been made"
                    raise HttpError(502, "CONNECT_BROKE_OFF", text) from error
                silent.append(f"{url}: {error}")
            else:
                self._urls.sort(key=lambda each: each != url)
                return found
        raise HttpError(502, "CONNECT_UNREACHABLE", f"no Kafka Connect worker responds: {'; '.join(silent)}")

    async def close(self) -> None:
        """Close the session."""
        if self._session is not None:
            await self._session.close()

    async def _ask_one(self, method: str, url: str, path: str, body: bytes | None) -> Answer:
        """Raises aiohttp.ClientError, TimeoutError, Refused."""
        session = self._open_session()
        seconds = LOOK_SECONDS if method == "GET" else CHANGE_SECONDS
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        async with session.request(
            method,
            URL(url + path, encoded=True),
            data=body,
            headers=headers,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=seconds, sock_connect=REACH_SECONDS),
        ) as answer:
            content = bytearray()
            async for piece in answer.content.iter_chunked(PIECE_BYTES):
                content += piece
                if len(content) > ANSWER_BYTES_MAX:
                    raise unintelligible(f"the response of {url} is larger than {ANSWER_BYTES_MAX} bytes")
            return Answer(url=url, status=answer.status, content=bytes(content))

    def _open_session(self) -> aiohttp.ClientSession:
        """Return the session, which belongs to the loop of its first user.

        A connection is for one request: a kept one may have been closed in between.
        """
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=CONNECTIONS_MAX, force_close=True)
            cookies = aiohttp.DummyCookieJar()
            self._session = aiohttp.ClientSession(connector=connector, cookie_jar=cookies, middlewares=(once,))
        return self._session
