"""Key stores and trust stores: PEM (inline or a file) and PKCS12. Combinations of settings as Kafka permits them.

A store is read once; nothing of a private key is ever written to a disk. JKS is refused with the command that converts
it. Source: Kafka's DefaultSslEngineFactory.
"""

import base64
import os
import re
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import pkcs12

from kvorum.security.errors import SecurityConfigError
from kvorum.security.tls.settings import JKS, PEM, PKCS12, KeyStoreSettings, TlsSettings, TrustStoreSettings

KEYSTORE: Final = "ssl.keystore"
TRUSTSTORE: Final = "ssl.truststore"
FILE_BYTES_MAX: Final = 16 * 1024 * 1024
"""A store is smaller: the CA certificates of a whole operating system are 0.2 MB."""
CHAIN_MAX: Final = 32
"""Certificates in a chain; OpenSSL verifies at most 100, browsers about 10."""
JKS_MAGIC: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
"""JKS and JCEKS."""
PEM_BLOCK: Final = re.compile(
    r"-+BEGIN\s+(?P<label>[A-Z0-9 ]*?)\s*-+(?P<body>[^-]*(?:-(?!-*END)[^-]*)*)-+END\s+[A-Z0-9 ]*-+", re.DOTALL
)
PEM_HEADER: Final = re.compile(r"^[^\r\n:]*:[^\r\n]*$", re.MULTILINE)
"""`Bag Attributes`, `Key: value`: skipped."""


@dataclass(frozen=True, slots=True)
class FileState:
    """A file as it was when it was read."""

    path: str
    modified_ns: int
    size: int
    inode: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class KeyStore:
    """A private key with its certificate chain, leaf first."""

    key: PrivateKeyTypes = field(repr=False)
    chain: tuple[x509.Certificate, ...]


@dataclass(frozen=True, slots=True)
class TrustStore:
    """Trusted certificates. Each is an anchor, as in Java, whether it is a CA's root or not."""

    certificates: tuple[x509.Certificate, ...]


@dataclass(frozen=True, slots=True)
class Stores:
    """Both stores of a listener or client, and the files they came from."""

    key_store: KeyStore | None
    """None: the settings have none."""
    trust_store: TrustStore | None
    """None: the settings have none, the certificates of the operating system count."""
    files: tuple[FileState, ...]


def load_stores(settings: TlsSettings) -> Stores:
    """Read the stores. Raises SecurityConfigError: one line with the key, the file, the reason and what to do."""
    files: list[FileState] = []
    return Stores(_key_store(settings.key_store, files), _trust_store(settings.trust_store, files), tuple(files))


