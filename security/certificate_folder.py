"""A folder with a CA and the certificates that it issued.

    ca.pem       the CA's certificate: the trust store of nodes and clients
    ca.key       its key and certificate; needed to issue and renew, not on a node
    NAME.pem     key and chain of a node or client: a PEM key store of Kafka

Files have mode 600, a new folder has mode 700. Present files are replaced by a rotation only, each as one step.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509

from kvorum.runtime.chance import random_bytes
from kvorum.runtime.disk import OsDisk
from kvorum.security.certificates import (
    AUTHORITY_LIFETIME,
    LIFETIME,
    CertificateError,
    Kind,
    certificates_pem,
    issue,
    key_and_chain,
    new_authority,
    renew,
    serial_number,
)
from kvorum.security.errors import SecurityConfigError
from kvorum.security.tls.settings import PEM, KeyStoreSettings, TlsSettings
from kvorum.security.tls.stores import KeyStore, load_stores, read_file

AUTHORITY: Final = "ca"
SUFFIX: Final = ".pem"


def wall_time() -> datetime:
    """Return the present time."""
    return datetime.now(UTC)


class CertificateFolder:
    """A folder of certificates. All methods raise CertificateError (one line) and OSError."""

    def __init__(self, folder: str | Path, now: Callable[[], datetime] = wall_time) -> None:
        """Name the folder, which need not exist."""
        self.folder, self.now, self._disk = Path(folder), now, OsDisk()

    @property
    def trust_store(self) -> Path:
        """The CA's certificate."""
        return self.folder / f"{AUTHORITY}{SUFFIX}"

    @property
    def authority_key(self) -> Path:
        """The CA's key and certificate."""
        return self.folder / f"{AUTHORITY}.key"

    def key_store(self, name: str) -> Path:
        """Return the file of a node or client."""
        return self.folder / f"{name}{SUFFIX}"

    def init(self, name: str, lifetime: timedelta = AUTHORITY_LIFETIME) -> x509.Certificate:
        """Make the CA."""
        self._refuse(self.authority_key, self.trust_store)
        authority = new_authority(name, now=self.now(), serial=serial_number(random_bytes), lifetime=lifetime)
        if not self.folder.exists():
            os.makedirs(self.folder, mode=0o700)
        # The key last: without it the CA does not exist.
        self._write(self.trust_store, certificates_pem(authority.chain))
        self._write(self.authority_key, key_and_chain(authority))
        return authority.chain[0]

    def issue(
        self, kind: Kind, name: str, hosts: Sequence[str] = (), lifetime: timedelta = LIFETIME
    ) -> x509.Certificate:
        """Write the key store of a node or client."""
        if name == AUTHORITY:
            raise CertificateError(f"{AUTHORITY} is the name of the CA's files; choose another")
        now, serial = self.now(), serial_number(random_bytes)
        store = issue(self._authority(), kind, name, hosts, now=now, serial=serial, lifetime=lifetime)
        self._refuse(self.key_store(name))
        self._write(self.key_store(name), key_and_chain(store))
        return store.chain[0]

    def rotate(self, name: str, lifetime: timedelta = LIFETIME) -> x509.Certificate:
        """Replace a key store by one with a new key and certificate for the same names."""
        path = self.key_store(name)
        old, now, serial = self.read(path), self.now(), serial_number(random_bytes)
        try:
            store = renew(self._authority(), old.chain[0], now=now, serial=serial, lifetime=lifetime)
        except CertificateError as error:
            raise CertificateError(f"{path}: {error}") from None
        self._write(path, key_and_chain(store))
        return store.chain[0]

    def names(self) -> list[str]:
        """Return the names of the key stores."""
        paths = (path for path in self.folder.glob(f"*{SUFFIX}") if path != self.trust_store)
        return sorted(path.stem for path in paths)

    def files(self) -> list[Path]:
        """Return the files with certificates, the CA's first."""
        found = [self.trust_store] if self.trust_store.exists() else []
        return [*found, *map(self.key_store, self.names())]

    def read(self, path: Path) -> KeyStore:
        """Read a key store."""
        try:
            store = load_stores(TlsSettings(key_store=KeyStoreSettings(type=PEM, location=str(path)))).key_store
        except SecurityConfigError as error:
            raise CertificateError(error.reason) from None
        assert store is not None, "it has a location"
        return store

    def _authority(self) -> KeyStore:
        if not self.authority_key.exists():
            command = f"kvorum certs init --dir {self.folder}"
            raise CertificateError(f"{self.folder} has no CA ({self.authority_key.name}); make one with: {command}")
        return self.read(self.authority_key)

    def _refuse(self, *paths: Path) -> None:
        """Refuse to overwrite files."""
        for path in paths:
            if path.exists():
                advice = "choose another --dir" if path.stem == AUTHORITY else "renew it with: kvorum certs rotate"
                raise CertificateError(f"{path} exists already and is not overwritten; {advice}")

    def _write(self, path: Path, data: bytes) -> None:
        self._disk.write_atomic(str(path), data, private=True)


def read_certificates(paths: Iterable[Path]) -> list[tuple[Path, x509.Certificate]]:
    """Return the certificates of PEM files. Raises CertificateError."""
    found = []
    for path in paths:
        try:
            data, _ = read_file(str(path), "")
            found += [(path, each) for each in x509.load_pem_x509_certificates(data)]
        except SecurityConfigError as error:
            raise CertificateError(error.reason) from None
        except (ValueError, x509.InvalidVersion):
            raise CertificateError(f"{path} has no certificate in PEM format") from None
    return found
