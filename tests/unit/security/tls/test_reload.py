"""A listener's stores change while it is in use: what is taken over, and what is refused."""

import os
import ssl
import tempfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import trustme

from kvorum.security.errors import SecurityConfigError
from kvorum.security.tls.client import ClientTls
from kvorum.security.tls.failures import failure_reason
from kvorum.security.tls.reload import handshake_in_memory
from kvorum.security.tls.server import TlsServer
from kvorum.security.tls.settings import ClientAuth, KeyStoreSettings, TlsSettings, TrustStoreSettings
from kvorum.security.tls.stores import load_stores
from tests.tls_certificates import (
    CA,
    OTHER_CA,
    PAST,
    ca_pem,
    chain_pem,
    client_tls,
    issued,
    key_store,
    pkcs8,
    renewed,
    server_tls,
    trust_store,
)


def write_pem(path: Path, cert: trustme.LeafCert) -> None:
    """As rotation tools do: a new file takes the place of the old one."""
    new = path.with_suffix(".new")
    new.write_text(pkcs8(cert) + chain_pem(cert))
    new.replace(path)


def file_settings(path: Path, **options: Any) -> TlsSettings:
    return TlsSettings(
        key_store=KeyStoreSettings(type="PEM", location=str(path)), trust_store=trust_store(CA), **options
    )


def serial_of(tls: TlsServer | ClientTls) -> int:
    assert tls.stores.key_store is not None
    return tls.stores.key_store.chain[0].serial_number


def test_a_file_that_changed_is_loaded_into_a_new_context(tmp_path: Path) -> None:
    path = tmp_path / "store.pem"
    write_pem(path, issued("localhost"))
    server = TlsServer(file_settings(path))
    context, serial = server.context, serial_of(server)
    assert not server.changed()
    write_pem(path, renewed("localhost"))
    assert server.changed()
    server.reload()
    assert server.context is not context
    assert serial_of(server) != serial
    assert not server.changed()


def test_a_file_that_was_only_touched_or_is_away_has_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "store.pem"
    write_pem(path, issued("localhost"))
    server = TlsServer(file_settings(path))
    os.utime(path, ns=(1, 1))
    assert not server.changed()
    path.unlink()
    assert not server.changed()
    write_pem(path, renewed("localhost"))
    assert server.changed()


