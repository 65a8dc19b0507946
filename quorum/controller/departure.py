"""Moves the replicas of decommissioned brokers to other brokers, in portions. Sans-IO (controller/broker_admin_state).

Each move is a normal reassignment (KIP-455): another broker takes the position in the list of replicas, and the
decommissioned broker is removed when the new replica is in sync. Candidates are unfenced brokers that are not being
decommissioned, have a log directory that is not cordoned (KIP-1066), and have no replica of the partition. The order of
preference is: the rack with the fewest other replicas, the fewest replicas, and for the first position the fewest
preferred leaderships.

At most kvorum.decommission.partitions.max partitions move at a time, over all decommissioned brokers. New moves start
when half of them are free, because the search walks over all partitions. A partition that an operator reassigns is
skipped until that reassignment ends, unless its target is a decommissioned or unregistered broker. A partition without
a leader is skipped: a new replica could not copy anything, and an unclean election could elect it empty. A partition
without a candidate waits for a broker.

With kvorum.decommission.throttle the moves are throttled: departure_throttle.
"""

from collections import Counter
from collections.abc import Collection, Container
from dataclasses import dataclass, field

from kvorum.protocol.errors import KafkaError
from kvorum.quorum.controller.broker_admin_state import BrokerAdminState, admin_states_in, cleared, replica_counts
from kvorum.quorum.controller.context import Context
from kvorum.quorum.controller.departure_throttle import throttle_consequences, throttle_records, throttles_in
from kvorum.quorum.controller.partition_change import PartitionChangeBuilder
from kvorum.quorum.controller.reassignments import builder_of, cancel
from kvorum.quorum.controller.result import Result
from kvorum.quorum.image.metadata import MetadataImage
from kvorum.quorum.image.partition import PartitionRegistration
from kvorum.quorum.image.partition_set import TopicIdPartition
from kvorum.quorum.records import MetadataRecord, PartitionChange
from kvorum.quorum.steps import Steps, finish, pieces
from kvorum.runtime.config_defs import DECOMMISSION_THROTTLE
from kvorum.runtime.logs import get_logger

log = get_logger("quorum")


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """Progress of a broker's decommission: its partitions that are being moved, and those that wait.

    `waiting` is None if it was not counted, because the limit of moves was reached.
    """

    broker_id: int
    moving: int
    waiting: int | None


@dataclass(slots=True, kw_only=True)
class _Places:
    """Candidate brokers for replicas, with their counts."""

    racks: dict[int, str | None]
    replicas: Counter[int] = field(default_factory=Counter)
    leaders: Counter[int] = field(default_factory=Counter)

    def choose(self, others: set[int], racks_of_others: Counter[str | None], *, first: bool) -> int | None:
        """Return the broker for one replica next to the others, None without a candidate."""
        free = [broker_id for broker_id in self.racks if broker_id not in others]
        if not free:
            return None

        def cost(broker_id: int) -> tuple[int, int, int, int]:
            rack = self.racks[broker_id]
            in_rack = 0 if rack is None else racks_of_others[rack]
            leaders = self.leaders[broker_id] if first else 0
            return in_rack, self.replicas[broker_id], leaders, broker_id

        chosen = min(free, key=cost)
        self.replicas[chosen] += 1
        self.leaders[chosen] += first
        return chosen


def move_replicas(context: Context) -> Steps[Result[list[Departure]]]:
    """Start as many moves as permitted; returns the progress. Cost: all partitions, if moves are permitted."""
    image = context.image
    leaving = [
        broker_id for broker_id, state in admin_states_in(image).items() if state is BrokerAdminState.DECOMMISSIONED
    ]
    if not leaving:
        return Result(records=[], response=[])
    moving = yield from moves_under_way(image, leaving)
    most = context.decommission_partitions_max
    room = most - moving.total()
    if room * 2 < most:
        return Result(records=[], response=[Departure(broker_id=b, moving=moving[b], waiting=None) for b in leaving])
    left: Counter[int] = Counter()
    held: list[TopicIdPartition] = []
    for topic in sorted(image.topics.by_id.values(), key=lambda each: each.name):
        for piece in pieces(topic.sorted_partitions()):
            for number, partition in piece:
                of = [broker_id for broker_id in leaving if broker_id in partition.replicas]
                if of:
                    left.update(of)
                    held.append(TopicIdPartition(topic.topic_id, number))
            yield
    changes: list[PartitionChange] = []
    if held:
        places = yield from _places(context)
        changes = yield from _moves(context, held, frozenset(leaving), places, room)
    for change in changes:
        before = image.topics.existing(TopicIdPartition(change.topic_id, change.partition_id))[1].removing_replicas
        moving.update({*leaving} & {*(change.removing_replicas or ())} - {*before})
    each = [Departure(broker_id=b, moving=moving[b], waiting=left[b] - moving[b]) for b in leaving]
    throttles = throttles_in(image)
    of_busy = [rate for broker_id, rate in throttles.items() if left[broker_id]]
    records: list[MetadataRecord] = [*throttle_records(image, of_busy, changes), *changes]
    over = [cleared(broker_id, DECOMMISSION_THROTTLE) for broker_id in throttles if not left[broker_id]]
    if over:
        records += [*over, *(yield from throttle_consequences(image, over))]
    return Result(records=records, response=each)


