"""The configuration in force: static settings with the cluster's dynamic configs laid over them.

    topic override > this broker's own > cluster-wide default > static settings > built-in default

The publisher calls `set_image` and `apply` with each change of the metadata; whoever holds state that a config
decides (logs, the listener's limits) is told through a subscription, so changes take effect without a restart. A
value that cannot be read is left out with an error line: the controller has checked it, so it was written by a
release that knew better.
Source: Kafka's DynamicBrokerConfig (KIP-226). The layers below topics: quorum/configs/layers.
"""

from collections.abc import Callable, Mapping

from kvorum.protocol.errors import KafkaError
from kvorum.quorum.configs.layers import ConfigLayers, dynamic_layers
from kvorum.quorum.image.configs import ConfigsImage
from kvorum.runtime import config_defs
from kvorum.runtime.config import Settings
from kvorum.runtime.config_types import InvalidValue
from kvorum.runtime.logs import get_logger
from kvorum.storage.log_config import LogConfig

log = get_logger("broker")

Subscriber = Callable[[Settings, frozenset[str]], None]
"""Called with the settings now in force and the keys whose value changed."""


class DynamicConfig:
    """The settings of one broker as they are now, layer by layer."""

    __slots__ = ("_broker_id", "_configs", "_subscribers", "layers", "settings")

    def __init__(self, static: Settings, broker_id: int) -> None:
        """Start with the static settings alone."""
        self.layers = ConfigLayers.of(static, ConfigsImage(), broker_id)
        self.settings = static
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
        before = self.layers
        if (before.cluster, before.own) == dynamic_layers(self._configs, self._broker_id):
            return frozenset()
        self.layers = ConfigLayers.of(before.static, self._configs, self._broker_id)
        self.settings = self.layers.settings
        for key, layer, reason in self.layers.left_out:
            log.error("dynamic config is left out", key=key, layer=layer, reason=reason)
        changed = self.layers.changed(before)
        if changed:
            log.info("broker configs changed", keys=",".join(sorted(changed)))
            for subscriber in self._subscribers:
                subscriber(self.settings, changed)
        return changed

    def log_config(self, topic: str) -> LogConfig:
        """Return the configuration of a topic's logs as it is now."""
        overrides = self._configs.topic(topic)
        try:
            return LogConfig.from_overrides(overrides, self.settings)
        except KafkaError as error:
            log.error("topic configs are left out", topic=topic, reason=error)
            return LogConfig.from_overrides(readable(overrides), self.settings)


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
