"""Known configs, their valid and effective values (Kafka's KafkaConfigSchema, LogConfig.validate).

Sans-IO. Decisions use `ConfigSchema`; `KafkaConfigSchema` answers from the tables of runtime.config_defs and the node's
own configuration.
"""

from collections.abc import Collection, Mapping
from typing import Final, Protocol, assert_never

from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.create_topics import CreatableTopicConfigs
from kvorum.quorum.configs.changes import check_broker_change, check_key
from kvorum.quorum.configs.layers import ConfigLayers
from kvorum.quorum.image.client_metrics import subscription_of
from kvorum.quorum.image.configs import CLUSTER_DEFAULT, ConfigsImage, ConfigSource, EffectiveValue, ResourceType
from kvorum.runtime import config_defs
from kvorum.runtime.config import Settings
from kvorum.runtime.config_defs import ConfigDef, is_value
from kvorum.runtime.config_types import ConfigType, InvalidValue, Value

CONFIG_LENGTH_MAX: Final = 64 * 1024
"""Characters of one config's name and value: written as JSON they fit a metadata record six times over escaped."""
CONFIGS_PER_RESOURCE_MAX: Final = 1_000
"""Several times Kafka's number; only unknown configs (a plug-in's, for brokers) could exceed it."""


class ConfigSchema(Protocol):
    """Config lookups for decisions."""

    def validate(
        self,
        resource_type: ResourceType,
        name: str,
        configs: Mapping[str, str],
        *,
        changed: Collection[str] | None = None,
    ) -> None:
        """Check all resulting configs of a resource (of any type but BROKER_LOGGER); of a broker only `changed`.

        Raises KafkaError INVALID_CONFIG, for CLIENT_METRICS INVALID_REQUEST too.
        """
        ...

    def check_broker_change(self, configs: ConfigsImage, name: str, changes: Mapping[str, str | None]) -> None:
        """Check changes of dynamic broker configs by this node's own. Raises KafkaError INVALID_CONFIG."""
        ...

    def is_list(self, resource_type: ResourceType, key: str) -> bool:
        """Return whether values of this config can be appended and subtracted."""
        ...

    def default(self, resource_type: ResourceType, key: str) -> str | None:
        """Return the built-in default of a config."""
        ...

    def topic_value(self, configs: ConfigsImage, topic: str, key: str) -> str:
        """Return the effective value for a topic, down to the built-in default."""
        ...

    def describe_new_topic(self, configs: ConfigsImage, overrides: Mapping[str, str]) -> list[CreatableTopicConfigs]:
        """Return all topic configs with the effective values for a topic with these overrides, by name."""
        ...