def moves_under_way(image: MetadataImage, leaving: list[int]) -> Steps[Counter[int]]:
    """Count the partitions that each of these brokers is being removed from."""
    counts: Counter[int] = Counter()
    for piece in pieces((yield from image.topics.index.reassigning_partitions())):
        for key in piece:
            removing = image.topics.existing(key)[1].removing_replicas
            counts.update(broker_id for broker_id in leaving if broker_id in removing)
        yield
    return counts


def _places(context: Context) -> Steps[_Places]:
    image = context.image
    racks = {
        broker.broker_id: broker.rack
        for broker in image.cluster.sorted_brokers()
        if broker.active and broker.takes_replicas and not context.is_leaving(broker.broker_id)
    }
    replicas = yield from replica_counts(image)
    leaders: Counter[int] = Counter()
    for topic in image.topics.by_id.values():
        for piece in pieces(topic.partitions.values()):
            leaders.update(partition.preferred_leader for partition in piece)
            yield
    return _Places(racks=racks, replicas=replicas, leaders=leaders)


def _moves(
    context: Context, held: list[TopicIdPartition], leaving: frozenset[int], places: _Places, room: int
) -> Steps[list[PartitionChange]]:
    changes: list[PartitionChange] = []
    for piece in pieces(held):
        for key in piece:
            if len(changes) >= room:
                return changes
            change = _move(context, key, leaving, places)
            if change is not None:
                changes.append(change)
        yield
    return changes


def _move(context: Context, key: TopicIdPartition, leaving: frozenset[int], places: _Places) -> PartitionChange | None:
    """Return the change that starts to move a partition off the leaving brokers, None if that has to wait."""
    topic, partition = context.image.topics.existing(key)
    if not partition.has_leader:
        return None
    gone = {each for each in partition.adding_replicas if context.image.cluster.broker(each) is None}
    if partition.is_reassigning and not (leaving | gone) & {*partition.adding_replicas}:
        return None  # in progress already, or another reassignment
    target = _target(context, partition, leaving | gone, places)
    if target is None:
        return None
    builder = builder_of(context, topic, key.partition_id, partition)
    lay_over(builder, target)
    return builder.build()


def _target(
    context: Context, partition: PartitionRegistration, leaving: frozenset[int], places: _Places
) -> tuple[int, ...] | None:
    """Return the target replicas of a partition; None if there is no candidate."""
    target = [replica for replica in partition.replicas if replica not in partition.removing_replicas]
    for index, replica in enumerate(target):
        if replica not in leaving:
            continue
        others = {*target, *partition.replicas}
        cluster = context.image.cluster
        staying = [cluster.broker(each) for each in target if each not in leaving]
        racks = Counter(broker.rack for broker in staying if broker is not None)
        chosen = places.choose(others, racks, first=index == 0)
        if chosen is None:
            return None
        target[index] = chosen
    return tuple(target)


def moves_taken_back(
    context: Context, broker_ids: Collection[int], changed: Container[TopicIdPartition]
) -> list[MetadataRecord]:
    """Return the changes that cancel moves off these brokers; `changed` are skipped.

    A move that only an unclean election could cancel continues. Cost: the number of partitions being reassigned.
    """
    records: list[MetadataRecord] = []
    for key in finish(context.image.topics.index.reassigning_partitions()) if broker_ids else ():
        topic, partition = context.image.topics.existing(key)
        if key in changed or not {*partition.removing_replicas} & {*broker_ids}:
            continue
        builder = builder_of(context, topic, key.partition_id, partition)
        try:
            cancel(context, topic, builder)
        except KafkaError as error:
            log.warning("reassignment not cancelled", topic=topic.name, partition=key.partition_id, reason=error)
            continue
        change = builder.build()
        if change is not None:
            records.append(change)
    return records


def lay_over(builder: PartitionChangeBuilder, target: tuple[int, ...]) -> None:
    """Set the target of the partition: replicas that are being added and are still wanted continue."""
    before = builder.partition
    settled = {*before.replicas} - {*before.adding_replicas}
    builder.target_removing = tuple(sorted({*before.replicas} - {*target}))
    builder.target_adding = tuple(sorted({*target} - settled))
    builder.target_replicas = target + builder.target_removing
