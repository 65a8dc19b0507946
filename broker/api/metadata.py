"""Metadata (3): v0-v13.

v0: replicas that are not live are omitted, with an error. v1: null means all topics, an empty list none. v4: may create
topics. v6: LISTENER_NOT_FOUND. v8: authorised operations (KIP-430). v10: topic ids (KIP-516; requests by id from v12).
v13: rebootstrap (KIP-1102; never returned by a broker). Endpoints are those of the listener that received the request.
`__cluster_metadata` is returned only if the request names it, with this broker as its leader: each broker has its own
copy. A response that would name a leader that has just died waits a moment for the next leader (PeerWatch).
Order: look up ids, authorise describe, authorise create, respond, create missing topics.
"""

from collections.abc import Awaitable

from kvorum.broker.metadata.cache import METADATA_TOPIC, is_internal
from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.authorizer import CLUSTER_NAME, Operation, ResourceType, authorized_operations
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kvorum.protocol.topic_names import name_problem
from kvorum.protocol.uuids import METADATA_TOPIC_ID, ZERO_UUID, Uuid
from kvorum.quorum.image.topics import TopicImage

NO_OPERATIONS = -(1 << 31)


def handle(
    ctx: RequestContext, request: MetadataRequest, broker: Broker
) -> MetadataResponse | Awaitable[MetadataResponse]:
    """Answer brokers, controller and topics as the newest image has them."""
    return broker.peers.settle(lambda: answer(ctx, request, broker), leaders)


def leaders(response: MetadataResponse) -> set[int]:
    """Return the leaders named in the response."""
    return {partition.leader_id for topic in response.topics for partition in topic.partitions}


def answer(ctx: RequestContext, request: MetadataRequest, broker: Broker) -> MetadataResponse:
    """Answer as the image is now."""
    cache = broker.metadata
    try:
        topics = all_topics(ctx, broker) if asks_for_all(ctx, request) else requested_topics(ctx, request, broker)
    except KafkaError as error:
        return refused(ctx, request, broker, error.code)
    if ctx.api_version >= 8 and request.include_topic_authorized_operations:
        for topic in topics:
            if topic.error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED and topic.name is not None:
                operations = authorized_operations(broker.authorizer, ctx, ResourceType.TOPIC, topic.name)
                topic.topic_authorized_operations = operations
    return MetadataResponse(
        throttle_time=broker.throttle(ctx),
        brokers=[
            MetadataResponseBroker(node_id=node.broker_id, host=node.host, port=node.port, rack=node.rack)
            for node in cache.live_nodes(ctx.listener)
        ],
        cluster_id=broker.cluster_id,
        controller_id=cache.controller_id(),
        topics=topics,
        cluster_authorized_operations=cluster_operations(ctx, request, broker),
    )


def refused(ctx: RequestContext, request: MetadataRequest, broker: Broker, code: ErrorCode) -> MetadataResponse:
    """Answer the same error for every topic, and nothing else."""
    topics = [
        MetadataResponseTopic(error_code=code, name=requested.name or "", topic_id=requested.topic_id)
        for requested in request.topics or ()
    ]
    return MetadataResponse(throttle_time=broker.throttle(ctx), topics=topics, error_code=code)


def asks_for_all(ctx: RequestContext, request: MetadataRequest) -> bool:
    """Return whether all topics are requested: null, or in v0 an empty list."""
    return request.topics is None or (ctx.api_version == 0 and not request.topics)


def all_topics(ctx: RequestContext, broker: Broker) -> list[MetadataResponseTopic]:
    """Return every topic the client may describe; the others are not shown at all."""
    return [
        describe(ctx, broker, topic)
        for topic in broker.metadata.image.topics.sorted_topics()
        if may_describe(ctx, broker, topic.name)
    ]


def requested_topics(ctx: RequestContext, request: MetadataRequest, broker: Broker) -> list[MetadataResponseTopic]:
    """Return the requested topics without duplicates, by name or (v12+) by id.

    Raises KafkaError INVALID_REQUEST for a null name or an id below v12; UNKNOWN_SERVER_ERROR, as Kafka, for neither.
    """
    assert request.topics is not None
    for requested in request.topics:
        if ctx.api_version < 12 and requested.name is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Topic name can not be null for version {ctx.api_version}")
        if ctx.api_version < 12 and requested.topic_id != ZERO_UUID:
            problem = f"Topic IDs are not supported in requests for version {ctx.api_version}"
            raise KafkaError(ErrorCode.INVALID_REQUEST, problem)
    ids = list(dict.fromkeys(requested.topic_id for requested in request.topics if requested.topic_id != ZERO_UUID))
    if ids:
        return [by_id(ctx, broker, topic_id) for topic_id in ids]
    names = list(dict.fromkeys(requested.name for requested in request.topics if requested.name is not None))
    if any(requested.name is None for requested in request.topics):
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "a topic must have a name or an id")
    answers: dict[str, MetadataResponseTopic] = {}
    missing: list[str] = []
    for name in names:
        topic = broker.metadata.topic(name)
        if not may_describe(ctx, broker, name):
            answers[name] = failed(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name)
        elif topic is not None:
            answers[name] = describe(ctx, broker, topic)
        elif name == METADATA_TOPIC:
            answers[name] = metadata_topic(broker)
        else:
            missing.append(name)
    answers.update(missing_topics(ctx, request, broker, missing))
    return [answers[name] for name in names]


