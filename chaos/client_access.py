"""How clients of a run reach a cluster: bootstrap servers and security, in the form of each client library."""

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kvorum.runtime.chance import new_nonce
from kvorum.security.client import PLAINTEXT, ClientSecurity

if TYPE_CHECKING:
    from aiokafka.abc import AbstractTokenProvider  # type: ignore[import-untyped]  # it has no types

OAUTHBEARER: Final = "OAUTHBEARER"


class Token(NamedTuple):
    """A bearer token for OAUTHBEARER."""

    text: str
    expires_at: float
    """Seconds since 1970."""


@dataclass(frozen=True, slots=True)
class ClientAccess:
    """Bootstrap servers, security properties by the names of librdkafka, and the tokens of OAUTHBEARER."""

    bootstrap: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Empty: plaintext."""
    new_token: Callable[[], Token] | None = field(default=None, repr=False)

    def at(self, bootstrap: str) -> "ClientAccess":
        """Return the same at other servers."""
        return replace(self, bootstrap=bootstrap)

    def librdkafka(self) -> dict[str, Any]:
        """Return the settings of a client of librdkafka."""
        found: dict[str, Any] = {"bootstrap.servers": self.bootstrap, **self.properties}
        if self.new_token is not None:
            new_token = self.new_token
            found["oauth_cb"] = lambda config: tuple(new_token())
        return found

    def aiokafka(self) -> dict[str, Any]:
        """Return the settings of a client of aiokafka. Called in its event loop's thread."""
        found: dict[str, Any] = {"bootstrap_servers": self.bootstrap}
        if not self.properties:
            return found
        given = self.properties
        found["security_protocol"] = given["security.protocol"]
        found["ssl_context"] = ssl.create_default_context(cafile=given.get("ssl.ca.location"))
        if "ssl.certificate.location" in given:
            found["ssl_context"].load_cert_chain(given["ssl.certificate.location"])
        mechanism = given.get("sasl.mechanisms") or given.get("sasl.mechanism")
        if mechanism is not None:
            found["sasl_mechanism"] = mechanism
        if "sasl.username" in given:
            found |= {"sasl_plain_username": given["sasl.username"], "sasl_plain_password": given["sasl.password"]}
        if self.new_token is not None:
            found["sasl_oauth_token_provider"] = token_provider(self.new_token)
        return found

    def security(self) -> ClientSecurity:
        """Return the security of Kvorum's own connections. Raises ConfigError; ValueError for OAUTHBEARER."""
        if not self.properties:
            return PLAINTEXT
        if self.new_token is not None:
            raise ValueError(f"client kvorum does not support the tokens of a lab with {OAUTHBEARER}")
        from kvorum.security.client_properties import client_settings
        from kvorum.security.outgoing import security_of_client

        return security_of_client(client_settings(self.properties), new_nonce)


def token_provider(new_token: Callable[[], Token]) -> "AbstractTokenProvider":
    """Return the tokens in the form of aiokafka."""
    from aiokafka.abc import AbstractTokenProvider

    class Provider(AbstractTokenProvider):  # type: ignore[misc]  # it has no types
        async def token(self) -> str:
            return new_token().text

    return Provider()
