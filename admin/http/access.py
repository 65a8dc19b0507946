"""Access to the admin API: from this machine only, or with a token.

Without tokens it is for this machine: it listens on loopback only, and browser requests from foreign pages are rejected
by their Host (a foreign name that leads here), their Origin, and, for images and frames, which have no Origin, by Fetch
Metadata. With tokens every request except those for health and the API description needs one (`Authorization: Bearer
TOKEN`), which has a role; a foreign page does not have it, and its Origin is rejected in addition (no CORS). Clients of
Confluent's paths send a key and a secret (`Authorization: Basic`): there the secret is the token. Browsers are never
prompted for it.

The token file has one line per token: its role (read, operate or admin), the SHA-256 of the token in hexadecimal, and
an optional label. Empty lines and those that begin with # are ignored.
"""

import base64
import hashlib
import hmac
import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kvorum.client.roles import Role

TOKENS_MAX = 1_000
TOKEN_CHARS_MAX = 1_024
HASH = re.compile(r"[0-9a-fA-F]{64}")
ROLES = {role.name.lower(): role for role in Role}
SCHEME = "bearer"
BASIC = "basic"
ELSEWHERE = ("cross-site", "same-site")
"""Sec-Fetch-Site of another origin than this server's, including another port of this machine."""
PAGE = "document"
"""Sec-Fetch-Dest of a link that is followed: the page it stood on is left, and sees nothing of this one."""


class BadTokens(Exception):
    """A file of tokens that cannot be read; the message names the line."""


class HttpError(Exception):
    """A request that may not: the status, the name of the error, and why."""

    def __init__(self, status: int, error: str, message: str) -> None:
        """Keep the three values."""
        super().__init__(message)
        self.status = status
        self.error = error
        self.message = message


def condition_headers(names: Iterable[str]) -> list[str]:
    """Return the names of a request's conditional headers, in lower case.

    These are all `If-...` headers, those of later RFCs included, and WebDAV's `If`.
    """
    lowered = (name.lower() for name in names)
    return sorted({name for name in lowered if name.startswith("if-") or name == "if"})


def refuse_conditions(names: Iterable[str]) -> None:
    """Refuse a change of a resource without ETag that has any condition among its header names. Raises HttpError."""
    for name in condition_headers(names):
        raise precondition_error(f"{name} cannot be evaluated: this resource has no ETag; send the request without it")


def precondition_error(message: str) -> HttpError:
    """Return the refusal of a change whose condition does not hold."""
    return HttpError(412, "PRECONDITION_FAILED", f"{message}; nothing was changed")


def tokens_of(text: str) -> dict[str, Role]:
    """Return {SHA-256 in lower case: role} of a file of tokens. Raises BadTokens."""
    found: dict[str, Role] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) < 2 or words[0] not in ROLES or HASH.fullmatch(words[1]) is None:
            raise BadTokens(f"line {number}: not `read|operate|admin SHA256-IN-HEX`")
        if words[1].lower() in found:
            raise BadTokens(f"line {number}: duplicate token")
        found[words[1].lower()] = ROLES[words[0]]
        if len(found) > TOKENS_MAX:
            raise BadTokens(f"line {number}: more than {TOKENS_MAX} tokens")
    if not found:
        raise BadTokens("the file has no token, so no client could use the API")
    return found


def labels_of(text: str) -> dict[str, str]:
    """Return {SHA-256 in lower case: label of the token} of a valid token file."""
    lines = [line.split() for line in text.splitlines()]
    return {words[1].lower(): " ".join(words[2:]) for words in lines if len(words) > 2 and words[0] in ROLES}


def host_name_of(host: str) -> str:
    """Return the name or address in a Host header: without port and brackets, in lower case."""
    if host.startswith("["):
        name, _, port = host[1:].partition("]")
        return host if port and not port.startswith(":") else name.lower()
    return (host.rpartition(":")[0] if host.count(":") == 1 else host).lower()


def is_local(host: str) -> bool:
    """Return whether a Host header is a loopback name of this machine."""
    name = host_name_of(host)
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def token_of(authorization: str, basic: bool) -> str | None:
    """Return the token of a header, None without one."""
    scheme, _, said = authorization.partition(" ")
    token = said.strip()
    if basic and scheme.lower() == BASIC and len(token) <= 2 * TOKEN_CHARS_MAX:
        try:
            token = base64.b64decode(token, validate=True).decode().partition(":")[2]
        except ValueError:
            return None
    elif scheme.lower() != SCHEME:
        return None
    return token if 0 < len(token) <= TOKEN_CHARS_MAX else None


def hash_of(token: str) -> str:
    """Return a token as the file of tokens has it."""
    return hashlib.sha256(token.encode(errors="surrogateescape")).hexdigest()


@dataclass(frozen=True, slots=True)
class Access:
    """The rule of one server; no tokens: this machine only."""

    tokens: Mapping[str, Role] | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    """Name of token holders in the trail."""

    def check_page(self, host: str, origin: str | None, site: str | None = None, wanted: str | None = None) -> None:
        """Reject cross-site requests of browsers; `site`, `wanted`: Sec-Fetch-Site, Sec-Fetch-Dest.

        Raises HttpError.
        """
        if self.tokens is None and not is_local(host):
            raise HttpError(403, "FORBIDDEN_HOST", f"Host {host!r} is not a loopback address of this machine")
        # With tokens there may be a TLS proxy in front: the page is the same one.
        own = {f"http://{host.lower()}"} | ({f"https://{host.lower()}"} if self.tokens is not None else set())
        if origin is not None and origin.lower() not in own:
            raise HttpError(403, "FORBIDDEN_ORIGIN", f"requests from origin {origin!r} are rejected")
        if site in ELSEWHERE and wanted != PAGE:
            raise HttpError(403, "FORBIDDEN_ORIGIN", "cross-origin requests are rejected")

    def check_role(self, authorization: str | None, needs: Role, *, basic: bool = False) -> Role:
        """Return the role of the caller; reject a caller without a token, or with a lesser role.

        Raises HttpError.

        `basic`: a password may be a token too.
        """
        if self.tokens is None:
            return Role.ADMIN
        token = token_of(authorization or "", basic)
        if token is None:
            raise HttpError(401, "UNAUTHENTICATED", "token required: send the header Authorization: Bearer TOKEN")
        said = hash_of(token)
        role = None
        for known, its_role in self.tokens.items():  # all of them, always: the time reveals nothing
            if hmac.compare_digest(known, said):
                role = its_role
        if role is None:
            raise HttpError(401, "UNAUTHENTICATED", "unknown token")
        if role < needs:
            raise HttpError(
                403,
                "FORBIDDEN_ROLE",
                f"this operation requires role {needs.name.lower()}; the token has role {role.name.lower()}",
            )
        return role

    def caller_name(self, authorization: str | None, *, basic: bool = False) -> str:
        """Return the name of an authorised caller: the label of the token, or the beginning of its hash."""
        token = token_of(authorization or "", basic)
        if self.tokens is None or token is None:
            return "this machine"
        said = hash_of(token)
        return self.labels.get(said) or f"token {said[:8]}"
