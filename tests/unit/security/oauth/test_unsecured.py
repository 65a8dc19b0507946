"""Tokens without a signature: claims, times, scope."""

from typing import Any

import pytest

from kvorum.security.oauth.tokens import BearerToken, TokenRejected, encode_base64
from kvorum.security.oauth.unsecured import UnsecuredValidator, make_unsecured_token
from tests.unit.security.oauth.oauth_kit import NOW_S, claims, part, unsigned
from tests.unit.security.sasl.sasl_kit import WALL_MS, finish

NOT_A_NUMBER = b'{"sub":"a","exp":NaN}'


def validate(token: str, **options: str) -> BearerToken:
    found = finish(UnsecuredValidator(options, lambda: WALL_MS)(token))
    assert isinstance(found, BearerToken)
    return found


def test_a_valid_token_names_its_principal() -> None:
    assert validate(unsigned()) == BearerToken("alice", (NOW_S + 3600) * 1000)
    assert validate(unsigned(claims(iat=None, scope="a b"))).scope == {"a b"}
    assert validate(unsigned(claims(scope=[" a", "b "]))).scope == {"a", "b"}
    assert validate(unsigned(claims(user="bob")), unsecuredValidatorPrincipalClaimName="user").principal_name == "bob"
    assert validate(unsigned(claims(exp=NOW_S + 0.5))).expires_at_ms == WALL_MS + 500


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"sub": None}, "sub"),
        ({"sub": " "}, "sub"),
        ({"sub": 5}, "sub"),
        ({"exp": None}, "exp is missing"),
        ({"exp": "soon"}, "exp is not a number"),
        ({"exp": True}, "exp is not a number"),
        ({"exp": 1e300}, "exp is out of range"),
        ({"exp": NOW_S}, "expired"),
        ({"exp": NOW_S - 1, "iat": NOW_S - 10}, "expired"),
        ({"iat": NOW_S + 1}, "in the future"),
        ({"iat": "now"}, "iat is not a number"),
        ({"scope": {"a": 1}}, "scope"),
        ({"scope": ["a", 1]}, "scope"),
    ],
    ids=str,
)
def test_invalid_claims_are_rejected(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(TokenRejected, match=reason):
        validate(unsigned(claims(**changes)))


def test_the_clock_skew_counts_for_both_times() -> None:
    skew = {"unsecuredValidatorAllowableClockSkewMs": "2000"}
    validate(unsigned(claims(exp=NOW_S - 1)), **skew)
    validate(unsigned(claims(iat=NOW_S + 2)), **skew)
    for wrong in ({"exp": NOW_S - 2}, {"iat": NOW_S + 3}):
        with pytest.raises(TokenRejected):
            validate(unsigned(claims(**wrong)), **skew)
    with pytest.raises(TokenRejected, match="before it was issued"):
        validate(unsigned(claims(exp=NOW_S, iat=NOW_S)), **skew)


def test_a_missing_scope_is_named() -> None:
    required = {"unsecuredValidatorRequiredScope": "a b"}
    validate(unsigned(claims(scope=["b", "a", "c"])), **required)
    with pytest.raises(TokenRejected) as caught:
        validate(unsigned(claims(scope="a b")), **required)
    assert caught.value.missing_scope == "[a, b]"


@pytest.mark.parametrize(
    "token",
    [
        "",
        "a.b",
        "..",
        f"{part({'alg': 'none'})}..",
        unsigned() + "AA",
        unsigned()[:-1],
        unsigned() + ".",
        unsigned(header={"alg": "HS256"}),
        unsigned(header={"typ": "JWT"}),
        unsigned(header=[1]),
        unsigned(body=[1]),
        f"{part({'alg': 'none'})}.{encode_base64(b'{')}.",
        f"{part({'alg': 'none'})}.{encode_base64(b'[' * 100_000)}.",
        f"{part({'alg': 'none'})}.{encode_base64(bytes([255]))}.",
        f"{part({'alg': 'none'})}.{encode_base64(NOT_A_NUMBER)}.",
        f"{part({'alg': 'none'})}.+/+/.",
        "x" * 100_000,
    ],
    ids=lambda token: token[:30],
)
def test_a_malformed_token_is_rejected_without_being_shown(token: str) -> None:
    with pytest.raises(TokenRejected) as caught:
        validate(token)
    assert not any(piece in str(caught.value) for piece in token.split(".") if len(piece) > 3)


def test_a_wrong_skew_is_an_error_of_the_configuration() -> None:
    with pytest.raises(ValueError, match="AllowableClockSkewMs"):
        UnsecuredValidator({"unsecuredValidatorAllowableClockSkewMs": "1s"}, lambda: 0)


def test_a_made_token_is_valid() -> None:
    options = {
        "unsecuredLoginStringClaim_sub": "bob",
        "unsecuredLoginNumberClaim_level": "3",
        "unsecuredLoginListClaim_scope": "|a|b",
        "unsecuredLoginLifetimeSeconds": "60",
    }
    found = validate(make_unsecured_token(options, WALL_MS))
    assert found == BearerToken("bob", WALL_MS + 60_000, frozenset({"a", "b"}))
    for wrong in ({}, {"unsecuredLoginStringClaim_sub": "x", "unsecuredLoginLifetimeSeconds": "long"}):
        with pytest.raises(ValueError, match="unsecuredLogin"):
            make_unsecured_token(wrong, WALL_MS)
