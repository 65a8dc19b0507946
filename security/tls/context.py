"""ssl.SSLContext of a listener and of a client.

A context never changes once it is used: a new certificate, or another truststore, is a new context (a truststore cannot
shrink in place, and a connection that swaps its context keeps the old client authentication).
"""

import os
import ssl
from typing import Final

from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from kvorum.security.errors import SecurityConfigError
from kvorum.security.tls.ciphers import KEY as CIPHER_SUITES
from kvorum.security.tls.ciphers import apply_ciphers, choose_ciphers
from kvorum.security.tls.settings import TLS_1_2, TLS_1_3, ClientAuth, TlsSettings
from kvorum.security.tls.stores import KEYSTORE, TRUSTSTORE, KeyStore, Stores

VERSIONS: Final = {TLS_1_2: ssl.TLSVersion.TLSv1_2, TLS_1_3: ssl.TLSVersion.TLSv1_3}
PROTOCOLS: Final = "ssl.enabled.protocols"
HTTPS: Final = "https"
VERIFY_MODES: Final = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}


def server_context(settings: TlsSettings, stores: Stores) -> ssl.SSLContext:
    """Return the context of a listener. Raises SecurityConfigError."""
    if stores.key_store is None:
        raise SecurityConfigError(f"{KEYSTORE}.location", "is not set; a listener with TLS needs a key and certificate")
    context = _context(ssl.PROTOCOL_TLS_SERVER, settings)
    # No session tickets of TLS 1.3: few Kafka clients resume sessions, each handshake verifies the certificate of the
    # client, and costs the server a sixth less (with client certificates, a third).
    context.num_tickets = 0
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    _load_key(context, stores.key_store)
    context.verify_mode = VERIFY_MODES[settings.client_auth]
    if settings.client_auth is not ClientAuth.NONE:
        _load_trust(context, stores, ssl.Purpose.CLIENT_AUTH)
    return context


def client_context(settings: TlsSettings, stores: Stores, *, verify_host_name: bool = True) -> ssl.SSLContext:
    """Return the context of a client; its own certificate is optional. Raises SecurityConfigError.

    `verify_host_name`: as ssl.endpoint.identification.algorithm requires. The server's chain is always verified.
    """
    context = _context(ssl.PROTOCOL_TLS_CLIENT, settings)
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.check_hostname = verify_host_name and has_host_name_check(settings)
    if stores.key_store is not None:
        _load_key(context, stores.key_store)
    _load_trust(context, stores, ssl.Purpose.SERVER_AUTH)
    return context


def has_host_name_check(settings: TlsSettings) -> bool:
    """Return whether a client verifies the server's name. Raises SecurityConfigError."""
    algorithm = settings.endpoint_identification_algorithm
    if algorithm.lower() not in ("", HTTPS):
        reason = f"{algorithm} is not supported; use https, or an empty value for no check of the server's name"
        raise SecurityConfigError("ssl.endpoint.identification.algorithm", reason)
    return algorithm != ""


def _context(protocol: int, settings: TlsSettings) -> ssl.SSLContext:
    """Return a context with versions and cipher suites. Raises SecurityConfigError."""
    for name in settings.enabled_protocols:
        if name not in VERSIONS:
            raise SecurityConfigError(PROTOCOLS, f"{name} is not supported; use {TLS_1_2},{TLS_1_3} or one of them")
    if not settings.enabled_protocols:
        raise SecurityConfigError(PROTOCOLS, f"is empty; use {TLS_1_2},{TLS_1_3} or one of them")
    choice = choose_ciphers(settings.cipher_suites, settings.enabled_protocols)
    context = ssl.SSLContext(protocol)
    versions = [VERSIONS[name] for name in choice.protocols]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    try:
        apply_ciphers(context, choice)
    except ssl.SSLError as error:
        raise SecurityConfigError(CIPHER_SUITES, "OpenSSL has none of these suites") from error
    return context


def _load_key(context: ssl.SSLContext, store: KeyStore) -> None:
    """Give a context its key and chain. Raises SecurityConfigError.

    Python loads them from a file only. It is one in memory (memfd): a private key never reaches a disk.
    """
    pem = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    pem += b"".join(each.public_bytes(Encoding.PEM) for each in store.chain)
    fd = os.memfd_create("kvorum-tls", os.MFD_CLOEXEC)
    try:
        with open(fd, "wb", closefd=False) as file:
            file.write(pem)
        context.load_cert_chain(f"/proc/self/fd/{fd}")
    except ssl.SSLError as error:
        reason = (error.reason or "unknown reason").replace("_", " ").lower()
        raise SecurityConfigError(KEYSTORE, f"OpenSSL rejects the certificate or the key: {reason}") from error
    finally:
        os.close(fd)


def _load_trust(context: ssl.SSLContext, stores: Stores, purpose: ssl.Purpose) -> None:
    """Give a context the certificates that it trusts. Raises SecurityConfigError."""
    if stores.trust_store is None:
        context.load_default_certs(purpose)
        return
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # as in Java: an anchor need not be self-signed
    try:
        context.load_verify_locations(
            cadata=b"".join(each.public_bytes(Encoding.DER) for each in stores.trust_store.certificates)
        )
    except ssl.SSLError as error:
        raise SecurityConfigError(TRUSTSTORE, f"OpenSSL rejects a certificate: {error.reason}") from error
