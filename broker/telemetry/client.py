"""Attributes of a client that select its subscriptions (ClientMetricsInstanceMetadata)."""

from kvorum.network.context import RequestContext

TEXT_CHARS_MAX = 256
"""Length limit of values chosen by the client: patterns are matched on the event loop."""


def attributes_of(ctx: RequestContext) -> dict[str, str]:
    """Return the client's value for each selector that it has one for; its instance id counts as one."""
    attributes = {
        "client_software_name": ctx.software_name[:TEXT_CHARS_MAX],
        "client_software_version": ctx.software_version[:TEXT_CHARS_MAX],
        "client_source_address": ctx.client_address,
    }
    if ctx.client_id is not None:
        attributes["client_id"] = ctx.client_id[:TEXT_CHARS_MAX]
    # A connection's id is LISTENER-HOST:PORT-NUMBER (network.connection).
    port = ctx.connection_id.rpartition("-")[0].rpartition(":")[2]
    if port:
        attributes["client_source_port"] = port
    return attributes
