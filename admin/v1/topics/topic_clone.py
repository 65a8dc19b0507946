"""Topics made after others: as many partitions and replicas, the same configs, no records."""

from collections.abc import Mapping

from kvorum.admin.http.operations import Call, Operation
from kvorum.admin.http.parameters import VALIDATE_ONLY
from kvorum.admin.v1.models import TopicSpec, TopicSummary
from kvorum.admin.v1.topics.topic_models import TopicClone, TopicCloned
from kvorum.admin.v1.topics.topic_routes import THROTTLES, creatable, summary
from kvorum.client.config_sources import topic_overrides
from kvorum.client.partitions.replication import moving_of
from kvorum.client.wire.cluster_client import ResourceType
from kvorum.protocol.errors import ErrorCode


async def clone_topic(call: Call[TopicClone]) -> TopicCloned:
    """Create a topic with the partitions, replication factor and configs of another. Records are not copied."""
    source, only = call.path["topic"], call.flag("validate_only")
    topic = await call.cluster.topic(source)
    of_source = summary(topic, await moving_of(call.cluster, [topic]))
    configs = topic_overrides(await call.cluster.describe_configs(ResourceType.TOPIC, source))
    spec = spec_of(call.body, of_source, configs)
    made = (await call.cluster.create_topic(creatable(call.body.name, spec), validate_only=only)).topics[0]
    return TopicCloned(
        name=made.name,
        topic_id=str(made.topic_id),
        partitions=made.num_partitions,
        replication_factor=made.replication_factor,
        validated_only=only,
        configs=spec.configs,
    )


def spec_of(wanted: TopicClone, source: TopicSummary, configs: Mapping[str, str]) -> TopicSpec:
    """Return the spec of the copy: values of the source unless given, without the throttles."""
    merged = {name: value for name, value in configs.items() if name not in THROTTLES} | wanted.configs
    return TopicSpec(
        partitions=wanted.partitions or source.partitions,
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
        query=VALIDATE_ONLY,
        fields={
            ErrorCode.INVALID_PARTITIONS: "partitions",
            ErrorCode.INVALID_REPLICATION_FACTOR: "replication_factor",
            ErrorCode.INVALID_TOPIC_EXCEPTION: "name",
            ErrorCode.TOPIC_ALREADY_EXISTS: "name",
        },
    )
]
