"""Common parts of topic configs, broker configs and configs of all brokers: format, checks, changes."""

from collections.abc import Sequence
from typing import Any

from kvorum.admin.http.operations import Call, NoBody, Operation
from kvorum.admin.v3.config_models import ConfigSynonymData
from kvorum.admin.v3.links import Links, not_found
from kvorum.admin.v3.path_parameters import CLUSTER_ID, CONFIG_NAME, get_operation, operation
from kvorum.admin.v3.requests import AlterConfigBatchRequestData, AlterEntry, UpdateConfigRequestData
from kvorum.client.namespaces.configs import Configs
from kvorum.client.values.config import Config
from kvorum.client.wire.cluster_client import ConfigChange, ConfigOperation, ResourceType


def common(links: Links, row: Config, parts: Sequence[str | int], *names: Any) -> dict[str, Any]:
    """Return the common fields of configs; path segments and names are those of the resource."""
    kind = "broker-config" if parts == ("broker-configs",) else "config"
    inside = () if kind == "broker-config" else ("configs",)
    return {
        "metadata": links.metadata((*parts, *inside, row.name), *names, (kind, row.name)),
        "cluster_id": links.cluster_id,
        "name": row.name,
        "value": row.value,
        "is_default": row.is_default,
        "is_read_only": row.is_read_only,
        "is_sensitive": row.is_sensitive,
        "source": row.source,
        "synonyms": [ConfigSynonymData(name=it.name, value=it.value, source=it.source) for it in row.synonyms],
    }


async def config_of(call: Call[NoBody], kind: ResourceType, resource: str) -> Config:
    """Return the config of a resource that the path names. Raises HttpError, KafkaError."""
    for row in await Configs(call.cluster).describe(kind, resource):
        if row.name == CONFIG_NAME.of(call):
            return row
    raise not_found()


async def check_known(call: Call[Any], kind: ResourceType, resource: str, names: Sequence[str]) -> None:
    """Refuse configs that the resource has not. Raises HttpError, KafkaError."""
    known = {row.name for row in await Configs(call.cluster).describe(kind, resource)}
    for name in names:
        if name not in known:
            cluster = CLUSTER_ID.of(call)
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
    """Change configs that the resource has. Raises HttpError, KafkaError."""
    await check_known(call, kind, resource, [change.name for change in changes])
    await call.cluster.alter_configs(kind, resource, changes, validate_only=only)


def removal(call: Call[NoBody]) -> list[ConfigChange]:
    """Return the change that sets the config of the path back."""
    return [ConfigChange(name=CONFIG_NAME.of(call), operation=ConfigOperation.DELETE)]


def new_value(call: Call[UpdateConfigRequestData]) -> list[ConfigChange]:
    """Return the change that sets the config of the path."""
    return [ConfigChange(name=CONFIG_NAME.of(call), value=call.body.value)]


def paths(path: str, listed: type, single: type, handles: Sequence[Any], whose: str) -> list[Operation]:
    """Return the operations of every kind of resource: list, alter, get, set, delete, in the order of the handlers."""
    get_all, batch, get, update, delete = handles
    config = f"{path}/{{name}}"
    body = UpdateConfigRequestData
    return [
        get_operation(path, f"List configs of {whose}", get_all, listed),
        operation(
            method="POST",
            path=f"{path}:alter",
            summary=f"Change configs of {whose}",
            handle=batch,
            body=AlterConfigBatchRequestData,
            status=204,
        ),
        get_operation(config, f"Get a config of {whose}", get, single),
        operation(method="PUT", path=config, summary=f"Set a config of {whose}", handle=update, body=body, status=204),
        operation(method="DELETE", path=config, summary=f"Reset a config of {whose}", handle=delete, status=204),
    ]
