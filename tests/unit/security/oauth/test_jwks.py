"""Key sets, and how often keys are fetched because of unknown ids."""

import json
import warnings
from typing import Any

import pytest
from joserfc.jwk import OctKey, RSAKey

from kvorum.security.oauth.jwks import (
    FETCH_INTERVAL_S,
    KEY_ID_CHARS_MAX,
    KEYS_MAX,
    MISSING_ID_INTERVAL_S,
    MISSING_IDS_MAX,
    KeySet,
    KeySetError,
    MissingKeyIds,
)
from tests.unit.security.oauth.oauth_kit import key_set, signing_key

GOOD = signing_key().as_dict(private=False)
UNUSABLE: list[Any] = [
    5,
    {},
    {"kty": "ML-DSA"},
    {"kty": ["RSA"]},
    {"kty": "RSA"},
    {"kty": "RSA", "n": 5, "e": "AQAB"},
    {"kty": "RSA", "n": "AQAB", "e": "AQAB"},
    {"kty": "EC", "crv": "P-999", "x": "AA", "y": "AA"},
    {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"},
    {"kty": "oct", "k": "AA"},
    {"kty": "oct", "k": 5},
    {"kty": "oct"},
]


def test_keys_that_cannot_be_used_are_left_out() -> None:
    keys = KeySet.parse(json.dumps({"keys": [*UNUSABLE, GOOD]}).encode())
    assert len(keys) == 1
    assert keys.has("ES256-0")
    assert not keys.has("x")


def test_weak_keys_are_left_out() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        weak = [RSAKey.generate_key(1024), OctKey.generate_key(248)]
    assert len(KeySet.parse(key_set(*weak, RSAKey.generate_key(2048), OctKey.generate_key(256)))) == 2


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"<html>", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[]", "no list of keys"),
        (b"{}", "no list of keys"),
        (b'{"keys":{}}', "no list of keys"),
        (b'{"keys":[]}', "no key that can verify"),
        (json.dumps({"keys": UNUSABLE}).encode(), "no key that can verify"),
        (json.dumps({"keys": [GOOD] * (KEYS_MAX + 1)}).encode(), "101 keys, more than 100"),
        (b"[" * 100_000, "not JSON"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_text_that_is_no_key_set_is_an_error(text: bytes, reason: str) -> None:
    with pytest.raises(KeySetError, match=reason):
        KeySet.parse(text)


def test_an_unknown_id_causes_one_fetch_per_minute() -> None:
    missing = MissingKeyIds()
    assert missing.must_fetch("a", 100.0)
    assert not missing.must_fetch("a", 100.0 + MISSING_ID_INTERVAL_S - 0.1)
    assert missing.must_fetch("a", 100.0 + MISSING_ID_INTERVAL_S)


def test_unknown_ids_together_cause_one_fetch_per_interval() -> None:
    missing = MissingKeyIds()
    assert [missing.must_fetch(str(number), 100.0) for number in range(5)] == [True] + [False] * 4
    assert missing.must_fetch("other", 100.0 + FETCH_INTERVAL_S)
    assert not missing.must_fetch("x" * (KEY_ID_CHARS_MAX + 1), 1000.0)
    assert missing.must_fetch("x" * KEY_ID_CHARS_MAX, 1000.0)


def test_a_limited_number_of_ids_is_remembered() -> None:
    missing = MissingKeyIds()
    for number in range(100):
        missing.must_fetch(str(number), number * FETCH_INTERVAL_S)
    assert len(missing._reported_at_s) == MISSING_IDS_MAX
