"""Validation of signed tokens (KIP-768): signature, times, issuer, audience, subject, scope. Sans-IO.

Source: Kafka's BrokerJwtValidator, with jose4j's rules.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from kvorum.security.oauth.jwks import ALGORITHMS, KeySet
from kvorum.security.oauth.tokens import (
    BearerToken,
    Claims,
    TokenRejected,
    decode_base64,
    decode_object,
    principal_claim,
    required_time,
    scope_claim,
    split_token,
    time_claim,
)

CLOCK_SKEW_SECONDS: Final = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRules:
    """The values of `sasl.oauthbearer.*` for claims."""

    clock_skew_ms: int = CLOCK_SKEW_SECONDS * 1000
    audiences: frozenset[str] = frozenset()
    """One of them must be in the token; empty: the token must have none."""
    scope_claim: str = "scope"
    principal_claim: str = "sub"


class Keys(Protocol):
    """The keys of the issuer."""

    @property
    def present(self) -> KeySet:
        """The newest keys."""
        ...

    @property
    def issuer(self) -> str | None:
        """The name of the issuer that a token must have; None: any."""
        ...

    def report_missing(self, key_id: str) -> None:
        """A token names a key that the issuer does not have, as far as known."""
        ...


class SignedValidator:
    """A TokenValidator."""

    __slots__ = ("_keys", "_rules", "_wall_ms")

    def __init__(self, keys: Keys, rules: ClaimRules, wall_ms: Callable[[], int]) -> None:
        """Verify with the keys of one issuer."""
        self._keys = keys
        self._rules = rules
        self._wall_ms = wall_ms

    async def __call__(self, token: str) -> BearerToken:
        """Validate a token; one that names an unknown key is rejected while the keys are fetched."""
        header_part, body, signature_part = split_token(token)
        if not (header_part and body and signature_part):
            raise TokenRejected("a part of the token is empty")
        self._verify(decode_object(header_part, "header"), f"{header_part}.{body}".encode(), signature_part)
        return validate_claims(decode_object(body, "claims"), self._rules, self._keys.issuer, self._wall_ms())

    def _verify(self, header: Claims, data: bytes, signature_part: str) -> None:
        algorithm, key_id = header.get("alg"), header.get("kid")
        if algorithm not in ALGORITHMS:
            raise TokenRejected(f"algorithm {str(algorithm)[:20]!r} is not one of {', '.join(ALGORITHMS)}")
        if "crit" in header:
            raise TokenRejected("header crit is not supported")
        if not (key_id is None or isinstance(key_id, str)):
            raise TokenRejected("header kid is not a text")
        try:
            signature = decode_base64(signature_part)
        except ValueError:
            raise TokenRejected("signature is not base64url") from None
        keys = self._keys.present
        if key_id is not None and not keys.has(key_id):
            self._keys.report_missing(key_id)
            raise TokenRejected(f"the issuer has no key {key_id[:100]!r}")
        if not keys.verify(algorithm, key_id, data, signature):
            raise TokenRejected("no key of the issuer has this signature")


def validate_claims(claims: Claims, rules: ClaimRules, issuer: str | None, now_ms: int) -> BearerToken:
    """Return the token of verified claims; `issuer` is the required one, None: any. Raises TokenRejected."""
    skew_ms = rules.clock_skew_ms
    expires_ms, issued_ms = required_time(claims, "exp"), required_time(claims, "iat")
    not_before_ms = time_claim(claims, "nbf")
    if now_ms - skew_ms >= expires_ms:
        raise TokenRejected(f"expired {(now_ms - expires_ms) // 1000} s ago")
    if not_before_ms is not None and now_ms + skew_ms < not_before_ms:
        raise TokenRejected(f"not valid before {(not_before_ms - now_ms) // 1000} s from now")
    if expires_ms < issued_ms or (not_before_ms is not None and expires_ms < not_before_ms):
        raise TokenRejected("expires before it was issued or valid")
    if issuer is not None and claims.get("iss") != issuer:
        raise TokenRejected(f"issuer is not {issuer}")
    _check_audience(claims, rules)
    scope = scope_claim(claims, rules.scope_claim)
    if len(set(scope)) != len(scope):
        raise TokenRejected(f"claim {rules.scope_claim} has duplicates")
    return BearerToken(principal_claim(claims, rules.principal_claim), expires_ms, frozenset(scope))


def _check_audience(claims: Claims, rules: ClaimRules) -> None:
    found = claims.get("aud")
    audiences = [found] if isinstance(found, str) else found
    if audiences is None and not rules.audiences:
        return
    if not rules.audiences:
        raise TokenRejected("claim aud is present, and sasl.oauthbearer.expected.audience is not set")
    if not isinstance(audiences, list) or not any(
        isinstance(audience, str) and audience in rules.audiences for audience in audiences
    ):
        raise TokenRejected(f"audience is none of {', '.join(sorted(rules.audiences))}")
