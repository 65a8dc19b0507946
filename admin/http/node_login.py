"""Requests to the pages of the cluster's other processes for a caller: its proof, and TLS."""

import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from kvorum.admin.http.users import Caller, HttpUsers

NewContext = Callable[[], ssl.SSLContext | None]


@dataclass(frozen=True, slots=True)
class NodeLogin:
    """One caller. A header of the caller is passed on; for a user with a password there is a ticket in its place."""

    authorization: str | None = field(default=None, repr=False)
    ticket_for: Callable[[str], Awaitable[str | None]] | None = None
    """Returns the header's value for a process. Raises CredentialsUnavailable."""
    context: NewContext | None = None
    """Returns the TLS context of connections; None: the machine's certificate authorities."""

    async def headers(self, process: str) -> Mapping[str, str]:
        """Return the headers of requests to a process (`broker 1`). Raises CredentialsUnavailable."""
        value = self.authorization if self.ticket_for is None else await self.ticket_for(process)
        return {} if value is None else {"Authorization": value}

    @property
    def tls(self) -> ssl.SSLContext | bool:
        """Return aiohttp's `ssl` of a request."""
        return (None if self.context is None else self.context()) or True


def node_login(
    caller: Caller, authorization: str | None, users: HttpUsers | None, context: NewContext | None
) -> NodeLogin:
    """Return how requests to other processes are made for a caller."""
    user = caller.user
    if users is None or user is None:
        return NodeLogin(authorization, context=context)

    async def ticket_for(process: str) -> str | None:
        return await users.ticket_for(user, process)

    return NodeLogin(ticket_for=ticket_for, context=context)
