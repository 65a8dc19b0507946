"""Mistakes in TLS and bearer tokens that only a whole cluster shows."""

import ssl
from typing import TYPE_CHECKING, Final

from sim.mutants.patches import Patches

if TYPE_CHECKING:
    from kvorum.security.oauth.key_refresh import IssuerKeys
    from kvorum.security.tls.settings import TlsSettings

NO_CHECK_TIME: Final = 0x200000
"""OpenSSL's X509_V_FLAG_NO_CHECK_TIME."""


def accept_expired_certificates(patches: Patches) -> None:
    """A certificate is accepted after its end."""
    from kvorum.security.tls import context

    make = context._context

    def lasting(protocol: int, settings: "TlsSettings") -> ssl.SSLContext:
        found = make(protocol, settings)
        found.verify_flags = ssl.VerifyFlags(found.verify_flags | NO_CHECK_TIME)
        return found

    patches.replace(context, "_context", lasting)


def forget_keys_of_issuers(patches: Patches) -> None:
    """The keys of a token issuer are forgotten when they cannot be fetched again."""
    from kvorum.security.oauth.http import FetchError
    from kvorum.security.oauth.jwks import KeySet
    from kvorum.security.oauth.key_refresh import IssuerKeys

    refresh = IssuerKeys._refresh

    async def forgetful(self: "IssuerKeys") -> None:
        try:
            await refresh(self)
        except FetchError:
            self.present = KeySet([])
            raise

    patches.replace(IssuerKeys, "_refresh", forgetful)
