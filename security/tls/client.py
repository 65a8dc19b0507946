"""TLS of a client: its context, which a reload replaces."""

import ssl

from kvorum.security.tls.context import client_context
from kvorum.security.tls.reload import ReloadableContext
from kvorum.security.tls.settings import TlsSettings
from kvorum.security.tls.stores import Stores


class ClientTls(ReloadableContext):
    """One per set of servers: verifies their certificates, and their host names unless the settings say otherwise."""

    __slots__ = ()

    def _context_of(self, settings: TlsSettings, stores: Stores) -> ssl.SSLContext:
        return client_context(settings, stores)
