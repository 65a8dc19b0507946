"""History of topic and broker configs and of operators' requests: only those that can change a verdict."""

from bisect import bisect_right
from typing import Final

from kvorum.chaos.checker.sends import NEVER
from kvorum.chaos.history import Invoke

TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
"""ConfigResource.Type."""

UNCLEAN_CONFIG: Final = "unclean.leader.election.enable"
MIN_ISR_CONFIG: Final = "min.insync.replicas"
RETENTION_BYTES_CONFIGS: Final = ("retention.bytes", "log.retention.bytes")
RETENTION_TIME_CONFIGS: Final = {
    "retention.ms": 0.001,
    "log.retention.ms": 0.001,
    "log.retention.minutes": 60.0,
    "log.retention.hours": 3600.0,
}
"""Topic config and broker config of one meaning, with the unit of each in seconds."""
CONFIGS: Final = (UNCLEAN_CONFIG, MIN_ISR_CONFIG, *RETENTION_BYTES_CONFIGS, *RETENTION_TIME_CONFIGS)

UNCLEAN_WORDS: Final = frozenset({"elect-leaders-unclean", "elect_leaders_unclean"})
"""First words of an admin operation that requests an unclean election; partitions follow."""

DELETE_WORDS: Final = frozenset({"delete-records", "delete_records"})
"""First words of an admin operation by which records are deleted; partitions follow."""

ANSWER_LAG_MAX: Final = 10.0
"""Seconds after the answer to an operator's request by which an election that follows from it is on record."""


class Configs:
    """Every value that a config ever had, of topics (by name) and brokers (by id, "" for the cluster's default)."""

    def __init__(self) -> None:
        """Create an empty history."""
        self._values: dict[tuple[int, str, str], list[tuple[float, str | None]]] = {}

    def take(self, kind: int, name: str, config: str, value: object, t: float) -> None:
        """Process a value, None for a removed config; call it in time order. Configs that cannot matter are ignored."""
        key = (kind, name, config)
        if config in CONFIGS and (value is not None or key in self._values):
            self._values.setdefault(key, []).append((t, None if value is None else str(value)))

    def get(self, topic: str, broker: str, config: str, t: float = NEVER) -> str | None:
        """Return a topic's config at a time: the topic's, else the broker's, else the cluster's; None if unknown."""
        for kind, name in ((TOPIC_RESOURCE, topic), (BROKER_RESOURCE, broker), (BROKER_RESOURCE, "")):
            values = self._values.get((kind, name, config), ())
            at = bisect_right(values, t, key=lambda entry: entry[0]) - 1
            if at >= 0 and values[at][1] is not None:
                return values[at][1]
        return None

    def unclean_allowed(self, topic: str, leader: int) -> bool:
        """Return whether a node may be elected uncleanly now."""
        return (self.get(topic, str(leader), UNCLEAN_CONFIG) or "").lower() == "true"

    def min_isr(self, topic: str, t: float = NEVER) -> int:
        """Return min.insync.replicas at a time (default 1, as in Kafka)."""
        value = self.get(topic, "", MIN_ISR_CONFIG, t)
        return int(value) if value is not None and value.isdecimal() else 1

    def least_min_isr(self, topic: str, since: float, until: float) -> int:
        """Return the smallest min.insync.replicas that was in force in a time span, according to the history."""
        keys = ((TOPIC_RESOURCE, topic, MIN_ISR_CONFIG), (BROKER_RESOURCE, "", MIN_ISR_CONFIG))
        since = max(since, min((self._values[key][0][0] for key in keys if key in self._values), default=since))
        times = {t for key in keys for t, _ in self._values.get(key, ()) if since < t <= until}
        return min(self.min_isr(topic, t) for t in (since, *times))

    def retention(self, topic: str, age: float) -> str | None:
        """Return the config that permits deletion of records of this age, in seconds; None if none ever did.

        Brokers may be behind, so every value that was ever in force counts. The size of a log in bytes is unknown.
        """
        for (kind, name, config), values in self._values.items():
            if kind == TOPIC_RESOURCE and name != topic:
                continue
            for _, value in values:
                if value is None or not value.isdecimal():
                    continue
                seconds = RETENTION_TIME_CONFIGS.get(config)
                if config in RETENTION_BYTES_CONFIGS or (seconds is not None and int(value) * seconds <= age):
                    return f"{config}={value}"
        return None


class Request:
    """An operator's request for these partitions, or for all if none is given."""

    def __init__(self, event: Invoke) -> None:
        """Process the invocation of an admin operation."""
        self.t = event.t
        self.done = NEVER
        """When it was answered for certain."""
        self._partitions = frozenset(word for word in event.value[1:] if isinstance(word, str))
        self._used: set[str] = set()

    def covers(self, partition: str) -> bool:
        """Return whether this partition, or its topic, was requested."""
        return not self._partitions or not self._partitions.isdisjoint((partition, partition.rpartition("-")[0]))

    def use(self, partition: str, t: float) -> bool:
        """Return whether the request explains an election of this partition; it explains one of each."""
        if partition in self._used or not self.covers(partition) or t > self.done + ANSWER_LAG_MAX:
            return False
        self._used.add(partition)
        return True


class Requests:
    """Admin operations that permit otherwise illegal events."""

    def __init__(self) -> None:
        """Start without requests."""
        self._unclean: list[Request] = []
        self._deletions: list[Request] = []
        self._open: dict[int, Request] = {}

    def begin(self, event: Invoke) -> None:
        """Process the begin of an admin operation."""
        word = event.value[0] if event.value else None
        if word in UNCLEAN_WORDS or word in DELETE_WORDS:
            request = self._open[event.op] = Request(event)
            (self._unclean if word in UNCLEAN_WORDS else self._deletions).append(request)

    def complete(self, op: int, t: float) -> None:
        """Process a definite result of an operation; without a result it may take effect at any time."""
        request = self._open.pop(op, None)
        if request is not None:
            request.done = t

    def unclean(self, partition: str, t: float) -> bool:
        """Return whether an operator requested this unclean election; each request covers one per partition."""
        return any(request.use(partition, t) for request in self._unclean)

    def deletion(self, partition: str) -> float | None:
        """Return when a deletion of records of this partition was first requested."""
        return next((request.t for request in self._deletions if request.covers(partition)), None)
