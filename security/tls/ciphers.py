"""ssl.cipher.suites: IANA's names, as Java and Kafka's configuration have them, and OpenSSL's.

The suites that both Java 17 and OpenSSL 3 have enabled. Those of TLS 1.3 have the same name in both.
"""

import difflib
import ssl
from collections.abc import Sequence
from typing import Final, NamedTuple

from kvorum.security.errors import SecurityConfigError
from kvorum.security.tls.settings import TLS_1_2, TLS_1_3

KEY: Final = "ssl.cipher.suites"
TLS_1_3_SUITES: Final = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")
"""In OpenSSL's order of preference."""
TLS_1_2_SUITES: Final = {
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384": "DHE-RSA-AES256-GCM-SHA384",
    "TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "DHE-RSA-CHACHA20-POLY1305",
    "TLS_DHE_RSA_WITH_AES_128_GCM_SHA256": "DHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384": "ECDHE-ECDSA-AES256-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384": "ECDHE-RSA-AES256-SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": "ECDHE-ECDSA-AES128-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
    "TLS_DHE_RSA_WITH_AES_256_CBC_SHA256": "DHE-RSA-AES256-SHA256",
    "TLS_DHE_RSA_WITH_AES_128_CBC_SHA256": "DHE-RSA-AES128-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_DHE_RSA_WITH_AES_256_CBC_SHA": "DHE-RSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_DHE_RSA_WITH_AES_128_CBC_SHA": "DHE-RSA-AES128-SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA256": "AES256-SHA256",
    "TLS_RSA_WITH_AES_128_CBC_SHA256": "AES128-SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
}
IANA_NAMES: Final = {openssl: iana for iana, openssl in TLS_1_2_SUITES.items()} | {
    name: name for name in TLS_1_3_SUITES
}
"""By OpenSSL's name."""
SUGGESTIONS_MAX: Final = 3


class CipherChoice(NamedTuple):
    """Suites for a context."""

    tls_1_2: str
    """OpenSSL's list; empty: its default."""
    tls_1_3: tuple[str, ...]
    """Empty: all."""
    protocols: tuple[str, ...]
    """The enabled protocols for which there is a suite."""


def choose_ciphers(suites: Sequence[str], protocols: Sequence[str]) -> CipherChoice:
    """Return the suites for a context. No suite named: the library's. Raises SecurityConfigError."""
    if not suites:
        return CipherChoice("", (), tuple(protocols))
    for name in suites:
        if name not in TLS_1_2_SUITES and name not in TLS_1_3_SUITES:
            raise SecurityConfigError(KEY, f"cipher suite {name} is not supported; {_suggestion(name)}")
    old = tuple(name for name in suites if name in TLS_1_2_SUITES)
    new = tuple(name for name in suites if name in TLS_1_3_SUITES)
    usable = tuple(each for each in protocols if (old if each == TLS_1_2 else new))
    if not usable:
        raise SecurityConfigError(KEY, f"no suite in it is for {' or '.join(protocols)} (ssl.enabled.protocols)")
    if TLS_1_3 in usable and not _is_enforceable(new):
        raise SecurityConfigError(
            KEY, f"this Python cannot exclude {TLS_1_3_SUITES[0]} from TLS 1.3; add it, or enable TLSv1.2 only"
        )
    return CipherChoice(":".join(TLS_1_2_SUITES[name] for name in old), new, usable)


def apply_ciphers(context: ssl.SSLContext, choice: CipherChoice) -> None:
    """Set the suites of a context. Raises ssl.SSLError: the library has none of them."""
    if choice.tls_1_2:
        context.set_ciphers(choice.tls_1_2)
    if choice.tls_1_3 and hasattr(context, "set_ciphersuites"):  # from Python 3.15 on
        context.set_ciphersuites(":".join(choice.tls_1_3))


def _is_enforceable(suites: tuple[str, ...]) -> bool:
    """Return whether a context can be made to use no other suites of TLS 1.3.

    Before Python 3.15 they cannot be set. A server prefers OpenSSL's first suite, so a client that has it uses it; one
    that does not is refused after its handshake (`TlsServer.check`).
    """
    return hasattr(ssl.SSLContext, "set_ciphersuites") or TLS_1_3_SUITES[0] in suites


def _suggestion(name: str) -> str:
    if name in IANA_NAMES:
        return f"its IANA name is {IANA_NAMES[name]}"
    known = (*TLS_1_3_SUITES, *TLS_1_2_SUITES)
    near = difflib.get_close_matches(name.upper(), known, SUGGESTIONS_MAX)
    return f"did you mean {' or '.join(near)}?" if near else f"such as {TLS_1_3_SUITES[0]}, {known[3]}"
