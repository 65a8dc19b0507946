"""CreateTopics (19): v2-v7.

v5: numbers and configs of the new topic in the answer (KIP-525). v7: topic ids (KIP-516).
Order: forward to the active controller, answer as it answers.
"""

from kvorum.broker.api.forwarded import forward
from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import KafkaError
from kvorum.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse


async def handle(ctx: RequestContext, request: CreateTopicsRequest, broker: Broker) -> CreateTopicsResponse:
    """Forward the request to the controller."""
    return await forward(ctx, request, broker, CreateTopicsResponse, failed)


def failed(request: CreateTopicsRequest, error: KafkaError) -> CreateTopicsResponse:
    """Answer the same for every topic."""
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(name=topic.name, error_code=error.code, error_message=error.message)
            for topic in request.topics
        ]
    )


HANDLER = BrokerApi(ApiKey.CREATE_TOPICS, handle)
