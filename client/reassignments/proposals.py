"""Plans of a reassignment: the new replicas of partitions.

Pure; randomness is passed in.

    spread   all replicas are placed again, like those of new topics (Kafka's tool does the same)
    keep     replicas on target brokers stay, the others go to the broker with fewest: the fewest bytes move

Both spread the replicas of a partition over racks where brokers have some.
"""

from collections import Counter
from collections.abc import Mapping
from random import Random

from kvorum.client.reassignments.reassignments import Assignment
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.quorum.controller.placement import ReplicaPlacer, UsableBroker

Racks = Mapping[int, str | None]
"""{broker that may have replicas: its rack}."""


def check_racks(racks: Racks) -> None:
    """Raise KafkaError INVALID_REPLICA_ASSIGNMENT where some have a rack and some do not."""
    if len({rack is None for rack in racks.values()}) > 1:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "not all of these brokers have a rack")


def spread(current: Assignment, racks: Racks, chance: Random) -> Assignment:
    """Return new replicas for these partitions on these brokers, by the rule that new topics are placed with.

    Raises KafkaError INVALID_REPLICATION_FACTOR: there are fewer brokers than replicas.
    """
    brokers = [UsableBroker(broker_id=broker, rack=racks[broker], fenced=False) for broker in sorted(racks)]
    placers: dict[str, ReplicaPlacer] = {}
    found: Assignment = {}
    for place, replicas in current.items():
        placer = placers.setdefault(place.topic, ReplicaPlacer(brokers, chance))
        try:
            found[place] = list(placer.place(len(replicas)))
        except KafkaError as error:
            raise KafkaError(error.code, f"{place}: {error.message}") from error
    return found


def keep(current: Assignment, racks: Racks) -> Assignment:
    """Return replicas for these partitions on these brokers with as few changes as possible.

    A replacement is of a rack that the partition is not in yet, if possible; then with the fewest replicas of these
    partitions. A remaining leader stays first. Raises KafkaError INVALID_REPLICATION_FACTOR.
    """
    held = Counter(broker for replicas in current.values() for broker in replicas if broker in racks)
    found: Assignment = {}
    for place, replicas in current.items():
        stay = [broker for broker in replicas if broker in racks]
        missing = len(replicas) - len(stay)
        if missing > len(racks) - len(stay):
            message = f"{place}: {len(replicas)} replicas, but only {len(racks)} brokers are available"
            raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, message)
        for _ in range(missing):
            stay.append(next_broker(place, stay, racks, held))
            held[stay[-1]] += 1
        found[place] = stay
    return found


def next_broker(place: TopicPartition, stay: list[int], racks: Racks, held: Counter[int]) -> int:
    """Return the broker of an additional replica of a partition."""
    used = Counter(racks.get(broker) for broker in stay)
    # Equal candidates alternate by the partition's number, so that topics of few partitions are spread.
    able = sorted(broker for broker in racks if broker not in stay)
    turn = place.partition % len(able)
    return min(able[turn:] + able[:turn], key=lambda broker: (used[racks[broker]], held[broker]))