class KafkaConfigSchema:
    """Kafka 4.3's configs. `static` is the node's own configuration, by broker key, as written."""

    def __init__(self, static: Mapping[str, str], node_id: int) -> None:
        """Store the node's own configuration and its id, whose dynamic broker configs apply."""
        self._static = static
        self._node_id = node_id

    def validate(
        self,
        resource_type: ResourceType,
        name: str,
        configs: Mapping[str, str],
        *,
        changed: Collection[str] | None = None,
    ) -> None:
        """See ConfigSchema. Raises KafkaError INVALID_CONFIG, for CLIENT_METRICS INVALID_REQUEST too."""
        _check_size(configs)
        try:
            if resource_type is ResourceType.TOPIC:
                _check_topic(config_defs.validate_topic_configs(configs))
            elif resource_type is ResourceType.GROUP:
                self._check_group(config_defs.validate_group_configs(configs))
            elif resource_type is ResourceType.CLIENT_METRICS:
                subscription_of(name, configs)
            else:
                for key, value in sorted(configs.items()):
                    if changed is not None and key not in changed:
                        continue
                    _validate_broker_config(name, key, value)
        except InvalidValue as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error

    def check_broker_change(self, configs: ConfigsImage, name: str, changes: Mapping[str, str | None]) -> None:
        """See ConfigSchema. This node's static configs replace the broker's, which it cannot know."""
        cluster_wide = name == CLUSTER_DEFAULT
        layers = ConfigLayers.of(Settings.of(self._static), configs, self._node_id if cluster_wide else int(name))
        try:
            check_broker_change(layers, changes, cluster_wide=cluster_wide)
        except InvalidValue as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error

    def is_list(self, resource_type: ResourceType, key: str) -> bool:
        """Return whether values of this config can be appended and subtracted."""
        definition = _definition(resource_type, key)
        return definition is not None and definition.type is ConfigType.LIST

    def default(self, resource_type: ResourceType, key: str) -> str | None:
        """Return the built-in default of a config."""
        definition = _definition(resource_type, key)
        return None if definition is None else definition.default

    def topic_value(self, configs: ConfigsImage, topic: str, key: str) -> str:
        """Return the effective value for a topic. The config must have a default."""
        value = self._effective(configs, configs.topic(topic), config_defs.TOPIC[key])
        assert value is not None, f"{key} has a default"
        return value.value

    def describe_new_topic(self, configs: ConfigsImage, overrides: Mapping[str, str]) -> list[CreatableTopicConfigs]:
        """Return all topic configs with the effective values for a topic with these overrides, by name."""
        described = []
        for definition in config_defs.TOPIC.values():
            if definition.internal:
                continue
            found = self._effective(configs, overrides, definition)
            source = ConfigSource.DEFAULT_CONFIG if found is None else found.source
            value = None if found is None or definition.sensitive else found.value
            described.append(
                CreatableTopicConfigs(
                    name=definition.name, value=value, config_source=source, is_sensitive=definition.sensitive
                )
            )
        return described

    def _check_group(self, values: Mapping[str, Value]) -> None:
        """Check a group's values against the limits of brokers (Kafka's GroupConfig.validateValues)."""
        for key, value in values.items():
            name = key.removeprefix("consumer.")
            low, high = (self._broker_int(f"group.consumer.{bound}.{name}") for bound in ("min", "max"))
            assert isinstance(value, int), "all of a group's configs are numbers"
            if value < low:
                message = f"{key} must be greater than or equal to group.consumer.min.{name}"
                raise KafkaError(ErrorCode.INVALID_CONFIG, message)
            if value > high:
                message = f"{key} must be less than or equal to group.consumer.max.{name}"
                raise KafkaError(ErrorCode.INVALID_CONFIG, message)
        interval, session = (
            values.get(f"consumer.{name}", self._broker_int(f"group.consumer.{name}"))
            for name in ("heartbeat.interval.ms", "session.timeout.ms")
        )
        assert isinstance(interval, int) and isinstance(session, int), "both are INT with a default"
        if session <= interval:
            message = "consumer.session.timeout.ms must be greater than consumer.heartbeat.interval.ms"
            raise KafkaError(ErrorCode.INVALID_CONFIG, message)

    def _broker_int(self, key: str) -> int:
        """Return the value of this node's own configuration, which is equal on all nodes for shared keys."""
        text = self._static.get(key)
        value = config_defs.BROKER[key].default_value if text is None else config_defs.BROKER[key].parse(text)
        assert isinstance(value, int), f"{key} is an INT with a default"
        return value

    def _effective(
        self, configs: ConfigsImage, overrides: Mapping[str, str], definition: ConfigDef
    ) -> EffectiveValue | None:
        override = overrides.get(definition.name)
        if override is not None and is_value(definition, override):
            return EffectiveValue(override, ConfigSource.DYNAMIC_TOPIC_CONFIG, definition.name)
        found = next(filter(_is_readable, configs.broker_values(definition.synonyms, self._node_id)), None)
        if found is None:
            static = ((key, self._static.get(key)) for key in definition.synonyms)
            found = next(
                (
                    EffectiveValue(text, ConfigSource.STATIC_BROKER_CONFIG, key)
                    for key, text in static
                    if text is not None
                ),
                None,
            )
        if found is None:
            if definition.default is None:
                return None
            return EffectiveValue(definition.default, ConfigSource.DEFAULT_CONFIG, definition.name)
        if found.key.endswith((".hours", ".minutes")):
            converted = config_defs.milliseconds_of(found.key, int(found.value))
            return found._replace(value=str(max(converted, -1)))
        return found


def _is_readable(found: EffectiveValue) -> bool:
    """Return whether a dynamic broker config is valid: an earlier release may have stored an invalid value."""
    return is_value(config_defs.BROKER[found.key], found.value)


def _check_size(configs: Mapping[str, str]) -> None:
    if len(configs) > CONFIGS_PER_RESOURCE_MAX:
        message = f"{len(configs)} configs of one resource, at most {CONFIGS_PER_RESOURCE_MAX} are kept"
        raise KafkaError(ErrorCode.INVALID_CONFIG, message)
    for key, value in configs.items():
        if len(key) + len(value) > CONFIG_LENGTH_MAX:
            message = f"config {key[:100]} has {len(value)} characters, at most {CONFIG_LENGTH_MAX} are kept"
            raise KafkaError(ErrorCode.INVALID_CONFIG, message)


def _check_topic(values: Mapping[str, Value]) -> None:
    """Reject topic configs that are never permitted here (LogConfig.validateRemoteStorage...)."""
    if values.get("remote.storage.enable"):
        message = (
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
        raise KafkaError(ErrorCode.INVALID_CONFIG, message)


def _definition(resource_type: ResourceType, key: str) -> ConfigDef | None:
    match resource_type:
        case ResourceType.TOPIC:
            return config_defs.TOPIC.get(key)
        case ResourceType.BROKER:
            return config_defs.broker_def(key)
        case ResourceType.GROUP:
            return config_defs.GROUP.get(key)
        case ResourceType.UNKNOWN | ResourceType.BROKER_LOGGER | ResourceType.CLIENT_METRICS:
            return None
        case _:
            assert_never(resource_type)


def _validate_broker_config(name: str, key: str, value: str) -> None:
    """Check one dynamic broker config. Raises KafkaError INVALID_CONFIG, InvalidValue."""
    try:
        check_key(key, cluster_wide=name == CLUSTER_DEFAULT)
    except KafkaError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, error.message or "") from error
    definition = config_defs.broker_def(key)
    if definition is not None:
        definition.parse(value)
