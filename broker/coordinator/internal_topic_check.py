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
    SHARE_TOPIC: "the state of share groups",
}


class Problem(NamedTuple):
    """One wrong configuration of one topic."""

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
        found = {each for topic in topics if topic is not None for each in problems(topic, image, self._settings())}
        for problem in sorted(found - self._known):
            log.warning(problem.text, topic=problem.topic, command=problem.command)
        self._known = frozenset(found)


def problems(topic: TopicImage, image: MetadataImage, settings: Settings) -> list[Problem]:
    """Return what is wrong with an internal topic."""
    found: list[Problem] = []
    name = topic.name
    alter = f"kvorum topics alter {name}{bootstrap_option(image)}"
    expected = {"cleanup.policy": "compact"}
    try:
        config = LogConfig.from_overrides(image.configs.topic(name), settings)
    except KafkaError:
        config = LogConfig()  # DynamicConfig has logged which value is left out
    wrong = config.is_deleted
    if name == SHARE_TOPIC:
        expected = {"cleanup.policy": "delete", "retention.ms": "-1"}
        wrong = config.is_deleted and config.retention_ms >= 0
    if wrong:
        policy = ",".join(sorted(config.cleanup_policy))
        text = f"internal topic loses {CONTENT[name]}: cleanup.policy={policy}, retention.ms={config.retention_ms}"
        repair = "".join(f" --config {key}={value}" for key, value in expected.items())
        found.append(Problem(name, text, alter + repair))
    wanted = min(settings.int(f"{PREFIXES[name]}.replication.factor"), len(image.cluster.brokers))
    fewest = min((len(each.replicas) for each in topic.partitions.values()), default=wanted)
    if fewest < wanted:
        text = f"internal topic has too few replicas for {CONTENT[name]}: {fewest}, not {wanted}"
        found.append(Problem(name, text, f"{alter} --replication-factor {wanted}"))
    return found


def bootstrap_option(image: MetadataImage) -> str:
    """Return the option that leads the command to this cluster: the first broker's first listener."""
    brokers = image.cluster.brokers
    endpoint = next((endpoint for key in sorted(brokers) for endpoint in brokers[key].endpoints), None)
    return "" if endpoint is None else f" --bootstrap {endpoint.host}:{endpoint.port}"
