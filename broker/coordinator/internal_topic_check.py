"""Warnings about internal topics whose configuration loses data, each with the command that repairs it.

Such a topic comes from an earlier release, from CreateTopics or AlterConfigs of a client, or from a cluster that had
fewer brokers when the topic was created. Each broker logs each problem once: at its start, and when it appears.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from kvorum.protocol.errors import KafkaError
from kvorum.protocol.topic_names import OFFSETS_TOPIC, SHARE_TOPIC, TRANSACTION_TOPIC
from kvorum.quorum.image import MetadataImage
from kvorum.quorum.image.topics import TopicImage
from kvorum.runtime.config import Settings
from kvorum.runtime.logs import get_logger
from kvorum.storage.log_config import LogConfig

log = get_logger("coordinator")

PREFIXES: Final = {
    OFFSETS_TOPIC: "offsets.topic",
    TRANSACTION_TOPIC: "transaction.state.log",
    SHARE_TOPIC: "share.coordinator.state.topic",
}
"""{internal topic: where the names of its broker configs begin}."""
CONTENT: Final = {
    OFFSETS_TOPIC: "committed offsets and groups",
    TRANSACTION_TOPIC: "transactional ids and open transactions",
    SHARE_TOPIC: "state of share groups",
}


class Problem(NamedTuple):
    """A problem of one topic, and the command that repairs it."""

    topic: str
    text: str
    command: str


class InternalTopicCheck:
    """Logs the problems of the newest image that the one before did not have."""

    __slots__ = ("_known", "_seen", "_settings")

    def __init__(self, settings: Callable[[], Settings]) -> None:
        """`settings` returns those in force."""
        self._settings = settings
        self._known: frozenset[Problem] = frozenset()
        self._seen: tuple[object, ...] = ()

    def update(self, image: MetadataImage) -> None:
        """Check an image; costs a few lookups where nothing that counts has changed."""
        topics = [image.topics.topic(name) for name in PREFIXES]
        seen = (*topics, image.configs, image.cluster)
        if len(seen) == len(self._seen) and all(new is old for new, old in zip(seen, self._seen, strict=True)):
            return
        self._seen = seen
        found = [problem_of(topic, image, self._settings()) for topic in topics if topic is not None]
        problems = frozenset(each for each in found if each is not None)
        for problem in sorted(problems - self._known):
            log.warning(f"internal topic may lose data: {problem.text}", topic=problem.topic, command=problem.command)
        self._known = problems


def problem_of(topic: TopicImage, image: MetadataImage, settings: Settings) -> Problem | None:
    """Return the problems of an internal topic's cleanup policy and replication factor."""
    name, texts, options = topic.name, [], ""
    try:
        config = LogConfig.from_overrides(image.configs.topic(name), settings)
    except KafkaError:
        config = LogConfig()  # DynamicConfig has logged which value is left out
    if config.is_deleted and (name != SHARE_TOPIC or config.retention_ms >= 0):
        policy = ",".join(sorted(config.cleanup_policy))
        texts.append(f"retention deletes {CONTENT[name]} (cleanup.policy={policy}, retention.ms={config.retention_ms})")
        options += " --config retention.ms=-1" if name == SHARE_TOPIC else " --config cleanup.policy=compact"
    wanted = min(settings.int(f"{PREFIXES[name]}.replication.factor"), len(image.cluster.brokers))
    fewest = min((len(each.replicas) for each in topic.partitions.values()), default=wanted)
    if fewest < wanted:
        texts.append(f"its replication factor is {fewest}, not {wanted}")
        options += f" --replication-factor {wanted}"
    if not texts:
        return None
    return Problem(name, "; ".join(texts), f"kvorum topics alter {name}{bootstrap_option(image)}{options}")


def bootstrap_option(image: MetadataImage) -> str:
    """Return the option that leads the command to this cluster: the first broker's first listener."""
    brokers = image.cluster.brokers
    endpoint = next((endpoint for key in sorted(brokers) for endpoint in brokers[key].endpoints), None)
    return "" if endpoint is None else f" --bootstrap {endpoint.host}:{endpoint.port}"
