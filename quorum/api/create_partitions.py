"""CreatePartitions (37): v0-v3. The rules: controller/change_topics.py.

Order: authorise each topic (ALTER), decide, wait for the commit and until the brokers have published it, answer.
"""

from typing import Final

from kvorum.network.authorizer import Operation, ResourceType
from kvorum.network.context import RequestContext
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from kvorum.quorum.controller.change_topics import create_partitions
from kvorum.quorum.services import ControllerServices

STRICT_VERSION: Final = 3
"""The first version that knows THROTTLING_QUOTA_EXCEEDED; before it a client is only held back (KIP-599)."""


async def handle(
    ctx: RequestContext, request: CreatePartitionsRequest, services: ControllerServices
) -> CreatePartitionsResponse:
    """Give topics more partitions."""
    denied = [
        topic.name for topic in request.topics if not services.may(ctx, Operation.ALTER, ResourceType.TOPIC, topic.name)
    ]
    request.topics = [topic for topic in request.topics if topic.name not in denied]
    quota = services.mutation_quota(ctx, STRICT_VERSION)
    try:
        response = await services.submit(ctx, create_partitions, request, name="createPartitions", mutation_quota=quota)
    except KafkaError as error:
        response = CreatePartitionsResponse(results=[_refused(topic.name, error) for topic in request.topics])
    if not request.validate_only and any(result.error_code == ErrorCode.NONE for result in response.results):
        await services.wait_published(request.timeout)
    refusal = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
    response.results += [_refused(name, refusal) for name in dict.fromkeys(denied)]
    response.throttle_time = ctx.throttle_ms = 0 if quota is None else quota.throttle_ms()
    return response


def _refused(name: str, error: KafkaError) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name=name, error_code=error.code, error_message=error.message)
