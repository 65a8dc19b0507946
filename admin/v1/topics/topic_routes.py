"""Topics over HTTP."""

from pydantic import BaseModel

from kvorum.admin.http.access import HttpError
from kvorum.admin.http.commands import Command
from kvorum.admin.http.operations import Call, NoBody, Operation
from kvorum.admin.http.parameters import (
    ALL_CONFIGS,
    DOCUMENTATION,
    TOPIC_NAME,
    VALIDATE_ONLY,
    text,
)
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
from kvorum.admin.v1.topics.topic_configs import CONFIG_COLUMNS, changes_of, configs_state, list_entries
from kvorum.client.config_sources import topic_overrides
from kvorum.client.namespaces.topics import Topics
from kvorum.client.partitions.replication import reassignments_or_nothing
from kvorum.client.reassignments.throttles import FOLLOWERS, LEADERS
from kvorum.client.values import partition as partitions
from kvorum.client.values import topic as topics
from kvorum.client.values.topic import topic_value
from kvorum.client.wire.cluster_client import (
    ClusterClient,
    ConfigChange,
    ConfigOperation,
    ResourceType,
)
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.metadata import MetadataResponseTopic
from kvorum.runtime import config_defs
from kvorum.runtime.config_types import InvalidValue, Value

THROTTLES = (LEADERS, FOLLOWERS)
"""Part of a topic's state that belongs to a reassignment."""
NO_LEADER = UNKNOWN = -1
CONFIG = text("config", "name of the config")


def summary(topic: topics.Topic) -> TopicSummary:
    """Return a row of a topic."""
    return TopicSummary(
        name=topic.name,
        topic_id=str(topic.topic_id),
        internal=topic.is_internal,
        partitions=len(topic.partitions),
        replication_factor=topic.replication_factor,
        under_replicated=topic.under_replicated_count,
    )


async def create_topic(call: Call[TopicCreate]) -> TopicCreated:
    """Create a topic."""
    body, only = call.body, VALIDATE_ONLY.of(call)
    return created_row(
        await create_in_cluster(call.cluster, body.name, body, body.assignments, validate_only=only), only
    )


async def create_in_cluster(
    cluster: ClusterClient,
    name: str,
    spec: TopicSpec,
    assignments: dict[int, list[int]] | None = None,
    *,
    validate_only: bool,
) -> topics.CreatedTopic:
    """Create a topic. Raises KafkaError, Unreachable."""
    return await Topics(cluster).create(
        name,
        partitions=spec.partitions,
        replication_factor=spec.replication_factor,
        assignments=assignments,
        configs=spec.configs,
        validate_only=validate_only,
    )


def created_row(found: topics.CreatedTopic, validated_only: bool) -> TopicCreated:
    """Return a topic that was created for HTTP."""
    return TopicCreated(
        name=found.name,
        topic_id=str(found.topic_id),
        partitions=UNKNOWN if found.partition_count is None else found.partition_count,
        replication_factor=UNKNOWN if found.replication_factor is None else found.replication_factor,
        validated_only=validated_only,
    )


async def get_topic(call: Call[NoBody]) -> Topic:
    """Describe a topic with its partitions, offsets and configs."""
    topic = await Topics(call.cluster).describe(TOPIC_NAME.of(call))
    details = [partition_row(each) for each in topic.partitions]
    return Topic(**summary(topic).model_dump(), details=details, configs=dict(topic.configs or {}))


def partition_row(found: partitions.Partition) -> Partition:
    """Return one partition for HTTP."""
    return Partition(
        partition=found.partition,
        leader=NO_LEADER if found.leader is None else found.leader,
        leader_epoch=found.leader_epoch,
        replicas=list(found.replicas),
        isr=list(found.isr),
        elr=None if found.elr is None else list(found.elr),
        last_known_elr=None if found.last_known_elr is None else list(found.last_known_elr),
        offline_replicas=list(found.offline_replicas),
        adding_replicas=list(found.adding) or None,
        removing_replicas=list(found.removing) or None,
        earliest_offset=found.earliest_offset,
        latest_offset=found.latest_offset,
    )


async def apply_topic(call: Call[TopicSpec]) -> TopicApplied:
    """Bring a topic to the described state; the same body again changes nothing.

    Partitions can only grow, and the replication factor is not changed here: both are refused with Kafka's codes.
    Configs that the body omits are reset to the defaults, except the lists of throttled replicas, which belong to a
    reassignment.
    """
    name, spec, only = TOPIC_NAME.of(call), call.body, VALIDATE_ONLY.of(call)
    cluster = await call.cluster.up_to_date()  # a change made a moment ago must not appear as pending
    topic = await find_topic(cluster, name)
    if topic is None:
        try:
            made = created_row(await create_in_cluster(call.cluster, name, spec, validate_only=only), only)
        except KafkaError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
            cluster = await call.cluster.up_to_date()
            topic = await find_topic(cluster, name)
            if topic is None and not call.only_create:
                raise
        else:
            changes = [Change(what="partitions", before=None, after=made.partitions)]
            changes.append(Change(what="replication_factor", before=None, after=made.replication_factor))
            changes += [Change(what=f"configs.{key}", before=None, after=value) for key, value in spec.configs.items()]
            return TopicApplied(name=name, created=True, changes=changes, validated_only=only)
    if call.only_create or topic is None:
        raise HttpError(412, "PRECONDITION_FAILED", f"if-none-match is false: topic {name} was created meanwhile")
    now = topic_value(topic, await reassignments_or_nothing(cluster, [topic]))
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
    if spec.partitions is not None and spec.partitions != len(now.partitions):
        if wanted and not only:
            # All of it is checked before any of it is done: partitions that were added cannot be taken back.
            await call.cluster.alter_configs(ResourceType.TOPIC, name, wanted, validate_only=True)
        await call.cluster.create_partitions(name, spec.partitions, validate_only=only)
        changes.insert(0, Change(what="partitions", before=len(now.partitions), after=spec.partitions))
    if wanted:
        await call.cluster.alter_configs(ResourceType.TOPIC, name, wanted, validate_only=only)
    return TopicApplied(name=name, created=False, changes=changes, validated_only=only)


