"""SaslHandshake (17): v0-v1.

v1: the tokens follow in SaslAuthenticate (KIP-152). Never authorised. The authenticator of the connection takes those
that begin an authentication (security/sasl/authenticator); all others come here.
Order: return ILLEGAL_SASL_STATE.
"""

from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def handle(ctx: RequestContext, request: SaslHandshakeRequest, broker: Broker) -> SaslHandshakeResponse:
    """Reject a handshake on a connection that does not authenticate now."""
    broker.throttle(ctx)
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)


HANDLER = BrokerApi(ApiKey.SASL_HANDSHAKE, handle)
