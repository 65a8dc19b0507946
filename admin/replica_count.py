"""Other numbers of replicas for the partitions of a topic: who goes, and who comes. Pure.

Those that go are out of sync first, and of those in sync the last of the assignment, so that the preferred leader stays
as long as it is in sync. Who comes is chosen as a reassignment that keeps what it can chooses (proposals).
"""

from collections import Counter
from collections.abc import Collection, Mapping

from kvorum.admin.places import Place
from kvorum.admin.proposals import Racks, next_broker
from kvorum.admin.reassignments import Assignment
from kvorum.protocol.errors import ErrorCode, KafkaError


def resized(current: Assignment, in_sync: Mapping[Place, Collection[int]], racks: Racks, factor: int) -> Assignment:
    """Return new replicas for those partitions that have another number of them; `racks` are the brokers alive.

    Raises KafkaError INVALID_REPLICATION_FACTOR: there are too few brokers.
    """
    held = Counter(broker for replicas in current.values() for broker in replicas)
    found: Assignment = {}
    for place, replicas in sorted(current.items()):
        if len(replicas) == factor:
            continue
        by_use = sorted(replicas, key=lambda broker: broker not in in_sync.get(place, ()))
        kept = [broker for broker in replicas if broker in by_use[:factor]]
        while len(kept) < factor:
            if not racks.keys() - set(kept):
                message = f"{place}: {factor} replicas, and only {len(racks)} brokers that may have them"
                raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, message)
            kept.append(next_broker(place, kept, racks, held))
            held[kept[-1]] += 1
        found[place] = kept
    return found
