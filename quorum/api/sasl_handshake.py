"""SaslHandshake (17): v0-v1.

v1: the tokens follow in SaslAuthenticate (KIP-152). Never authorised. The authenticator of the connection takes those
that begin an authentication (security/sasl/authenticator); all others come here.
Order: return ILLEGAL_SASL_STATE.
"""

from kvorum.network.context import RequestContext
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kvorum.quorum.services import ControllerServices


async def handle(
    ctx: RequestContext, request: SaslHandshakeRequest, services: ControllerServices
) -> SaslHandshakeResponse:
    """Reject a handshake on a connection that does not authenticate now."""
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
