"""TLS of a listener: its context, which a reload replaces, and the principals of its clients."""

import ssl

from kvorum.security.principal import ANONYMOUS, USER, Principal
from kvorum.security.tls.context import server_context
from kvorum.security.tls.names import PrincipalMapper, distinguished_name
from kvorum.security.tls.reload import ReloadableContext
from kvorum.security.tls.settings import TlsSettings
from kvorum.security.tls.stores import Stores


class TlsServer(ReloadableContext):
    """One per listener."""

    __slots__ = ("_mapper",)

    def __init__(self, settings: TlsSettings) -> None:
        """Load the stores and parse the mapping rules. Raises SecurityConfigError."""
        self._mapper = PrincipalMapper(settings.principal_mapping_rules)
        super().__init__(settings)

    def _context_of(self, settings: TlsSettings, stores: Stores) -> ssl.SSLContext:
        return server_context(settings, stores)

    def principal_of(self, certificate: bytes | None) -> Principal:
        """Return the principal of a client's certificate (DER). Raises AuthenticationError: no rule matches."""
        if certificate is None:
            return ANONYMOUS
        return Principal(USER, self._mapper.map_name(distinguished_name(certificate)))
