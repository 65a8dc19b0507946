"""Topics over HTTP."""

from pydantic import BaseModel

from kvorum.admin.http.access import Refused
from kvorum.admin.http.operations import Call, NoBody, Operation
from kvorum.admin.http.parameters import LISTED_CONFIGS, VALIDATE_ONLY
from kvorum.admin.v1.models import (
    Change,
    ConfigAlter,
    ConfigEntry,
    Partition,
    PartitionCount,
    Topic,
    TopicApplied,
    TopicCreate,
    TopicCreated,
    TopicSpec,
    TopicSummary,
)
from kvorum.admin.v1.topics.topic_configs import changes_of, configs_state, listed_entries
from kvorum.client.config_sources import topic_overrides
from kvorum.client.partitions.offsets import topic_offsets
from kvorum.client.partitions.replication import NOTHING, Moving, is_under_replicated, moving_of, replication_factor
from kvorum.client.reassignments.reassignments import FOLLOWERS, LEADERS
from kvorum.client.wire.cluster_client import (
    EARLIEST,
    LATEST,
    ClusterClient,
    ConfigChange,
    ConfigOperation,
    Eligible,
    ResourceType,
)
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
)
from kvorum.protocol.messages.metadata import MetadataResponsePartition, MetadataResponseTopic
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.runtime import config_defs
from kvorum.runtime.config_types import InvalidValue, Value

THROTTLES = (LEADERS, FOLLOWERS)
"""Part of a topic's state that belongs to a reassignment."""
UNSET = -1
"""Partitions or replication factor left to the cluster's defaults (KIP-464)."""


def summary(topic: MetadataResponseTopic, moving: Moving = NOTHING) -> TopicSummary:
    """Return a row of a topic; `moving`: current reassignments."""
    name = topic.name or ""
    rows = [(row, moving.get(TopicPartition(name, row.partition_index))) for row in topic.partitions]
    return TopicSummary(
        name=name,
        topic_id=str(topic.topic_id),
        internal=topic.is_internal,
        partitions=len(topic.partitions),
        replication_factor=max((replication_factor(*each) for each in rows), default=0),
        under_replicated=sum(is_under_replicated(*each) for each in rows),
    )


async def create_topic(call: Call[TopicCreate]) -> TopicCreated:
    """Create a topic."""
    body, only = call.body, call.flag("validate_only")
    answer = await call.cluster.create_topic(creatable(body.name, body, body.assignments), validate_only=only)
    made = answer.topics[0]
    return TopicCreated(
        name=made.name,
        topic_id=str(made.topic_id),
        partitions=made.num_partitions,
        replication_factor=made.replication_factor,
        validated_only=only,
    )


def creatable(name: str, spec: TopicSpec, assignments: dict[int, list[int]] | None = None) -> CreatableTopic:
    """Return the topic in the request's format."""
    given = assignments or {}
    return CreatableTopic(
        name=name,
        num_partitions=UNSET if given else spec.partitions or UNSET,
        replication_factor=UNSET if given else spec.replication_factor or UNSET,
        assignments=[CreatableReplicaAssignment(partition_index=p, broker_ids=ids) for p, ids in given.items()],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in spec.configs.items()],
    )


async def get_topic(call: Call[NoBody]) -> Topic:
    """Describe a topic with its partitions, offsets and configs."""
    topic = await call.cluster.topic(call.path["topic"])
    configs = await call.cluster.describe_configs(ResourceType.TOPIC, call.path["topic"])
    return Topic(
        **summary(topic, await moving_of(call.cluster, [topic])).model_dump(),
        details=await partitions_with_offsets(call, topic),
        configs=topic_overrides(configs),
    )


async def partitions_with_offsets(call: Call[NoBody], topic: MetadataResponseTopic) -> list[Partition]:
    """Return the partitions with their earliest and latest offsets from their leaders."""
    eligible = await call.cluster.eligible(topic)
    earliest = await topic_offsets(call.cluster, topic, EARLIEST)
    latest = await topic_offsets(call.cluster, topic, LATEST)
    return [
        partition_of(each, eligible[each.partition_index], earliest[each.partition_index], latest[each.partition_index])
        for each in sorted(topic.partitions, key=lambda each: each.partition_index)
    ]