def test_a_change_within_the_clocks_resolution_is_seen(tmp_path: Path) -> None:
    """Same size, same modification time: another inode."""
    path = tmp_path / "trust.pem"
    path.write_text(ca_pem(CA))
    stat = path.stat()
    tls = ClientTls(TlsSettings(trust_store=TrustStoreSettings(type="PEM", location=str(path))))
    text = ca_pem(OTHER_CA)
    other = tmp_path / "other.pem"
    other.write_text(text[: stat.st_size].ljust(stat.st_size))
    os.utime(other, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    other.replace(path)
    assert tls.changed()


def test_a_refused_reload_changes_nothing_and_is_reported_once(tmp_path: Path) -> None:
    path = tmp_path / "store.pem"
    write_pem(path, issued("localhost"))
    server = TlsServer(file_settings(path))
    context, stores = server.context, server.stores
    path.write_text("half a file")
    assert server.changed()
    with pytest.raises(SecurityConfigError, match="has no PEM block"):
        server.reload()
    assert (server.context, server.stores) == (context, stores)
    assert not server.changed()


@pytest.mark.parametrize(
    ("old", "new", "allowed", "line"),
    [
        (
            issued("a.b", common_name="a"),
            issued("a.b", common_name="b"),
            "allow_dn_changes",
            "ssl.keystore: the new certificate is of CN=b,",
        ),
        (
            issued("a.b", "c.d"),
            renewed("a.b"),
            "allow_san_changes",
            "ssl.keystore: the new certificate lacks subject alternative names of the present one: DNSName:c.d; "
            "to permit it set ssl.allow.san.changes",
        ),
    ],
)
def test_the_names_of_a_certificate_stay(old: trustme.LeafCert, new: trustme.LeafCert, allowed: str, line: str) -> None:
    both = {"allow_dn_changes": True, "allow_san_changes": True}
    server = server_tls(old, **(both | {allowed: False}))
    with pytest.raises(SecurityConfigError) as refused:
        server.reload(key_store(new))
    assert str(refused.value).startswith(line)
    server_tls(old, **both).reload(key_store(new))


def test_more_names_and_another_case_are_no_loss() -> None:
    server = server_tls(issued("a.b", common_name="Node 1"), allow_san_changes=False)
    server.reload(key_store(renewed("a.b", "c.d", common_name="node  1")))


def test_a_store_is_neither_added_nor_removed() -> None:
    with pytest.raises(SecurityConfigError, match="cannot be removed from"):
        server_tls().reload(KeyStoreSettings())
    with pytest.raises(SecurityConfigError, match="cannot be added to"):
        client_tls().reload(key_store(issued("localhost")))
    bare = TlsServer(TlsSettings(key_store=key_store(issued("localhost"))))
    with pytest.raises(SecurityConfigError, match="a trust store cannot be added"):
        bare.reload(trust_store=trust_store(CA))


def test_the_own_chain_must_verify_where_nodes_are_clients_of_each_other() -> None:
    line = "ssl.keystore: the certificate does not verify with ssl.truststore: "
    with pytest.raises(SecurityConfigError) as refused:
        server_tls(cas=(OTHER_CA,), verify_own_chain=True)
    assert str(refused.value).startswith(line)
    server_tls(cas=(OTHER_CA,))
    server = server_tls(client_auth=ClientAuth.REQUIRED, verify_own_chain=True)
    server.reload(key_store(renewed("127.0.0.1", "localhost")))
    foreign = key_store(renewed("127.0.0.1", "localhost", ca=OTHER_CA))
    options = {"allow_dn_changes": True, "verify_own_chain": True, "client_auth": ClientAuth.REQUIRED}
    server = server_tls(**options)
    with pytest.raises(SecurityConfigError) as refused:
        server.reload(foreign)
    assert str(refused.value).startswith(line)
    # Both at once would cut nodes that have changed from those that have not.
    with pytest.raises(SecurityConfigError):
        server.reload(foreign, trust_store(OTHER_CA))
    server.reload(trust_store=trust_store(CA, OTHER_CA))
    server.reload(foreign)
    server.reload(trust_store=trust_store(OTHER_CA))


def test_a_new_certificate_replaces_one_that_has_expired_in_use() -> None:
    server = server_tls(client_auth=ClientAuth.REQUIRED, verify_own_chain=True)
    server.stores = load_stores(replace(server.settings, key_store=key_store(renewed("127.0.0.1", not_after=PAST))))
    with pytest.raises(SecurityConfigError, match="does not verify"):
        server.reload(key_store(renewed("127.0.0.1", "localhost", ca=OTHER_CA)))
    server.reload(key_store(renewed("127.0.0.1", "localhost")))
    assert server.stores.key_store is not None
    assert server.stores.key_store.chain[0].not_valid_after_utc > datetime.now(UTC)


def test_a_truststore_that_shrinks_counts_for_new_handshakes() -> None:
    server = server_tls(client_auth=ClientAuth.REQUIRED, cas=(CA, OTHER_CA))
    client = client_tls(issued("alice@example.com", ca=OTHER_CA), endpoint_identification_algorithm="")
    before = server.context
    handshake_in_memory(before, client.context)
    server.reload(trust_store=trust_store(CA))
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake_in_memory(server.context, client.context)
    assert server.context.verify_mode is ssl.CERT_REQUIRED


def test_a_huge_chain_of_a_peer_is_refused() -> None:
    """OpenSSL reads 100 KiB of certificates at most."""
    server = server_tls(client_auth=ClientAuth.REQUIRED)
    leaf = issued("alice@example.com")
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(pkcs8(leaf) + chain_pem(leaf) + 250 * ca_pem(OTHER_CA))
        file.flush()
        client.load_cert_chain(file.name)
    with pytest.raises(ssl.SSLError) as caught:
        handshake_in_memory(server.context, client)
    assert "excessive message size" in failure_reason(caught.value)


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({}, "ssl.keystore.location: is not set; a listener with TLS needs a key and certificate"),
        (
            {"enabled_protocols": ("TLSv1.1", "TLSv1.2")},
            "ssl.enabled.protocols: TLSv1.1 is not supported; use TLSv1.2,TLSv1.3 or one of them",
        ),
        ({"enabled_protocols": ()}, "ssl.enabled.protocols: is empty; use TLSv1.2,TLSv1.3 or one of them"),
        ({"cipher_suites": ("x",)}, "ssl.cipher.suites: cipher suite x is not supported"),
        ({"principal_mapping_rules": "x"}, "ssl.principal.mapping.rules: `x` does not begin with"),
    ],
)
def test_settings_that_cannot_work(settings: dict[str, Any], line: str) -> None:
    store = key_store(issued("localhost")) if settings else KeyStoreSettings()
    with pytest.raises(SecurityConfigError) as refused:
        TlsServer(TlsSettings(key_store=store, **settings))
    assert str(refused.value).startswith(line)


def test_an_unknown_endpoint_identification_is_refused() -> None:
    with pytest.raises(SecurityConfigError, match="ldaps is not supported; use https"):
        client_tls(endpoint_identification_algorithm="ldaps")
    assert client_tls(endpoint_identification_algorithm="HTTPS").context.check_hostname
    assert not client_tls(endpoint_identification_algorithm="").context.check_hostname
    assert client_tls(endpoint_identification_algorithm="").context.verify_mode is ssl.CERT_REQUIRED


def test_an_anchor_need_not_be_a_root() -> None:
    """Java trusts what is in the truststore: here the server's own certificate, without its CA."""
    cert = issued("localhost")
    tls = ClientTls(TlsSettings(trust_store=TrustStoreSettings(type="PEM", certificates=chain_pem(cert))))
    context = tls.context
    context.check_hostname = False
    handshake_in_memory(server_tls(cert).context, context)


def test_a_private_key_never_reaches_a_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []
    real = ssl.SSLContext.load_cert_chain

    def load(self: ssl.SSLContext, path: str, *arguments: Any) -> None:
        loaded.append(os.readlink(path))
        real(self, path, *arguments)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", load)
    server_tls()
    assert loaded == ["/memfd:kvorum-tls (deleted)"]
