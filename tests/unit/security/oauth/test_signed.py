"""Signed tokens: signature, algorithm, key, times, issuer, audience, scope."""

import hmac
import json
from typing import Any

import pytest
from joserfc.jwk import RSAKey

from kvorum.security.oauth.jwks import ALGORITHMS, KeySet
from kvorum.security.oauth.signed import ClaimRules, SignedValidator
from kvorum.security.oauth.tokens import BearerToken, TokenRejected, encode_base64
from tests.unit.security.oauth.oauth_kit import (
    ALGORITHM_KEYS,
    ISSUER,
    NOW_S,
    Key,
    claims,
    key_set,
    part,
    signed,
    signing_key,
    unsigned,
)
from tests.unit.security.sasl.sasl_kit import WALL_MS, finish


class Keys:
    """Fixed keys."""

    def __init__(self, *keys: Key, issuer: str | None = None) -> None:
        self.present = KeySet.parse(key_set(*keys))
        self.issuer = issuer
        self.missing: list[str] = []

    def report_missing(self, key_id: str) -> None:
        self.missing.append(key_id)


def validate(token: str, keys: Keys | None = None, **rules: Any) -> BearerToken:
    validator = SignedValidator(keys or Keys(signing_key()), ClaimRules(**rules), lambda: WALL_MS)
    found = finish(validator(token))
    assert isinstance(found, BearerToken)
    return found


@pytest.mark.parametrize("algorithm", ALGORITHM_KEYS)
def test_a_signed_token_is_valid(algorithm: str) -> None:
    assert algorithm in ALGORITHMS
    token = signed(claims(scope=["a", "b"]), algorithm=algorithm)
    keys = Keys(signing_key("ES256", 7), signing_key(algorithm))
    assert validate(token, keys) == BearerToken("alice", (NOW_S + 3600) * 1000, frozenset({"a", "b"}))
    assert validate(signed(algorithm=algorithm, kid=None), keys).principal_name == "alice"


@pytest.mark.parametrize("algorithm", ALGORITHM_KEYS)
def test_a_token_of_another_key_is_rejected(algorithm: str) -> None:
    stranger = signing_key(algorithm, 1)
    for kid in (signing_key(algorithm).kid, None):
        with pytest.raises(TokenRejected, match="no key of the issuer has this signature"):
            validate(signed(algorithm=algorithm, key=stranger, kid=kid), Keys(signing_key(algorithm)))


def test_a_changed_token_is_rejected() -> None:
    head, body, signature = signed().split(".")
    for changed in (
        f"{head}.{part(claims(sub='admin'))}.{signature}",
        f"{head}.{body}.{signature[:-4]}AAAA",
        f"{head}.{body}.{signature[:-8]}",
    ):
        with pytest.raises(TokenRejected, match="signature"):
            validate(changed)


def test_a_token_without_signature_is_rejected() -> None:
    head, body, _ = signed().split(".")
    none, algorithms = part({"alg": "none"}), [part({"alg": name}) for name in ("None", "nOnE", "HS1", "", 5, None)]
    for token in (
        unsigned(),
        f"{head}.{body}.",
        f"{none}.{body}.AAAA",
        *(f"{each}.{body}.AAAA" for each in algorithms),
    ):
        with pytest.raises(TokenRejected):
            validate(token)


def test_the_public_key_is_no_secret() -> None:
    """A token signed by HMAC with the issuer's public key as the secret."""
    key = signing_key("RS256")
    assert isinstance(key, RSAKey)
    data = f"{part({'alg': 'HS256', 'kid': key.kid})}.{part(claims())}"
    signature = hmac.digest(key.as_pem(private=False), data.encode(), "sha256")
    with pytest.raises(TokenRejected, match="signature"):
        validate(f"{data}.{encode_base64(signature)}", Keys(key))


