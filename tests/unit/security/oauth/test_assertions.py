"""The JWT-bearer grant: a client gets its token for an assertion that it signs, or that a file has."""

import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat
from joserfc.jwk import ECKey, RSAKey

from kvorum.runtime.config import ConfigError
from kvorum.security.client_properties import client_settings
from kvorum.security.errors import AuthenticationError
from kvorum.security.librdkafka import librdkafka_security
from kvorum.security.oauth.assertions import (
    AssertionRules,
    ClientAssertionError,
    Template,
    make_assertion,
    parse_key,
    parse_template,
)
from kvorum.security.oauth.jwks import KeySet
from kvorum.security.oauth.retrieval import JWT_BEARER
from kvorum.security.oauth.settings import oauth_client
from kvorum.security.oauth.tokens import decode_base64, decode_object
from tests.unit.network.network_kit import run
from tests.unit.security.oauth.oauth_kit import NOW_S, claims, key_set, signed
from tests.unit.security.sasl.sasl_kit import WALL_MS

EC_KEY = ec.generate_private_key(ec.SECP256R1())
PASSPHRASE = "of-the-key"
RETRIEVER = "org.apache.kafka.common.security.oauthbearer.JwtBearerJwtRetriever"


def pem(key: Any = EC_KEY, passphrase: str | None = None) -> bytes:
    encryption = NoEncryption() if passphrase is None else BestAvailableEncryption(passphrase.encode())
    data = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
    assert isinstance(data, bytes)
    return data


def read(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    header, body, _ = token.split(".")
    return dict(decode_object(header, "header")), dict(decode_object(body, "claims"))


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_an_assertion_is_signed_and_has_the_claims_of_the_moment(algorithm: str) -> None:
    key = EC_KEY if algorithm == "ES256" else rsa.generate_private_key(65537, 2048)
    rules = AssertionRules(algorithm=algorithm, claims={"iss": "me", "aud": "idp"}, has_id=True)
    template = Template({"kid": "k1", "alg": "none"}, {"aud": "other", "exp": 0, "role": "r"})
    token = make_assertion(rules, parse_key(pem(key), rules), template, NOW_S, lambda: "id-1")
    header, body = read(token)
    assert header == {"kid": "k1", "alg": algorithm, "typ": "JWT"}
    moment = {"iat": NOW_S, "exp": NOW_S + 300, "nbf": NOW_S - 60, "jti": "id-1"}
    assert body == {"iss": "me", "aud": "other", "role": "r", **moment}
    public = (ECKey if algorithm == "ES256" else RSAKey).import_key(pem(key))
    data, _, signature = token.rpartition(".")
    assert KeySet.parse(key_set(public)).verify(algorithm, None, data.encode(), decode_base64(signature))


def test_an_encrypted_key_needs_its_passphrase() -> None:
    data = pem(passphrase=PASSPHRASE)
    rules = AssertionRules(algorithm="ES256", passphrase=PASSPHRASE)
    assert parse_key(data, rules).key_type == "EC"
    assert PASSPHRASE not in repr(rules)
    for passphrase in (None, "wrong"):
        with pytest.raises(ClientAssertionError):
            parse_key(data, AssertionRules(algorithm="ES256", passphrase=passphrase))


@pytest.mark.parametrize(
    ("data", "algorithm", "reason"),
    [
        (b"no key", "ES256", "it is not a key in PEM"),
        (pem(), "RS256", "it is not a key for RS256"),
        (pem(ec.generate_private_key(ec.SECP384R1())), "ES256", "it is not a key for ES256"),
    ],
    ids=["text", "type", "curve"],
)
def test_another_key_is_refused(data: bytes, algorithm: str, reason: str) -> None:
    with pytest.raises(ClientAssertionError, match=reason):
        parse_key(data, AssertionRules(algorithm=algorithm))


@pytest.mark.parametrize("text", [b"{", b"[]", b'{"header":[]}', b'{"payload":1}'])
def test_a_template_is_an_object_of_two(text: bytes) -> None:
    with pytest.raises(ClientAssertionError):
        parse_template(text)


class Provider:
    """A token endpoint for the JWT-bearer grant."""

    def __init__(self) -> None:
        self.forms: list[dict[str, str]] = []

    async def __aenter__(self) -> "Provider":
        app = web.Application()
        app.router.add_post("/token", self._token)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/token"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _token(self, request: web.Request) -> web.Response:
        self.forms.append({key: str(value) for key, value in (await request.post()).items()})
        return web.json_response({"access_token": signed(claims(sub="of the assertion"))})


def properties(url: str, **assertion: str) -> dict[str, str]:
    found = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.scope": "kafka"}
    found |= {"sasl.oauthbearer.token.endpoint.url": url, "sasl.oauthbearer.jwt.retriever.class": RETRIEVER}
    return found | {f"sasl.oauthbearer.assertion.{key.replace('_', '.')}": text for key, text in assertion.items()}


async def first_message(given: dict[str, str]) -> bytes:
    client = await oauth_client(client_settings(given).settings, {}, lambda: WALL_MS, None)("broker")
    return client.evaluate(b"")


def test_a_client_gets_its_token_for_an_assertion(tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_bytes(pem())
    (tmp_path / "template.json").write_text(json.dumps({"payload": {"role": "r"}}))

    async def main() -> None:
        async with Provider() as provider:
            own = {"private_key_file": str(tmp_path / "key.pem"), "template_file": str(tmp_path / "template.json")}
            given = properties(provider.url, algorithm="ES256", claim_iss="me", **own)
            assert b"auth=Bearer ey" in await first_message(given)
            (form,) = provider.forms
            assert (form["grant_type"], form["scope"]) == (JWT_BEARER, "kafka")
            _, body = read(form["assertion"])
            assert (body["iss"], body["role"], body["exp"]) == ("me", "r", NOW_S + 300)

    run(main)


def test_an_assertion_may_be_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "assertion").write_text("a.b.c\n")

    async def main() -> None:
        async with Provider() as provider:
            await first_message(properties(provider.url, file=str(tmp_path / "assertion")))
            assert provider.forms[0]["assertion"] == "a.b.c"
            given = properties(provider.url, file=str(tmp_path / "assertion"))
            client = oauth_client(client_settings(given).settings, {}, lambda: WALL_MS, None)
            (tmp_path / "assertion").unlink()
            with pytest.raises(AuthenticationError, match="assertion cannot be read"):
                await client("broker")

    run(main)


def test_settings_that_cannot_work_are_refused_with_their_key(tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_bytes(pem())
    (tmp_path / "template.json").write_text("[]")
    key, template = str(tmp_path / "key.pem"), str(tmp_path / "template.json")
    for given, reason in (
        ({}, "assertion.private.key.file: is required with"),
        ({"private_key_file": "/no/such"}, "private.key.file=/no/such: cannot be read"),
        ({"private_key_file": key}, "private.key.file=.*: cannot be used: it is not a key for RS256"),
        (
            {"private_key_file": key, "algorithm": "ES256", "template_file": template},
            "template.file=.*: cannot be used",
        ),
        ({"file": "/no/such"}, "assertion.file=/no/such: cannot be read"),
    ):
        settings = client_settings(properties("https://idp/token", **given)).settings
        with pytest.raises(ConfigError, match=reason):
            oauth_client(settings, {}, lambda: WALL_MS, None)
    with pytest.raises(ConfigError, match="no counterpart here for librdkafka"):
        librdkafka_security(properties("https://idp/token"))
