"""Metrics of groups: Kafka's names for the coordinator's, kafka_exporter's for offsets and lag.

All values are computed at a scrape. A group is exposed by its coordinator; its lag is that to the high watermark of
this broker's own replica, or to the one that the partition's leader returned a moment ago (log_ends). Until it is
known, the partition has no lag and its topic no sum. Source: Kafka's GroupCoordinatorMetrics.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import groupby, islice
from typing import Final, Protocol

from kvorum.broker.coordinator.group.classic.words import ClassicState
from kvorum.broker.coordinator.group.coordinator import Home
from kvorum.broker.coordinator.group.counts import GroupCounts
from kvorum.broker.coordinator.group.describing import CLASSIC_TYPE, CONSUMER_TYPE, consumer_state
from kvorum.broker.coordinator.group.words import ConsumerGroup
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.runtime import metric_names as names
from kvorum.runtime.metrics import Metrics

CONSUMER_STATES: Final = ("Empty", "Assigning", "Reconciling", "Stable", "Dead")
OFFSETS_EXPOSED_MAX: Final = 20_000
"""Offsets inspected, for themselves and for lags: more would take too long for a scrape.

A group whose offsets do not fit after those of the earlier groups is omitted: a partial sum would be wrong.
"""

Row = tuple[tuple[object, ...], float]
OffsetRow = tuple[tuple[str, str, int], int]
"""(group, topic, partition) and its offset or lag."""
LagRow = tuple[tuple[str, str, int], int | None]
"""The same with a lag, None if unknown."""
HighWatermarkOf = Callable[[TopicPartition], int | None]
"""High watermark of this broker's replica of a partition, None without a replica in sync."""
CLASSIC_GAUGES: Final = {
    ClassicState.PREPARING_REBALANCE: names.GROUPS_PREPARING_REBALANCE,
    ClassicState.COMPLETING_REBALANCE: names.GROUPS_COMPLETING_REBALANCE,
    ClassicState.STABLE: names.GROUPS_STABLE,
    ClassicState.DEAD: names.GROUPS_DEAD,
    ClassicState.EMPTY: names.GROUPS_EMPTY,
}


class Elsewhere(Protocol):
    """Log ends of partitions without a replica here: LogEnds."""

    def end(self, key: TopicPartition) -> int | None:
        """Return a partition's high watermark, None while unknown."""
        ...

    def want(self, keys: Iterable[TopicPartition]) -> None:
        """Find out about these, and no others, from now on."""
        ...


def follow_groups(
    metrics: Metrics,
    homes: Callable[[], Iterable[Home]],
    counts: GroupCounts,
    high_watermark_of: HighWatermarkOf,
    elsewhere: Elsewhere,
) -> None:
    """Register all of it. `homes` answers the partitions of __consumer_offsets that are coordinated here."""
    for name, read in {
        names.OFFSET_COMMITS: lambda: counts.offsets_committed,
        names.OFFSET_EXPIRATIONS: lambda: counts.offsets_expired,
        names.OFFSET_DELETIONS: lambda: counts.offsets_deleted,
        names.GROUP_COMPLETED_REBALANCES: lambda: counts.classic_rebalances_completed,
        names.CONSUMER_GROUP_REBALANCES: lambda: counts.consumer_rebalances,
    }.items():
        metrics.counter(name).sample(partial(only_row, read))
    metrics.gauge(names.GROUP_OFFSETS).labels().follow(lambda: sum(map(offsets_count, homes())))
    metrics.gauge(names.GROUPS).labels().follow(lambda: sum(classic_states(homes()).values()))
    for state, name in CLASSIC_GAUGES.items():
        metrics.gauge(name).labels().follow(partial(count_of, homes, state))

    def by_protocol() -> Iterator[Row]:
        yield (CLASSIC_TYPE,), sum(classic_states(homes()).values())
        yield (CONSUMER_TYPE,), sum(consumer_states(homes()).values())

    def by_state() -> Iterator[Row]:
        found = consumer_states(homes())
        for state in CONSUMER_STATES:
            yield (state.lower(),), found[state]

    def lags() -> Iterator[LagRow]:
        missing: set[TopicPartition] = set()
        for (group_id, topic, partition), offset in offsets_of(homes()):
            key = TopicPartition(topic, partition)
            end = high_watermark_of(key)
            if end is None:
                missing.add(key)
                end = elsewhere.end(key)
            yield (group_id, topic, partition), None if end is None else max(0, end - offset)
        elsewhere.want(missing)

    def known_lags() -> Iterator[OffsetRow]:
        return ((labels, lag) for labels, lag in lags() if lag is not None)

    def offsets() -> Iterable[OffsetRow]:
        return offsets_of(homes())

    def members() -> Iterable[Row]:
        rows = ((group_id, count) for home in homes() for group_id, count in members_of(home))
        return [((group_id,), count) for group_id, count in islice(rows, OFFSETS_EXPOSED_MAX)]

    metrics.gauge(names.CONSUMERGROUP_CURRENT_OFFSET_SUM).sample(lambda: sums(offsets()))
    metrics.gauge(names.CONSUMERGROUP_LAG_SUM).sample(lambda: sums(lags()))
    metrics.gauge(names.CONSUMERGROUP_MEMBERS).sample(members)
    metrics.gauge(names.GROUPS_BY_PROTOCOL).sample(by_protocol)
    metrics.gauge(names.CONSUMER_GROUPS_BY_STATE).sample(by_state)
    metrics.gauge(names.CONSUMERGROUP_CURRENT_OFFSET).sample(offsets)
    metrics.gauge(names.CONSUMERGROUP_LAG).sample(known_lags)


