"""Key and trust stores: what is read, what is refused, and with which line."""

import os
import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509 import load_pem_x509_certificates
from hypothesis import given
from hypothesis import strategies as st

from kvorum.security.certificate_folder import CertificateError, read_certificates
from kvorum.security.errors import SecurityConfigError
from kvorum.security.tls.settings import KeyStoreSettings, TlsSettings, TrustStoreSettings
from kvorum.security.tls.stores import FILE_BYTES_MAX, KeyStore, TrustStore, load_stores
from tests.tls_certificates import CA, OTHER_CA, authority, ca_pem, chain_pem, issued, key_store, pkcs8

DATA = Path(__file__).parents[3] / "data"
KEYTOOL_KEYS, KEYTOOL_TRUST = str(DATA / "keytool-keystore.p12"), str(DATA / "keytool-truststore.p12")
PASSWORD = "changeit"
SECRET = "planted-secret"


def cert_pem() -> str:
    return chain_pem(issued("localhost"))


def key_pem() -> str:
    return pkcs8(issued("localhost"))


def encrypted_key() -> str:
    key = load_pem_private_key(issued("localhost").private_key_pem.bytes(), None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(SECRET.encode())).decode()


def load_keys(**settings: str) -> KeyStore:
    stores = load_stores(TlsSettings(key_store=KeyStoreSettings(**settings)))
    assert stores.key_store is not None
    return stores.key_store


def load_trust(**settings: str) -> TrustStore:
    stores = load_stores(TlsSettings(trust_store=TrustStoreSettings(**settings)))
    assert stores.trust_store is not None
    return stores.trust_store


def names(store: KeyStore | TrustStore) -> list[str]:
    certificates = store.chain if isinstance(store, KeyStore) else store.certificates
    return [each.subject.rfc4514_string() for each in certificates]


def written(folder: Path, data: str | bytes, name: str = "store") -> str:
    path = folder / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return str(path)


def test_nothing_configured_is_no_store() -> None:
    stores = load_stores(TlsSettings())
    assert (stores.key_store, stores.trust_store, stores.files) == (None, None, ())


@pytest.mark.parametrize("as_file", [False, True])
@pytest.mark.parametrize("password", [None, SECRET])
def test_pem(tmp_path: Path, as_file: bool, password: str | None) -> None:
    key = key_pem() if password is None else encrypted_key()
    settings = {"type": "PEM"} | ({} if password is None else {"key_password": password})
    if as_file:
        text = f"subject=/CN=x\nBag Attributes\n    friendlyName: x\n{key}\n# comment\n{cert_pem()}{ca_pem(CA)}"
        store = load_keys(location=written(tmp_path, text), **settings)
    else:
        store = load_keys(key=key, certificate_chain=cert_pem() + ca_pem(CA), **settings)
    leaf, root = names(store)
    assert "CN=" not in root and leaf != root
    assert names(load_trust(type="PEM", certificates=ca_pem(CA, OTHER_CA)))[0] == root


def test_line_breaks_of_inline_pem_may_be_blanks_and_headers_are_skipped() -> None:
    key = key_pem().replace("\n", " ")
    chain = cert_pem().replace("-----BEGIN CERTIFICATE-----", "-----BEGIN CERTIFICATE-----\nKey: value\n")
    assert len(load_keys(type="PEM", key=key, certificate_chain=chain).chain) == 1
    assert len(load_trust(type="PEM", certificates=ca_pem(CA, CA).replace("\n", " ")).certificates) == 2


@pytest.mark.parametrize("kind", ["JKS", "PKCS12", "pkcs12"])
def test_stores_that_keytool_wrote(kind: str) -> None:
    """Since Java 9 keytool writes PKCS12, and Java opens it as type JKS, the default, too."""
    store = load_keys(type=kind, location=KEYTOOL_KEYS, password=PASSWORD)
    assert names(store) == ["CN=kafka.example.com,O=Acme\\, Inc.,C=DE"]
    assert names(load_trust(type=kind, location=KEYTOOL_TRUST, password=PASSWORD)) == names(store)


def test_a_pkcs12_chain_is_ordered_and_has_no_strangers(tmp_path: Path) -> None:
    middle = authority(CA).create_child_ca()
    leaf = middle.issue_cert("localhost")
    key = load_pem_private_key(leaf.private_key_pem.bytes(), None)
    own = load_pem_x509_certificates(chain_pem(leaf).encode())
    roots = load_pem_x509_certificates(ca_pem(OTHER_CA, CA).encode())
    data = pkcs12.serialize_key_and_certificates(
        b"x",
        key,
        own[0],
        [*roots, own[1]],
        BestAvailableEncryption(b"pw"),  # type: ignore[arg-type]
    )
    store = load_keys(type="PKCS12", location=written(tmp_path, data), password="pw")
    assert list(store.chain) == [*own, roots[1]]


