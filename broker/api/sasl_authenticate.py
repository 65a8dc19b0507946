"""SaslAuthenticate (36): v0-v2.

v1: the response has the lifetime of the session (KIP-368). v2: flexible. Never authorised. The authenticator of the
connection takes those that it expects (security/sasl/authenticator); all others come here.
Order: return ILLEGAL_SASL_STATE.
"""

from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse


def handle(ctx: RequestContext, request: SaslAuthenticateRequest, broker: Broker) -> SaslAuthenticateResponse:
    """Reject a token on a connection that does not authenticate now."""
    broker.throttle(ctx)
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
    )


HANDLER = BrokerApi(ApiKey.SASL_AUTHENTICATE, handle)
