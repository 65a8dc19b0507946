"""Certificates and TLS settings for tests."""

import datetime
from functools import cache
from typing import Any, Final

import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from trustme import KeyType

from kvorum.security.tls.client import ClientTls
from kvorum.security.tls.server import TlsServer
from kvorum.security.tls.settings import PEM, ClientAuth, KeyStoreSettings, TlsSettings, TrustStoreSettings

CA: Final = "CA"
OTHER_CA: Final = "other CA"
PAST: Final = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)


@cache
def authority(name: str) -> trustme.CA:
    return trustme.CA(organization_name=name, key_type=KeyType.ECDSA)


@cache
def issued(
    *names: str, common_name: str | None = None, ca: str = CA, not_after: datetime.datetime | None = None
) -> trustme.LeafCert:
    return authority(ca).issue_cert(
        *names,
        common_name=common_name,
        organization_name="Acme",
        organization_unit_name="tests",
        key_type=KeyType.ECDSA,
        not_after=not_after,
    )


def renewed(*names: str, **options: Any) -> trustme.LeafCert:
    """A new certificate for the same names."""
    return issued.__wrapped__(*names, **options)


def pkcs8(cert: trustme.LeafCert) -> str:
    """The key as Kafka takes it."""
    key = load_pem_private_key(cert.private_key_pem.bytes(), None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def chain_pem(cert: trustme.LeafCert) -> str:
    return b"".join(blob.bytes() for blob in cert.cert_chain_pems).decode()


def ca_pem(*cas: str) -> str:
    return "".join(authority(ca).cert_pem.bytes().decode() for ca in cas)


def key_store(cert: trustme.LeafCert) -> KeyStoreSettings:
    return KeyStoreSettings(type=PEM, key=pkcs8(cert), certificate_chain=chain_pem(cert))


def trust_store(*cas: str) -> TrustStoreSettings:
    return TrustStoreSettings(type=PEM, certificates=ca_pem(*cas))


def server_tls(
    cert: trustme.LeafCert | None = None,
    *,
    client_auth: ClientAuth = ClientAuth.NONE,
    cas: tuple[str, ...] = (CA,),
    **options: Any,
) -> TlsServer:
    return TlsServer(
        TlsSettings(
            key_store=key_store(cert or issued("127.0.0.1", "localhost")),
            trust_store=trust_store(*cas),
            client_auth=client_auth,
            **options,
        )
    )


def client_tls(cert: trustme.LeafCert | None = None, *, cas: tuple[str, ...] = (CA,), **options: Any) -> ClientTls:
    store = KeyStoreSettings() if cert is None else key_store(cert)
    return ClientTls(TlsSettings(key_store=store, trust_store=trust_store(*cas), **options))