def test_secrets_are_not_shown() -> None:
    settings = KeyStoreSettings(type="PEM", password=SECRET, key_password=SECRET, key=SECRET, certificate_chain=SECRET)
    assert SECRET not in repr(settings)
    assert SECRET not in repr(TrustStoreSettings(password=SECRET, certificates=SECRET))
    store = load_keys(type="PEM", key=key_pem(), certificate_chain=cert_pem())
    assert "key=" not in repr(store)


KEY, CHAIN = {"key": "KEY"}, {"certificate_chain": "CHAIN"}
FILE, SET = {"location": "/a.p12"}, {"password": PASSWORD}


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        (KEY | CHAIN, "ssl.keystore.key: requires ssl.keystore.type=PEM; it is JKS"),
        (KEY | {"type": "PEM"}, "ssl.keystore.key: is set without ssl.keystore.certificate.chain"),
        (CHAIN | {"type": "PEM"}, "ssl.keystore.certificate.chain: is set without ssl.keystore.key, the private key"),
        (
            KEY | CHAIN | FILE | {"type": "PEM"},
            "ssl.keystore.key: is set together with ssl.keystore.location=/a.p12; remove one",
        ),
        (
            FILE | SET | {"type": "PEM"},
            "ssl.keystore.password: is not used with PEM; a key's password is ssl.key.password",
        ),
        (
            KEY | CHAIN | SET | {"type": "PEM"},
            "ssl.keystore.password: is not used with PEM; a key's password is ssl.key.password",
        ),
        (SET, "ssl.keystore.password: is set without ssl.keystore.location"),
        (FILE, "ssl.keystore.location: /a.p12 requires ssl.keystore.password"),
        (FILE | SET | {"type": "BCFKS"}, "ssl.keystore.type: BCFKS is not supported; use PKCS12 or PEM"),
        (FILE | SET, "ssl.keystore.location: /a.p12 cannot be read: No such file or directory"),
    ],
)
def test_combinations_of_a_key_store_that_kafka_refuses(settings: dict[str, str], line: str) -> None:
    with pytest.raises(SecurityConfigError) as refused:
        load_keys(**settings)
    assert str(refused.value) == line


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"certificates": "C"}, "ssl.truststore.certificates: requires ssl.truststore.type=PEM; it is JKS"),
        (
            {"certificates": "C", "type": "PEM"} | FILE,
            "ssl.truststore.certificates: is set together with ssl.truststore.location=/a.p12; remove one",
        ),
        ({"certificates": "C", "type": "PEM"} | SET, "ssl.truststore.password: is not used with PEM; remove it"),
        (FILE | SET | {"type": "PEM"}, "ssl.truststore.password: is not used with PEM; remove it"),
        (SET, "ssl.truststore.password: is set without ssl.truststore.location"),
        (FILE, "ssl.truststore.location: /a.p12 cannot be read: No such file or directory"),
        (
            {"certificates": "C", "type": "PEM"},
            "ssl.truststore.certificates: the value has no certificate (-----BEGIN CERTIFICATE-----)",
        ),
    ],
)
def test_combinations_of_a_trust_store_that_kafka_refuses(settings: dict[str, str], line: str) -> None:
    with pytest.raises(SecurityConfigError) as refused:
        load_trust(**settings)
    assert str(refused.value) == line


def pkcs1_key() -> str:
    return issued("localhost").private_key_pem.bytes().decode()


def foreign_key() -> str:
    return pkcs8(issued("other.example.com"))


@pytest.mark.parametrize(
    ("key", "chain", "password", "line"),
    [
        (
            pkcs1_key,
            cert_pem,
            None,
            "ssl.keystore.key: the value has a key in the format EC PRIVATE KEY; convert it to PKCS8: "
            "openssl pkcs8 -topk8 -in KEY -out NEW",
        ),
        (encrypted_key, cert_pem, None, "ssl.key.password: is not set, but the private key of the value is encrypted"),
        (encrypted_key, cert_pem, "wrong", "ssl.key.password: does not decrypt the private key of the value"),
        (key_pem, cert_pem, "any", "ssl.key.password: is set, but the private key of the value is not encrypted"),
        (cert_pem, cert_pem, None, "ssl.keystore.key: the value has no private key (-----BEGIN PRIVATE KEY-----)"),
        (lambda: key_pem() * 2, cert_pem, None, "ssl.keystore.key: the value has 2 private keys, not one"),
        (
            key_pem,
            key_pem,
            None,
            "ssl.keystore.certificate.chain: the value has no certificate (-----BEGIN CERTIFICATE-----)",
        ),
        (
            foreign_key,
            cert_pem,
            None,
            "ssl.keystore.certificate.chain: the value: the first certificate does not belong to the private key; "
            "the chain begins with the leaf",
        ),
        (
            key_pem,
            lambda: cert_pem() * 33,
            None,
            "ssl.keystore.certificate.chain: the value has 33 certificates; a chain has 32 at most",
        ),
    ],
)
def test_a_pem_store_that_cannot_work(key: object, chain: object, password: str | None, line: str) -> None:
    assert callable(key) and callable(chain)
    options = {} if password is None else {"key_password": password}
    with pytest.raises(SecurityConfigError) as refused:
        load_keys(type="PEM", key=key(), certificate_chain=chain(), **options)
    assert str(refused.value) == line


