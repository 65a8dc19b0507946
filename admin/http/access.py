"""Access to the HTTP listeners: from this machine only, or for clients that authenticate.

Without tokens and users they are for this machine: on loopback only, and browser requests from foreign pages are
rejected by their Host (a foreign name that leads here), their Origin, and, for images and frames, which have no Origin,
by Fetch Metadata. Else every request except those for health and the API description must authenticate: with a token of
the token file (`Authorization: Bearer TOKEN`), or as a user (admin/http/users). A foreign page cannot, and requests of
its Origin are rejected in addition (no CORS). Clients of Confluent's paths send a key and a secret (`Authorization:
Basic`): there the secret may be a token. Browsers are never prompted.

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
from typing import Final

from kvorum.admin.http.http_error import HttpError as HttpError
from kvorum.admin.http.users import Caller, HttpUsers, Login, rejected
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
    """The rule of one server; neither tokens nor users: this machine only."""

    tokens: Mapping[str, Role] | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    """Name of token holders in the trail."""
    users: HttpUsers | None = None
    is_metrics_open: bool = False
    """Whether /metrics needs no authentication."""

    @property
    def is_guarded(self) -> bool:
        """Whether clients must authenticate."""
        return self.tokens is not None or self.users is not None

    def check_page(self, host: str, origin: str | None, site: str | None = None, wanted: str | None = None) -> None:
        """Reject cross-site requests of browsers; `site`, `wanted`: Sec-Fetch-Site, Sec-Fetch-Dest.

        Raises HttpError.
        """
        if not self.is_guarded and not is_local(host):
            raise HttpError(403, "FORBIDDEN_HOST", f"Host {host!r} is not a loopback address of this machine")
        # There may be a TLS proxy in front: the page is the same one.
        own = {f"http://{host.lower()}", f"https://{host.lower()}"}
        if origin is not None and origin.lower() not in own:
            raise HttpError(403, "FORBIDDEN_ORIGIN", f"requests from origin {origin!r} are rejected")
        if site in ELSEWHERE and wanted != PAGE:
            raise HttpError(403, "FORBIDDEN_ORIGIN", "cross-origin requests are rejected")

    async def authenticate(self, login: Login) -> Caller:
        """Return the caller with its role. Raises HttpError: 401, and 503 if users cannot be checked now."""
        if not self.is_guarded:
            return LOCAL
        if (caller := self._token_holder(login)) is not None:
            return caller
        if self.users is None:
            if token_of(login.authorization or "", login.takes_basic_token) is None:
                raise rejected("token required: send the header Authorization: Bearer TOKEN")
            raise rejected("unknown token")
        return await self.users.authenticate(login)

    async def authorize(self, login: Login, needs: Role) -> Caller:
        """Return a caller that has a role. Raises HttpError, as `authenticate`, and 403."""
        caller = await self.authenticate(login)
        check_role(caller, needs)
        return caller

    def _token_holder(self, login: Login) -> Caller | None:
        """Return the holder of a token of the file, None for any other caller."""
        token = token_of(login.authorization or "", login.takes_basic_token)
        if self.tokens is None or token is None:
            return None
        hashed, role = hash_of(token), None
        for known, its_role in self.tokens.items():  # all of them, always: the time reveals nothing
            if hmac.compare_digest(known, hashed):
                role = its_role
        if role is None:
            return None
        return Caller(self.labels.get(hashed) or f"token {hashed[:8]}", role)


LOCAL: Final = Caller("this machine", Role.ADMIN)
"""The caller of a server for this machine only."""


def check_role(caller: Caller, needs: Role) -> None:
    """Reject a caller with a lesser role, or none. Raises HttpError."""
    if caller.role is None:
        reason = f"{caller.name} has no role: add {caller.name}=read, operate or admin to kvorum.admin.roles"
        raise HttpError(403, "FORBIDDEN_ROLE", reason)
    if caller.role < needs:
        owner = "the token" if caller.principal is None else caller.name
        raise HttpError(
            403,
            "FORBIDDEN_ROLE",
            f"this operation requires role {needs.name.lower()}; {owner} has role {caller.role.name.lower()}",
        )
