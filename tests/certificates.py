"""A certificate authority of a test, and the files of certificates that it issues."""

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

HOSTS = ("localhost", "127.0.0.1")
LIFETIME = timedelta(days=30)


class Authority:
    """A CA whose certificates are in files of one folder: `ca.pem`, and FILE.pem with key and chain."""

    def __init__(self, folder: Path, name: str = "test-ca") -> None:
        """Make a CA."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.file = folder, folder / "ca.pem"
        self._key, self._name = ec.generate_private_key(ec.SECP256R1()), name_of(name)
        builder = certificate(self._name, self._name, self._key).add_extension(x509.BasicConstraints(True, 0), True)
        self.file.write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM))

    def issue(
        self, name: str, file: str | None = None, lifetime: timedelta = LIFETIME, hosts: tuple[str, ...] = HOSTS
    ) -> Path:
        """Issue a certificate with a common name for this machine; a present file is replaced at once."""
        key = ec.generate_private_key(ec.SECP256R1())
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        names = [
            x509.IPAddress(ipaddress.ip_address(each)) if each[0].isdigit() else x509.DNSName(each) for each in hosts
        ]
        builder = certificate(name_of(name), self._name, key, lifetime)
        builder = builder.add_extension(x509.SubjectAlternativeName(names), False)
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), False)
        chain = builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)
        path = self.folder / f"{file or name}.pem"
        part = path.with_suffix(".part")
        part.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + chain)
        return part.replace(path)


def name_of(common_name: str) -> x509.Name:
    """Return a distinguished name."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, lifetime: timedelta = LIFETIME
) -> x509.CertificateBuilder:
    """Begin a certificate that is valid from yesterday on."""
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number())
    return builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + lifetime)
