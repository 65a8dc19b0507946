"""The lives of brokers: what each one's replicas were when last looked at, and what the ends of earlier lives took.

A life ends by kill -9, which loses nothing, or with its machine, which loses what was not synced. Who may lack what is
committed by that is a suspect, of whom nobody expects it until it is seen to have all of it again.
"""

from collections.abc import Callable, Iterator, Mapping

from kvorum.chaos.sim.ledger import Entry, Ledger
from kvorum.chaos.sim.metadata_watch import MetadataWatch
from kvorum.chaos.sim.watched import Key, Watched
from kvorum.storage.names import TopicPartition


class Lives:
    """One a run; whoever ends a broker says so here."""

    def __init__(self, metadata: MetadataWatch, ledgers: Mapping[Key, Ledger], now: Callable[[], float]) -> None:
        """Begin with nothing known; `ledgers` are those of the run, as they grow."""
        self._metadata = metadata
        self._ledgers = ledgers
        self._now = now
        self.watched: dict[int, dict[TopicPartition, Watched]] = {}
        """By broker, of its present life or its last one."""
        self.remembered: dict[int, dict[TopicPartition, tuple[Key, list[Entry]]]] = {}
        """What a broker's logs held when it was killed, for when it comes back."""
        self.suspects: set[tuple[int, Key]] = set()
        """(broker, partition) that lost what was not synced, and may lack what is committed."""
        self.robbed: set[int] = set()
        """Brokers that ever lost what was not synced."""
        self.uncleans: dict[int, float] = {}
        """When a broker's process last ended without a word, by kill -9 or with its machine."""
        self.epochs: dict[int, int] = {}
        """The epoch with which a broker is registered, as its present life knows it."""

    def killed(self, broker_id: int) -> None:
        """Remember what a broker's logs held: kill -9 loses nothing."""
        self.uncleans[broker_id] = self._now()
        self.epochs.pop(broker_id, None)
        self.remembered[broker_id] = {
            name: (each.key, list(each.shadow.entries))
            for name, each in self.watched.pop(broker_id, {}).items()
            if self._is_assigned(broker_id, each.key)
        }

    def _is_assigned(self, broker_id: int, key: Key) -> bool:
        registration = self._metadata.partition(key)
        return registration is None or broker_id in registration.replicas

    def lost_power(self, broker_id: int) -> None:
        """Expect nothing but what was committed elsewhere."""
        self.uncleans[broker_id] = self._now()
        self.epochs.pop(broker_id, None)
        self.remembered.pop(broker_id, None)
        self.watched.pop(broker_id, None)
        self.robbed.add(broker_id)
        self.suspects |= {(broker_id, key) for key in self._ledgers}

    def is_suspect(self, broker_id: int, key: Key) -> bool:
        """Whether a replica may lack what is committed by a loss that has no one at fault."""
        return (broker_id, key) in self.suspects

    def look_again(self, broker_id: int, each: Watched) -> None:
        """A replica that has all that is committed is no suspect any more."""
        if self._ledgers[each.key].missing(each.shadow) is None:
            self.suspects.discard((broker_id, each.key))

    def replica(self, broker_id: int, key: Key) -> Watched | None:
        """Return a broker's replica of a partition, None where it was not seen in this life."""
        return next((each for each in self.watched.get(broker_id, {}).values() if each.key == key), None)

    def replicas(self, key: Key) -> Iterator[Watched]:
        """Go over a partition's replicas that were seen."""
        return (each for replicas in self.watched.values() for each in replicas.values() if each.key == key)

    def let_go(self, dropped: set[int], key: Key) -> None:
        """Forget what is known of replicas that a reassignment took away: they begin anew if they come again."""
        for broker_id in dropped:
            self.suspects.discard((broker_id, key))
            held = self.remembered.get(broker_id, {})
            for name in [name for name, (known, _) in held.items() if known == key]:
                del held[name]
