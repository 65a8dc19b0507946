"""Assertions of the JWT-bearer grant (RFC 7523, KIP-1139): a token that the client signs itself, or one in a file.

Claims and header are those of the configuration, then of the template file, then those of the moment; later ones
replace earlier ones. Source: Kafka's JwtBearerJwtRetriever, DefaultAssertionCreator, LayeredAssertionJwtTemplate.
Unlike there, keys of elliptic curves work with ES256.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, RSAKey
from joserfc.jws import JWSRegistry

from kvorum.security.errors import AuthenticationError
from kvorum.security.oauth.http import FetchError, WatchedFile
from kvorum.security.oauth.tokens import encode_base64

ALGORITHMS: Final = ("RS256", "ES256")
PARTS: Final = ("header", "payload")


class ClientAssertionError(ValueError):
    """A key or template that cannot be used. The text is the reason."""


class AssertionSource(Protocol):
    """Returns an assertion for one request."""

    async def assertion(self) -> str:
        """Return an assertion that is valid now. Raises AuthenticationError."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AssertionRules:
    """The values of `sasl.oauthbearer.assertion.*`."""

    algorithm: str = "RS256"
    claims: Mapping[str, str] = field(default_factory=dict)
    """aud, iss and sub, as far as configured."""
    lifetime_s: int = 300
    not_before_s: int = 60
    """How long before now an assertion is valid: clocks differ."""
    has_id: bool = False
    passphrase: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Template:
    """Further header fields and claims."""

    header: Mapping[str, Any] = field(default_factory=dict)
    payload: Mapping[str, Any] = field(default_factory=dict)


def parse_template(text: bytes) -> Template:
    """Read a template: `{"header": {...}, "payload": {...}}`. Raises ClientAssertionError."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise ClientAssertionError("it is not JSON") from None
    header, payload = (found.get(part, {}) if isinstance(found, dict) else None for part in PARTS)
    if not isinstance(header, dict) or not isinstance(payload, dict):
        raise ClientAssertionError(f"it is not a JSON object with the objects {' and '.join(PARTS)}")
    return Template(header, payload)


def parse_key(data: bytes, rules: AssertionRules) -> RSAKey | ECKey:
    """Read a private key in PEM (PKCS8). Raises ClientAssertionError."""
    password = None if rules.passphrase is None else rules.passphrase.encode()
    try:
        found = load_pem_private_key(data, password)
    except (ValueError, TypeError) as error:
        is_encrypted = isinstance(error, TypeError) and password is None
        reason = (
            "it is encrypted, and its passphrase is not set" if is_encrypted else "it is not a key in PEM, or encrypted"
        )
        raise ClientAssertionError(reason) from None
    expected = rsa.RSAPrivateKey if rules.algorithm == "RS256" else ec.EllipticCurvePrivateKey
    pem = found.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    try:
        if not isinstance(found, expected):
            raise ValueError
        key = (RSAKey if expected is rsa.RSAPrivateKey else ECKey).import_key(pem)
        JWSRegistry.algorithms[rules.algorithm].check_key(key)
    except (JoseError, ValueError):
        raise ClientAssertionError(f"it is not a key for {rules.algorithm}") from None
    return key


def make_assertion(
    rules: AssertionRules, key: RSAKey | ECKey, template: Template, now_s: int, new_id: Callable[[], str]
) -> str:
    """Return a signed assertion."""
    header = {**template.header, "alg": rules.algorithm, "typ": "JWT"}
    claims: dict[str, Any] = {**rules.claims, **template.payload, "iat": now_s, "exp": now_s + rules.lifetime_s}
    claims["nbf"] = now_s - rules.not_before_s
    if rules.has_id:
        claims["jti"] = new_id()
    data = ".".join(encode_base64(json.dumps(each, separators=(",", ":")).encode()) for each in (header, claims))
    return f"{data}.{encode_base64(JWSRegistry.algorithms[rules.algorithm].sign(data.encode(), key))}"


class FileAssertion:
    """An assertion in a file, which another program renews."""

    __slots__ = ("_file", "_text")

    def __init__(self, file: WatchedFile) -> None:
        """Read the file at each use, if it has changed."""
        self._file = file
        self._text = ""

    async def assertion(self) -> str:
        """See AssertionSource."""
        data = await _changed(self._file)
        if data is not None:
            self._text = data.decode("ascii", "replace").strip()
        return self._text


class SignedAssertion:
    """An assertion that is signed for each request; key and template are read again when their files have changed."""

    __slots__ = ("_key", "_key_file", "_new_id", "_rules", "_template", "_template_file", "_wall_ms")

    def __init__(
        self,
        rules: AssertionRules,
        key_file: WatchedFile,
        template_file: WatchedFile | None,
        wall_ms: Callable[[], int],
        new_id: Callable[[], str],
    ) -> None:
        """Read the files at the first use."""
        self._rules = rules
        self._key_file = key_file
        self._template_file = template_file
        self._wall_ms = wall_ms
        self._new_id = new_id
        self._key: RSAKey | ECKey
        self._template = Template()

    async def assertion(self) -> str:
        """See AssertionSource."""
        try:
            if (data := await _changed(self._key_file)) is not None:
                self._key = parse_key(data, self._rules)
            if self._template_file is not None and (data := await _changed(self._template_file)) is not None:
                self._template = parse_template(data)
        except ClientAssertionError as error:
            raise AuthenticationError(f"the key or template of the client assertion cannot be used: {error}") from None
        return make_assertion(self._rules, self._key, self._template, self._wall_ms() // 1000, self._new_id)


async def _changed(file: WatchedFile) -> bytes | None:
    """Return the content of a file that has changed. Raises AuthenticationError."""
    try:
        return await file.read()
    except FetchError as error:
        raise AuthenticationError(str(error)) from None
