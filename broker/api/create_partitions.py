"""CreatePartitions (37): v0-v3.

Order: forward to the active controller, answer as it answers.
"""

from kvorum.broker.api.forwarded import forward
from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import KafkaError
from kvorum.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)


async def handle(ctx: RequestContext, request: CreatePartitionsRequest, broker: Broker) -> CreatePartitionsResponse:
    """Forward the request to the controller."""
    return await forward(ctx, request, broker, CreatePartitionsResponse, failed)


def failed(request: CreatePartitionsRequest, error: KafkaError) -> CreatePartitionsResponse:
    """Answer the same for every topic."""
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(name=topic.name, error_code=error.code, error_message=error.message)
            for topic in request.topics
        ]
    )


HANDLER = BrokerApi(ApiKey.CREATE_PARTITIONS, handle)
