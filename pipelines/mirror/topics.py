"""Topics of the source on the target: made, given new partitions, their configs followed.

A topic is there before a record of it is written. Partitions are only ever added; a topic that is deleted on the source
stays on the target. A config that the source has set is set, one that it has not set is unset, and what the mirror was
told to leave alone is left alone. The decisions (plan_partitions, plan_configs) are pure.
"""

import logging
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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

from kvorum.pipelines.bridge.lookup import Lookup, retried
from kvorum.pipelines.mirror import policy
from kvorum.pipelines.mirror.clients import REQUEST_SECONDS, create_topics
from kvorum.pipelines.mirror.spec import MirrorSpec

logger = logging.getLogger(__name__)

RESOURCES_MAX: Final = 200
"""Topics whose configs one request asks for: their answer is some 10 kB each."""

Configs = dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """Missing topics and partitions of the target, by the target's names."""

    create: Mapping[str, int]
    grow: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Changes that make a topic's configs equal to the source's."""

    set: Configs
    unset: Sequence[str]

    def __bool__(self) -> bool:
        """Return whether there is anything to do."""
        return bool(self.set or self.unset)


def plan_partitions(wanted: Mapping[str, int], there: Mapping[str, int]) -> Growth:
    """Return what the target lacks; both are partitions by the target's topic name."""
    return Growth(
        create={topic: count for topic, count in wanted.items() if topic not in there},
        grow={topic: count for topic, count in wanted.items() if 0 < there.get(topic, 0) < count},
    )


def plan_configs(source: Configs, target: Configs, excluded: re.Pattern[str]) -> Change:
    """Return the change that makes the target's own configs those of the source, but for the excluded ones."""
    wanted = {key: value for key, value in source.items() if not excluded.fullmatch(key)}
    return Change(
        set={key: value for key, value in wanted.items() if target.get(key) != value},
        unset=sorted(key for key in target if key not in wanted and not excluded.fullmatch(key)),
    )


class TopicSync:
    """Follows the topics of one mirror."""

    def __init__(self, spec: MirrorSpec, source: Lookup, target: Lookup) -> None:
        """Begin without connections."""
        self._spec = spec
        self._naming = spec.naming
        self._source = source.admin
        self._target = target.admin
        self._pattern = re.compile(policy.pattern(spec.naming, spec.topics, spec.exclude))
        self._excluded = re.compile("|".join(f"(?:{each})" for each in spec.sync.configs_exclude) or r"(?!)")
        self._lock = threading.Lock()
        self.partitions: dict[str, int] = {}
        """Partitions by the source's topic name, as last seen, all of which are on the target."""

    def ensure(self) -> None:
        """Create every topic and partition of the source on the target.

        Called by the batches and by the mirror's loop; one at a time.
        """
        with self._lock:
            self._ensure()

    def _ensure(self) -> None:
        seen = _partitions(self._source)
        mirrored = {topic: count for topic, count in seen.items() if self._pattern.fullmatch(topic)}
        if mirrored.items() <= self.partitions.items():
            return
        wanted = {self._naming.to_target(topic): count for topic, count in mirrored.items()}
        growth = plan_partitions(wanted, _partitions(self._target))
        self._create(growth.create)
        for topic, count in growth.grow.items():
            future = self._target.create_partitions([NewPartitions(topic, count)])[topic]
            future.result(REQUEST_SECONDS)
            logger.info("topic %s extended to %d partitions, as on %s", topic, count, self._spec.source.alias)
        self.partitions = mirrored

    def _create(self, topics: Mapping[str, int]) -> None:
        """Make topics with the configs they have on the source."""
        if not topics:
            return
        names = {topic: self._naming.to_source(topic) or topic for topic in topics}
        configs = self.configs_of(self._source, sorted(names.values())) if self._spec.sync.configs else {}
        factor = -1 if self._spec.replication_factor is None else self._spec.replication_factor
        made = []
        for topic, count in topics.items():
            config = plan_configs(configs.get(names[topic], {}), {}, self._excluded).set
            made.append(NewTopic(topic, count, factor, config=config))
        create_topics(self._target, made)
        for topic, count in topics.items():
            logger.info("topic %s created with %d partitions", topic, count)

    def follow_configs(self) -> int:
        """Give the target's topics the configs of the source's; returns how many topics were changed."""
        if not self._spec.sync.configs or not self.partitions:
            return 0
        names = sorted(self.partitions)
        source = self.configs_of(self._source, names)
        target = self.configs_of(self._target, [self._naming.to_target(name) for name in names])
        changed = 0
        for name in names:
            topic = self._naming.to_target(name)
            if name not in source or topic not in target:
                continue  # deleted meanwhile
            change = plan_configs(source[name], target[topic], self._excluded)
            if change:
                self._alter(topic, change)
                changed += 1
        return changed

    def _alter(self, topic: str, change: Change) -> None:
        entries = [
            ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in change.set.items()
        ]
        entries += [ConfigEntry(key, None, incremental_operation=AlterConfigOpType.DELETE) for key in change.unset]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        for future in self._target.incremental_alter_configs([resource]).values():
            try:
                future.result(REQUEST_SECONDS)
            except KafkaException as error:
                logger.warning("configs of the source not applied to topic %s: %s", topic, error)
                return
        logger.info("configs of %s changed: set %s, deleted %s", topic, change.set, list(change.unset))

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


def _partitions(admin: AdminClient) -> dict[str, int]:
    """Return how many partitions each topic has."""
    topics = retried(lambda: admin.list_topics(timeout=REQUEST_SECONDS)).topics
    return {name: len(topic.partitions) for name, topic in topics.items() if topic.error is None}
