"""Configs of groups (KIP-848) and of subscriptions to client metrics (KIP-714) over HTTP, and their list."""

from collections.abc import Sequence

from pydantic import BaseModel, Field

from kvorum.admin.http.commands import Command
from kvorum.admin.http.operations import Call, NoBody, Operation, Rows
from kvorum.admin.http.paging import behind, next_query
from kvorum.admin.http.parameters import ALL_CONFIGS, GROUP_ID, ROWS, VALIDATE_ONLY, optional_text, text
from kvorum.admin.v1.models import ConfigAlter, ConfigEntry, Configs
from kvorum.admin.v1.topics.topic_configs import CONFIG_COLUMNS, changes_of, configs_state, entries
from kvorum.client.config_changes import config_resources
from kvorum.client.config_sources import Source
from kvorum.client.namespaces import configs
from kvorum.client.wire.cluster_client import ConfigChange, ConfigOperation, ResourceType, refuse
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)

KINDS = {"group": ResourceType.GROUP, "subscription": ResourceType.CLIENT_METRICS}
"""{path parameter: kind of resource}."""
OWN = {ResourceType.GROUP: Source.GROUP_CONFIG, ResourceType.CLIENT_METRICS: Source.CLIENT_METRICS_CONFIG}
"""{kind of resource: source of its own configs}."""
AT_ONCE = 100
"""Resources of one request to the cluster."""


SUBSCRIPTION_NAME = text("subscription", "name of the subscription")
AFTER = optional_text("after", "start after this name")


class ConfiguredResource(BaseModel):
    """A group or a client metrics subscription with its own configs."""

    name: str
    configs: Configs = Field(examples=[{"interval.ms": "10000"}])


def resource_of(call: Call[NoBody] | Call[ConfigAlter]) -> tuple[ResourceType, str]:
    """Return the resource of the path."""
    ((name, kind),) = ((name, kind) for name, kind in KINDS.items() if name in call.path)
    return kind, call.path[name]


async def get_resource_configs(call: Call[NoBody]) -> list[BaseModel]:
    """List configs with their sources."""
    kind, name = resource_of(call)
    return entries(await configs.Configs(call.cluster).describe(kind, name), ALL_CONFIGS.of(call))


async def alter_resource_configs(call: Call[ConfigAlter]) -> None:
    """Change configs, leave the others."""
    kind, name = resource_of(call)
    only = VALIDATE_ONLY.of(call)
    await call.cluster.alter_configs(kind, name, changes_of(call.body), validate_only=only)


async def list_of(call: Call[NoBody], kind: ResourceType) -> Rows:
    """Return the resources of a kind with own configs, by name, in pages."""
    limit = ROWS.of(call)
    names = await config_resources(call.cluster, kind)
    page, more = behind(names, lambda name: name, AFTER.of(call), limit)
    rows: list[BaseModel] = []
    for start in range(0, len(page), AT_ONCE):
        rows += await describe_resources(call, kind, page[start : start + AT_ONCE])
    return Rows(rows=rows, next_query=next_query(call, page[-1]) if more else None)


async def describe_resources(call: Call[NoBody], kind: ResourceType, names: Sequence[str]) -> list[ConfiguredResource]:
    """Return the own configs of some resources; those without any are omitted."""
    wanted = [
        DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None) for name in names
    ]
    answer = await call.cluster.ask(DescribeConfigsRequest(resources=wanted), DescribeConfigsResponse)
    found = []
    for row in answer.results:
        refuse(row.error_code, row.error_message or f"{kind.name.lower()} {row.resource_name!r}")
        own = {each.name: each.value or "" for each in row.configs if each.config_source == OWN[kind]}
        if own:
            found.append(ConfiguredResource(name=row.resource_name, configs=own))
    return found


async def list_configured_groups(call: Call[NoBody]) -> Rows:
    """List the groups that have configs, whether the group exists or not."""
    return await list_of(call, ResourceType.GROUP)


async def list_client_metrics(call: Call[NoBody]) -> Rows:
    """List the subscriptions to client metrics."""
    return await list_of(call, ResourceType.CLIENT_METRICS)


