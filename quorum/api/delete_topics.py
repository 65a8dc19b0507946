"""DeleteTopics (20): v1-v6. The rules: controller/change_topics.py.

v6: by name or by id. Without permission to describe a topic the response omits the name of an id.
Order: authorise each topic (DELETE), decide, answer when committed.
"""

from typing import Final

from kvorum.network.authorizer import Operation, ResourceType
from kvorum.network.context import RequestContext
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from kvorum.quorum.controller.change_topics import delete_topics
from kvorum.quorum.services import ControllerServices

STRICT_VERSION: Final = 5
"""The first version that knows THROTTLING_QUOTA_EXCEEDED; before it a client is only held back (KIP-599)."""


async def handle(
    ctx: RequestContext, request: DeleteTopicsRequest, services: ControllerServices
) -> DeleteTopicsResponse:
    """Delete topics."""
    refused: list[DeletableTopicResult] = []
    allowed: list[DeleteTopicState] = []
    for topic in [DeleteTopicState(name=name) for name in request.topic_names] + request.topics:
        refusal = _authorize(ctx, services, topic)
        if refusal is None:
            allowed.append(topic)
        else:
            refused.append(refusal)
    request = DeleteTopicsRequest(topics=allowed, timeout=request.timeout)
    quota = services.mutation_quota(ctx, STRICT_VERSION)
    try:
        response = await services.submit(ctx, delete_topics, request, name="deleteTopics", mutation_quota=quota)
    except KafkaError as error:
        response = DeleteTopicsResponse(responses=[_row(topic, error) for topic in allowed])
    response.responses += refused
    response.throttle_time = ctx.throttle_ms = 0 if quota is None else quota.throttle_ms()
    return response


def _authorize(
    ctx: RequestContext, services: ControllerServices, topic: DeleteTopicState
) -> DeletableTopicResult | None:
    """Return the rejection of a topic that the principal may not delete, None if it may (or if there is none)."""
    name = topic.name
    if name is None:
        known = services.controller.speculative_image.topics.topic_by_id(topic.topic_id)
        if known is None:
            return None
        name = known.name
    if services.may(ctx, Operation.DELETE, ResourceType.TOPIC, name):
        return None
    row = _row(topic, KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed."))
    if topic.name is None and services.may(ctx, Operation.DESCRIBE, ResourceType.TOPIC, name):
        row.name = name
    return row


def _row(topic: DeleteTopicState, error: KafkaError) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=topic.name, topic_id=topic.topic_id, error_code=error.code, error_message=error.message
    )
