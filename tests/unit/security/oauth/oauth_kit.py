"""Issuers and tokens."""

import json
from functools import cache
from typing import Any

from joserfc.jwk import ECKey, JWKRegistry, OctKey, OKPKey, RSAKey
from joserfc.jws import JWSRegistry

from kvorum.security.oauth.tokens import encode_base64
from tests.unit.security.sasl.sasl_kit import WALL_MS

NOW_S = WALL_MS // 1000
ISSUER = "https://issuer.test/"
ALGORITHM_KEYS = {
    "RS256": ("RSA", 2048),
    "RS384": ("RSA", 2048),
    "RS512": ("RSA", 2048),
    "PS256": ("RSA", 2048),
    "PS512": ("RSA", 2048),
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
    "EdDSA": ("OKP", "Ed25519"),
    "Ed25519": ("OKP", "Ed25519"),
    "HS256": ("oct", 512),
}
Key = RSAKey | ECKey | OKPKey | OctKey


def signing_key(algorithm: str = "ES256", number: int = 0) -> Key:
    """Return a key of an algorithm's type; its id has the number."""
    return _key(algorithm, number)


@cache
def _key(algorithm: str, number: int) -> Key:
    kind, size = ALGORITHM_KEYS[algorithm]
    return JWKRegistry.generate_key(kind, size, {"kid": f"{algorithm}-{number}"})


def key_set(*keys: Key) -> bytes:
    """Return the published form of keys."""
    return json.dumps({"keys": [key.as_dict(private=key.key_type == "oct") for key in keys]}).encode()


def claims(**changes: Any) -> dict[str, Any]:
    """Return valid claims; None removes one."""
    found = {"sub": "alice", "iat": NOW_S - 10, "exp": NOW_S + 3600, **changes}
    return {name: value for name, value in found.items() if value is not None}


def part(value: object) -> str:
    return encode_base64(json.dumps(value).encode())


def signed(
    body: dict[str, Any] | None = None, *, algorithm: str = "ES256", key: Key | None = None, **header: Any
) -> str:
    """Return a signed token."""
    key = key or signing_key(algorithm)
    head = {"alg": algorithm, "kid": key.kid, **header}
    data = f"{part({name: value for name, value in head.items() if value is not None})}.{part(body or claims())}"
    return f"{data}.{encode_base64(JWSRegistry.algorithms[algorithm].sign(data.encode(), key))}"


def unsigned(body: object = None, header: object = None) -> str:
    """Return a token without signature."""
    return f"{part(header or {'alg': 'none'})}.{part(claims() if body is None else body)}."
