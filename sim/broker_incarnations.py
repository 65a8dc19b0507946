"""Incarnations of brokers: the last observed replicas, and the losses at the ends of earlier incarnations.

One ends by kill -9, which loses nothing, or with its machine, which loses unsynced data; a replaced or removed log
directory loses everything. A replica that may lack committed records because of that is a suspect, excluded until it is
seen to have all of them again.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from kvorum.protocol.topic_partition import TopicPartition
from kvorum.protocol.uuids import Uuid
from sim.ledger import Entry, Ledger
from sim.metadata_watch import MetadataWatch
from sim.replica_state import Key, ReplicaState


class KilledLog(NamedTuple):
    """Contents and directory of a log when its broker was killed."""

    key: Key
    entries: list[Entry]
    folder: str


class LostLog(NamedTuple):
    """A log lost with its directory, and its broker's epoch at that time."""

    directory_id: Uuid
    broker_epoch: int


class BrokerIncarnations:
    """One per run; all code that ends a broker reports it here."""

    def __init__(self, metadata: MetadataWatch, ledgers: Mapping[Key, Ledger], now: Callable[[], float]) -> None:
        """Create it without observations; `ledgers` are those of the run, which grow."""
        self._metadata = metadata
        self.ledgers = ledgers
        self._now = now
        self.by_broker: dict[int, dict[TopicPartition, ReplicaState]] = {}
        """By broker, of its present incarnation or its last one."""
        self.killed_logs: dict[int, dict[TopicPartition, KilledLog]] = {}
        """Contents of a broker's logs when it was killed, for its return."""
        self.suspects: set[tuple[int, Key]] = set()
        """(broker, partition) that lost unsynced data, and may lack committed records."""
        self.bereft: dict[tuple[int, Key], LostLog] = {}
        """Replicas whose logs were lost with their directories, until they have all records again."""
        self.lossy_brokers: set[int] = set()
        """Brokers that ever lost unsynced data."""
        self.uncleans: dict[int, float] = {}
        """Time of a broker's last unclean end: kill -9, its machine's failure, or one assumed by the controllers."""
        self.epochs: dict[int, int] = {}
        """The epoch with which a broker is registered, as its present incarnation has it."""

    def record_kill(self, broker_id: int) -> None:
        """Store the state of a broker's logs: kill -9 loses nothing."""
        self.uncleans[broker_id] = self._now()
        self.epochs.pop(broker_id, None)
        watched = self.by_broker.pop(broker_id, {})
        # The content of a directory that has been broken in all of this incarnation was not observed in it.
        unseen = {name: held for name, held in self.killed_logs.get(broker_id, {}).items() if name not in watched}
        self.killed_logs[broker_id] = unseen | {
            name: KilledLog(each.key, each.shadow.still_on_disk(), each.folder)
            for name, each in watched.items()
            if self._is_assigned(broker_id, each.key)
        }

    def _is_assigned(self, broker_id: int, key: Key) -> bool:
        registration = self._metadata.partition(key)
        return registration is None or broker_id in registration.replicas

    def record_start(self, broker_id: int, *, vouches: bool) -> None:
        """Process a start; the last end counts as unclean unless the directories vouch for it."""
        if not vouches:
            self.uncleans[broker_id] = self._now()

    def record_lost_directory(self, broker_id: int, names: Iterable[TopicPartition], directory_id: Uuid) -> None:
        """Process the loss of all logs of these partitions with a directory of a stopped broker."""
        newest = self._metadata.newest
        registered = newest.cluster.broker(broker_id)
        for name in names:
            topic = newest.topics.topic(name.topic)
            key = (topic.topic_id, name.partition) if topic is not None else None
            if key not in self.ledgers or key is None:
                continue
            self.suspects.add((broker_id, key))
            self.bereft[broker_id, key] = LostLog(directory_id, -1 if registered is None else registered.broker_epoch)
            self.ledgers[key].lossy_brokers[broker_id] = self._now()
            self.killed_logs.get(broker_id, {}).pop(name, None)
            self.by_broker.get(broker_id, {}).pop(name, None)

    def record_power_loss(self, broker_id: int) -> None:
        """Expect only records committed elsewhere."""
        self.uncleans[broker_id] = self._now()
        self.epochs.pop(broker_id, None)
        self.killed_logs.pop(broker_id, None)
        self.by_broker.pop(broker_id, None)
        self.lossy_brokers.add(broker_id)
        self.suspects |= {(broker_id, key) for key in self.ledgers}

    def is_suspect(self, broker_id: int, key: Key) -> bool:
        """Return whether a replica may lack committed records by a loss that is legal."""
        return (broker_id, key) in self.suspects

    def recheck(self, broker_id: int, each: ReplicaState) -> None:
        """End suspicion of a replica that has all committed records."""
        if self.ledgers[each.key].missing_batches(each.shadow) is None:
            self.suspects.discard((broker_id, each.key))
            self.bereft.pop((broker_id, each.key), None)

    def replica(self, broker_id: int, key: Key) -> ReplicaState | None:
        """Return a broker's replica of a partition, None if the present process has not shown one."""
        return next((each for each in self.by_broker.get(broker_id, {}).values() if each.key == key), None)

    def replicas(self, key: Key) -> Iterator[ReplicaState]:
        """Go over a partition's replicas that were seen."""
        return (each for replicas in self.by_broker.values() for each in replicas.values() if each.key == key)

    def forget(self, dropped: set[int], key: Key) -> None:
        """Drop the state of replicas that a reassignment removed: they start again if they return."""
        for broker_id in dropped:
            self.suspects.discard((broker_id, key))
            self.bereft.pop((broker_id, key), None)
            held = self.killed_logs.get(broker_id, {})
            for name in [name for name, each in held.items() if each.key == key]:
                del held[name]