def test_jks_is_refused_with_the_command_that_converts_it(tmp_path: Path) -> None:
    path = written(tmp_path, b"\xfe\xed\xfe\xed\0\0\0\2", "old.jks")
    command = f"keytool -importkeystore -srckeystore {path} -destkeystore {path}.p12 -deststoretype PKCS12"
    with pytest.raises(SecurityConfigError) as refused:
        load_keys(location=path, password=PASSWORD)
    assert str(refused.value) == (
        f"ssl.keystore.location: {path} is in Java's JKS format, which is not supported: {command}"
    )


def test_files_of_another_format(tmp_path: Path) -> None:
    pem, noise = written(tmp_path, cert_pem(), "pem"), written(tmp_path, os.urandom(400), "noise")
    for settings, line in (
        ({"location": pem} | SET, f"ssl.keystore.type: is JKS, but {pem} is in PEM format; set it to PEM"),
        (
            {"location": noise, "type": "PEM"},
            f"ssl.keystore.location: {noise} has no PEM block (-----BEGIN ...); is it PKCS12?",
        ),
        (
            {"location": noise} | SET,
            f"ssl.keystore.location: {noise} is no readable PKCS12 file: Could not deserialize PKCS12 data",
        ),
        (
            {"location": KEYTOOL_KEYS, "password": SECRET},
            f"ssl.keystore.location: {KEYTOOL_KEYS} cannot be opened: wrong ssl.keystore.password, or no PKCS12 file",
        ),
        (
            {"location": KEYTOOL_TRUST, "password": PASSWORD},
            f"ssl.keystore.location: {KEYTOOL_TRUST} has no private key with a certificate",
        ),
        ({"location": str(tmp_path)} | SET, f"ssl.keystore.location: {tmp_path} cannot be read: Is a directory"),
        ({"location": "a\0b"} | SET, "ssl.keystore.location: a\0b cannot be read: embedded null byte"),
    ):
        with pytest.raises(SecurityConfigError) as refused:
            load_keys(**settings)
        assert str(refused.value) == line
    for settings, line in (
        ({"location": KEYTOOL_TRUST}, "cannot be opened without a password; set ssl.truststore.password"),
        ({"location": KEYTOOL_KEYS} | SET, "has a private key; a trust store has CA certificates only"),
    ):
        with pytest.raises(SecurityConfigError) as refused:
            load_trust(**settings)
        assert line in str(refused.value)


def test_a_huge_file_is_not_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "huge"
    with path.open("wb") as file:
        file.truncate(FILE_BYTES_MAX * 1000)
    with pytest.raises(SecurityConfigError, match="which no store has"):
        load_trust(type="PEM", location=str(path))


@given(st.binary(max_size=200), st.integers(0, 2000), st.sampled_from(["PEM", "PKCS12"]))
def test_damaged_files_are_refused(tmp_path_factory: pytest.TempPathFactory, noise: bytes, at: int, kind: str) -> None:
    folder = tmp_path_factory.getbasetemp()
    whole = (key_pem() + cert_pem()).encode() if kind == "PEM" else Path(KEYTOOL_KEYS).read_bytes()
    path = written(folder, whole[:at] + noise + whole[at + len(noise) :], "damaged")
    settings = {"type": kind, "location": path} | ({} if kind == "PEM" else SET)
    try:
        load_keys(**settings)
    except SecurityConfigError as error:
        assert "\n" not in str(error)


def test_a_certificate_of_an_unknown_version_is_refused(tmp_path: Path) -> None:
    der = ssl.PEM_cert_to_DER_cert(cert_pem()).replace(b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x03", 1)
    path = written(tmp_path, key_pem() + ssl.DER_cert_to_PEM_cert(der))
    with pytest.raises(SecurityConfigError, match="damaged: 3 is not a valid X509 version"):
        load_keys(type="PEM", location=path)
    with pytest.raises(CertificateError, match="no certificate in PEM format"):
        read_certificates([Path(path)])


def test_a_store_remembers_the_file_it_came_from(tmp_path: Path) -> None:
    path = written(tmp_path, key_pem() + cert_pem())
    stores = load_stores(TlsSettings(key_store=KeyStoreSettings(type="PEM", location=path)))
    (file,) = stores.files
    assert (file.path, file.size) == (path, os.stat(path).st_size)
    assert load_stores(TlsSettings(key_store=key_store(issued("localhost")))).files == ()
