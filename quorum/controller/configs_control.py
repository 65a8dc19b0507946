"""IncrementalAlterConfigs (44): v0-v1, and AlterConfigs (33): v0-v2 (ConfigurationControlManager).

Resources: TOPIC, BROKER (the name "" means all brokers), GROUP (whether there is such a group or not),
CLIENT_METRICS (KIP-714). BROKER_LOGGER is not metadata and is rejected: the receiving process sets its own. Each
resource succeeds or fails alone; the successful ones are one change. IncrementalAlterConfigs: SET, DELETE, and for
lists APPEND, SUBTRACT (KIP-339). AlterConfigs: replaces all configs of a resource by the given ones. A broker's config
is written again with an equal value: that makes it reload. Order of the checks: resource type, duplicate resource,
duplicate or null configs, operation, min.insync.replicas where eligible leader replicas are on (elr.py), name, values,
existence.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import replace
from typing import Final, Protocol, TypeVar, assert_never

from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages import alter_configs as legacy
from kvorum.protocol.messages import incremental_alter_configs as incremental
from kvorum.protocol.topic_names import check_topic_name
from kvorum.quorum.configs.alterations import altered
from kvorum.quorum.controller.broker_admin_state import (
    check_admin_state_configs,
    decommissioned_by,
    refusals_of,
    taken_back,
)
from kvorum.quorum.controller.context import Context
from kvorum.quorum.controller.departure import moves_taken_back
from kvorum.quorum.controller.departure_throttle import throttle_consequences
from kvorum.quorum.controller.elr import check_min_isr_configs, min_isr_consequences
from kvorum.quorum.controller.result import Result
from kvorum.quorum.image.configs import CLUSTER_DEFAULT, ConfigResource, ResourceType
from kvorum.quorum.image.partition_set import TopicIdPartition
from kvorum.quorum.records import Config, MetadataRecord, PartitionChange
from kvorum.quorum.steps import Steps
from kvorum.runtime.config_defs import COORDINATOR_PARTITIONS

CONFIGS_MAX: Final = 10_000
"""Configs that one request may name (Kafka's MAX_RECORDS_PER_USER_OP)."""

BROKER_ID_MAX: Final = 2**31 - 1

Item = TypeVar("Item", bound="Altered")
Row_co = TypeVar("Row_co", covariant=True)


def incremental_alter_configs(
    context: Context, request: incremental.IncrementalAlterConfigsRequest
) -> Steps[Result[incremental.IncrementalAlterConfigsResponse]]:
    """Change single configs; with `validate_only`, return only the result. Raises KafkaError POLICY_VIOLATION."""
    context = yield from _with_refusals(
        context, ((each, {config.name: config.value for config in each.configs}) for each in request.resources)
    )
    make_row = incremental.AlterConfigsResourceResponse
    records, rows = _each_resource(context, request.resources, make_row, _incremental_changes)
    records += yield from throttle_consequences(context.image, records)
    response = incremental.IncrementalAlterConfigsResponse(responses=rows)
    return Result(records=[] if request.validate_only else records, response=response)


def alter_configs(context: Context, request: legacy.AlterConfigsRequest) -> Steps[Result[legacy.AlterConfigsResponse]]:
    """Replace all configs of a resource; with `validate_only`, return only the result.

    Raises KafkaError POLICY_VIOLATION.
    """
    context = yield from _with_refusals(
        context, ((each, {config.name: config.value for config in each.configs}) for each in request.resources)
    )
    make_row = legacy.AlterConfigsResourceResponse
    records, rows = _each_resource(context, request.resources, make_row, _replacement)
    records += yield from throttle_consequences(context.image, records)
    response = legacy.AlterConfigsResponse(responses=rows)
    return Result(records=[] if request.validate_only else records, response=response)


def _with_refusals(context: Context, items: "Iterable[tuple[Altered, Mapping[str, str | None]]]") -> Steps[Context]:
    """Return the context with the errors of decommissions in a request."""
    leaving = decommissioned_by([(item.resource_type, item.resource_name, configs) for item, configs in items])
    if not leaving:
        return context
    return replace(context, departures_refused=(yield from refusals_of(context.image, leaving)))


class Altered(Protocol):
    """Common fields of the resources of both requests."""

    resource_type: int
    resource_name: str

    @property
    def configs(self) -> Sized:
        """The configs of the resource."""
        ...


class MakeRow(Protocol[Row_co]):
    """Constructor of the rows of both responses."""

    def __call__(
        self, *, error_code: int = 0, error_message: str | None, resource_type: int, resource_name: str
    ) -> Row_co:
        """Return a row."""
        ...


def answer_row(make_row: MakeRow[Row_co], item: Altered, error: KafkaError | None) -> Row_co:
    """Return the answer for one resource."""
    return make_row(
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.message,
        resource_type=item.resource_type,
        resource_name=item.resource_name,
    )


def _each_resource(
    context: Context,
    items: Sequence[Item],
    make_row: MakeRow[Row_co],
    changes: Callable[[Context, ResourceType, ConfigResource, Item], list[Config]],
) -> tuple[list[MetadataRecord], list[Row_co]]:
    """Return the records of the accepted resources, and a row for each. Raises KafkaError POLICY_VIOLATION."""
    _check_size(len(item.configs) for item in items)
    duplicates = _duplicates(ConfigResource(item.resource_type, item.resource_name) for item in items)
    records: list[MetadataRecord] = []
    rows: dict[ConfigResource, Row_co] = {}
    for item in items:
        resource = ConfigResource(item.resource_type, item.resource_name)
        if resource in rows:
            continue  # a duplicate is answered once
        error = None
        try:
            records += changes(context, _checked_type(resource, duplicates), resource, item)
        except KafkaError as found:
            error = found
        rows[resource] = answer_row(make_row, item, error)
    records += min_isr_consequences(context, records)
    return [*records, *recommission_consequences(context, records)], list(rows.values())


def recommission_consequences(context: Context, changes: Sequence[MetadataRecord]) -> list[MetadataRecord]:
    """Return the records that cancel reassignments off brokers that are no longer decommissioned."""
    changed = {TopicIdPartition(c.topic_id, c.partition_id) for c in changes if isinstance(c, PartitionChange)}
    return moves_taken_back(context, taken_back(context.image, changes), changed)


def _check_size(counts: Iterable[int]) -> None:
    total = sum(counts)
    if total > CONFIGS_MAX:
        message = f"Excessively large number of configs per request: {total}, at most {CONFIGS_MAX} are changed."
        raise KafkaError(ErrorCode.POLICY_VIOLATION, message)


def _duplicates(resources: Iterable[ConfigResource]) -> set[ConfigResource]:
    return {resource for resource, count in Counter(resources).items() if count > 1}


def _checked_type(resource: ConfigResource, duplicates: set[ConfigResource]) -> ResourceType:
    """Return a resource's type, one that has configs in the metadata. Raises KafkaError."""
    try:
        kind = ResourceType(resource.resource_type)
    except ValueError:
        kind = ResourceType.UNKNOWN
    match kind:
        case ResourceType.TOPIC | ResourceType.BROKER | ResourceType.GROUP | ResourceType.CLIENT_METRICS:
            if resource in duplicates:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate resource.")
            return kind
        case ResourceType.UNKNOWN:
            message = f"Unknown resource type {resource.resource_type}."
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, message)
        case ResourceType.BROKER_LOGGER:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Resource type {kind.name} has no configs in this cluster.")
        case _:
            assert_never(kind)


