"""Configs between HTTP and Kafka's requests."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from pydantic import BaseModel

from kvorum.admin.http.operations import Call, NoBody
from kvorum.admin.http.parameters import ALL_CONFIGS, DOCUMENTATION
from kvorum.admin.v1.models import ConfigAlter, ConfigEntry
from kvorum.client.config_changes import config_changes
from kvorum.client.config_sources import Source
from kvorum.client.namespaces.configs import Configs
from kvorum.client.values.config import Config
from kvorum.client.wire.cluster_client import ConfigChange, ResourceType
from kvorum.runtime.config_defs import ConfigDef
from kvorum.runtime.config_types import ConfigType

Definitions = Mapping[str, ConfigDef]
NO_DEFINITIONS: Definitions = MappingProxyType({})

CONFIG_COLUMNS = ("name", "value", "source", "read_only", "type?", "documentation?")
"""Columns of configs on the command line."""


def entries(
    configs: Iterable[Config], everything: bool, documented: bool = False, definitions: Definitions = NO_DEFINITIONS
) -> list[BaseModel]:
    """Return configs for HTTP: those that were set somewhere, or all; `documented`: with types and choices."""
    return [
        ConfigEntry(
            name=config.name,
            value=config.value,
            source=config.source,
            read_only=config.is_read_only,
            sensitive=config.is_sensitive,
            type=config.type if documented else None,
            documentation=config.documentation if documented else None,
            choices=choices_of(config, definitions.get(config.name)) if documented else None,
        )
        for config in configs
        if everything or not config.is_default
    ]


def choices_of(config: Config, definition: ConfigDef | None) -> list[str] | None:
    """Return the allowed values of a config; None if all of its type are."""
    words = definition.validator.words if definition is not None and definition.validator is not None else ()
    return ["true", "false"] if config.type == ConfigType.BOOLEAN.name else list(words) or None


async def list_entries(call: Call[NoBody], kind: ResourceType, name: str, definitions: Definitions) -> list[BaseModel]:
    """Return the configs of a topic or broker for a request with LISTED_CONFIGS. Raises KafkaError."""
    documented = DOCUMENTATION.of(call)
    found = await Configs(call.cluster).describe(kind, name, documentation=documented)
    return entries(found, ALL_CONFIGS.of(call), documented, definitions)


def configs_state(rows: list[ConfigEntry]) -> object:
    """Return the part of listed configs that a change could overwrite: explicit values, with or without defaults."""
    return [(row.name, row.value, row.source) for row in rows if row.source != Source.DEFAULT_CONFIG.name]


def changes_of(body: ConfigAlter) -> list[ConfigChange]:
    """Return the changes of a body. Raises KafkaError(INVALID_REQUEST) without any."""
    return config_changes(set=body.set, delete=body.delete, append=body.append, subtract=body.subtract)
