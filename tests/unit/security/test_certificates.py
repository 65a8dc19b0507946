"""A small CA: names, usages and lifetimes of its certificates, and their renewal."""

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from kvorum.security.certificates import (
    HOSTS_MAX,
    CertificateError,
    Kind,
    certificates_pem,
    issue,
    key_and_chain,
    new_authority,
    renew,
    serial_number,
    summarize,
)
from kvorum.security.tls.context import client_context, server_context
from kvorum.security.tls.reload import handshake_in_memory
from kvorum.security.tls.settings import PEM, ClientAuth, KeyStoreSettings, TlsSettings, TrustStoreSettings
from kvorum.security.tls.stores import KeyStore, load_stores

NOW = datetime(2026, 5, 1, tzinfo=UTC)
CA = new_authority("test CA", now=NOW, serial=1)


def issued(kind: Kind = Kind.NODE, name: str = "node-1", *hosts: str, lifetime: timedelta = timedelta(1)) -> KeyStore:
    return issue(CA, kind, name, hosts, now=NOW, serial=2, lifetime=lifetime)


def usages(store: KeyStore) -> set[x509.ObjectIdentifier]:
    return set(store.chain[0].extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)


def test_lifetimes_are_ten_years_of_the_ca_and_one_of_its_certificates() -> None:
    node = issue(CA, Kind.NODE, "node-1", now=NOW, serial=2)
    assert summarize(CA.chain[0], NOW).days_left == 3650
    assert summarize(node.chain[0], NOW).days_left == 365
    assert summarize(node.chain[0], NOW + timedelta(days=366)).days_left == -1


def test_a_certificate_does_not_outlive_its_ca() -> None:
    assert issued(lifetime=timedelta(9999)).chain[0].not_valid_after_utc == CA.chain[0].not_valid_after_utc
    with pytest.raises(CertificateError, match=r"the CA expired on 2036-04-28"):
        issue(CA, Kind.NODE, "node-1", now=NOW + timedelta(days=3651), serial=2)


def test_nodes_serve_and_connect_and_clients_connect_only() -> None:
    assert usages(issued(Kind.NODE)) == {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH}
    assert usages(issued(Kind.CLIENT)) == {ExtendedKeyUsageOID.CLIENT_AUTH}


def test_hosts_are_addresses_or_names() -> None:
    found = summarize(issued(Kind.NODE, "node-1", "kafka-1.example", "10.0.0.1", "::1", "10.0.0.1").chain[0], NOW)
    assert (found.subject, found.issuer) == ("CN=node-1", "CN=test CA")
    assert found.hosts == ("kafka-1.example", "10.0.0.1", "::1")


@pytest.mark.parametrize("host", ["", "kafka:9092", "http://kafka", "a b", "münchen.example", "x" * 254, "-a"])
def test_a_host_that_no_certificate_can_have_is_refused(host: str) -> None:
    with pytest.raises(CertificateError, match="neither an IP address nor a host name"):
        issued(Kind.NODE, "node-1", host)


@pytest.mark.parametrize("name", ["", "../node", "a" * 65, "a,b", "-x"])
def test_a_name_that_is_no_file_name_is_refused(name: str) -> None:
    with pytest.raises(CertificateError, match="is not a valid name"):
        issued(Kind.CLIENT, name)


def test_the_number_of_hosts_is_limited() -> None:
    with pytest.raises(CertificateError, match="101 hosts"):
        issued(Kind.NODE, "node-1", *(f"host-{number}" for number in range(HOSTS_MAX + 1)))


def test_a_renewed_certificate_keeps_names_and_usages_with_a_new_key() -> None:
    old = issued(Kind.CLIENT, "app", "a.example").chain[0]
    new = renew(CA, old, now=NOW + timedelta(days=300), serial=3)
    assert (new.chain[0].subject, new.chain[0].serial_number) == (old.subject, 3)
    assert summarize(new.chain[0], NOW).hosts == ("a.example",) and usages(new) == {ExtendedKeyUsageOID.CLIENT_AUTH}
    assert summarize(new.chain[0], NOW).days_left == 665
    assert new.chain[0].public_key() != old.public_key()


def test_the_certificate_of_another_ca_is_not_renewed() -> None:
    other = new_authority("test CA", now=NOW, serial=1)
    with pytest.raises(CertificateError, match="another CA"):
        renew(other, issued().chain[0], now=NOW, serial=3)


def test_serial_numbers_are_positive_and_fit() -> None:
    assert serial_number(lambda size: b"\xff" * size) < 1 << 159
    assert serial_number(bytes) == 1


def test_files_are_kafkas_pem_stores_and_both_sides_verify() -> None:
    """The wall clock decides here: OpenSSL has no other."""
    now = datetime.now(UTC)
    authority = new_authority("CA", now=now, serial=1)

    def settings(kind: Kind) -> TlsSettings:
        store = issue(authority, kind, "name", ["localhost"], now=now, serial=2)
        key, _, chain = key_and_chain(store).decode().partition("-----BEGIN CERT")
        return TlsSettings(
            key_store=KeyStoreSettings(type=PEM, key=key, certificate_chain=f"-----BEGIN CERT{chain}"),
            trust_store=TrustStoreSettings(type=PEM, certificates=certificates_pem(authority.chain).decode()),
            client_auth=ClientAuth.REQUIRED,
        )

    node, client = settings(Kind.NODE), settings(Kind.CLIENT)
    server = server_context(node, load_stores(node))
    handshake_in_memory(server, client_context(client, load_stores(client), verify_host_name=False))
