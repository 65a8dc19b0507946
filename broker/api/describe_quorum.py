"""DescribeQuorum (55): v0-v2.

v1: times of the last fetch (KIP-836). v2: directory ids and the voters' listeners (KIP-853).
Order: forward to the active controller, answer as it answers.
"""

from kvorum.broker.api.forwarded import forward
from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import KafkaError
from kvorum.protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse


async def handle(ctx: RequestContext, request: DescribeQuorumRequest, broker: Broker) -> DescribeQuorumResponse:
    """Forward the request to the active controller."""
    return await forward(ctx, request, broker, DescribeQuorumResponse, failed)


def failed(request: DescribeQuorumRequest, error: KafkaError) -> DescribeQuorumResponse:
    """Answer that it could not be taken to the controller."""
    return DescribeQuorumResponse(error_code=error.code, error_message=error.message)


HANDLER = BrokerApi(ApiKey.DESCRIBE_QUORUM, handle)
