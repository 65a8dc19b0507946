"""The token file, read where a process is composed: access to the admin API, and to the pages of its processes."""

from dataclasses import dataclass

from kvorum.admin.http.access import Access, BadTokens, HttpError, is_local, labels_of, tokens_of
from kvorum.runtime.config import Settings
from kvorum.runtime.disk import Disk
from kvorum.runtime.listeners import HttpEndpoint
from kvorum.runtime.logs import get_logger

KEY = "kvorum.admin.tokens.file"

log = get_logger("cluster")


def read_access(settings: Settings, disk: Disk) -> Access:
    """Return the access rules from the file of tokens, if there is one. Raises OSError, BadTokens."""
    path = settings.optional_str(KEY)
    if path is None:
        return Access()
    text = disk.read(path).decode(errors="replace")
    return Access(tokens_of(text), labels_of(text))


@dataclass(frozen=True, slots=True)
class PageAccess:
    """Access rules of a process's pages, or why there is no access."""

    access: Access
    closed: tuple[int, str, str] | None = None
    """The status, the name of the error, and why."""

    def check_open(self) -> None:
        """Raises Refused."""
        if self.closed is not None:
            raise HttpError(*self.closed)


def page_access_of(settings: Settings, disk: Disk, endpoint: HttpEndpoint) -> PageAccess:
    """Return the access rules for the pages of a process at this address.

    If the file of tokens cannot be read, the pages are closed; a broker continues, while the admin process ends.
    """
    try:
        access = read_access(settings, disk)
    except (OSError, BadTokens) as error:
        log.error("HTTP pages of this process disabled", path=settings.optional_str(KEY), reason=error)
        return PageAccess(Access(), (503, "TOKENS_UNREADABLE", f"{KEY} cannot be read: see the log, then start again"))
    if access.tokens is None and not is_local(endpoint.host):
        reason = f"{endpoint.url} is not loopback: without {KEY} only loopback is permitted"
        return PageAccess(access, (403, "FORBIDDEN_LISTENER", reason))
    return PageAccess(access)
