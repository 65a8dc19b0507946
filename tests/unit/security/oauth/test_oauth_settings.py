"""OAUTHBEARER and password verifiers as a node's and a client's settings have them."""

from pathlib import Path
from typing import Any

import pytest

from kvorum.runtime.config import ConfigError, Settings
from kvorum.security.client import ClientSecurity
from kvorum.security.client_properties import client_settings
from kvorum.security.config_checks import check_security
from kvorum.security.credentials import NoCredentials
from kvorum.security.errors import AuthenticationError
from kvorum.security.incoming import Authentication, sasl_config
from kvorum.security.librdkafka import librdkafka_security
from kvorum.security.oauth.unsecured import make_unsecured_token
from kvorum.security.outgoing import security_of_client
from kvorum.security.principal import Principal
from kvorum.security.sasl.authenticator import SaslConfig
from kvorum.security.sasl.oauthbearer import OauthBearerClient
from kvorum.security.settings import own_listeners
from tests.unit.network.network_kit import run
from tests.unit.security.oauth.oauth_kit import ISSUER, claims, key_set, signed, signing_key
from tests.unit.security.sasl.sasl_kit import PASSWORD, USER, WALL_MS, finish, plain_token

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
LISTENER = "listener.name.sasl_plaintext."
JAAS = f"{LISTENER}oauthbearer.sasl.jaas.config"
KEYS_URL = f"{LISTENER}oauthbearer.sasl.oauthbearer.jwks.endpoint.url"
HANDLER = f"{LISTENER}oauthbearer.sasl.server.callback.handler.class"
VALIDATOR = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
LOGIN = f'{MODULE} required unsecuredLoginStringClaim_sub="node";'
NODE: dict[str, Any] = {
    "process.roles": "broker",
    "node.id": 1,
    "listeners": "SASL_PLAINTEXT://127.0.0.1:1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "controller.quorum.voters": "1@127.0.0.1:2",
    "inter.broker.listener.name": "SASL_PLAINTEXT",
    "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    JAAS: LOGIN,
}
USES = Authentication(credentials=NoCredentials(), wall_ms=lambda: WALL_MS, new_nonce=str, secret=b"")


def verify_by_function(user: str, password: str) -> bool:
    return (user, password) == (USER, PASSWORD)


@pytest.fixture
def keys_file(tmp_path: Path) -> Path:
    path = tmp_path / "jwks.json"
    path.write_bytes(key_set(signing_key()))
    return path


def settings_of(changes: dict[str, Any]) -> Settings:
    return Settings.of({key: text for key, text in (NODE | changes).items() if text is not None})


def config_of(changes: dict[str, Any]) -> SaslConfig:
    found = sasl_config(own_listeners(settings_of(changes))[0], USES)
    assert found is not None
    return found


def test_signed_tokens_need_no_login(keys_file: Path) -> None:
    async def main() -> None:
        config = config_of(
            {
                JAAS: None,
                KEYS_URL: keys_file.as_uri(),
                HANDLER: VALIDATOR,
                f"{LISTENER}sasl.oauthbearer.expected.issuer": ISSUER,
                "sasl.oauthbearer.expected.audience": "kafka,other",
                "sasl.oauthbearer.sub.claim.name": "email",
            }
        )
        for resource in config.resources:
            await resource.start()
        good = {"iss": ISSUER, "aud": "kafka", "email": "a@b"}
        server = config.mechanisms[0].new_server()
        assert await server.evaluate(OauthBearerClient(signed(claims(**good))).evaluate(b"")) == b""
        assert server.principal == Principal("User", "a@b")
        for wrong in ({"iss": "x"}, {"aud": "x"}, {"email": None}):
            server = config.mechanisms[0].new_server()
            assert await server.evaluate(OauthBearerClient(signed(claims(**good | wrong))).evaluate(b"")) != b""
        assert len(config.resources) == 1
        await config.resources[0].close()

    run(main)


def test_unsigned_tokens_are_accepted_with_a_warning_only() -> None:
    (warning,) = check_security(settings_of({}))
    assert "without a signature" in warning
    server = config_of({}).mechanisms[0].new_server()
    token = make_unsecured_token({"unsecuredLoginStringClaim_sub": "bob"}, WALL_MS)
    assert finish(server.evaluate(OauthBearerClient(token).evaluate(b""))) == b""
    assert server.principal == Principal("User", "bob")