@pytest.mark.parametrize(
    ("published", "algorithm"),
    [
        ({"use": "enc"}, "ES256"),
        ({"alg": "ES384"}, "ES256"),
        ({"key_ops": ["sign"]}, "ES256"),
    ],
)
def test_a_key_for_another_purpose_is_not_used(published: dict[str, Any], algorithm: str) -> None:
    key = signing_key(algorithm)
    keys = Keys(key)
    keys.present = KeySet.parse(json.dumps({"keys": [key.as_dict(private=False) | published]}).encode())
    with pytest.raises(TokenRejected, match="signature"):
        validate(signed(), keys)


def test_an_algorithm_of_another_curve_is_rejected() -> None:
    with pytest.raises(TokenRejected):
        validate(signed(key=signing_key("ES256")), Keys(signing_key("ES384")))
    with pytest.raises(TokenRejected, match="signature"):
        validate(signed(kid=signing_key("ES384").kid), Keys(signing_key("ES384")))


def test_an_unknown_key_is_reported() -> None:
    keys = Keys(signing_key())
    with pytest.raises(TokenRejected, match="no key 'ES256-1'"):
        validate(signed(key=signing_key("ES256", 1)), keys)
    assert keys.missing == ["ES256-1"]


@pytest.mark.parametrize("header", [{"crit": ["b64"], "b64": False}, {"crit": []}, {"kid": 5}, {"kid": ["a"]}], ids=str)
def test_headers_that_are_not_supported(header: dict[str, Any]) -> None:
    with pytest.raises(TokenRejected, match="header"):
        validate(signed(**header))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"exp": None}, "exp is missing"),
        ({"iat": None}, "iat is missing"),
        ({"exp": NOW_S - 30}, "expired 30 s ago"),
        ({"exp": NOW_S - 3600}, "expired"),
        ({"nbf": NOW_S + 31}, "not valid before"),
        ({"iat": NOW_S + 7200}, "before it was issued"),
        ({"nbf": NOW_S + 10, "exp": NOW_S + 5}, "before it was issued"),
        ({"sub": None}, "sub"),
        ({"sub": "  "}, "sub"),
        ({"aud": "kafka"}, "audience is not set"),
        ({"scope": ["a", "a "]}, "duplicates"),
        ({"scope": 5}, "scope"),
        ({"exp": "x"}, "exp is not a number"),
    ],
    ids=str,
)
def test_invalid_claims_are_rejected(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(TokenRejected, match=reason):
        validate(signed(claims(**changes)))


def test_times_within_the_clock_skew_are_valid() -> None:
    assert validate(signed(claims(iat=NOW_S - 60, exp=NOW_S - 29))).expires_at_ms == (NOW_S - 29) * 1000
    validate(signed(claims(nbf=NOW_S + 30)))
    validate(signed(claims(iat=NOW_S + 600)))  # as in Kafka
    with pytest.raises(TokenRejected):
        validate(signed(claims(exp=NOW_S - 1)), clock_skew_ms=0)


@pytest.mark.parametrize(
    ("audience", "is_valid"),
    [("kafka", True), (["x", "kafka"], True), ("x", False), (["x"], False), (None, False), (5, False), ([5], False)],
)
def test_one_expected_audience_is_required(audience: Any, is_valid: bool) -> None:
    token, rules = signed(claims(aud=audience)), {"audiences": frozenset({"kafka", "other"})}
    if is_valid:
        assert validate(token, **rules)
        return
    with pytest.raises(TokenRejected, match="audience"):
        validate(token, **rules)


def test_the_issuer_is_compared_if_it_is_known() -> None:
    keys = Keys(signing_key(), issuer=ISSUER)
    assert validate(signed(claims(iss=ISSUER)), keys)
    for issuer in (None, ISSUER + "x", ISSUER.upper(), [ISSUER]):
        with pytest.raises(TokenRejected, match="issuer"):
            validate(signed(claims(iss=issuer)), keys)
    assert validate(signed(claims(iss="any")))


def test_the_claims_of_principal_and_scope_are_configurable() -> None:
    token = signed(claims(sub=None, email=" a@b ", groups="one two"))
    found = validate(token, principal_claim="email", scope_claim="groups")
    assert (found.principal_name, found.scope) == ("a@b", {"one two"})