async def find_topic(cluster: ClusterClient, name: str) -> MetadataResponseTopic | None:
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


def meaning(name: str, value: str | None) -> Value:
    """Return a config's parsed value; the text if it is invalid or the config is unknown."""
    definition = config_defs.TOPIC.get(name)
    try:
        return value if value is None or definition is None else definition.parse(value)
    except InvalidValue:
        return value


async def delete_topic(call: Call[NoBody]) -> None:
    """Delete a topic with its records."""
    await call.cluster.delete_topic(TOPIC_NAME.of(call))


async def add_partitions(call: Call[PartitionCount]) -> None:
    """Increase the number of partitions."""
    only = VALIDATE_ONLY.of(call)
    await call.cluster.create_partitions(TOPIC_NAME.of(call), call.body.count, validate_only=only)


async def get_topic_configs(call: Call[NoBody]) -> list[BaseModel]:
    """List a topic's configs with their sources."""
    return await list_entries(call, ResourceType.TOPIC, TOPIC_NAME.of(call), config_defs.TOPIC)


async def alter_topic_configs(call: Call[ConfigAlter]) -> None:
    """Change some configs of a topic; the others are unchanged."""
    only = VALIDATE_ONLY.of(call)
    changes = changes_of(call.body)
    await call.cluster.alter_configs(ResourceType.TOPIC, TOPIC_NAME.of(call), changes, validate_only=only)


async def delete_topic_config(call: Call[NoBody]) -> None:
    """Reset one config to its default. As in Kafka, a config that is not set or unknown is no error."""
    change = ConfigChange(name=CONFIG.of(call), operation=ConfigOperation.DELETE)
    await call.cluster.alter_configs(ResourceType.TOPIC, TOPIC_NAME.of(call), [change])


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
GET_TOPIC = Operation.get(
    TOPIC,
    "Describe a topic",
    get_topic,
    Topic,
    state=topic_state,
    parameters=(TOPIC_NAME,),
    command=Command(name="topics describe", examples=("orders", "orders payments -o yaml"), each="topic"),
)
GET_CONFIGS = Operation.get(
    CONFIGS,
    "List a topic's configs",
    get_topic_configs,
    ConfigEntry,
    many=True,
    parameters=(TOPIC_NAME, ALL_CONFIGS, DOCUMENTATION),
    state=configs_state,
    command=Command(
        name="configs describe topics",
        examples=("orders",),
        columns=CONFIG_COLUMNS,
    ),
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
        parameters=(VALIDATE_ONLY,),
        fields={**SPEC_FIELDS, **NAME_FIELDS},
        command=Command(
            name="topics create",
            examples=(
                "orders --partitions 6 --replication-factor 3 --config min.insync.replicas=2",
                "orders payments --if-not-exists",
                "orders --assignment 0:1,2 --assignment 1:2,3  two partitions with leaders 1 and 2",
            ),
            arguments=("name",),
            each="name",
            options={
                "partitions": "-p --partitions",
                "replication_factor": "-r --replication-factor",
                "configs": "-c --config",
                "assignments": "--assignment",
            },
            complete={"configs": "topic_configs"},
            tolerate={"if_not_exists": ErrorCode.TOPIC_ALREADY_EXISTS},
            columns=("name", "topic_id", "partitions", "replication_factor", "validated_only"),
        ),
    ),
    GET_TOPIC,
    Operation(
        method="DELETE",
        path=TOPIC,
        summary="Delete a topic",
        handle=delete_topic,
        status=204,
        guard=GET_TOPIC,
        parameters=(TOPIC_NAME,),
        command=Command(
            name="topics delete",
            examples=("orders payments --if-exists",),
            each="topic",
            tolerate={"if_exists": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION},
            done="{topic} deleted",
        ),
    ),
    Operation(
        method="POST",
        path=f"{TOPIC}/partitions",
        summary="Add partitions",
        handle=add_partitions,
        body=PartitionCount,
        status=204,
        parameters=(TOPIC_NAME, VALIDATE_ONLY),
        fields={ErrorCode.INVALID_PARTITIONS: "count"},
        command=Command(
            name="partitions add",
            examples=("orders 12",),
            arguments=("topic", "count"),
            done="{topic} has {count} partitions",
        ),
    ),
    GET_CONFIGS,
    GET_CONFIGS.patch(
        "Change a topic's configs",
        alter_topic_configs,
        ConfigAlter,
        parameters=(VALIDATE_ONLY,),
        command=Command(
            name="configs alter topics",
            examples=("orders --set retention.ms=3600000 --delete cleanup.policy",),
            options={"set": "-s --set"},
            done="{topic} changed",
        ),
    ),
    Operation(
        method="DELETE",
        path=f"{CONFIGS}/{{config}}",
        summary="Reset a topic's config",
        handle=delete_topic_config,
        status=204,
        guard=GET_CONFIGS,
        parameters=(TOPIC_NAME, CONFIG),
    ),
]