def read_file(path: str, key: str) -> tuple[bytes, FileState]:
    """Read a store's file. Raises SecurityConfigError."""
    try:
        with open(path, "rb") as file:
            state = os.fstat(file.fileno())  # before it is read: a file written meanwhile differs from it
            data = file.read(FILE_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise SecurityConfigError(key, f"{path} cannot be read: {reason}") from error
    if len(data) > FILE_BYTES_MAX:
        raise SecurityConfigError(key, f"{path} has more than {FILE_BYTES_MAX} bytes, which no store has")
    return data, FileState(path, state.st_mtime_ns, state.st_size, state.st_ino, sha256(data).digest())


def _key_store(settings: KeyStoreSettings, files: list[FileState]) -> KeyStore | None:
    _check_key_store(settings)
    kind, path = settings.type.upper(), settings.location
    if settings.key is not None and settings.certificate_chain is not None:
        key = _private_key(settings.key, f"{KEYSTORE}.key", "the value", settings.key_password)
        chain = _certificates(settings.certificate_chain, f"{KEYSTORE}.certificate.chain", "the value")
        return _matching(key, chain, f"{KEYSTORE}.certificate.chain", "the value")
    if path is None:
        return None
    data, state = read_file(path, f"{KEYSTORE}.location")
    files.append(state)
    _check_format(data, kind, path, KEYSTORE)
    if kind == PEM:
        text = data.decode("latin-1")
        key = _private_key(text, f"{KEYSTORE}.location", path, settings.key_password)
        return _matching(key, _certificates(text, f"{KEYSTORE}.location", path), f"{KEYSTORE}.location", path)
    found = _open_pkcs12(data, settings.password, path, KEYSTORE)
    if found.key is None or found.cert is None:
        raise SecurityConfigError(f"{KEYSTORE}.location", f"{path} has no private key with a certificate")
    leaf = found.cert.certificate
    chain = _chain_of(leaf, [each.certificate for each in found.additional_certs])
    return _matching(found.key, chain, f"{KEYSTORE}.location", path)


def _trust_store(settings: TrustStoreSettings, files: list[FileState]) -> TrustStore | None:
    _check_trust_store(settings)
    kind, path = settings.type.upper(), settings.location
    if settings.certificates is not None:
        return TrustStore(_certificates(settings.certificates, f"{TRUSTSTORE}.certificates", "the value"))
    if path is None:
        return None
    data, state = read_file(path, f"{TRUSTSTORE}.location")
    files.append(state)
    _check_format(data, kind, path, TRUSTSTORE)
    if kind == PEM:
        return TrustStore(_certificates(data.decode("latin-1"), f"{TRUSTSTORE}.location", path))
    found = _open_pkcs12(data, settings.password, path, TRUSTSTORE)
    if found.key is not None:
        # Which of its certificates are trusted and which only belong to the key cannot be distinguished.
        reason = f"{path} has a private key; a trust store has CA certificates only: keytool -importcert -keystore FILE"
        raise SecurityConfigError(f"{TRUSTSTORE}.location", reason)
    certificates = tuple(each.certificate for each in found.additional_certs)
    if not certificates:
        raise SecurityConfigError(f"{TRUSTSTORE}.location", f"{path} has no certificate")
    return TrustStore(certificates)


def _check_key_store(settings: KeyStoreSettings) -> None:
    """Refuse the combinations that Kafka refuses."""
    key, kind = KEYSTORE, _checked_type(settings.type, KEYSTORE)
    if settings.key is not None or settings.certificate_chain is not None:
        inline = f"{key}.key" if settings.key is not None else f"{key}.certificate.chain"
        if settings.key is None:
            raise SecurityConfigError(inline, f"is set without {key}.key, the private key")
        if kind != PEM:
            raise SecurityConfigError(inline, f"requires {key}.type=PEM; it is {settings.type}")
        if settings.certificate_chain is None:
            raise SecurityConfigError(inline, f"is set without {key}.certificate.chain")
        if settings.location is not None:
            raise SecurityConfigError(inline, f"is set together with {key}.location={settings.location}; remove one")
    if kind == PEM and settings.password is not None:
        raise SecurityConfigError(f"{key}.password", "is not used with PEM; a key's password is ssl.key.password")
    if settings.location is None and settings.password is not None:
        raise SecurityConfigError(f"{key}.password", f"is set without {key}.location")
    if settings.location is not None and settings.password is None and kind != PEM:
        raise SecurityConfigError(f"{key}.location", f"{settings.location} requires {key}.password")


def _check_trust_store(settings: TrustStoreSettings) -> None:
    """Refuse the combinations that Kafka refuses."""
    key, kind = TRUSTSTORE, _checked_type(settings.type, TRUSTSTORE)
    if settings.certificates is not None:
        if kind != PEM:
            raise SecurityConfigError(f"{key}.certificates", f"requires {key}.type=PEM; it is {settings.type}")
        if settings.location is not None:
            reason = f"is set together with {key}.location={settings.location}; remove one"
            raise SecurityConfigError(f"{key}.certificates", reason)
    if kind == PEM and settings.password is not None:
        raise SecurityConfigError(f"{key}.password", "is not used with PEM; remove it")
    if settings.location is None and settings.password is not None:
        raise SecurityConfigError(f"{key}.password", f"is set without {key}.location")


def _checked_type(text: str, key: str) -> str:
    kind = text.upper()
    if kind not in (JKS, PKCS12, PEM):
        raise SecurityConfigError(f"{key}.type", f"{text} is not supported; use PKCS12 or PEM")
    return kind


def _check_format(data: bytes, kind: str, path: str, key: str) -> None:
    """Refuse a file in another format. Type JKS, the default, is what keytool writes: since Java 9 that is PKCS12."""
    if data[:4] in JKS_MAGIC:
        command = f"keytool -importkeystore -srckeystore {path} -destkeystore {path}.p12 -deststoretype PKCS12"
        raise SecurityConfigError(
            f"{key}.location", f"{path} is in Java's JKS format, which is not supported: {command}"
        )
    is_pem = b"-----BEGIN" in data
    if is_pem and kind != PEM:
        raise SecurityConfigError(f"{key}.type", f"is {kind}, but {path} is in PEM format; set it to PEM")
    if not is_pem and kind == PEM:
        raise SecurityConfigError(f"{key}.location", f"{path} has no PEM block (-----BEGIN ...); is it PKCS12?")


def _open_pkcs12(data: bytes, password: str | None, path: str, key: str) -> pkcs12.PKCS12KeyAndCertificates:
    secret = None if password is None else password.encode()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # BER instead of DER: some tools write it
            return pkcs12.load_pkcs12(data, secret)
    except (ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion) as error:
        if password is None:
            reason = f"{path} cannot be opened without a password; set {key}.password"
        elif "password" in str(error).lower():
            reason = f"{path} cannot be opened: wrong {key}.password, or no PKCS12 file"
        else:
            reason = f"{path} is no readable PKCS12 file: {_one_line(error)}"
        raise SecurityConfigError(f"{key}.location", reason) from error


def _chain_of(leaf: x509.Certificate, others: list[x509.Certificate]) -> tuple[x509.Certificate, ...]:
    """Order a store's certificates from the leaf towards its root; those of other chains are dropped."""
    chain = [leaf]
    while chain[-1].issuer != chain[-1].subject and len(chain) < CHAIN_MAX:
        issuers = [each for each in others if each.subject == chain[-1].issuer and each not in chain]
        if not issuers:
            break
        chain.append(issuers[0])
    return tuple(chain)


def _blocks(text: str, wanted: Callable[[str], bool]) -> Iterable[tuple[str, bytes]]:
    """Yield label and DER of each wanted PEM block. Raises ValueError. Line breaks may have become blanks."""
    for match in PEM_BLOCK.finditer(text):
        label = " ".join(match["label"].split())
        if wanted(label):
            body = "".join(PEM_HEADER.sub("", match["body"]).split())
            yield label, base64.b64decode(body, validate=True)


def _certificates(text: str, key: str, where: str) -> tuple[x509.Certificate, ...]:
    try:
        found = tuple(
            x509.load_der_x509_certificate(der) for _, der in _blocks(text, lambda label: label.endswith("CERTIFICATE"))
        )
    except (ValueError, x509.InvalidVersion) as error:
        raise SecurityConfigError(key, f"{where} has a certificate that is damaged: {_one_line(error)}") from error
    if not found:
        raise SecurityConfigError(key, f"{where} has no certificate (-----BEGIN CERTIFICATE-----)")
    return found


def _private_key(text: str, key: str, where: str, password: str | None) -> PrivateKeyTypes:
    try:
        found = list(_blocks(text, lambda label: label.endswith("PRIVATE KEY")))
    except ValueError as error:
        raise SecurityConfigError(key, f"{where} has a private key that is damaged") from error
    if len(found) != 1:
        expected = (
            "no private key (-----BEGIN PRIVATE KEY-----)" if not found else f"{len(found)} private keys, not one"
        )
        raise SecurityConfigError(key, f"{where} has {expected}")
    label, der = found[0]
    if label not in ("PRIVATE KEY", "ENCRYPTED PRIVATE KEY"):
        reason = f"{where} has a key in the format {label}; convert it to PKCS8: openssl pkcs8 -topk8 -in KEY -out NEW"
        raise SecurityConfigError(key, reason)
    is_encrypted = label.startswith("ENCRYPTED")
    if is_encrypted and password is None:
        raise SecurityConfigError("ssl.key.password", f"is not set, but the private key of {where} is encrypted")
    if not is_encrypted and password is not None:
        raise SecurityConfigError("ssl.key.password", f"is set, but the private key of {where} is not encrypted")
    try:
        return serialization.load_der_private_key(der, None if password is None else password.encode())
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        if is_encrypted:
            reason = f"does not decrypt the private key of {where}"
            raise SecurityConfigError("ssl.key.password", reason) from error
        raise SecurityConfigError(key, f"{where} has a private key that is damaged: {_one_line(error)}") from error


def _matching(key: PrivateKeyTypes, chain: tuple[x509.Certificate, ...], name: str, where: str) -> KeyStore:
    """Return the store. Raises SecurityConfigError: the key is not that of the first certificate."""
    if len(chain) > CHAIN_MAX:
        raise SecurityConfigError(name, f"{where} has {len(chain)} certificates; a chain has {CHAIN_MAX} at most")
    form = (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    try:
        is_same = key.public_key().public_bytes(*form) == chain[0].public_key().public_bytes(*form)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise SecurityConfigError(name, f"{where} has a certificate with an unsupported key") from error
    if not is_same:
        reason = f"{where}: the first certificate does not belong to the private key; the chain begins with the leaf"
        raise SecurityConfigError(name, reason)
    return KeyStore(key, chain)


def _one_line(error: Exception) -> str:
    """Return a library's reason, which never has the data itself."""
    return " ".join(str(error).split())[:200] or type(error).__name__