@pytest.mark.parametrize(
    ("changes", "key", "reason"),
    [
        ({JAAS: None}, "sasl.oauthbearer.jwks.endpoint.url", "is not set"),
        ({JAAS: f"{MODULE} required;"}, JAAS, "unsecuredLoginStringClaim_sub is missing"),
        ({JAAS: LOGIN[:-1] + ' unsecuredValidatorAllowableClockSkewMs="x";'}, JAAS, "AllowableClockSkewMs"),
        ({JAAS: LOGIN[:-1] + ' extension_auth="x";'}, JAAS, "extension auth"),
        ({HANDLER: VALIDATOR}, "sasl.oauthbearer.jwks.endpoint.url", "is required"),
        ({KEYS_URL: "file:///no/such.json"}, KEYS_URL, "No such file"),
        ({KEYS_URL: "ftp://x/y"}, KEYS_URL, "not a URL of http, https, file"),
        ({KEYS_URL: "https://"}, KEYS_URL, "not a URL of http"),
        ({KEYS_URL: "https://[x"}, KEYS_URL, "not a URL of http"),
        (
            {KEYS_URL: "https://x/y", "kvorum.sasl.oauthbearer.discovery.url": "https://x/z"},
            "kvorum.sasl.oauthbearer.discovery.url",
            "set either this or",
        ),
        ({"sasl.oauthbearer.token.endpoint.url": "https://x"}, None, "client.credentials.client.id"),
        ({HANDLER: "com.example.Own"}, HANDLER, "Java classes are not supported"),
    ],
    ids=str,
)
def test_settings_that_cannot_work_are_refused(changes: dict[str, Any], key: str | None, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_security(settings_of(changes))
    assert reason in str(caught.value)
    assert key is None or caught.value.key == key


def test_a_file_without_keys_is_refused(tmp_path: Path) -> None:
    (tmp_path / "jwks.json").write_text("{}")
    with pytest.raises(ConfigError, match="has no keys"):
        check_security(settings_of({KEYS_URL: (tmp_path / "jwks.json").as_uri()}))


def test_a_function_verifies_passwords() -> None:
    plain = {
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        f"{LISTENER}kvorum.sasl.plain.verifier": f"{__name__}:verify_by_function",
    }

    async def main() -> None:
        server = config_of(plain).mechanisms[0].new_server()
        await server.evaluate(plain_token())
        assert server.principal == Principal("User", USER)
        with pytest.raises(AuthenticationError):
            await config_of(plain).mechanisms[0].new_server().evaluate(plain_token(password="wrong"))

    run(main)
    with pytest.raises(ConfigError, match="cannot be imported"):
        config_of(plain | {f"{LISTENER}kvorum.sasl.plain.verifier": "no_such_module_here:f"})


async def first_message(security: ClientSecurity) -> bytes:
    assert security.sasl is not None
    made = security.sasl("127.0.0.1")
    client = made if hasattr(made, "evaluate") else await made
    return client.evaluate(b"")


def test_a_client_takes_its_token_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("a.b.c")
    properties = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": (tmp_path / "token").as_uri(),
        "sasl.jaas.config": f'{MODULE} required extension_traceId="1";',
    }

    async def main() -> None:
        security = security_of_client(client_settings(properties, "test"), str)
        assert await first_message(security) == b"n,,\x01auth=Bearer a.b.c\x01traceId=1\x01\x01"

    run(main)


def test_a_client_makes_an_unsecured_token() -> None:
    properties = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": LOGIN,
    }

    async def main() -> None:
        security = security_of_client(client_settings(properties, "test"), str)
        assert (await first_message(security)).startswith(b"n,,\x01auth=Bearer eyJhbGciOiJub25lIn0.")

    run(main)
    found = librdkafka_security(properties)
    assert found["enable.sasl.oauthbearer.unsecure.jwt"] == "true"
    assert found["sasl.oauthbearer.config"] == "principal=node"


def test_librdkafka_gets_the_token_endpoint() -> None:
    found = librdkafka_security(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": "https://idp/token",
            "sasl.jaas.config": f'{MODULE} required clientId="me" clientSecret="s" scope="kafka";',
        }
    )
    assert found == {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": "https://idp/token",
        "sasl.oauthbearer.client.id": "me",
        "sasl.oauthbearer.client.secret": "s",
        "sasl.oauthbearer.scope": "kafka",
    }
