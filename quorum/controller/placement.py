"""Placement of new replicas: striped over racks and brokers (Kafka's StripedReplicaPlacer). Sans-IO; seeded.

Required: at most one replica per broker; the first of each partition on an unfenced broker. Preferred, in this order:
replicas spread over racks; replicas and leaderships spread over brokers; fenced brokers only when the unfenced ones of
their rack are used. Brokers that are shutting down get no replicas, nor do those with only cordoned log directories
(KIP-1066).

Algorithm: racks form a ring, brokers of a rack form a ring, both with random starts. Each partition takes its leader
from the current rack (the next one with an unfenced broker), its other replicas from the following racks; the next
partition begins one position further in every ring. After as many partitions as there are unfenced brokers the rings
are shuffled, so that the same sets of brokers are not repeated.
"""

from dataclasses import dataclass
from random import Random

from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.quorum.image.cluster import BrokerRegistration, ClusterImage

NOBODY = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class UsableBroker:
    """A broker that may get replicas."""

    broker_id: int
    rack: str | None
    fenced: bool


def usable_brokers(cluster: ClusterImage) -> list[UsableBroker]:
    """Return the brokers that may get replicas, by id: not shutting down, and not with all directories cordoned."""
    may = (each for each in cluster.sorted_brokers() if not each.in_controlled_shutdown and each.takes_replicas)
    return [usable(broker) for broker in may]


def usable(broker: BrokerRegistration) -> UsableBroker:
    """Return the fields of a broker's registration for placement."""
    return UsableBroker(broker_id=broker.broker_id, rack=broker.rack, fenced=broker.fenced)


class _BrokerRing:
    """Brokers handed out one after the other, each at most once a turn."""

    def __init__(self, broker_ids: list[int], random: Random) -> None:
        self._broker_ids = sorted(broker_ids)
        self._start = random.randrange(len(broker_ids)) if broker_ids else 0
        self._given = 0
        self._turn = 0

    def next(self, turn: int) -> int:
        """Return the next broker of this turn, `NOBODY` after the last."""
        count = len(self._broker_ids)
        if count == 0:
            return NOBODY
        if self._turn != turn:
            self._turn, self._given, self._start = turn, 0, (self._start + 1) % count
        if self._given >= count:
            return NOBODY
        broker_id = self._broker_ids[(self._start + self._given) % count]
        self._given += 1
        return broker_id

    def shuffle(self, random: Random) -> None:
        """Change the order."""
        random.shuffle(self._broker_ids)


class _Rack:
    """The brokers of one rack."""

    def __init__(self, brokers: list[UsableBroker], random: Random) -> None:
        self.unfenced = _BrokerRing([broker.broker_id for broker in brokers if not broker.fenced], random)
        self.fenced = _BrokerRing([broker.broker_id for broker in brokers if broker.fenced], random)

    def next(self, turn: int) -> int:
        """Return the next broker of this turn, unfenced ones first."""
        broker_id = self.unfenced.next(turn)
        return self.fenced.next(turn) if broker_id == NOBODY else broker_id


class ReplicaPlacer:
    """Places one partition after the other; made for one topic's partitions of one request."""

    def __init__(self, brokers: list[UsableBroker], random: Random) -> None:
        """Arrange the rings."""
        self._random = random
        self._brokers_count = len(brokers)
        self._unfenced_count = sum(not broker.fenced for broker in brokers)
        names = sorted({broker.rack for broker in brokers}, key=lambda rack: (rack is not None, rack or ""))
        self._racks = [_Rack([broker for broker in brokers if broker.rack == name], random) for name in names]
        self._start = random.randrange(len(self._racks)) if self._racks else 0
        self._turn = 0

    def place(self, replication_factor: int) -> tuple[int, ...]:
        """Return the replicas of one partition, the preferred leader first.

        Raises KafkaError INVALID_REPLICATION_FACTOR: not positive, more than there are brokers, or all are fenced.
        """
        self._check(replication_factor)
        # With one unfenced broker alone every turn would be the first, and its ring never move on.
        if self._turn == self._unfenced_count and self._unfenced_count > 1:
            self._random.shuffle(self._racks)
            for rack in self._racks:
                rack.unfenced.shuffle(self._random)
                rack.fenced.shuffle(self._random)
            self._turn = 0
        count = len(self._racks)
        self._start %= count
        leader_rack = self._start
        while (leader := self._racks[leader_rack].unfenced.next(self._turn)) == NOBODY:
            leader_rack = (leader_rack + 1) % count
        replicas = [leader]
        position, leader_rack_passed = self._start, False
        while len(replicas) < replication_factor:
            if position == leader_rack and not leader_rack_passed:
                leader_rack_passed = True  # its turn in this round was the leader
            elif (broker_id := self._racks[position].next(self._turn)) != NOBODY:
                replicas.append(broker_id)
            position = (position + 1) % count
        self._turn += 1
        self._start += 1
        assert len(set(replicas)) == replication_factor, "one replica a broker"
        return tuple(replicas)

    def _check(self, replication_factor: int) -> None:
        problem = None
        if replication_factor <= 0:
            problem = f"Invalid replication factor {replication_factor}: it must be positive."
        elif self._unfenced_count == 0:
            problem = "All brokers are currently fenced."
        elif replication_factor > self._brokers_count:
            problem = (
                f"The target replication factor of {replication_factor} cannot be reached because only "
                f"{self._brokers_count} broker(s) are registered or some brokers have all their log directories "
                "cordoned."
            )
        if problem is not None:
            raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, problem)
