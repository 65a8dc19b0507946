"""Tokens without a signature: any client can make one, so they are for tests only. Sans-IO.

Source: Kafka's OAuthBearerUnsecuredValidatorCallbackHandler and OAuthBearerUnsecuredLoginCallbackHandler, whose JAAS
options these are.
"""

import json
from collections.abc import Callable, Mapping
from typing import Final

from kvorum.security.oauth.tokens import (
    BearerToken,
    TokenRejected,
    decode_object,
    encode_base64,
    principal_claim,
    required_time,
    scope_claim,
    split_token,
    time_claim,
)

VALIDATOR_OPTION: Final = "unsecuredValidator"
LOGIN_OPTION: Final = "unsecuredLogin"
STRING_CLAIM, NUMBER_CLAIM, LIST_CLAIM = "StringClaim_", "NumberClaim_", "ListClaim_"
LIFETIME_SECONDS: Final = 3600


class UnsecuredValidator:
    """A TokenValidator."""

    __slots__ = ("_principal_claim", "_required_scope", "_scope_claim", "_skew_ms", "_wall_ms")

    def __init__(self, options: Mapping[str, str], wall_ms: Callable[[], int]) -> None:
        """Use the JAAS options. Raises ValueError with the reason."""
        self._wall_ms = wall_ms
        self._principal_claim = options.get(f"{VALIDATOR_OPTION}PrincipalClaimName") or "sub"
        self._scope_claim = options.get(f"{VALIDATOR_OPTION}ScopeClaimName") or "scope"
        self._required_scope = options.get(f"{VALIDATOR_OPTION}RequiredScope", "").split()
        skew = options.get(f"{VALIDATOR_OPTION}AllowableClockSkewMs") or "0"
        if not skew.isdecimal():
            raise ValueError(f"{VALIDATOR_OPTION}AllowableClockSkewMs is not a number of milliseconds")
        self._skew_ms = int(skew)

    async def __call__(self, token: str) -> BearerToken:
        """Validate a token."""
        header, body, signature = split_token(token)
        if not body or signature:
            raise TokenRejected("an unsecured token has claims and no signature")
        if decode_object(header, "header").get("alg") != "none":
            raise TokenRejected("algorithm is not none")
        claims = decode_object(body, "claims")
        now_ms = self._wall_ms()
        principal = principal_claim(claims, self._principal_claim)
        issued_ms, expires_ms = time_claim(claims, "iat"), required_time(claims, "exp")
        if issued_ms is not None and issued_ms > now_ms + self._skew_ms:
            raise TokenRejected("issued in the future")
        if now_ms - self._skew_ms >= expires_ms:
            raise TokenRejected("expired")
        if issued_ms is not None and expires_ms <= issued_ms:
            raise TokenRejected("expires before it was issued")
        scope = frozenset(scope_claim(claims, self._scope_claim))
        if not scope.issuperset(self._required_scope):
            raise TokenRejected("a required scope is missing", f"[{', '.join(self._required_scope)}]")
        return BearerToken(principal, expires_ms, scope)


def make_unsecured_token(options: Mapping[str, str], wall_ms: int) -> str:
    """Return a token with the claims of the JAAS options, valid from now on. Raises ValueError with the reason."""
    claims: dict[str, object] = {"iat": wall_ms / 1000}
    claims["exp"] = wall_ms / 1000 + _number(options, f"{LOGIN_OPTION}LifetimeSeconds", LIFETIME_SECONDS)
    for key, value in options.items():
        kind = key.removeprefix(LOGIN_OPTION)
        if kind.startswith(STRING_CLAIM):
            claims[kind.removeprefix(STRING_CLAIM)] = value
        elif kind.startswith(NUMBER_CLAIM):
            claims[kind.removeprefix(NUMBER_CLAIM)] = _number(options, key, 0)
        elif kind.startswith(LIST_CLAIM):
            # The first character separates the entries.
            claims[kind.removeprefix(LIST_CLAIM)] = value[1:].split(value[0]) if value else []
    name = options.get(f"{LOGIN_OPTION}PrincipalClaimName") or "sub"
    if not isinstance(claims.get(name), str):
        raise ValueError(f"{LOGIN_OPTION}{STRING_CLAIM}{name} is missing")
    parts = (json.dumps(each, separators=(",", ":")).encode() for each in ({"alg": "none"}, claims))
    return ".".join([*map(encode_base64, parts), ""])


def _number(options: Mapping[str, str], key: str, default: float) -> float:
    try:
        return float(options.get(key) or default)
    except ValueError:
        raise ValueError(f"{key} is not a number") from None