def partition_of(
    found: MetadataResponsePartition, eligible: Eligible, earliest: int | None, latest: int | None
) -> Partition:
    """Return one partition for HTTP."""
    return Partition(
        partition=found.partition_index,
        leader=found.leader_id,
        leader_epoch=found.leader_epoch,
        replicas=found.replica_nodes,
        isr=found.isr_nodes,
        elr=eligible.elr,
        last_known_elr=eligible.last_known_elr,
        offline_replicas=found.offline_replicas,
        earliest_offset=earliest,
        latest_offset=latest,
    )


async def apply_topic(call: Call[TopicSpec]) -> TopicApplied:
    """Bring a topic to the described state; the same body again changes nothing.

    Partitions can only grow, and the replication factor is not changed here: both are refused with Kafka's codes.
    Configs that the body omits are reset to the defaults, except the lists of throttled replicas, which belong to a
    reassignment.
    """
    name, spec, only = call.path["topic"], call.body, call.flag("validate_only")
    cluster = await call.cluster.up_to_date()  # a change made a moment ago must not appear as pending
    topic = await found_topic(cluster, name)
    if topic is None:
        try:
            made = (await call.cluster.create_topic(creatable(name, spec), validate_only=only)).topics[0]
        except KafkaError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
            cluster = await call.cluster.up_to_date()
            topic = await found_topic(cluster, name)
            if topic is None and not call.only_create:
                raise
        else:
            changes = [Change(what="partitions", before=None, after=made.num_partitions)]
            changes.append(Change(what="replication_factor", before=None, after=made.replication_factor))
            changes += [Change(what=f"configs.{key}", before=None, after=value) for key, value in spec.configs.items()]
            return TopicApplied(name=name, created=True, changes=changes, validated_only=only)
    if call.only_create or topic is None:
        raise Refused(412, "PRECONDITION_FAILED", f"if-none-match is false: topic {name} was created meanwhile")
    now = summary(topic, await moving_of(cluster, [topic]))
    if spec.replication_factor not in (None, now.replication_factor):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"{name} has replication factor {now.replication_factor}; use a reassignment to change it",
        )
    configs = await cluster.describe_configs(ResourceType.TOPIC, name)
    before = {
        key: value for key, value in topic_overrides(configs).items() if key in spec.configs or key not in THROTTLES
    }
    changes = config_differences(before, spec.configs)
    wanted = [
        ConfigChange(name=change.what.removeprefix("configs."), value=str(change.after))
        if change.after is not None
        else ConfigChange(name=change.what.removeprefix("configs."), operation=ConfigOperation.DELETE)
        for change in changes
    ]
    if spec.partitions is not None and spec.partitions != now.partitions:
        if wanted and not only:
            # All of it is checked before any of it is done: partitions that were added cannot be taken back.
            await call.cluster.alter_configs(ResourceType.TOPIC, name, wanted, validate_only=True)
        await call.cluster.create_partitions(name, spec.partitions, validate_only=only)
        changes.insert(0, Change(what="partitions", before=now.partitions, after=spec.partitions))
    if wanted:
        await call.cluster.alter_configs(ResourceType.TOPIC, name, wanted, validate_only=only)
    return TopicApplied(name=name, created=False, changes=changes, validated_only=only)


async def found_topic(cluster: ClusterClient, name: str) -> MetadataResponseTopic | None:
    """Return a topic as a broker knows it, None if that one does not."""
    try:
        return await cluster.topic(name)
    except KafkaError as error:
        if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        return None


def config_differences(before: dict[str, str], after: dict[str, str]) -> list[Change]:
    """Return the changes by config name; two spellings of one value are equal."""
    return [
        Change(what=f"configs.{name}", before=before.get(name), after=after.get(name))
        for name in sorted(before.keys() | after.keys())
        if meaning(name, before.get(name)) != meaning(name, after.get(name))
    ]


