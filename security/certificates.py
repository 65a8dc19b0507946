"""A small certificate authority: its own certificate, and those of nodes and clients that it issues and renews.

Time and serial numbers are arguments; keys are of EC P-256, made by OpenSSL. A node's certificate serves both sides of
a connection (nodes connect to each other), a client's only its own. The subject is CN=NAME, so that the principal is
User:CN=NAME.
"""

import ipaddress
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kvorum.security.errors import AuthenticationError
from kvorum.security.tls.names import distinguished_name
from kvorum.security.tls.stores import KeyStore

AUTHORITY_LIFETIME: Final = timedelta(days=3650)
LIFETIME: Final = timedelta(days=365)
CLOCK_SKEW: Final = timedelta(days=1)
"""Certificates are valid from this long before their issue: the clocks of machines differ."""
SERIAL_BYTES: Final = 20
NAME_CHARS_MAX: Final = 64
"""Limit of a common name (X.520)."""
HOSTS_MAX: Final = 100
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
DNS_NAME: Final = re.compile(r"(?=.{1,253}$)(?:\*\.)?(?!-)[A-Za-z0-9_-]{1,63}(?:\.[A-Za-z0-9_-]{1,63})*")


class CertificateError(Exception):
    """A certificate that cannot be issued; one line with the reason."""


class Kind(Enum):
    """Use of a certificate: the value is its extended key usages."""

    NODE = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)
    CLIENT = (ExtendedKeyUsageOID.CLIENT_AUTH,)


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateSummary:
    """The facts about a certificate that an operator needs."""

    subject: str
    """As Kafka's principal has it."""
    issuer: str
    hosts: tuple[str, ...]
    not_after: datetime
    days_left: int
    """Negative: expired."""


def serial_number(random_bytes: Callable[[int], bytes]) -> int:
    """Return a random serial number: positive, at most 20 bytes."""
    return (int.from_bytes(random_bytes(SERIAL_BYTES)) >> 1) | 1


def new_authority(name: str, *, now: datetime, serial: int, lifetime: timedelta = AUTHORITY_LIFETIME) -> KeyStore:
    """Return a new CA. Raises CertificateError."""
    if not 1 <= len(name) <= NAME_CHARS_MAX or not name.isprintable():
        raise CertificateError(f"the name of a CA has 1 to {NAME_CHARS_MAX} printable characters")
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _subject(name)
    builder = _builder(subject, subject, key, now, serial, now + lifetime)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_key_usage(is_authority=True), critical=True)
    return KeyStore(key, (builder.sign(key, hashes.SHA256()),))


def issue(
    authority: KeyStore,
    kind: Kind,
    name: str,
    hosts: Sequence[str] = (),
    *,
    now: datetime,
    serial: int,
    lifetime: timedelta = LIFETIME,
) -> KeyStore:
    """Return a new key with its certificate, which does not outlive the CA's. Raises CertificateError."""
    if not NAME.fullmatch(name):
        reason = f"up to {NAME_CHARS_MAX} letters, digits, dots, dashes and underscores; the first is a letter or digit"
        raise CertificateError(f"{name!r} is not a valid name: it has {reason}")
    if len(hosts) > HOSTS_MAX:
        raise CertificateError(f"{len(hosts)} hosts, more than {HOSTS_MAX}")
    extensions: list[x509.ExtensionType] = [x509.ExtendedKeyUsage(kind.value)]
    if hosts:
        extensions.append(x509.SubjectAlternativeName([_host(each) for each in dict.fromkeys(hosts)]))
    return _issue(authority, _subject(name), extensions, now, serial, lifetime)


def renew(
    authority: KeyStore, old: x509.Certificate, *, now: datetime, serial: int, lifetime: timedelta = LIFETIME
) -> KeyStore:
    """Return a new key and certificate with the names and usages of an old one. Raises CertificateError."""
    try:
        old.verify_directly_issued_by(authority.chain[0])
    except (ValueError, TypeError, InvalidSignature):
        reason = f"issued by {old.issuer.rfc4514_string()}, another CA than that in this folder"
        raise CertificateError(f"the certificate was {reason}; renew it there") from None
    kept = (x509.ExtendedKeyUsage, x509.SubjectAlternativeName)
    extensions = [each.value for each in old.extensions if isinstance(each.value, kept)]
    return _issue(authority, old.subject, extensions, now, serial, lifetime)


def key_and_chain(store: KeyStore) -> bytes:
    """Return a key store as a PEM file: the key (PKCS8, not encrypted), then the chain."""
    return store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + certificates_pem(store.chain)


def certificates_pem(certificates: Sequence[x509.Certificate]) -> bytes:
    """Return certificates as PEM."""
    return b"".join(each.public_bytes(Encoding.PEM) for each in certificates)


def summarize(certificate: x509.Certificate, now: datetime) -> CertificateSummary:
    """Return the facts about a certificate."""
    try:
        subject = distinguished_name(certificate.public_bytes(Encoding.DER))
    except AuthenticationError:
        subject = certificate.subject.rfc4514_string()
    return CertificateSummary(
        subject=subject,
        issuer=certificate.issuer.rfc4514_string(),
        hosts=certificate_hosts(certificate),
        not_after=certificate.not_valid_after_utc,
        days_left=(certificate.not_valid_after_utc - now) // timedelta(days=1),
    )


def certificate_hosts(certificate: x509.Certificate) -> tuple[str, ...]:
    """Return the host names and addresses that a certificate is for."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return ()
    return tuple(str(each.value) for each in names)


def _issue(
    authority: KeyStore,
    subject: x509.Name,
    extensions: Sequence[x509.ExtensionType],
    now: datetime,
    serial: int,
    lifetime: timedelta,
) -> KeyStore:
    of_authority = authority.chain[0]
    end = of_authority.not_valid_after_utc
    if now >= end:
        raise CertificateError(f"the CA expired on {end:%Y-%m-%d}; make another: kvorum certs init --dir NEW")
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(subject, of_authority.subject, key, now, serial, min(now + lifetime, end))
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_key_usage(is_authority=False), critical=True)
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key(authority).public_key())
    for extension in (issuer, *extensions):
        builder = builder.add_extension(extension, critical=False)
    # Peers have the root in their trust store: the chain ends below it.
    above = tuple(each for each in authority.chain if each.issuer != each.subject)
    return KeyStore(key, (builder.sign(authority_key(authority), hashes.SHA256()), *above))


def authority_key(authority: KeyStore) -> ec.EllipticCurvePrivateKey:
    """Return a CA's key, of which the type is known. Raises CertificateError."""
    if not isinstance(authority.key, ec.EllipticCurvePrivateKey):
        raise CertificateError("the CA's key is not of an elliptic curve; use a CA of `kvorum certs init`")
    return authority.key


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    now: datetime,
    serial: int,
    end: datetime,
) -> x509.CertificateBuilder:
    """Begin a certificate."""
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    builder = builder.serial_number(serial).not_valid_before(min(now, end) - CLOCK_SKEW).not_valid_after(end)
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)


def _key_usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not is_authority,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _host(text: str) -> x509.GeneralName:
    """Return a host as a subject alternative name: an address or a DNS name. Raises CertificateError."""
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        pass
    if not DNS_NAME.fullmatch(text):
        raise CertificateError(f"{text!r} is neither an IP address nor a host name; without a port, in ASCII (xn--...)")
    return x509.DNSName(text)
