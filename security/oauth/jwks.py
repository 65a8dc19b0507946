"""The keys of an issuer (RFC 7517), and the choice of the one that signed a token. Sans-IO."""

import json
from collections import OrderedDict
from typing import Final, TypeAlias

from joserfc.errors import JoseError
from joserfc.jwk import ECKey, JWKRegistry, OctKey, OKPKey, RSAKey
from joserfc.jws import JWSRegistry

from kvorum.security.oauth.tokens import decode_base64

Key: TypeAlias = OctKey | RSAKey | ECKey | OKPKey

KEYS_MAX: Final = 100
"""Keys of an issuer; providers have fewer than ten."""
KEYS_TRIED_MAX: Final = 8
"""Keys that are tried for a token which names none."""
KEY_ID_CHARS_MAX: Final = 1000
"""A longer key id is not looked for at the issuer."""
MISSING_IDS_MAX: Final = 16
"""Unknown key ids that are remembered."""
MISSING_ID_INTERVAL_S: Final = 60.0
"""The keys are fetched at most so often because of the same unknown id."""
FETCH_INTERVAL_S: Final = 5.0
"""The keys are fetched at most so often because of unknown ids, which any client can send."""
KINDS: Final = ("RS", "PS", "ES", "HS")
ALGORITHMS: Final = ("EdDSA", "Ed25519", *(f"{kind}{bits}" for kind in KINDS for bits in (256, 384, 512)))
RSA_BITS_MIN: Final = 2048
SECRET_BYTES_MIN: Final = 32


class KeySetError(Exception):
    """The text is no key set. The message is the reason."""


class KeySet:
    """The keys of one issuer."""

    __slots__ = ("_keys",)

    def __init__(self, keys: list[Key]) -> None:
        """Hold the keys, in the order of the issuer."""
        self._keys = keys

    @classmethod
    def parse(cls, text: bytes) -> "KeySet":
        """Read a JSON Web Key Set; keys of unknown types are left out. Raises KeySetError."""
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            raise KeySetError("it is not JSON") from None
        entries = found.get("keys") if isinstance(found, dict) else None
        if not isinstance(entries, list):
            raise KeySetError("it is not a JSON Web Key Set: it has no list of keys")
        if len(entries) > KEYS_MAX:
            raise KeySetError(f"it has {len(entries)} keys, more than {KEYS_MAX}")
        keys = [key for entry in entries if (key := _import(entry)) is not None]
        if not keys:
            raise KeySetError("it has no key that can verify signatures")
        return cls(keys)

    def __len__(self) -> int:
        """Return the number of keys."""
        return len(self._keys)

    def has(self, key_id: str) -> bool:
        """Return whether a key has this id."""
        return any(key.kid == key_id for key in self._keys)

    def verify(self, algorithm: str, key_id: str | None, data: bytes, signature: bytes) -> bool:
        """Return whether a key of this algorithm, and this id if there is one, has signed the data."""
        assert algorithm in ALGORITHMS
        named = [key for key in self._keys if key_id in (None, key.kid)]
        fitting = [key for key in named if _fits(key, algorithm)]
        return any(_has_signed(key, algorithm, data, signature) for key in fitting[:KEYS_TRIED_MAX])


def _import(entry: object) -> Key | None:
    """Return a key that is strong enough, None for all others."""
    if not isinstance(entry, dict):
        return None
    try:
        if entry["kty"] == "oct" and len(decode_base64(entry["k"])) < SECRET_BYTES_MIN:
            return None
        if entry["kty"] == "RSA" and int.from_bytes(decode_base64(entry["n"])).bit_length() < RSA_BITS_MIN:
            return None
        return JWKRegistry.import_key(entry)
    except (JoseError, ValueError, TypeError, KeyError, AttributeError):  # cryptography's, for numbers that are no key
        return None


def _fits(key: Key, algorithm: str) -> bool:
    """Return whether a key is of an algorithm's type and curve, and may verify its signatures."""
    try:
        JWSRegistry.algorithms[algorithm].check_key(key)
        key.check_key_op("verify")
    except JoseError:
        return False
    return True


def _has_signed(key: Key, algorithm: str, data: bytes, signature: bytes) -> bool:
    try:
        return JWSRegistry.algorithms[algorithm].verify(data, signature, key)
    except (JoseError, ValueError):
        return False


class MissingKeyIds:
    """Unknown key ids of tokens: each causes one fetch of the keys per minute."""

    __slots__ = ("_fetched_at_s", "_reported_at_s")

    def __init__(self) -> None:
        """Remember none."""
        self._fetched_at_s = float("-inf")
        self._reported_at_s: OrderedDict[str, float] = OrderedDict()

    def must_fetch(self, key_id: str, now_s: float) -> bool:
        """Return whether the keys are to be fetched because of this id, and remember it."""
        if len(key_id) > KEY_ID_CHARS_MAX or now_s < self._fetched_at_s + FETCH_INTERVAL_S:
            return False
        before_s = self._reported_at_s.get(key_id)
        if before_s is not None and now_s < before_s + MISSING_ID_INTERVAL_S:
            return False
        self._fetched_at_s = self._reported_at_s[key_id] = now_s
        self._reported_at_s.move_to_end(key_id)
        while len(self._reported_at_s) > MISSING_IDS_MAX:
            self._reported_at_s.popitem(last=False)
        return True
