"""From Kerberos principals to users, by Kafka's rules."""

import pytest

from kvorum.security.errors import AuthenticationError, SecurityConfigError
from kvorum.security.sasl.kerberos_names import KerberosNames


@pytest.mark.parametrize(
    ("rules", "principal", "user"),
    [
        (["DEFAULT"], "alice@EXAMPLE", "alice"),
        (["DEFAULT"], "kafka/host@EXAMPLE", "kafka"),
        (["DEFAULT"], "alice", "alice"),
        (["DEFAULT/L"], "Alice@EXAMPLE", "alice"),
        (["RULE:[1:$1]"], "alice@OTHER", "alice"),
        (["RULE:[1:$1]", "DEFAULT"], "kafka/host@EXAMPLE", "kafka"),
        (["RULE:[2:$1.$2]"], "kafka/host@OTHER", "kafka.host"),
        (["RULE:[1:$1@$0](.*@OTHER)s/@.*//", "DEFAULT"], "bob@OTHER", "bob"),
        (["RULE:[1:$1@$0](.*@OTHER)s/@.*//", "DEFAULT"], "bob@EXAMPLE", "bob"),
        (["RULE:[1:$1](App\\..*)s/App\\.(.*)/$1/g"], "App.service-name@X", "service-name"),
        (["RULE:[1:$1]s/a/b/"], "aaa@X", "baa"),
        (["RULE:[1:$1]s/a/b/g"], "aaa@X", "bbb"),
        (["RULE:[1:$1]/L"], "ALICE@X", "alice"),
        (["RULE:[1:$1]s/a/b/g/U"], "aaa@X", "BBB"),
        ([" RULE:[2:$2] ", "RULE:[1:$0]"], "alice@REALM", "REALM"),
    ],
)
def test_the_first_rule_that_applies_counts(rules: list[str], principal: str, user: str) -> None:
    assert KerberosNames(rules, "EXAMPLE").user(principal) == user


@pytest.mark.parametrize(
    ("rules", "principal", "reason"),
    [
        (["DEFAULT"], "alice@OTHER", "no rule"),
        (["RULE:[2:$1]"], "alice@EXAMPLE", "no rule"),
        (["RULE:[1:$1](b.*)", "RULE:[1:$1](xalice)"], "alice@EXAMPLE", "no rule"),
        (["RULE:[1:$1@$0]"], "alice@EXAMPLE", "which has / or @"),
        (["RULE:[2:$1/$2]"], "kafka/host@EXAMPLE", "which has / or @"),
        (["DEFAULT"], "a/b/c@EXAMPLE", "malformed"),
        (["DEFAULT"], "a@b@EXAMPLE", "malformed"),
        (["RULE:[1:$1]s/.*//"], "alice@EXAMPLE", "no rule"),
    ],
)
def test_a_principal_without_a_user_is_rejected(rules: list[str], principal: str, reason: str) -> None:
    with pytest.raises(AuthenticationError, match=reason):
        KerberosNames(rules, "EXAMPLE").user(principal)


@pytest.mark.parametrize(
    "rule",
    [
        "",
        "default",
        "RULE:",
        "RULE:[1:$1",
        "RULE:[:$1]",
        "RULE:[1:$2]",
        "RULE:[1:$]",
        "RULE:[1:$1](()",
        "RULE:[1:$1]s/(/x/",
        "RULE:[1:$1]s/a/$1/",
        "RULE:[1:$1]s/a/b",
        "RULE:[1:$1] and more",
        "RULE:[1:$1]/X",
    ],
)
def test_an_invalid_rule_is_an_error_of_the_configuration(rule: str) -> None:
    with pytest.raises(SecurityConfigError, match=r"sasl\.kerberos\.principal\.to\.local\.rules"):
        KerberosNames([rule], "EXAMPLE")
