"""Topics of the source on the target: created, extended by new partitions, their configs followed.

A topic exists before a record of it is written. Partitions are only ever added; a topic that is deleted on the source
stays on the target. A config that the source has set is set, one that it has not set is unset, and excluded ones stay
as they are. The decisions (plan_partitions, plan_configs) are pure.
"""

import logging
import re
import threading
from collections.abc import Mapping, Sequence
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # documented, not in __all__
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from kvorum.pipelines.bridge.lookup import Lookup, create_topics
from kvorum.pipelines.mirror.logs import REQUEST_SECONDS
from kvorum.pipelines.mirror.metrics import Figures
from kvorum.pipelines.mirror.spec import MirrorSpec, any_of

logger = logging.getLogger(__name__)

RESOURCES_MAX: Final = 200
"""Topics whose configs one request asks for: their answer is some 10 kB each."""

Configs = dict[str, str]


def plan_partitions(wanted: Mapping[str, int], there: Mapping[str, int]) -> tuple[dict[str, int], dict[str, int]]:
    """Return the topics to create and those to extend; all are numbers of partitions by topic name."""
    create = {topic: count for topic, count in wanted.items() if topic not in there}
    return create, {topic: count for topic, count in wanted.items() if 0 < there.get(topic, 0) < count}


def plan_configs(source: Configs, target: Configs, excluded: re.Pattern[str]) -> tuple[Configs, list[str]]:
    """Return what to set and to unset, so that the target's own configs are the source's, but for the excluded ones."""
    wanted = {key: value for key, value in source.items() if not excluded.fullmatch(key)}
    unset = sorted(key for key in target if key not in wanted and not excluded.fullmatch(key))
    return {key: value for key, value in wanted.items() if target.get(key) != value}, unset


class TopicSync:
    """Follows the topics of one mirror."""

    def __init__(self, spec: MirrorSpec, source: Lookup, target: Lookup, figures: Figures) -> None:
        """Request nothing yet."""
        self._spec = spec
        self._figures = figures
        self.source = source
        self.target = target
        self._pattern = re.compile(spec.topic_pattern)
        self._excluded = re.compile(any_of(spec.sync.configs_exclude))
        self._lock = threading.Lock()
        self.partitions: dict[str, int] = {}
        """Partitions by the source's topic name, as last seen, all of which are on the target."""

    def ensure(self) -> None:
        """Create every topic and partition of the source on the target.

        Called by the batches and by the mirror's loop; one at a time.
        """
        with self._lock:
            seen = _partitions(self.source)
            mirrored = {topic: count for topic, count in seen.items() if self._pattern.fullmatch(topic)}
            if mirrored.items() <= self.partitions.items():
                return
            names = {f"{self._spec.prefix}{topic}": topic for topic in mirrored}
            wanted = {name: mirrored[topic] for name, topic in names.items()}
            create, extend = plan_partitions(wanted, _partitions(self.target))
            self._create(create, names)
            for name, count in extend.items():
                self.target.admin.create_partitions([NewPartitions(name, count)])[name].result(REQUEST_SECONDS)
                logger.info("topic %s extended to %d partitions, as on %s", name, count, self._spec.source.alias)
            self.partitions = mirrored

    def _create(self, topics: Mapping[str, int], names: Mapping[str, str]) -> None:
        """Create topics with the configs that they have on the source; `names` are the source's."""
        follows = self._spec.sync.configs and bool(topics)
        configs = self.configs_of(self.source.admin, [names[topic] for topic in topics]) if follows else {}
        factor = self._spec.replication_factor or -1
        wanted = {topic: plan_configs(configs.get(names[topic], {}), {}, self._excluded)[0] for topic in topics}
        made = [NewTopic(topic, count, factor, config=wanted[topic]) for topic, count in topics.items()]
        create_topics(self.target.admin, made)
        for topic, count in topics.items():
            logger.info("topic %s created with %d partitions", topic, count)

    def follow_configs(self) -> None:
        """Give the target's topics the configs of the source's."""
        if not self._spec.sync.configs or not self.partitions:
            return
        names = {topic: f"{self._spec.prefix}{topic}" for topic in sorted(self.partitions)}
        source = self.configs_of(self.source.admin, [*names])
        target = self.configs_of(self.target.admin, [*names.values()])
        for topic, name in names.items():
            if topic in source and name in target:  # else deleted meanwhile
                given, unset = plan_configs(source[topic], target[name], self._excluded)
                if given or unset:
                    self._alter(name, given, unset)
                    self._figures.configs_changed += 1

    def _alter(self, topic: str, given: Configs, unset: Sequence[str]) -> None:
        entries = [ConfigEntry(*each, incremental_operation=AlterConfigOpType.SET) for each in given.items()]
        entries += [ConfigEntry(key, None, incremental_operation=AlterConfigOpType.DELETE) for key in unset]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        try:
            self.target.admin.incremental_alter_configs([resource])[resource].result(REQUEST_SECONDS)
            logger.info("configs of %s changed: set %s, deleted %s", topic, given, list(unset))
        except KafkaException as error:
            logger.warning("configs of the source not applied to topic %s: %s", topic, error)

    @staticmethod
    def configs_of(admin: AdminClient, topics: Sequence[str]) -> dict[str, Configs]:
        """Return what topics have set themselves, by topic; without those that are not there."""
        found: dict[str, Configs] = {}
        for at in range(0, len(topics), RESOURCES_MAX):
            resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics[at : at + RESOURCES_MAX]]
            for resource, future in admin.describe_configs(resources, request_timeout=REQUEST_SECONDS).items():
                try:
                    entries = future.result(REQUEST_SECONDS * 2)
                except KafkaException as error:
                    logger.warning("configs of %s not available: %s", resource.name, error)
                    continue
                found[resource.name] = {
                    name: entry.value
                    for name, entry in entries.items()
                    if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value and entry.value is not None
                }
        return found


def _partitions(cluster: Lookup) -> dict[str, int]:
    """Return how many partitions each topic has."""
    return {name: len(topic.partitions) for name, topic in cluster.topics().items() if topic.error is None}


def create_map_topic(admin: AdminClient, spec: MirrorSpec) -> None:
    """Create the topic of the offset map if it does not exist: one partition, compacted."""
    if spec.map_topic not in admin.list_topics(timeout=REQUEST_SECONDS).topics:
        config = {"cleanup.policy": "compact"}
        create_topics(admin, [NewTopic(spec.map_topic, 1, spec.replication_factor or -1, config=config)])
