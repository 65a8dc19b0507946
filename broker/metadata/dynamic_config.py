"""The configuration in force: static settings with the cluster's dynamic configs laid over them.

    topic override > this broker's own > cluster-wide default > static settings > built-in default

The publisher calls `set_image` and `apply` with each change of the metadata; whoever holds state that a config
decides (logs, the listener's limits) is told through a subscription, so changes take effect without a restart. A
value that cannot be read is left out with an error line: the controller has checked it, so it was written by a
release that knew better.
Source: Kafka's DynamicBrokerConfig (KIP-226).
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from kvorum.protocol.errors import KafkaError
from kvorum.quorum.image.configs import CLUSTER_DEFAULT, ConfigsImage, ResourceType
from kvorum.runtime import config_defs
from kvorum.runtime.config import ConfigError, ConfigSource, Settings, Source
from kvorum.runtime.config_defs import Mutability
from kvorum.runtime.config_types import InvalidValue
from kvorum.runtime.logs import get_logger
from kvorum.storage.log_config import LogConfig

log = get_logger("broker")

CLUSTER_LAYER: Final = Source(ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, "cluster-wide dynamic config")
BROKER_LAYER: Final = Source(ConfigSource.DYNAMIC_BROKER_CONFIG, "dynamic config of this broker")

Subscriber = Callable[[Settings, frozenset[str]], None]
"""Called with the settings now in force and the keys whose value changed."""


class DynamicConfig:
    """The settings of one broker as they are now, layer by layer."""

    __slots__ = ("_broker_id", "_configs", "_subscribers", "broker_layer", "cluster_layer", "settings", "static")

    def __init__(self, static: Settings, broker_id: int) -> None:
        """Start with the static settings alone."""
        self.static = static
        self.settings = static
        self.cluster_layer: Mapping[str, str] = MappingProxyType({})
        self.broker_layer: Mapping[str, str] = MappingProxyType({})
        self._broker_id = broker_id
        self._configs = ConfigsImage()
        self._subscribers: list[Subscriber] = []

    def subscribe(self, subscriber: Subscriber) -> None:
        """Tell this one of every change of the broker's settings, in order of subscription."""
        self._subscribers.append(subscriber)

    def set_image(self, configs: ConfigsImage) -> None:
        """Take over the configs of a new image: logs made from now on have them. `apply` puts them into force."""
        self._configs = configs

    def apply(self) -> frozenset[str]:
        """Put the broker's configs of the image into force; return those whose value changed."""
        configs = self._configs
        cluster = dict(configs.of(ResourceType.BROKER, CLUSTER_DEFAULT))
        own = dict(configs.of(ResourceType.BROKER, str(self._broker_id)))
        if cluster == dict(self.cluster_layer) and own == dict(self.broker_layer):
            return frozenset()
        before = self.settings
        self.cluster_layer = MappingProxyType(cluster)
        self.broker_layer = MappingProxyType(own)
        settings = overlay(self.static, cluster, CLUSTER_LAYER, whole_cluster=True)
        self.settings = overlay(settings, own, BROKER_LAYER, whole_cluster=False)
        changed = frozenset(
            key for key in {*before, *self.settings} if text_of(before, key) != text_of(self.settings, key)
        )
        if changed:
            log.info("broker configs changed", keys=",".join(sorted(changed)))
            for subscriber in self._subscribers:
                subscriber(self.settings, changed)
        return changed

    def log_config(self, topic: str) -> LogConfig:
        """Return the configuration of a topic's logs as it is now."""
        overrides = self.topic_overrides(topic)
        try:
            return LogConfig.from_overrides(overrides, self.settings)
        except KafkaError as error:
            log.error("topic configs are left out", topic=topic, reason=error)
            return LogConfig.from_overrides(readable(overrides), self.settings)

    def topic_overrides(self, topic: str) -> Mapping[str, str]:
        """Return what was set for this topic itself."""
        return self._configs.topic(topic)

    def broker_overrides(self, name: str) -> Mapping[str, str]:
        """Return what was set dynamically for a broker id as text, or CLUSTER_DEFAULT."""
        return self._configs.of(ResourceType.BROKER, name)


def readable(overrides: Mapping[str, str]) -> dict[str, str]:
    """Return those of a topic's configs that this release can read."""
    kept: dict[str, str] = {}
    for name, text in overrides.items():
        definition = config_defs.TOPIC.get(name)
        try:
            if definition is not None:
                definition.parse(text)
                kept[name] = text
        except InvalidValue as error:
            log.error("topic config is left out", reason=error)
    return kept


def overlay(settings: Settings, values: Mapping[str, str], layer: Source, *, whole_cluster: bool) -> Settings:
    """Return the settings with dynamic values over them; what is not dynamic or not readable is left out."""
    for key, text in values.items():
        definition = config_defs.broker_def(key)
        if definition is None or not definition.dynamic:
            log.error("dynamic config is not known as one", key=key, layer=layer.where)
            continue
        if whole_cluster and definition.mutability is Mutability.PER_BROKER:
            log.error("config cannot be set for all brokers", key=key)
            continue
        try:
            settings = settings.with_overrides({key: text}, source=layer)
        except ConfigError as error:
            log.error("dynamic config is left out", reason=error)
    return settings


def text_of(settings: Settings, key: str) -> str | None:
    """Return a key's text for comparison, None where the key is not there."""
    return settings.raw(key) if config_defs.broker_def(key) is not None else None