def _incremental_changes(
    context: Context, kind: ResourceType, resource: ConfigResource, item: incremental.AlterConfigsResource
) -> list[Config]:
    """Return the records of one resource. Raises KafkaError."""
    names = [alteration.name for alteration in item.configs]
    if len(set(names)) != len(names):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    current = context.image.configs.of(*resource)
    schema = context.schema
    wanted: dict[str, str | None] = {
        each.name: altered(
            each,
            current.get(each.name),
            schema.default(kind, each.name),
            is_list=schema.is_list(kind, each.name),
        )
        for each in item.configs
    }
    records = _records(kind, resource, current, wanted)
    check_min_isr_configs(context, records)
    _check(context, kind, resource, {**current, **wanted}, wanted)
    check_admin_state_configs(context.image, context.departures_refused, records)
    return records


def _replacement(
    context: Context, kind: ResourceType, resource: ConfigResource, item: legacy.AlterConfigsResource
) -> list[Config]:
    """Return the records that leave a resource with these configs alone. Raises KafkaError."""
    nulls = [config.name for config in item.configs if config.value is None]
    if nulls:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {','.join(nulls)}")
    names = [config.name for config in item.configs]
    if len(set(names)) != len(names):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    current = context.image.configs.of(*resource)
    wanted: dict[str, str | None] = {config.name: config.value for config in item.configs}
    kept = {*wanted, COORDINATOR_PARTITIONS}
    removed: dict[str, str | None] = {name: None for name in sorted(current) if name not in kept}
    records = _records(kind, resource, current, {**wanted, **removed})
    check_min_isr_configs(context, records)
    _check(context, kind, resource, wanted, {**wanted, **removed})
    check_admin_state_configs(context.image, context.departures_refused, records)
    return records


