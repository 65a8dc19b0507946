"""Common parts of group request handlers: the client's identity for the group coordinator."""

from kvorum.broker.coordinator.group.classic.words import Client
from kvorum.network.context import RequestContext


def client_of(ctx: RequestContext) -> Client:
    """Return the client of a request; the address as Java prints one without a host name."""
    return Client(ctx.client_id or "", f"/{ctx.client_address}", ctx.api_version)
