"""CreateTopics (19): v2-v7. The rules: controller/create_topics.py.

Without permission to describe a topic's configs the response has the error code instead (KIP-525).
Order: authorise each topic (or all, by CREATE on the cluster), decide, wait for the commit and until the brokers have
published it, hide, answer.
"""

from typing import Final

from kvorum.network.authorizer import CLUSTER_NAME, Operation, ResourceType
from kvorum.network.context import RequestContext
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from kvorum.quorum.controller.create_topics import create_topics
from kvorum.quorum.services import ControllerServices

STRICT_VERSION: Final = 6
"""The first version that knows THROTTLING_QUOTA_EXCEEDED; before it a client is only held back (KIP-599)."""


async def handle(
    ctx: RequestContext, request: CreateTopicsRequest, services: ControllerServices
) -> CreateTopicsResponse:
    """Create topics."""
    all_allowed = services.may(ctx, Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME)
    denied = [
        topic.name
        for topic in request.topics
        if not all_allowed and not services.may(ctx, Operation.CREATE, ResourceType.TOPIC, topic.name)
    ]
    request.topics = [topic for topic in request.topics if topic.name not in denied]
    quota = services.mutation_quota(ctx, STRICT_VERSION)
    try:
        response = await services.submit(ctx, create_topics, request, name="createTopics", mutation_quota=quota)
    except KafkaError as error:
        response = CreateTopicsResponse(topics=[_refused(topic.name, error) for topic in request.topics])
    if not request.validate_only and any(result.error_code == ErrorCode.NONE for result in response.topics):
        await services.wait_published(request.timeout)
    for result in response.topics:
        if result.error_code == ErrorCode.NONE:
            _hide_configs(ctx, services, result)
    refusal = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
    response.topics += [_refused(name, refusal) for name in dict.fromkeys(denied)]
    response.throttle_time = ctx.throttle_ms = 0 if quota is None else quota.throttle_ms()
    return response


def _refused(name: str, error: KafkaError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error.code, error_message=error.message)


def _hide_configs(ctx: RequestContext, services: ControllerServices, result: CreatableTopicResult) -> None:
    if not services.may(ctx, Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, result.name):
        result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        result.num_partitions = result.replication_factor = -1
        result.configs = []
