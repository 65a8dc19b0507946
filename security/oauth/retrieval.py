"""The token of an OAUTHBEARER client: made without a signature, of a file, or of a token endpoint.

The endpoint grants it for client credentials or for an assertion (JWT bearer). A token is used until 80 % of its
lifetime are over. Source: KIP-768, KIP-1139, Kafka's ClientCredentialsJwtRetriever and JwtBearerJwtRetriever.
"""

import json
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias
from urllib.parse import quote_plus

from kvorum.security.errors import AuthenticationError
from kvorum.security.oauth.assertions import AssertionSource
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


JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"


class Grant(Protocol):
    """Authorization grant of a token request (RFC 6749)."""

    @property
    def url(self) -> str:
        """The endpoint."""
        ...

    async def form(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return the form of a request, and headers of its own. Raises AuthenticationError."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCredentials:
    """The Grant of a client id and secret."""

    url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None = None

    async def form(self) -> tuple[dict[str, str], dict[str, str]]:
        """See Grant."""
        login = f"{quote_plus(self.client_id)}:{quote_plus(self.client_secret)}".encode()
        form = {"grant_type": "client_credentials", **({} if self.scope is None else {"scope": self.scope})}
        return form, {"Authorization": f"Basic {b64encode(login).decode()}"}


@dataclass(frozen=True, slots=True, kw_only=True)
class JwtBearer:
    """The Grant of an assertion."""

    url: str
    source: AssertionSource = field(repr=False)
    scope: str | None = None

    async def form(self) -> tuple[dict[str, str], dict[str, str]]:
        """See Grant."""
        form = {"grant_type": JWT_BEARER, "assertion": await self.source.assertion()}
        return form | ({} if self.scope is None else {"scope": self.scope}), {}


class EndpointToken:
    """A token of a token endpoint."""

    __slots__ = ("_grant", "_post", "_renew_at_ms", "_token", "_wall_ms")

    def __init__(self, grant: Grant, post: Post, wall_ms: Callable[[], int]) -> None:
        """Request a token at the first use."""
        self._grant = grant
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
        url = self._grant.url
        form, headers = await self._grant.form()
        try:
            found = json.loads(await self._post(url, form, headers | {"Accept": "application/json"}))
            token = found["access_token"]
            expires_ms = required_time(decode_object(split_token(token)[1], "claims"), "exp")
        except FetchError as error:
            raise AuthenticationError(str(error)) from None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, TokenRejected):
            raise AuthenticationError(f"{url} did not return a token in access_token") from None
        return token, expires_ms
