"""Racks: brokers and clients of a seed are in racks, and consumers read from the follower in theirs (KIP-392).

Racks are drawn separately: seeds without them stay the same, and saved plans replay unchanged.

    ReadIsCommitted    leaders and followers return only committed records
    PreferredReplica   a leader sends a consumer to a follower in the consumer's rack, not to itself

Unchanged, complete records in a transaction's order are checked as for leaders.
"""

from collections.abc import Callable, Mapping
from random import Random
from typing import Final

import msgspec

from kvorum.protocol.messages.fetch import PartitionData
from kvorum.runtime.config_checks import RACK_AWARE_SELECTOR
from sim.ledger import Violation
from sim.plan import Fault, Options

SHARE: Final = 0.3
"""Share of these among seeds with a follower."""
PREFERENCE_AGE_S: Final = 3.0
"""A client returns to the leader after this time, as with the metadata's age."""

CommittedEnd = Callable[[str, int], int | None]
"""Returns one past the last committed offset of a partition; None if it is not certain."""


def add_racks(
    rng: Random, options: Options, faults: list[Fault], seconds: float, *, certain: bool = False
) -> tuple[Options, list[Fault]]:
    """Add racks to a seed (`certain`: always), or none."""
    if options.replication_factor < 2 or (not certain and rng.random() >= SHARE):
        return options, faults
    return msgspec.structs.replace(options, racks=rng.choice((2, min(3, options.brokers)))), faults


def rack_of(node_id: int, racks: int) -> str:
    """Return a broker's rack."""
    return f"rack-{node_id % racks + 1}"


def rack_configs(node_id: int, options: Options) -> Mapping[str, object]:
    """Return the rack configs of a broker: none without racks."""
    if not options.racks:
        return {}
    return {"broker.rack": rack_of(node_id, options.racks), "replica.selector.class": RACK_AWARE_SELECTOR}


class ReadWatch:
    """All reads of a run's clients, with their brokers."""

    def __init__(self, racks: int, committed_end: CommittedEnd) -> None:
        """Have seen nothing."""
        self.racks = racks
        self.committed_end = committed_end
        self.from_followers = 0
        """Answers with records that a follower gave."""

    def check_read(self, who: str, broker_id: int, leader_id: int, name: tuple[str, int], next_offset: int) -> None:
        """A client has records up to an offset. Raises Violation."""
        self.from_followers += broker_id != leader_id
        end = self.committed_end(*name)
        if end is not None and next_offset > end:
            raise Violation(
                "ReadIsCommitted",
                f"{who} has read {name[0]}-{name[1]} up to {next_offset} from broker {broker_id} (broker {leader_id} "
                f"leads): committed are records below {end}",
            )

    def check_redirect(self, who: str, rack_id: str, leader_id: int, broker_id: int, name: tuple[str, int]) -> None:
        """A client is redirected. Raises Violation."""
        if not rack_id or broker_id == leader_id or not self.racks or rack_of(broker_id, self.racks) != rack_id:
            where = rack_of(broker_id, self.racks) if self.racks else "no rack"
            raise Violation(
                "PreferredReplica",
                f"broker {leader_id} sends {who}, which is in {rack_id or 'no rack'}, for {name[0]}-{name[1]} to "
                f"broker {broker_id} in {where}",
            )


class ReadReplicas:
    """Brokers that one client reads from."""

    def __init__(self, who: str, rack_id: str, watch: ReadWatch | None, now_s: Callable[[], float]) -> None:
        """Read from leaders, until a redirection."""
        self.rack_id = rack_id
        self._who = who
        self._watch = watch
        self._now_s = now_s
        self._preferred: dict[tuple[str, int], tuple[int, float]] = {}

    def choose(self, topic: str, partition: int, leader_id: int) -> int:
        """Return the broker to read from."""
        broker_id, until_s = self._preferred.get((topic, partition), (leader_id, 0.0))
        return broker_id if self._now_s() < until_s else leader_id

    def forget(self, topic: str, partition: int) -> bool:
        """Use the leader next time; return whether it was another one."""
        return self._preferred.pop((topic, partition), None) is not None

    def is_elsewhere(self, topic: str, partition: int, leader_id: int, row: PartitionData) -> bool:
        """Apply a leader's redirection; return whether there was one. Raises Violation."""
        broker_id = row.preferred_read_replica
        if broker_id < 0:
            return False
        if self._watch is not None:
            self._watch.check_redirect(self._who, self.rack_id, leader_id, broker_id, (topic, partition))
        self._preferred[topic, partition] = (broker_id, self._now_s() + PREFERENCE_AGE_S)
        return True

    def took(self, topic: str, partition: int, broker_id: int, leader_id: int, next_offset: int) -> None:
        """Process received records. Raises Violation."""
        if self._watch is not None:
            self._watch.check_read(self._who, broker_id, leader_id, (topic, partition), next_offset)
