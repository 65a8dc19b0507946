"""A node's loggers as configs of its BROKER_LOGGER resource (KIP-412): names, Kafka's levels, permitted changes.

The response to DescribeConfigs, and the check of IncrementalAlterConfigs, at brokers and controllers: each responds for
its own process only. `root` is the level of all loggers without their own; DELETE resets a logger to the root's level.
Sans-IO.

Source: RuntimeLoggerManager, LoggingController, LogLevelConfig.
"""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final

from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.incremental_alter_configs import AlterableConfig, AlterConfigsResource
from kvorum.runtime.logs import ROOT, Level

SET, DELETE, APPEND, SUBTRACT = range(4)
LEVELS: Final[Mapping[str, Level]] = MappingProxyType(
    {("WARN" if level is Level.WARNING else level.name): level for level in Level if level is not Level.OFF}
)
"""Kafka's names. OFF can be configured at the start and is then returned, but cannot be set."""


def levels_by_name(root: Level, levels: Mapping[str, Level]) -> dict[str, str]:
    """Return the level of each logger by Kafka's name for it, the root's among them."""
    return {name: kafka_name(level) for name, level in sorted({**levels, ROOT: root}.items())}


def kafka_name(level: Level) -> str:
    """Return what Kafka calls a level."""
    return "WARN" if level is Level.WARNING else level.name


def checked_changes(
    resource: AlterConfigsResource, node_id: int, loggers: Collection[str]
) -> list[tuple[str, Level | None]]:
    """Return the requested (logger, level or None for the root's), if all of them are permitted.

    Raises:
        KafkaError: INVALID_REQUEST (another node, an unsupported operation), INVALID_CONFIG (unknown logger or level);
            nothing is changed then.
    """
    check_node_id(resource.resource_name, node_id)
    return [(config.name, _checked_level(config, loggers)) for config in resource.configs]


def check_node_id(name: str, node_id: int) -> None:
    """Raise KafkaError INVALID_REQUEST unless the resource's name is this node's id."""
    if not (name.isascii() and name.removeprefix("-").isdigit()):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
    if int(name) != node_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unexpected node id. Expected {node_id}, but received {name}")


def _checked_level(config: AlterableConfig, loggers: Collection[str]) -> Level | None:
    if config.config_operation in (APPEND, SUBTRACT):
        name = "APPEND" if config.config_operation == APPEND else "SUBTRACT"
        message = f"{name} operation is not allowed for the BROKER_LOGGER resource"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    if config.config_operation not in (SET, DELETE):
        message = f"Unknown operation type {config.config_operation} is not allowed for the BROKER_LOGGER resource"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    if config.name != ROOT and config.name not in loggers:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Logger {config.name} does not exist!")
    if config.config_operation == DELETE:
        if config.name == ROOT:
            message = f"Removing the log level of the {ROOT} logger is not allowed"
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
        return None
    level = LEVELS.get(config.value or "")
    if level is None:
        message = (
            f"Cannot set the log level of {config.name} to {config.value} as it is not a supported log level. "
            f"Valid log levels are {', '.join(sorted(LEVELS))}"
        )
        raise KafkaError(ErrorCode.INVALID_CONFIG, message)
    return level