def only_row(read: Callable[[], int]) -> list[Row]:
    """Return the row of a number without labels."""
    return [((), read())]


def count_of(homes: Callable[[], Iterable[Home]], state: ClassicState) -> int:
    """Return how many classic groups are in a state."""
    return classic_states(homes())[state]


def offsets_count(home: Home) -> int:
    """Return how many offsets are committed there."""
    return sum(map(len, home.committed_state.offsets.values()))


def classic_states(homes: Iterable[Home]) -> Counter[ClassicState]:
    """Return how many classic groups are in which state; one without volatile parts has no members."""
    found: Counter[ClassicState] = Counter()
    for home in homes:
        groups = home.shard.classic_groups()
        for group_id, group in home.committed_state.groups.items():
            if not isinstance(group, ConsumerGroup):
                live = groups.get(group_id)
                found[ClassicState.EMPTY if live is None else live.state] += 1
    return found


def consumer_states(homes: Iterable[Home]) -> Counter[str]:
    """Return how many consumer groups (KIP-848) are in which state."""
    groups = (group for home in homes for group in home.committed_state.groups.values())
    return Counter(consumer_state(group) for group in groups if isinstance(group, ConsumerGroup))


def sums(rows: Iterable[LagRow]) -> Iterator[Row]:
    """Add up each (group, topic), unless something of it is not known; a group's rows follow on one another."""
    for group_id, its_rows in groupby(rows, key=lambda row: row[0][0]):
        totals: Counter[str] = Counter()
        unknown: set[str] = set()
        for (_, topic, _), value in its_rows:
            if value is None:
                unknown.add(topic)
            else:
                totals[topic] += value
        for topic, total in totals.items():
            if topic not in unknown:
                yield (group_id, topic), total


def members_of(home: Home) -> Iterator[tuple[str, int]]:
    """Go over (group, how many members); a classic group without volatile parts has none."""
    live = home.shard.classic_groups()
    for group_id, group in home.committed_state.groups.items():
        if isinstance(group, ConsumerGroup):
            yield group_id, len(group.members)
        else:
            yield group_id, len(live[group_id].members) if group_id in live else 0


def offsets_of(homes: Iterable[Home]) -> Iterator[OffsetRow]:
    """Iterate over committed offsets, group by group, up to OFFSETS_EXPOSED_MAX.

    Offsets and homes may change in between: a group has its state at the time of its turn.
    """
    left = OFFSETS_EXPOSED_MAX
    for home in tuple(homes):
        for group_id, offsets in home.committed_state.offsets.items():
            if len(offsets) > left:
                continue
            left -= len(offsets)
            for key, committed in offsets.items():
                yield (group_id, key.topic, key.partition), committed.offset
