"""PUT of a topic: a plain body, or Strimzi's KafkaTopic as JSON or YAML, which can change the replication factor.

A replication factor is changed by a reassignment, which takes time: the status reports that it is in progress, and the
same document again changes nothing meanwhile.
"""

from datetime import UTC, datetime
from typing import Final, Literal

from kvorum.admin.http.operations import JSON, Call, Document, Operation
from kvorum.admin.http.parameters import TOPIC_NAME, VALIDATE_ONLY, BadInput
from kvorum.admin.v1.models import Change, TopicApplied, TopicSpec
from kvorum.admin.v1.topics import topic_routes
from kvorum.admin.v1.topics.topic_document import (
    Condition,
    KafkaTopic,
    KafkaTopicStatus,
    ReplicasChange,
    TopicBrought,
    read_json,
    read_yaml,
)
from kvorum.admin.v1.topics.topic_routes import GET_TOPIC, SPEC_FIELDS, TOPIC, find_topic
from kvorum.client.reassignments.replica_count import NO_CHANGE, begin, plan_replication_factor
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.metadata import MetadataResponseTopic
from kvorum.runtime.clock import Clock

YAML: Final = ("application/yaml", "application/x-yaml")


async def apply_topic(call: Call[TopicSpec] | Call[KafkaTopic]) -> TopicApplied:
    """Create a topic or change it to the described state. The request is idempotent.

    The number of partitions can only increase. Configs that the body omits are reset to the defaults. Only a KafkaTopic
    changes the replication factor: it starts a reassignment, shown in `status`.
    """
    body = call.body
    if isinstance(body, TopicSpec):
        return await topic_routes.apply_topic(with_spec(call, body))
    name, only = TOPIC_NAME.of(call), VALIDATE_ONLY.of(call)
    if body.topic != name:
        field = "metadata.name" if body.spec.topicName is None else "spec.topicName"
        raise BadInput(field, f"the document describes topic {body.topic!r}, the path {name!r}")
    if body.pause_condition is not None:
        alone = status_of(body, call.clock, body.pause_condition)
        return TopicBrought(name=name, created=False, changes=[], validated_only=only, status=alone)
    cluster = await call.cluster.up_to_date()  # a change made a moment ago must not appear as pending
    topic, spec, resizing = await find_topic(cluster, name), body.plain(), NO_CHANGE
    if topic is None:
        spec.replication_factor = body.spec.replicas
    elif body.spec.replicas is not None and not call.only_create:
        resizing = await plan_replication_factor(cluster, topic, body.spec.replicas)
    applied = await topic_routes.apply_topic(with_spec(call, spec))
    changes = list(applied.changes)
    if resizing.target:
        changes.append(Change(what="replication_factor", before=resizing.before, after=body.spec.replicas))
        if not only:
            await begin(call.cluster, resizing.target)
    if only:
        return TopicBrought(name=name, created=applied.created, changes=changes, validated_only=True)
    topic = topic or await find_topic(call.cluster, name)
    status = status_of(body, call.clock, "Ready", topic, bool(resizing.target) or resizing.is_in_progress)
    return TopicBrought(name=name, created=applied.created, changes=changes, validated_only=False, status=status)


def with_spec(call: Call[TopicSpec] | Call[KafkaTopic], spec: TopicSpec) -> Call[TopicSpec]:
    """Return the call with a plain body."""
    return Call(
        cluster=call.cluster,
        path=call.path,
        query=call.query,
        body=spec,
        clock=call.clock,
        only_create=call.only_create,
    )


def status_of(
    body: KafkaTopic,
    clock: Clock,
    condition: Literal["Ready", "Unmanaged", "ReconciliationPaused"],
    topic: MetadataResponseTopic | None = None,
    resizes: bool = False,
) -> KafkaTopicStatus:
    """Return the status of a document that was carried out, or is left alone."""
    now = datetime.fromtimestamp(clock.wall_ms() / 1000, UTC).isoformat(timespec="milliseconds")
    moment = now.replace("+00:00", "Z")
    change = None
    if resizes:
        assert body.spec.replicas is not None, "requested by the document"
        change = ReplicasChange(targetReplicas=body.spec.replicas, state="ongoing")
    return KafkaTopicStatus(
        conditions=[Condition(type=condition, status="True", lastTransitionTime=moment)],
        observedGeneration=body.metadata.generation,
        topicName=body.topic,
        topicId=None if topic is None else str(topic.topic_id),
        replicasChange=change,
    )


OPERATIONS = [
    Operation(
        method="PUT",
        path=TOPIC,
        summary="Create or change a topic",
        handle=apply_topic,
        body=TopicSpec,
        documents={
            JSON: Document(models=(TopicSpec, KafkaTopic), read=read_json),
            **dict.fromkeys(YAML, Document(models=(KafkaTopic,), read=read_yaml)),
        },
        answer=TopicBrought,
        parameters=(TOPIC_NAME, VALIDATE_ONLY),
        fields={
            **SPEC_FIELDS,
            ErrorCode.INVALID_TOPIC_EXCEPTION: "topic",
            ErrorCode.REASSIGNMENT_IN_PROGRESS: "replication_factor",
        },
        guard=GET_TOPIC,
    )
]
