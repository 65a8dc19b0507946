"""Certificates, TLS listeners and TLS clients of every kind."""

import asyncio
import datetime
import socket
import ssl
from functools import cache
from typing import Any

import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from trustme import KeyType

from kvorum.network.context import RequestContext
from kvorum.network.router import Handler
from kvorum.network.server import Listener
from kvorum.protocol.api import ApiKey
from kvorum.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from kvorum.runtime.listeners import SecurityProtocol
from kvorum.security.tls.client import ClientTls
from kvorum.security.tls.server import TlsServer
from kvorum.security.tls.settings import PEM, ClientAuth, KeyStoreSettings, TlsSettings, TrustStoreSettings
from tests.unit.network.network_kit import listener_of, metadata_handler

PAST = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)


CA = "CA"


@cache
def authority(name: str) -> trustme.CA:
    return trustme.CA(organization_name=name, key_type=KeyType.ECDSA)


@cache
def issued(
    *names: str, common_name: str | None = None, ca: str = CA, not_after: datetime.datetime | None = None
) -> trustme.LeafCert:
    return authority(ca).issue_cert(*names, common_name=common_name, key_type=KeyType.ECDSA, not_after=not_after)


def key_store(cert: trustme.LeafCert) -> KeyStoreSettings:
    chain = b"".join(blob.bytes() for blob in cert.cert_chain_pems).decode()
    return KeyStoreSettings(type=PEM, key=pkcs8(cert), certificate_chain=chain)


def pkcs8(cert: trustme.LeafCert) -> str:
    """The key as Kafka takes it."""
    key = load_pem_private_key(cert.private_key_pem.bytes(), None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def trust_store(*cas: str) -> TrustStoreSettings:
    pem = "".join(authority(ca).cert_pem.bytes().decode() for ca in cas)
    return TrustStoreSettings(type=PEM, certificates=pem)


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


class Cluster:
    """A cluster of one broker, as clients find it; `port` is its listener's."""

    def __init__(self, cluster_id: str) -> None:
        self.port = 0
        self.cluster_id = cluster_id
        self.handler = Handler(ApiKey.METADATA, (0, 13), self.handle)

    def handle(self, ctx: RequestContext, request: MetadataRequest) -> MetadataResponse:
        broker = MetadataResponseBroker(node_id=1, host="localhost", port=self.port)
        return MetadataResponse(cluster_id=self.cluster_id, controller_id=1, brokers=[broker])


def tls_listener(tls: TlsServer | None = None, *handlers: Any, **options: Any) -> Listener:
    return listener_of(
        *(handlers or (metadata_handler(),)),
        tls=tls or server_tls(),
        security_protocol=SecurityProtocol.SSL,
        **options,
    )


def python_context(cert: trustme.LeafCert | None = None, ca: str = CA, **options: Any) -> ssl.SSLContext:
    """A context of Python's own ssl module."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority(ca).configure_trust(context)
    if cert is not None:
        cert.configure_cert(context)
    for name, value in options.items():
        setattr(context, name, value)
    return context


def handshake(port: int, context: ssl.SSLContext, request: bytes = b"", host: str = "localhost") -> bytes:
    """Connect with a blocking socket, send a request and return the first bytes. Raises OSError, ssl.SSLError."""
    sock = socket.create_connection(("127.0.0.1", port), timeout=10)
    with sock, context.wrap_socket(sock, server_hostname=host) as wrapped:
        wrapped.sendall(request)
        return wrapped.recv(65_536)


async def try_handshake(*arguments: Any, **options: Any) -> bytes | Exception:
    """Do it in a thread; return the bytes or the error."""

    def attempt() -> bytes | Exception:
        try:
            return handshake(*arguments, **options)
        except (OSError, ssl.SSLError) as error:
            return error

    return await asyncio.to_thread(attempt)
