"""The configuration in force: static settings with the cluster's dynamic configs laid over them.

    topic override > this broker's own > cluster-wide default > static settings > built-in default

The publisher calls `set_image` and `apply` with each change of the metadata. Parts that hold state which a config
decides (logs, the listeners' limits) subscribe, so changes take effect without a restart.

No value ends the broker. A value that cannot be read, breaks a rule with others, or that a subscriber cannot take over
is left out: the value before it stays in force, an error line names it, and `errors` counts it.
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
    """The present settings of one broker, layer by layer."""

    __slots__ = ("_broker_id", "_configs", "_refused", "_subscribers", "errors", "layers", "settings")

    def __init__(self, static: Settings, broker_id: int) -> None:
        """Start with the static settings alone."""
        self.layers = ConfigLayers.of(static, ConfigsImage(), broker_id)
        self.settings = static
        self.errors = 0
        """Values left out, and changes of the metadata that a part could not take over, since the start."""
        self._broker_id = broker_id
        self._configs = ConfigsImage()
        self._refused: dict[tuple[str, str], str] = {}
        self._subscribers: list[Subscriber] = []

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call this with every change of the broker's settings, in order of subscription."""
        self._subscribers.append(subscriber)

    def set_image(self, configs: ConfigsImage) -> None:
        """Take over the configs of a new image: logs made from now on have them. `apply` puts them into force."""
        self._configs = configs

    def apply(self) -> frozenset[str]:
        """Apply the broker's configs of the image; return those whose value changed."""
        before = self.layers
        if (before.cluster, before.own) == dynamic_layers(self._configs, self._broker_id):
            return frozenset()
        stored = {item for values in dynamic_layers(self._configs, self._broker_id) for item in values.items()}
        self._refused = {item: why for item, why in self._refused.items() if item in stored}
        after = self._layers_after(before)
        if self._take_over(after.settings, after.changed(before)) is not None:
            self._refuse_values(before, after)
            after = self._layers_after(before)
            self._take_over_surely(after.settings, after.changed(before))
        self.layers, self.settings = after, after.settings
        for left_out in after.left_out:
            if left_out not in before.left_out:
                self.errors += 1
                log.error("dynamic config ignored", **left_out._asdict())
        changed = after.changed(before)
        if changed:
            log.info("broker configs changed", keys=",".join(sorted(changed)))
        return changed

    def failed(self, part: str, error: Exception) -> None:
        """Count and log that a part could not apply a metadata change; its former state stays."""
        self.errors += 1
        log.error("metadata change not applied", part=part, reason=repr(error))

    def _layers_after(self, before: ConfigLayers) -> ConfigLayers:
        return ConfigLayers.of(before.static, self._configs, self._broker_id, before=before, refused=self._refused)

    def _take_over(self, settings: Settings, changed: frozenset[str]) -> Exception | None:
        """Call every subscriber; return the first error."""
        failure: Exception | None = None
        self.settings = settings
        for subscriber in self._subscribers if changed else ():
            try:
                subscriber(settings, changed)
            except Exception as error:
                failure = failure or error
        return failure

    def _take_over_surely(self, settings: Settings, changed: frozenset[str]) -> None:
        """Call every subscriber with values that were in force before; a failure is a fault that no value explains."""
        failure = self._take_over(settings, changed)
        if failure is not None:
            self.failed(",".join(sorted(changed)), failure)

    def _refuse_values(self, before: ConfigLayers, after: ConfigLayers) -> None:
        """Find the values that subscribers cannot take over, by trying each changed key alone; go back after each."""
        for key in sorted(after.changed(before)):
            alone = before.settings.with_entry(key, after.settings.explicit().get(key))
            failure = self._take_over(alone, frozenset((key,)))
            if failure is not None:
                for values in (after.cluster, after.own):
                    if key in values:
                        self._refused[key, values[key]] = f"this broker cannot apply it: {failure!r}"
            self._take_over_surely(before.settings, frozenset((key,)))

    def log_config(self, topic: str) -> LogConfig:
        """Return the present configuration of a topic's logs."""
        overrides = self._configs.topic(topic)
        try:
            return LogConfig.from_overrides(overrides, self.settings)
        except KafkaError as error:
            log.error("topic configs ignored", topic=topic, reason=error)
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
            log.error("topic config ignored", reason=error)
    return kept
