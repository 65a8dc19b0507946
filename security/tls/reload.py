"""New stores for a listener or client that is in use: when they are read, and what they must have in common.

Source: Kafka's SslFactory.
"""

import os
import ssl
from dataclasses import replace
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from kvorum.security.errors import SecurityConfigError
from kvorum.security.tls.ciphers import IANA_NAMES
from kvorum.security.tls.context import client_context, server_context
from kvorum.security.tls.failures import failure_reason
from kvorum.security.tls.names import distinguished_name
from kvorum.security.tls.settings import KeyStoreSettings, TlsSettings, TrustStoreSettings
from kvorum.security.tls.stores import KEYSTORE, TRUSTSTORE, FileState, KeyStore, Stores, load_stores, read_file

FLIGHTS_MAX: Final = 10
"""A handshake has 3 or 4 flights."""


class ReloadableContext:
    """The context of a listener or client, and the stores that it was made of.

    `context` is for the next connection; connections keep the one they began with. A reload may run in a thread: it
    reads files, and takes its result over with one assignment at the end.
    """

    __slots__ = ("_seen", "_suites", "context", "settings", "stores")

    def __init__(self, settings: TlsSettings) -> None:
        """Load the stores. Raises SecurityConfigError: one line with the key, the file, the reason and what to do."""
        self.settings = settings
        self.stores = load_stores(settings)
        self._seen = self.stores.files
        self._suites = frozenset(settings.cipher_suites)
        self.context = self._context_of(settings, self.stores)
        if settings.verify_own_chain:
            verify_own_chain(self.stores, self.stores, settings)

    def _context_of(self, settings: TlsSettings, stores: Stores) -> ssl.SSLContext:
        raise NotImplementedError

    def changed(self) -> bool:
        """Return whether a file of the stores has other bytes than at the last call (or load).

        Reads files whose time, size or inode has changed: call it in a thread. An unreadable file has not changed.
        """
        before, self._seen = self._seen, tuple(_present_state(file) for file in self._seen)
        return [file.digest for file in before] != [file.digest for file in self._seen]

    def check(self, key_store: KeyStoreSettings, trust_store: TrustStoreSettings) -> None:
        """Raise SecurityConfigError if `reload` with these would."""
        self._prepare(replace(self.settings, key_store=key_store, trust_store=trust_store))

    def reload(self, key_store: KeyStoreSettings | None = None, trust_store: TrustStoreSettings | None = None) -> None:
        """Load the stores again, or other ones, check them against the present ones, and take them over.

        Raises SecurityConfigError: nothing has changed.
        """
        settings = replace(
            self.settings,
            key_store=key_store or self.settings.key_store,
            trust_store=trust_store or self.settings.trust_store,
        )
        stores, context = self._prepare(settings)
        self.settings, self.stores, self._seen, self.context = settings, stores, stores.files, context

    def _prepare(self, settings: TlsSettings) -> tuple[Stores, ssl.SSLContext]:
        """Load stores and check them against the present ones. Raises SecurityConfigError."""
        stores = load_stores(settings)
        check_replacement(self.stores, stores, settings)
        context = self._context_of(settings, stores)
        if settings.verify_own_chain:
            verify_own_chain(self.stores, stores, settings)
        return stores, context

    def permits(self, cipher: str) -> bool:
        """Return whether ssl.cipher.suites has the suite of a connection (OpenSSL's name)."""
        return not self._suites or IANA_NAMES.get(cipher, cipher) in self._suites


def _present_state(known: FileState) -> FileState:
    """Return a file's state; it is read only if its metadata has changed."""
    try:
        found = os.stat(known.path)
        if (found.st_mtime_ns, found.st_size, found.st_ino) == (known.modified_ns, known.size, known.inode):
            return known
        return read_file(known.path, "")[1]
    except (OSError, SecurityConfigError):
        return known


def check_replacement(old: Stores, new: Stores, settings: TlsSettings) -> None:
    """Check new stores against those in use. Raises SecurityConfigError."""
    if (old.key_store is None) != (new.key_store is None):
        verb = "added to" if old.key_store is None else "removed from"
        raise SecurityConfigError(f"{KEYSTORE}.location", f"a key store cannot be {verb} a listener in use; restart")
    if old.trust_store is None and new.trust_store is not None:
        raise SecurityConfigError(
            f"{TRUSTSTORE}.location", "a trust store cannot be added to a listener in use; restart"
        )
    if old.key_store is not None and new.key_store is not None:
        _check_names(old.key_store, new.key_store, settings)


def _check_names(old: KeyStore, new: KeyStore, settings: TlsSettings) -> None:
    if not settings.allow_dn_changes and not _is_same_name(old.chain[0], new.chain[0]):
        reason = f"the new certificate is of {_name_of(new.chain[0])}, the present one of {_name_of(old.chain[0])}"
        raise SecurityConfigError(KEYSTORE, f"{reason}; to permit it set ssl.allow.dn.changes")
    missing = sorted(_alternative_names(old.chain[0]) - _alternative_names(new.chain[0]))
    if missing and not settings.allow_san_changes:
        reason = f"the new certificate lacks subject alternative names of the present one: {', '.join(missing)}"
        raise SecurityConfigError(KEYSTORE, f"{reason}; to permit it set ssl.allow.san.changes")


def _is_same_name(old: x509.Certificate, new: x509.Certificate) -> bool:
    return _canonical(_name_of(old)) == _canonical(_name_of(new))


def _canonical(name: str) -> str:
    return " ".join(name.casefold().split())


def _name_of(certificate: x509.Certificate) -> str:
    return distinguished_name(certificate.public_bytes(Encoding.DER))


def _alternative_names(certificate: x509.Certificate) -> set[str]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    return {f"{type(each).__name__}:{each.value}" for each in found}


def verify_own_chain(old: Stores, new: Stores, settings: TlsSettings) -> None:
    """Check that a client with one of the stores can connect to a server with the other, both ways.

    Nodes with the new certificate and nodes with the old one must be able to connect to each other. At the start both
    are the same. If the old one has expired, only the new one is checked. Raises SecurityConfigError.
    """
    pairs = [(new, new)] if _connection_problem(old, old, settings) else [(old, new), (new, old)]
    for server, client in pairs:
        problem = _connection_problem(server, client, settings)
        if problem is not None:
            reason = f"the certificate does not verify with {TRUSTSTORE}: {failure_reason(problem)}"
            raise SecurityConfigError(KEYSTORE, reason) from problem


def _connection_problem(server: Stores, client: Stores, settings: TlsSettings) -> ssl.SSLError | None:
    """Return why a client could not connect to a server, None if it can."""
    try:
        handshake_in_memory(server_context(settings, server), client_context(settings, client, verify_host_name=False))
    except ssl.SSLError as error:
        return error
    return None


def handshake_in_memory(server: ssl.SSLContext, client: ssl.SSLContext) -> None:
    """Make a handshake between two contexts. Raises ssl.SSLError."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [client.wrap_bio(to_client, to_server), server.wrap_bio(to_server, to_client, server_side=True)]
    for _ in range(FLIGHTS_MAX):
        for side in tuple(sides):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            sides.remove(side)
        if not sides:
            return
    raise ssl.SSLError("the handshake does not end")
