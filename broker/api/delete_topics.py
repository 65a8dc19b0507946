"""DeleteTopics (20): v1-v6.

v5: error messages. v6: by topic id (KIP-516).
Order: forward to the active controller, answer as it answers.
"""

from kvorum.broker.api.forwarded import forward
from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import KafkaError
from kvorum.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse


async def handle(ctx: RequestContext, request: DeleteTopicsRequest, broker: Broker) -> DeleteTopicsResponse:
    """Forward the request to the controller."""
    return await forward(ctx, request, broker, DeleteTopicsResponse, failed)


def failed(request: DeleteTopicsRequest, error: KafkaError) -> DeleteTopicsResponse:
    """Answer the same for every topic, named (v1-v5) or by name or id (v6)."""
    code, message = error.code, error.message
    named = [DeletableTopicResult(name=name, error_code=code, error_message=message) for name in request.topic_names]
    either = [
        DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_code=code, error_message=message)
        for topic in request.topics
    ]
    return DeleteTopicsResponse(responses=named + either)


HANDLER = BrokerApi(ApiKey.DELETE_TOPICS, handle)
