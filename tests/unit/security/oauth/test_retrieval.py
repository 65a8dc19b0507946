"""Tokens of clients: of a file, and of a token endpoint."""

import json
from base64 import b64decode
from collections.abc import Mapping
from pathlib import Path

import pytest

from kvorum.security.errors import AuthenticationError
from kvorum.security.oauth.http import FetchError, WatchedFile
from kvorum.security.oauth.retrieval import ClientCredentials, EndpointToken, FileToken
from tests.unit.network.network_kit import run
from tests.unit.security.oauth.oauth_kit import NOW_S, claims, unsigned
from tests.unit.security.sasl.sasl_kit import WALL_MS

CREDENTIALS = ClientCredentials(url="https://idp/token", client_id="me:", client_secret="s e", scope="kafka")


class Endpoint:
    """A token endpoint; each token has another subject."""

    def __init__(self) -> None:
        self.forms: list[Mapping[str, str]] = []
        self.headers: list[Mapping[str, str]] = []
        self.answer: bytes | Exception | None = None

    async def post(self, url: str, form: Mapping[str, str], headers: Mapping[str, str]) -> bytes:
        assert url == CREDENTIALS.url
        self.forms.append(form)
        self.headers.append(headers)
        if isinstance(self.answer, Exception):
            raise self.answer
        token = unsigned(claims(sub=str(len(self.forms)), exp=NOW_S + 100))
        return self.answer or json.dumps({"access_token": token, "token_type": "Bearer"}).encode()


def test_a_token_is_used_for_most_of_its_lifetime() -> None:
    async def main() -> None:
        endpoint, now_ms = Endpoint(), [WALL_MS]
        source = EndpointToken(CREDENTIALS, endpoint.post, lambda: now_ms[0])
        first = await source.token()
        now_ms[0] += 79_000
        assert await source.token() == first
        now_ms[0] += 1_000
        assert await source.token() != first
        assert endpoint.forms == [{"grant_type": "client_credentials", "scope": "kafka"}] * 2
        scheme, _, login = endpoint.headers[0]["Authorization"].partition(" ")
        assert (scheme, b64decode(login)) == ("Basic", b"me%3A:s+e")

    run(main)


@pytest.mark.parametrize(
    "answer",
    [
        FetchError("https://idp/token responded with status 401"),
        b"{",
        b"[]",
        b'{"access_token":5}',
        b'{"access_token":"opaque"}',
    ],
    ids=str,
)
def test_a_failing_endpoint_is_named_without_secrets(answer: bytes | Exception) -> None:
    async def main() -> None:
        endpoint = Endpoint()
        endpoint.answer = answer
        with pytest.raises(AuthenticationError, match="https://idp/token") as caught:
            await EndpointToken(CREDENTIALS, endpoint.post, lambda: WALL_MS).token()
        assert "opaque" not in str(caught.value)

    run(main)
    assert "s e" not in repr(CREDENTIALS)


def test_a_token_in_a_file_is_read_again_when_it_has_changed(tmp_path: Path) -> None:
    async def main() -> None:
        path = tmp_path / "token"
        source = FileToken(WatchedFile(str(path)))
        with pytest.raises(AuthenticationError, match="token cannot be read"):
            await source.token()
        path.write_text("a.b.c\n")
        assert await source.token() == "a.b.c"
        path.write_text("longer.b.c\n")
        assert await source.token() == "longer.b.c"
        assert await source.token() == "longer.b.c"

    run(main)
