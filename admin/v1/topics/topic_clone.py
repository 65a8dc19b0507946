"""Topics made after others: as many partitions and replicas, the same configs, no records."""

from collections.abc import Mapping

from kvorum.admin.http.commands import Command
from kvorum.admin.http.operations import Call, Operation
from kvorum.admin.http.parameters import TOPIC_NAME, VALIDATE_ONLY
from kvorum.admin.v1.models import TopicSpec
from kvorum.admin.v1.topics.topic_models import TopicClone, TopicCloned
from kvorum.admin.v1.topics.topic_routes import THROTTLES, create_in_cluster, created_row
from kvorum.client.config_sources import topic_overrides
from kvorum.client.partitions.replication import reassignments_or_nothing
from kvorum.client.values.topic import Topic, topic_value
from kvorum.client.wire.cluster_client import ResourceType
from kvorum.protocol.errors import ErrorCode


async def clone_topic(call: Call[TopicClone]) -> TopicCloned:
    """Create a topic with the partitions, replication factor and configs of another. Records are not copied."""
    source, only = TOPIC_NAME.of(call), VALIDATE_ONLY.of(call)
    topic = await call.cluster.topic(source)
    of_source = topic_value(topic, await reassignments_or_nothing(call.cluster, [topic]))
    configs = topic_overrides(await call.cluster.describe_configs(ResourceType.TOPIC, source))
    spec = spec_of(call.body, of_source, configs)
    made = await create_in_cluster(call.cluster, call.body.name, spec, validate_only=only)
    return TopicCloned(**created_row(made, only).model_dump(), configs=spec.configs)


def spec_of(wanted: TopicClone, source: Topic, configs: Mapping[str, str]) -> TopicSpec:
    """Return the spec of the copy: values of the source unless given, without the throttles."""
    merged = {name: value for name, value in configs.items() if name not in THROTTLES} | wanted.configs
    return TopicSpec(
        partitions=wanted.partitions or len(source.partitions),
        replication_factor=wanted.replication_factor or source.replication_factor,
        configs={name: value for name, value in sorted(merged.items()) if value is not None},
    )


OPERATIONS = [
    Operation(
        method="POST",
        path="/v1/topics/{topic}/clone",
        summary="Clone a topic",
        handle=clone_topic,
        body=TopicClone,
        answer=TopicCloned,
        status=201,
        parameters=(TOPIC_NAME, VALIDATE_ONLY),
        fields={
            ErrorCode.INVALID_PARTITIONS: "partitions",
            ErrorCode.INVALID_REPLICATION_FACTOR: "replication_factor",
            ErrorCode.INVALID_TOPIC_EXCEPTION: "name",
            ErrorCode.TOPIC_ALREADY_EXISTS: "name",
        },
        command=Command(name="topics clone", examples=("orders orders-copy",), arguments=("topic", "name")),
    )
]
