"""Name and version of a client's software in ApiVersions (KIP-511)."""

import re

from kvorum.protocol.messages.api_versions import ApiVersionsRequest

SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def valid_software(request: ApiVersionsRequest, version: int) -> bool:
    """Return whether a client's name and version are well-formed; otherwise the handler returns INVALID_REQUEST."""
    return version < 3 or (
        SOFTWARE.fullmatch(request.client_software_name) is not None
        and SOFTWARE.fullmatch(request.client_software_version) is not None
    )