async def get_group_configs(call: Call[NoBody]) -> list[BaseModel]:
    """List a group's configs with their sources. As in Kafka, the group need not exist."""
    return await get_resource_configs(call)


async def alter_group_configs(call: Call[ConfigAlter]) -> None:
    """Change some configs of a group; the others are unchanged."""
    await alter_resource_configs(call)


async def get_client_metrics(call: Call[NoBody]) -> list[BaseModel]:
    """List the configs of a subscription to client metrics: metrics, interval, clients."""
    return await get_resource_configs(call)


async def alter_client_metrics(call: Call[ConfigAlter]) -> None:
    """Create or change a subscription. It exists while it has configs."""
    await alter_resource_configs(call)


async def delete_client_metrics(call: Call[NoBody]) -> None:
    """Delete a subscription with all its configs. Raises KafkaError RESOURCE_NOT_FOUND if it has none."""
    kind, name = resource_of(call)
    own = await describe_resources(call, kind, [name])
    if not own:
        raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, f"client metrics subscription {name!r} does not exist")
    changes = [ConfigChange(name=each, operation=ConfigOperation.DELETE) for each in own[0].configs]
    await call.cluster.alter_configs(kind, name, changes)


GROUP_CONFIGS = "/v1/groups/{group}/configs"
CLIENT_METRICS = "/v1/client-metrics"
SUBSCRIPTION = f"{CLIENT_METRICS}/{{subscription}}"
PAGING = (
    AFTER,
    ROWS,
)
GET_GROUP_CONFIGS = Operation.get(
    GROUP_CONFIGS,
    "List a group's configs",
    get_group_configs,
    ConfigEntry,
    many=True,
    parameters=(GROUP_ID, ALL_CONFIGS),
    state=configs_state,
    command=Command(
        name="configs describe groups",
        examples=("payments",),
        columns=CONFIG_COLUMNS,
    ),
)
GET_CLIENT_METRICS = Operation.get(
    SUBSCRIPTION,
    "Get a subscription to client metrics",
    get_client_metrics,
    ConfigEntry,
    many=True,
    parameters=(SUBSCRIPTION_NAME, ALL_CONFIGS),
    state=configs_state,
    command=Command(
        name="configs describe client-metrics",
        examples=("latency",),
        columns=CONFIG_COLUMNS,
    ),
)
OPERATIONS = [
    GET_GROUP_CONFIGS,
    GET_GROUP_CONFIGS.patch(
        "Change a group's configs",
        alter_group_configs,
        ConfigAlter,
        parameters=(VALIDATE_ONLY,),
        command=Command(
            name="configs alter groups",
            examples=("payments --set consumer.session.timeout.ms=50000",),
            options={"set": "-s --set"},
            done="{group} changed",
        ),
    ),
    Operation.get(
        "/v1/group-configs",
        "List groups with configs",
        list_configured_groups,
        ConfiguredResource,
        many=True,
        parameters=(*PAGING,),
        command=Command(name="configs list groups", examples=("",), columns=("name", "configs")),
    ),
    Operation.get(
        CLIENT_METRICS,
        "List subscriptions to client metrics",
        list_client_metrics,
        ConfiguredResource,
        many=True,
        parameters=(*PAGING,),
        command=Command(name="configs list client-metrics", examples=("",), columns=("name", "configs")),
    ),
    GET_CLIENT_METRICS,
    GET_CLIENT_METRICS.patch(
        "Create or change a subscription to client metrics",
        alter_client_metrics,
        ConfigAlter,
        parameters=(VALIDATE_ONLY,),
        command=Command(
            name="configs alter client-metrics",
            examples=("latency --set interval.ms=10000",),
            options={"set": "-s --set"},
            done="{subscription} changed",
        ),
    ),
    Operation(
        method="DELETE",
        path=SUBSCRIPTION,
        summary="Delete a subscription to client metrics",
        handle=delete_client_metrics,
        status=204,
        guard=GET_CLIENT_METRICS,
        parameters=(SUBSCRIPTION_NAME,),
        command=Command(name="configs delete client-metrics", examples=("latency",), done="{subscription} deleted"),
    ),
]
