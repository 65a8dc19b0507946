"""Names in certificates are those that Java prints, and mapping rules have Java's meaning.

The expectations were printed by Java 17 (X500Principal.getName) and Kafka 4.3.0 (SslPrincipalMapper).
"""

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given
from hypothesis import strategies as st

from kvorum.security.errors import AuthenticationError, SecurityConfigError
from kvorum.security.tls.names import NAME_BYTES_MAX, PrincipalMapper, distinguished_name
from kvorum.security.tls.server import TlsServer
from kvorum.security.tls.settings import TlsSettings
from tests.tls_certificates import issued, key_store

UTF8, PRINTABLE, T61, IA5, BMP, UNIVERSAL, OCTETS = 0x0C, 0x13, 0x14, 0x16, 0x1E, 0x1C, 0x04
CN, C, ORG, OU, L, ST, STREET = "550403", "550406", "55040a", "55040b", "550407", "550408", "550409"
UID, DC = "0992268993f22c640101", "0992268993f22c640119"
EMAIL, SERIAL, TITLE = "2a864886f70d010901", "550405", "55040c"
Attribute = tuple[str, int, bytes]


def tlv(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < 128:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + content


def certificate(*rdns: list[Attribute], version: bool = True) -> bytes:
    """As much of a certificate as is read: each RDN is a list of (OID in hex, tag, value)."""
    names = b"".join(
        tlv(0x31, b"".join(tlv(0x30, tlv(6, bytes.fromhex(oid)) + tlv(tag, value)) for oid, tag, value in rdn))
        for rdn in rdns
    )
    fields = tlv(0xA0, tlv(2, b"\2")) if version else b""
    fields += tlv(2, b"\1") + tlv(0x30, b"") * 3 + tlv(0x30, names) + tlv(0x30, b"")
    return tlv(0x30, tlv(0x30, fields) + tlv(0x30, b"") + tlv(3, b"\0"))


@pytest.mark.parametrize(
    ("rdns", "name"),
    [
        (
            [[(C, PRINTABLE, b"DE")], [(ORG, UTF8, b"Acme, Inc.")], [(OU, UTF8, b"a")], [(CN, UTF8, "näme".encode())]],
            "CN=näme,OU=a,O=Acme\\, Inc.,C=DE",
        ),
        ([[(ST, UTF8, b"s")], [(L, UTF8, b"l")], [(STREET, UTF8, b"Main St")]], "STREET=Main St,L=l,ST=s"),
        ([[(CN, UTF8, b"a"), (UID, UTF8, b"u1")]], "CN=a+UID=u1"),
        ([[(DC, IA5, b"example")], [(DC, IA5, b"com")]], "DC=com,DC=example"),
        ([[(CN, UTF8, b" lead and trail ")]], "CN=\\ lead and trail\\ "),
        ([[(CN, UTF8, b"  ")]], "CN=\\ \\ "),
        ([[(CN, UTF8, b"\r x \r")]], "CN=\\\r\\ x\\ \\\r"),
        ([[(CN, UTF8, b'#x#y=z+"q"\\<>;')]], 'CN=\\#x\\#y\\=z\\+\\"q\\"\\\\\\<\\>\\;'),
        ([[(CN, UTF8, b"a\0b")]], "CN=a\\00b"),
        ([[(CN, UTF8, b"")]], "CN="),
        ([[(CN, UTF8, "日本 €😀".encode())]], "CN=日本 €😀"),
        ([[(CN, UTF8, b"\xff\xfebad")]], "CN=\ufffd\ufffdbad"),
        ([[(EMAIL, IA5, b"a@b.c")]], "1.2.840.113549.1.9.1=#16056140622e63"),
        ([[(SERIAL, PRINTABLE, b"123")]], "2.5.4.5=#1303313233"),
        ([[(TITLE, UTF8, b"Dr")]], "2.5.4.12=#0c024472"),
        ([[("883705", UTF8, b"x")]], "2.999.5=#0c0178"),
        ([[(CN, T61, "é".encode("latin-1"))]], "CN=\ufffd"),
        ([[(CN, BMP, "añ".encode("utf-16-be"))]], "CN=\\00a\\00\ufffd"),
        ([[(CN, UNIVERSAL, "u".encode("utf-32-be"))]], "CN=#1c0400000075"),
        ([[(CN, OCTETS, b"\1\2")]], "CN=#04020102"),
        ([[(CN, UTF8, b"x" * 300)]], "CN=" + "x" * 300),
        ([], ""),
    ],
)
def test_names_are_printed_as_by_java(rdns: list[list[Attribute]], name: str) -> None:
    assert distinguished_name(certificate(*rdns)) == name
    assert distinguished_name(certificate(*rdns, version=False)) == name


@given(st.binary(max_size=60), st.integers(0, 60))
def test_a_malformed_certificate_is_an_authentication_error(noise: bytes, cut: int) -> None:
    whole = certificate([(CN, UTF8, b"name")])
    for data in (noise, whole[:cut], whole[:cut] + noise):
        try:
            distinguished_name(data)
        except AuthenticationError as error:
            assert "malformed" in str(error)


def test_a_very_long_name_is_refused() -> None:
    with pytest.raises(AuthenticationError, match="longer than"):
        distinguished_name(certificate([(CN, UTF8, b"x" * NAME_BYTES_MAX)]))


DUKE = "CN=Duke,OU=JavaSoft,O=Sun Microsystems"
KAFKA = "CN=kafka1.example.com,OU=SSL,O=Acme,C=DE"


@pytest.mark.parametrize(
    ("rules", "name", "mapped"),
    [
        ("DEFAULT", DUKE, DUKE),
        ("RULE:^CN=(.*?),.*$/$1/", KAFKA, "kafka1.example.com"),
        ("RULE:^CN=(.*?),.*$/$1/L", DUKE, "duke"),
        ("RULE:^CN=(.*?),.*$/$1/U", DUKE, "DUKE"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,DEFAULT", DUKE, DUKE),
        ("RULE:^CN=(.*?),OU=(.*?),.*$/$1@$2/L,RULE:^.*$/none/", DUKE, "duke@javasoft"),
        ("RULE:^UID=(.*?),.*$/$1/,RULE:^CN=(.*?),.*$/u-$1/", DUKE, "u-Duke"),
        ("  RULE:^CN=(.*?),.*$/$1/  ,  DEFAULT ", DUKE, "Duke"),
        # The whole must match, and then each match is replaced.
        ("RULE:.*/x/", DUKE, "xx"),
        ("RULE:^.*$/x/", DUKE, "x"),
        ("RULE:CN=(.*?)/$1/", DUKE, DUKE.removeprefix("CN=")),
        # Groups
        ("RULE:^CN=(\\w+).*$/$12/", DUKE, "Duke2"),
        ("RULE:^CN=(\\w+).*$/$01/", DUKE, "Duke"),
        ("RULE:^CN=(\\w+).*$/$1$4/", DUKE, "Duke$4"),
        ("RULE:^CN=\\w+.*$/$0!/", DUKE, f"{DUKE}!"),
        ("RULE:^CN=(?<n>.*?),.*$/${n}/", DUKE, "Duke"),
        ("RULE:^CN=([a-z]*)(\\d?).*$/[$1][$2]/", DUKE, "[][]"),
        # Escapes
        ("RULE:^CN=(\\w+).*$/\\$1/", DUKE, "$1"),
        ("RULE:^CN=(\\w+).*$/a\\/b/", DUKE, "a/b"),
        ("RULE:^CN=näÄme$/x/", "CN=näÄme", "x"),
    ],
)
def test_rules_map_names_as_in_kafka(rules: str, name: str, mapped: str) -> None:
    assert PrincipalMapper(rules).map_name(name) == mapped


@pytest.mark.parametrize("rules", ["", " , ,", "RULE:^UID=(.*?),.*$/$1/", "RULE:/x/"])
def test_a_name_that_no_rule_matches_fails_authentication(rules: str) -> None:
    with pytest.raises(AuthenticationError, match=r"no rule of ssl\.principal\.mapping\.rules matches CN=Duke"):
        PrincipalMapper(rules).map_name(DUKE)


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ("foo", "`foo` does not begin with DEFAULT or RULE:"),
        ("DEFAULTX", "`DEFAULTX` does not begin"),
        ("RULE:a/b", "`RULE:a/b` does not begin"),
        ("DEFAULT,RULE:a/b/X", "`RULE:a/b/X` does not begin"),
        ("RULE:a/b/LU", "does not begin"),
        ("RULE:[/x/", "pattern `[`: missing ]"),
        ("RULE:^CN=(?=D)(.*)$/$1/", "invalid perl operator"),
        ("RULE:^CN=(.*)$/$/", "$ needs the number of a group"),
        ("RULE:^CN=.*$/$1/", "the pattern has no group $1"),
        ("RULE:^CN=(.*)$/${x}/", "the pattern has no group x"),
    ],
)
def test_invalid_rules_are_refused(rules: str, reason: str) -> None:
    with pytest.raises(SecurityConfigError) as refused:
        PrincipalMapper(rules)
    assert str(refused.value).startswith("ssl.principal.mapping.rules: ")
    assert reason in str(refused.value)


def test_a_server_derives_the_principal_of_a_certificate() -> None:
    cert = issued("alice@example.com", common_name="alice")
    rules = "RULE:^CN=(.*?),.*$/$1/U,DEFAULT"
    server = TlsServer(TlsSettings(key_store=key_store(cert), principal_mapping_rules=rules))
    der = server.stores.key_store and server.stores.key_store.chain[0].public_bytes(Encoding.DER)
    assert str(server.principal_of(der)) == "User:ALICE"
    assert str(server.principal_of(None)) == "User:ANONYMOUS"
