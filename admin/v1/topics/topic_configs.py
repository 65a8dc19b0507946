"""Configs between HTTP and Kafka's requests."""

from collections.abc import Mapping

from pydantic import BaseModel

from kvorum.admin.http.operations import Call, NoBody
from kvorum.admin.v1.models import ConfigAlter, ConfigEntry
from kvorum.client.config_sources import Source, source_name
from kvorum.client.wire.cluster_client import ConfigChange, ConfigOperation, ResourceType
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.describe_configs import DescribeConfigsResourceResult
from kvorum.runtime.config_defs import ConfigDef
from kvorum.runtime.config_types import ConfigType

Definitions = Mapping[str, ConfigDef]
CONFIG_TYPES = frozenset(ConfigType)


def entries(configs: list[DescribeConfigsResourceResult], everything: bool) -> list[BaseModel]:
    """Return configs for HTTP, by name: those that were set somewhere, or all."""
    return [
        ConfigEntry(
            name=config.name,
            value=None if config.is_sensitive else config.value,
            source=source_name(config.config_source),
            read_only=config.read_only,
            sensitive=config.is_sensitive,
            type=None,
            documentation=None,
            choices=None,
        )
        for config in sorted(configs, key=lambda config: config.name)
        if everything or config.config_source != Source.DEFAULT_CONFIG
    ]


async def listed_entries(
    call: Call[NoBody], kind: ResourceType, name: str, definitions: Definitions
) -> list[BaseModel]:
    """Return the configs of a topic or broker for a request with LISTED_CONFIGS. Raises KafkaError."""
    documented = call.flag("documentation")
    found = await call.cluster.describe_configs(kind, name, documentation=documented)
    rows = entries(found, call.flag("all"))
    if not documented:
        return rows
    described = {config.name: config for config in found}
    for row in rows:
        assert isinstance(row, ConfigEntry)
        config, definition = described[row.name], definitions.get(row.name)
        words = definition.validator.words if definition is not None and definition.validator is not None else ()
        is_boolean = config.config_type == ConfigType.BOOLEAN
        row.type = ConfigType(config.config_type).name if config.config_type in CONFIG_TYPES else None
        row.documentation = config.documentation or None
        row.choices = ["true", "false"] if is_boolean else list(words) or None
    return rows


def configs_state(rows: list[ConfigEntry]) -> object:
    """Return the part of listed configs that a change could overwrite: explicit values, with or without defaults."""
    return [(row.name, row.value, row.source) for row in rows if row.source != Source.DEFAULT_CONFIG.name]


def changes_of(body: ConfigAlter) -> list[ConfigChange]:
    """Return the changes of a body. Raises KafkaError(INVALID_REQUEST) without any."""
    found = [ConfigChange(name=name, value=value) for name, value in body.set.items()]
    found += [ConfigChange(name=name, operation=ConfigOperation.DELETE) for name in body.delete]
    for operation, values in ((ConfigOperation.APPEND, body.append), (ConfigOperation.SUBTRACT, body.subtract)):
        found += [ConfigChange(name=name, value=value, operation=operation) for name, value in values.items()]
    if not found:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "nothing to change: give set, delete, append or subtract")
    return found
