"""The token of an OAUTHBEARER client: made without a signature, of a file, or of a token endpoint (client credentials).

A token is used until 80 % of its lifetime are over. Source: KIP-768, Kafka's ClientCredentialsJwtRetriever.
"""

import json
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias
from urllib.parse import quote_plus

from kvorum.security.errors import AuthenticationError
from kvorum.security.oauth.http import FetchError, WatchedFile
from kvorum.security.oauth.tokens import TokenRejected, decode_object, required_time, split_token

USED_SHARE: Final = 0.8
"""Share of its lifetime that a token is used (sasl.login.refresh.window.factor)."""

Post: TypeAlias = Callable[[str, Mapping[str, str], Mapping[str, str]], Awaitable[bytes]]
"""Sends a form to a URL and returns the response: (url, form, headers). Raises FetchError."""


class TokenSource(Protocol):
    """Returns the token of a client."""

    async def token(self) -> str:
        """Return a token that is valid now. Raises AuthenticationError."""
        ...


class FileToken:
    """A token in a file, which another program renews."""

    __slots__ = ("_file", "_token")

    def __init__(self, file: WatchedFile) -> None:
        """Read the file at each use, if it has changed."""
        self._file = file
        self._token = ""

    async def token(self) -> str:
        """See TokenSource."""
        try:
            data = await self._file.read()
        except FetchError as error:
            raise AuthenticationError(str(error)) from None
        if data is not None:
            self._token = data.decode("ascii", "replace").strip()
        return self._token


class MadeToken:
    """A token that is made for each use."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[[], str]) -> None:
        """Call `make` for each use."""
        self._make = make

    async def token(self) -> str:
        """See TokenSource."""
        return self._make()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCredentials:
    """A client of a token endpoint."""

    url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None = None


class EndpointToken:
    """A token of a token endpoint."""

    __slots__ = ("_credentials", "_post", "_renew_at_ms", "_token", "_wall_ms")

    def __init__(self, credentials: ClientCredentials, post: Post, wall_ms: Callable[[], int]) -> None:
        """Request a token at the first use."""
        self._credentials = credentials
        self._post = post
        self._wall_ms = wall_ms
        self._token = ""
        self._renew_at_ms = 0.0

    async def token(self) -> str:
        """See TokenSource. Two first uses at a time request two tokens."""
        now_ms = self._wall_ms()
        if now_ms >= self._renew_at_ms:
            token, expires_ms = await self._request()
            self._token, self._renew_at_ms = token, now_ms + USED_SHARE * (expires_ms - now_ms)
        return self._token

    async def _request(self) -> tuple[str, int]:
        """Return a new token, and when it expires. Raises AuthenticationError."""
        own = self._credentials
        login = f"{quote_plus(own.client_id)}:{quote_plus(own.client_secret)}".encode()
        headers = {"Authorization": f"Basic {b64encode(login).decode()}", "Accept": "application/json"}
        form = {"grant_type": "client_credentials", **({} if own.scope is None else {"scope": own.scope})}
        try:
            found = json.loads(await self._post(own.url, form, headers))
            token = found["access_token"]
            expires_ms = required_time(decode_object(split_token(token)[1], "claims"), "exp")
        except FetchError as error:
            raise AuthenticationError(str(error)) from None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, TokenRejected):
            raise AuthenticationError(f"{own.url} did not return a token in access_token") from None
        return token, expires_ms