def missing_topics(
    ctx: RequestContext, request: MetadataRequest, broker: Broker, names: list[str]
) -> dict[str, MetadataResponseTopic]:
    """Answer for missing topics, and request their creation where client, node and authorizer permit it."""
    if not names:
        return {}
    creates = request.allow_auto_topic_creation or ctx.api_version < 4
    if not (creates and broker.settings.bool("auto.create.topics.enable")):
        return {name: failed(missing_code(name), name) for name in names}
    authorizer = broker.authorizer
    anywhere = authorizer.authorize(ctx, Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME)
    allowed = [
        name for name in names if anywhere or authorizer.authorize(ctx, Operation.CREATE, ResourceType.TOPIC, name)
    ]
    codes = broker.auto_topics.create(ctx, allowed)
    refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return {name: failed(codes.get(name, refused), name) for name in names}


def missing_code(name: str) -> ErrorCode:
    """Return the error of a missing topic."""
    invalid = name_problem(name) is not None
    return ErrorCode.INVALID_TOPIC_EXCEPTION if invalid else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def by_id(ctx: RequestContext, broker: Broker, topic_id: Uuid) -> MetadataResponseTopic:
    """Return the topic of an id; for a topic that the client may not describe, its id without its name."""
    topic = broker.metadata.image.topics.topic_by_id(topic_id)
    if topic is None:
        return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)
    if not may_describe(ctx, broker, topic.name):
        return MetadataResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=None, topic_id=topic_id)
    return describe(ctx, broker, topic)


def may_describe(ctx: RequestContext, broker: Broker, name: str) -> bool:
    """Call the authorizer; for the metadata log the operation on the cluster counts, not that on topics."""
    if name == METADATA_TOPIC:
        return broker.authorizer.authorize(ctx, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
    return broker.authorizer.authorize(ctx, Operation.DESCRIBE, ResourceType.TOPIC, name)


def failed(code: ErrorCode, name: str) -> MetadataResponseTopic:
    """Return the error response for a topic."""
    return MetadataResponseTopic(error_code=code, name=name, is_internal=is_internal(name))


def describe(ctx: RequestContext, broker: Broker, topic: TopicImage) -> MetadataResponseTopic:
    """Return a topic with all its partitions."""
    views = broker.metadata.partition_views(
        topic, ctx.listener, unavailable_endpoints=ctx.api_version == 0, unavailable_listeners=ctx.api_version >= 6
    )
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=is_internal(topic.name),
        partitions=[
            MetadataResponsePartition(
                error_code=view.error,
                partition_index=view.partition_index,
                leader_id=view.leader_id,
                leader_epoch=view.leader_epoch,
                replica_nodes=view.replicas,
                isr_nodes=view.isr,
                offline_replicas=view.offline_replicas,
            )
            for view in views
        ],
    )


def metadata_topic(broker: Broker) -> MetadataResponseTopic:
    """Return the metadata log as a topic: one partition, read from this broker's own copy."""
    only = MetadataResponsePartition(
        partition_index=0,
        leader_id=broker.broker_id,
        leader_epoch=broker.metadata_log.leader_epoch,
        replica_nodes=[broker.broker_id],
        isr_nodes=[broker.broker_id],
    )
    return MetadataResponseTopic(name=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, is_internal=True, partitions=[only])


def cluster_operations(ctx: RequestContext, request: MetadataRequest, broker: Broker) -> int:
    """Return the client's permitted cluster operations as bits, v8 to v10 and only if requested."""
    if not (8 <= ctx.api_version <= 10 and request.include_cluster_authorized_operations):
        return NO_OPERATIONS
    if not broker.authorizer.authorize(ctx, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return 0
    return authorized_operations(broker.authorizer, ctx, ResourceType.CLUSTER, CLUSTER_NAME)


HANDLER = BrokerApi(ApiKey.METADATA, handle, abandon=True)
