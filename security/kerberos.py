"""GSSAPI of a listener and of a client, made of their settings and the options of Krb5LoginModule."""

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

from kvorum.runtime import blocking
from kvorum.security.errors import AuthenticationError, SecurityConfigError
from kvorum.security.sasl.gssapi import (
    MECHANISM,
    GssapiClient,
    GssapiServer,
    MissingKerberos,
    accepting_credentials,
    initiating_credentials,
    load_gssapi,
)
from kvorum.security.sasl.kerberos_names import KEY as NAME_RULES
from kvorum.security.sasl.kerberos_names import NAME, KerberosNames
from kvorum.security.sasl.mechanism import SaslClient
from kvorum.security.settings import JAAS, ListenerSettings

ENABLED: Final = "sasl.enabled.mechanisms"
SERVICE: Final = "sasl.kerberos.service.name"
DEFAULT_CONFIG: Final = "/etc/krb5.conf"
CONFIG_BYTES_MAX: Final = 1 << 20
DEFAULT_REALM: Final = re.compile(r"^\s*default_realm\s*=\s*(\S+)", re.MULTILINE)


def gssapi_server(settings: ListenerSettings, options: Mapping[str, str]) -> Callable[[], GssapiServer]:
    """Return what makes the server of one exchange. Raises ConfigError."""
    principal, keytab = options.get("principal"), options.get("keyTab")
    if not principal or not keytab:
        reason = 'needs useKeyTab=true keyTab="FILE" principal="SERVICE/HOST@REALM" on a server'
        raise settings.error(JAAS, reason, MECHANISM)
    names = kerberos_names(settings, principal)
    try:
        credentials = accepting_credentials(principal, keytab)
    except ValueError as error:
        raise settings.error(JAAS, f"principal {principal}, keytab {keytab}: {error}", MECHANISM) from None
    except MissingKerberos as error:
        raise settings.error(ENABLED, f"{MECHANISM}: {error}") from None
    return partial(GssapiServer, credentials, names.user)


def kerberos_names(settings: ListenerSettings, principal: str) -> KerberosNames:
    """Return the rules for names; `principal` is the node's own. Raises ConfigError."""
    match = NAME.fullmatch(principal)
    if match is None or match["host"] is None:
        raise settings.error(JAAS, f"principal {principal} is not of the form SERVICE/HOST@REALM", MECHANISM)
    try:
        return KerberosNames(settings.list(NAME_RULES, MECHANISM), default_realm() or match["realm"])
    except SecurityConfigError as error:
        raise settings.error(error.key, error.reason, MECHANISM) from None


def gssapi_client(settings: ListenerSettings, options: Mapping[str, str]) -> Callable[[str], Awaitable[SaslClient]]:
    """Return what makes the client of one exchange with a host. Raises ConfigError."""
    service = service_name(settings, options)
    use_keytab = options.get("useKeyTab", "").lower() == "true"
    keytab = options.get("keyTab") if use_keytab else None
    if use_keytab and not (keytab and options.get("principal")):
        raise settings.error(JAAS, "useKeyTab=true needs keyTab and principal", MECHANISM)
    try:
        load_gssapi()
    except MissingKerberos as error:
        raise settings.error("sasl.mechanism", f"{MECHANISM}: {error}") from None
    login = partial(initiating_credentials, options.get("principal"), keytab, options.get("ticketCache"))

    async def client(host: str) -> SaslClient:
        return await blocking.run(asyncio.get_running_loop(), _connect, service, host, login)

    return client


def _connect(service: str, host: str, login: Callable[[], Any]) -> GssapiClient:
    """Log in and fetch a ticket: blocks. Raises AuthenticationError."""
    try:
        return GssapiClient(service, host, login())
    except ValueError as error:
        raise AuthenticationError(f"GSSAPI login: {error}") from None


def service_name(settings: ListenerSettings, options: Mapping[str, str]) -> str:
    """Return the service that clients ask for. Raises ConfigError."""
    own, of_jaas = settings.optional_str(SERVICE, MECHANISM), options.get("serviceName")
    if own and of_jaas and own != of_jaas:
        raise settings.error(SERVICE, f"conflicts with serviceName={of_jaas} in {JAAS}", MECHANISM)
    found = own or of_jaas
    if not found:
        raise settings.error(SERVICE, f"is not set; set it, or serviceName in {JAAS}", MECHANISM)
    return found


def default_realm() -> str | None:
    """Return the default realm of krb5.conf (KRB5_CONFIG), None if it has none."""
    for path in os.environ.get("KRB5_CONFIG", DEFAULT_CONFIG).split(":"):
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                match = DEFAULT_REALM.search(file.read(CONFIG_BYTES_MAX))
        except OSError:
            continue
        if match is not None:
            return match[1]
    return None