def _check(
    context: Context,
    kind: ResourceType,
    resource: ConfigResource,
    configs: Mapping[str, str | None],
    changes: Mapping[str, str | None],
) -> None:
    """Check the resulting configs of a resource, and that it exists.

    Raises KafkaError.

    For a broker only the changes are checked: an unreadable value beside them has no effect, and must not prevent its
    own removal.
    """
    remaining = {name: value for name, value in configs.items() if value is not None}
    if kind is ResourceType.TOPIC:
        if not resource.name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        check_topic_name(resource.name)
        context.schema.validate(kind, resource.name, remaining)
        if context.image.topics.topic(resource.name) is None:
            message = f"The topic '{resource.name}' does not exist."
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
        return
    if kind is ResourceType.CLIENT_METRICS:
        context.schema.validate(kind, resource.name, remaining)
        return
    if kind is ResourceType.GROUP:
        if not resource.name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
        context.schema.validate(kind, resource.name, remaining)
        return
    node_id = None if resource.name == CLUSTER_DEFAULT else _checked_node_id(resource.name)
    context.schema.validate(kind, resource.name, remaining, changed=changes.keys())
    if context.is_direct:
        context.schema.check_broker_change(context.image.configs, resource.name, changes)
    controllers = context.settings.controller_ids | {context.settings.node_id}
    if node_id is not None and node_id not in controllers and context.image.cluster.broker(node_id) is None:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No node with id {node_id} found.")


def _checked_node_id(name: str) -> int:
    """Return the node that a BROKER resource names. Raises KafkaError INVALID_REQUEST."""
    if (
        not name.removeprefix("-").isascii()
        or not name.removeprefix("-").isdigit()
        or len(name) > len(str(BROKER_ID_MAX))
    ):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Unable to parse broker name as a base 10 number.")
    if int(name) < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid negative broker ID.")
    return int(name)


def _records(
    kind: ResourceType, resource: ConfigResource, current: Mapping[str, str], wanted: Mapping[str, str | None]
) -> list[Config]:
    """Return what leads from the current to the wanted values (KAFKA-14136: for brokers also what stays)."""
    return [
        Config(resource_type=resource.resource_type, resource_name=resource.name, name=name, value=value)
        for name, value in wanted.items()
        if value != current.get(name) or kind is ResourceType.BROKER
    ]