def meaning(name: str, text: str | None) -> Value:
    """Return a config's parsed value; the text if it is invalid or the config is unknown."""
    definition = config_defs.TOPIC.get(name)
    try:
        return text if text is None or definition is None else definition.parse(text)
    except InvalidValue:
        return text


async def delete_topic(call: Call[NoBody]) -> None:
    """Delete a topic with its records."""
    await call.cluster.delete_topic(call.path["topic"])


async def add_partitions(call: Call[PartitionCount]) -> None:
    """Increase the number of partitions."""
    only = call.flag("validate_only")
    await call.cluster.create_partitions(call.path["topic"], call.body.count, validate_only=only)


async def get_topic_configs(call: Call[NoBody]) -> list[BaseModel]:
    """List a topic's configs with their sources."""
    return await listed_entries(call, ResourceType.TOPIC, call.path["topic"], config_defs.TOPIC)


async def alter_topic_configs(call: Call[ConfigAlter]) -> None:
    """Change some configs of a topic; the others are unchanged."""
    only = call.flag("validate_only")
    changes = changes_of(call.body)
    await call.cluster.alter_configs(ResourceType.TOPIC, call.path["topic"], changes, validate_only=only)


async def delete_topic_config(call: Call[NoBody]) -> None:
    """Reset one config to its default. As in Kafka, a config that is not set or unknown is no error."""
    change = ConfigChange(name=call.path["config"], operation=ConfigOperation.DELETE)
    await call.cluster.alter_configs(ResourceType.TOPIC, call.path["topic"], [change])


def topic_state(topic: Topic) -> object:
    """Return the part of a topic that a PUT can overwrite, without offsets and leaders."""
    configs = sorted((key, value) for key, value in topic.configs.items() if key not in THROTTLES)
    return topic.topic_id, topic.partitions, topic.replication_factor, configs


SPEC_FIELDS = {
    ErrorCode.INVALID_PARTITIONS: "partitions",
    ErrorCode.INVALID_REPLICATION_FACTOR: "replication_factor",
}
NAME_FIELDS = {
    ErrorCode.INVALID_TOPIC_EXCEPTION: "name",
    ErrorCode.TOPIC_ALREADY_EXISTS: "name",
    ErrorCode.INVALID_REPLICA_ASSIGNMENT: "assignments",
}
TOPIC = "/v1/topics/{topic}"
CONFIGS = f"{TOPIC}/configs"
GET_TOPIC = Operation.get(TOPIC, "Describe a topic", get_topic, Topic, state=topic_state)
GET_CONFIGS = Operation.get(
    CONFIGS,
    "List a topic's configs",
    get_topic_configs,
    ConfigEntry,
    many=True,
    query=LISTED_CONFIGS,
    state=configs_state,
)
OPERATIONS = [
    Operation(
        method="POST",
        path="/v1/topics",
        summary="Create a topic",
        handle=create_topic,
        body=TopicCreate,
        answer=TopicCreated,
        status=201,
        query=VALIDATE_ONLY,
        fields={**SPEC_FIELDS, **NAME_FIELDS},
    ),
    GET_TOPIC,
    Operation(method="DELETE", path=TOPIC, summary="Delete a topic", handle=delete_topic, status=204, guard=GET_TOPIC),
    Operation(
        method="POST",
        path=f"{TOPIC}/partitions",
        summary="Add partitions",
        handle=add_partitions,
        body=PartitionCount,
        status=204,
        query=VALIDATE_ONLY,
        fields={ErrorCode.INVALID_PARTITIONS: "count"},
    ),
    GET_CONFIGS,
    GET_CONFIGS.patch("Change a topic's configs", alter_topic_configs, ConfigAlter, query=VALIDATE_ONLY),
    Operation(
        method="DELETE",
        path=f"{CONFIGS}/{{config}}",
        summary="Reset a topic's config",
        handle=delete_topic_config,
        status=204,
        guard=GET_CONFIGS,
    ),
]
