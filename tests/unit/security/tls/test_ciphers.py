"""Cipher suites have IANA's names."""

import shutil
import ssl
import subprocess

import pytest

from kvorum.security.errors import SecurityConfigError
from kvorum.security.tls.ciphers import IANA_NAMES, TLS_1_2_SUITES, TLS_1_3_SUITES, apply_ciphers, choose_ciphers
from kvorum.security.tls.settings import TLS_1_2, TLS_1_3

BOTH = (TLS_1_2, TLS_1_3)
AES_256, CHACHA, AES_128 = TLS_1_3_SUITES
RSA, ECDSA = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
needs_new_python = pytest.mark.skipif(
    hasattr(ssl.SSLContext, "set_ciphersuites"), reason="this Python can set the suites of TLS 1.3"
)


@pytest.mark.parametrize(("iana", "openssl"), TLS_1_2_SUITES.items())
def test_openssl_has_every_suite_under_its_name(iana: str, openssl: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    apply_ciphers(context, choose_ciphers([iana], [TLS_1_2]))
    assert [each["name"] for each in context.get_ciphers() if each["protocol"] != TLS_1_3] == [openssl]


def test_names_are_those_of_the_openssl_command() -> None:
    if shutil.which("openssl") is None:
        pytest.skip("needs the openssl command")
    output = subprocess.run(
        ["openssl", "ciphers", "-stdname", "ALL"], capture_output=True, text=True, check=True
    ).stdout
    pairs = {line.split()[2]: line.split()[0] for line in output.splitlines()}
    assert {openssl: pairs.get(openssl) for openssl in IANA_NAMES} == IANA_NAMES


def test_no_list_is_the_librarys() -> None:
    assert choose_ciphers((), BOTH) == ("", (), BOTH)


@pytest.mark.parametrize(
    ("suites", "protocols", "usable"),
    [
        ((AES_256, RSA), BOTH, BOTH),
        ((RSA,), BOTH, (TLS_1_2,)),
        ((AES_256,), BOTH, (TLS_1_3,)),
        ((AES_256, RSA), (TLS_1_2,), (TLS_1_2,)),
        ((AES_128, RSA), (TLS_1_2,), (TLS_1_2,)),
    ],
)
def test_a_protocol_without_a_suite_is_not_used(
    suites: tuple[str, ...], protocols: tuple[str, ...], usable: tuple[str, ...]
) -> None:
    assert choose_ciphers(suites, protocols).protocols == usable


@pytest.mark.parametrize(
    ("suites", "protocols", "reason"),
    [
        (
            ("TLS_AES_256_GCM",),
            BOTH,
            "cipher suite TLS_AES_256_GCM is not supported; did you mean TLS_AES_256_GCM_SHA384",
        ),
        (("ECDHE-RSA-AES256-GCM-SHA384",), BOTH, f"its IANA name is {RSA}"),
        (("TLS_RSA_WITH_NULL_SHA256",), BOTH, "TLS_RSA_WITH_NULL_SHA256 is not supported; did you mean TLS_RSA_WITH_"),
        (("x",), BOTH, f"x is not supported; such as {AES_256}"),
        (("",), BOTH, "is not supported"),
        ((RSA,), (TLS_1_3,), "no suite in it is for TLSv1.3 (ssl.enabled.protocols)"),
        ((AES_256,), (TLS_1_2,), "no suite in it is for TLSv1.2 (ssl.enabled.protocols)"),
        pytest.param(
            (AES_128, RSA),
            BOTH,
            f"this Python cannot exclude {AES_256} from TLS 1.3; add it, or enable TLSv1.2 only",
            marks=needs_new_python,
        ),
    ],
)
def test_a_list_that_cannot_work_is_refused(suites: tuple[str, ...], protocols: tuple[str, ...], reason: str) -> None:
    with pytest.raises(SecurityConfigError) as refused:
        choose_ciphers(suites, protocols)
    assert str(refused.value).startswith("ssl.cipher.suites: ") and reason in str(refused.value)
