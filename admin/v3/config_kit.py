"""Common parts of topic configs, broker configs and configs of all brokers: format, checks, changes."""

from collections.abc import Sequence
from typing import Any

from kvorum.admin.http.operations import Call, NoBody, Operation
from kvorum.admin.v3.links import Links, not_found
from kvorum.admin.v3.models import ConfigSynonymData
from kvorum.admin.v3.requests import AlterConfigBatchRequestData, AlterEntry, UpdateConfigRequestData
from kvorum.client.config_sources import Source, source_name
from kvorum.client.wire.cluster_client import ConfigChange, ConfigOperation, ResourceType
from kvorum.protocol.messages.describe_configs import DescribeConfigsResourceResult

Rows = Sequence[DescribeConfigsResourceResult]


def common(links: Links, row: DescribeConfigsResourceResult, parts: Sequence[str | int], *names: Any) -> dict[str, Any]:
    """Return the common fields of configs; path segments and names are those of the resource."""
    kind = "broker-config" if parts == ("broker-configs",) else "config"
    inside = () if kind == "broker-config" else ("configs",)
    return {
        "metadata": links.metadata((*parts, *inside, row.name), *names, (kind, row.name)),
        "cluster_id": links.cluster_id,
        "name": row.name,
        "value": None if row.is_sensitive else row.value,
        "is_default": row.config_source == Source.DEFAULT_CONFIG,
        "is_read_only": row.read_only,
        "is_sensitive": row.is_sensitive,
        "source": source_name(row.config_source),
        "synonyms": [
            ConfigSynonymData(
                name=each.name, value=None if row.is_sensitive else each.value, source=source_name(each.source)
            )
            for each in row.synonyms
        ],
    }


def one(rows: Rows, name: str) -> list[DescribeConfigsResourceResult]:
    """Return the config with a name. Raises Refused."""
    found = [row for row in rows if row.name == name]
    if not found:
        raise not_found()
    return found


async def check_known(call: Call[Any], kind: ResourceType, resource: str, names: Sequence[str]) -> None:
    """Refuse configs that the resource has not. Raises Refused, KafkaError."""
    known = {row.name for row in await call.cluster.describe_configs(kind, resource)}
    for name in names:
        if name not in known:
            cluster = call.path["cluster_id"]
            raise not_found(f"Config {name} cannot be found for {kind.name} {resource} in cluster {cluster}.")


def changes_of(entries: Sequence[AlterEntry]) -> list[ConfigChange]:
    """Return the changes of a body."""
    return [
        ConfigChange(name=each.name, operation=ConfigOperation.DELETE)
        if each.operation == "DELETE"
        else ConfigChange(name=each.name, value=each.value)
        for each in entries
    ]


async def alter(
    call: Call[Any], kind: ResourceType, resource: str, changes: Sequence[ConfigChange], *, only: bool = False
) -> None:
    """Change configs that the resource has. Raises Refused, KafkaError."""
    await check_known(call, kind, resource, [change.name for change in changes])
    await call.cluster.alter_configs(kind, resource, changes, validate_only=only)


def removal(call: Call[NoBody]) -> list[ConfigChange]:
    """Return the change that sets the config of the path back."""
    return [ConfigChange(name=call.path["name"], operation=ConfigOperation.DELETE)]


def new_value(call: Call[UpdateConfigRequestData]) -> list[ConfigChange]:
    """Return the change that sets the config of the path."""
    return [ConfigChange(name=call.path["name"], value=call.body.value)]


def paths(path: str, listed: type, single: type, handles: Sequence[Any], whose: str) -> list[Operation]:
    """Return the operations of every kind of resource: list, alter, get, set, delete, in the order of the handlers."""
    get_all, batch, get, update, delete = handles
    config = f"{path}/{{name}}"
    body = UpdateConfigRequestData
    return [
        Operation.get(path, f"List configs of {whose}", get_all, listed),
        Operation(
            method="POST",
            path=f"{path}:alter",
            summary=f"Change configs of {whose}",
            handle=batch,
            body=AlterConfigBatchRequestData,
            status=204,
        ),
        Operation.get(config, f"Get a config of {whose}", get, single),
        Operation(method="PUT", path=config, summary=f"Set a config of {whose}", handle=update, body=body, status=204),
        Operation(method="DELETE", path=config, summary=f"Reset a config of {whose}", handle=delete, status=204),
    ]
