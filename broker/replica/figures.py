"""Counters of the replica manager: bytes and records per topic, roles and ISR changes per broker.

On the data path a count is an addition to a number that is looked up by topic once. Values by topic are also counted
over all topics, as in Kafka: with an empty label, which Prometheus drops.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from kvorum.broker.replica.health import is_at_min_isr, is_reassigning, is_under_min_isr, is_under_replicated
from kvorum.broker.replica.hosted import HostedPartitions, Outbox
from kvorum.broker.replica.partition import Partition
from kvorum.broker.replica.purgatory import Purgatory
from kvorum.broker.replica.replication_quota import ReplicationQuotas
from kvorum.broker.replica.types import FetchTarget, Role
from kvorum.protocol.messages.fetch import PartitionData
from kvorum.protocol.parts import part_size
from kvorum.runtime import metric_names as names
from kvorum.runtime.metrics import Counter, Metrics


class TopicFigures:
    """The counters of one topic."""

    __slots__ = (
        *("bytes_in", "bytes_out", "bytes_rejected", "failed_fetches", "failed_produces"),
        *("fetches", "messages_in", "produces"),
    )

    def __init__(self, metrics: Metrics, topic: str) -> None:
        """Find or make them."""
        self.bytes_in = metrics.counter(names.BYTES_IN).labels(topic)
        self.bytes_out = metrics.counter(names.BYTES_OUT).labels(topic)
        self.bytes_rejected = metrics.counter(names.BYTES_REJECTED).labels(topic)
        self.messages_in = metrics.counter(names.MESSAGES_IN).labels(topic)
        self.produces = metrics.counter(names.TOTAL_PRODUCE_REQUESTS).labels(topic)
        self.fetches = metrics.counter(names.TOTAL_FETCH_REQUESTS).labels(topic)
        self.failed_produces = metrics.counter(names.FAILED_PRODUCE_REQUESTS).labels(topic)
        self.failed_fetches = metrics.counter(names.FAILED_FETCH_REQUESTS).labels(topic)


BY_TOPIC: Final = (
    names.BYTES_IN,
    names.BYTES_OUT,
    names.BYTES_REJECTED,
    names.MESSAGES_IN,
    names.TOTAL_PRODUCE_REQUESTS,
    names.TOTAL_FETCH_REQUESTS,
    names.FAILED_PRODUCE_REQUESTS,
    names.FAILED_FETCH_REQUESTS,
)
ALL_TOPICS: Final = ""
LATE_TRANSACTION_BUFFER_MS: Final = 5 * 60 * 1000
"""Above transaction.max.timeout.ms: its coordinator had all this time to abort a transaction, so it hangs."""


class Figures:
    """All of them."""

    def __init__(self, metrics: Metrics) -> None:
        """Count into this registry."""
        self._metrics = metrics
        self._topics: dict[str, TopicFigures] = {}
        self._all = TopicFigures(metrics, ALL_TOPICS)
        self.replication_bytes_in: Counter = metrics.counter(names.REPLICATION_BYTES_IN).labels()
        self._replication_bytes_out: Counter = metrics.counter(names.REPLICATION_BYTES_OUT).labels()
        self.reassignment_bytes_in: Counter = metrics.counter(names.REASSIGNMENT_BYTES_IN).labels()
        self.reassignment_bytes_out: Counter = metrics.counter(names.REASSIGNMENT_BYTES_OUT).labels()
        self._isr_expands: Counter = metrics.counter(names.ISR_EXPANDS).labels()
        self._isr_shrinks: Counter = metrics.counter(names.ISR_SHRINKS).labels()
        self.failed_isr_updates: Counter = metrics.counter(names.FAILED_ISR_UPDATES).labels()

    def follow(
        self, hosted: HostedPartitions, outbox: Outbox, wall_ms: Callable[[], int], txn_timeout_ms_max: int
    ) -> None:
        """Register the gauges, which call these at each scrape."""
        self._follow_producers(hosted, wall_ms, txn_timeout_ms_max + LATE_TRANSACTION_BUFFER_MS)
        gauge = self._metrics.gauge
        gauge(names.PARTITION_COUNT).labels().follow(lambda: len(hosted.by_name))
        gauge(names.LEADER_COUNT).labels().follow(lambda: _count(hosted.leaders()))
        gauge(names.UNDER_REPLICATED_PARTITIONS).labels().follow(
            lambda: _count(each for each in hosted.leaders() if is_under_replicated(each))
        )
        gauge(names.REASSIGNING_PARTITIONS).labels().follow(
            lambda: _count(each for each in hosted.leaders() if is_reassigning(each))
        )
        gauge(names.UNDER_MIN_ISR_PARTITION_COUNT).labels().follow(
            lambda: _count(each for each in hosted.leaders() if is_under_min_isr(each))
        )
        gauge(names.AT_MIN_ISR_PARTITION_COUNT).labels().follow(
            lambda: _count(each for each in hosted.leaders() if is_at_min_isr(each))
        )
        gauge(names.OFFLINE_REPLICA_COUNT).labels().follow(
            lambda: _count(each for each in hosted.by_name.values() if each.role is Role.OFFLINE)
        )
        for kind, purgatory in (
            ("Produce", outbox.produces),
            ("Fetch", outbox.fetches),
            ("DeleteRecords", outbox.delete_records),
        ):
            gauge(names.DELAYED_OPERATIONS).labels(kind).follow(purgatory.__len__)
            gauge(names.PURGATORY_SIZE).labels(kind).follow(partial(watching, purgatory))

    def follow_quotas(self, quotas: ReplicationQuotas, now_ms: Callable[[], int]) -> None:
        """Register the gauges of the throttled rate."""
        gauge = self._metrics.gauge
        gauge(names.LEADER_REPLICATION_RATE).labels().follow(lambda: quotas.leader.measured(now_ms()))
        gauge(names.FOLLOWER_REPLICATION_RATE).labels().follow(lambda: quotas.follower.measured(now_ms()))

    def _follow_producers(self, hosted: HostedPartitions, wall_ms: Callable[[], int], lateness_ms: int) -> None:
        """Register the gauges of producers and hanging transactions. O(replicas here)."""

        def late() -> int:
            now_ms = wall_ms()
            states = (each.log.producer_state for each in hosted.leaders() if each.log is not None)
            return sum(state.has_late_transaction(now_ms, lateness_ms) for state in states)

        def producers() -> int:
            logs = (each.log for each in hosted.by_name.values())
            return sum(len(log.producer_state.producers) for log in logs if log is not None)

        self._metrics.gauge(names.PARTITIONS_WITH_LATE_TRANSACTIONS).labels().follow(late)
        self._metrics.gauge(names.PRODUCER_ID_COUNT).labels().follow(producers)

    def of(self, topic: str) -> TopicFigures:
        """Return a topic's counters."""
        found = self._topics.get(topic)
        if found is None:
            found = self._topics[topic] = TopicFigures(self._metrics, topic)
        return found

    def forget(self, topic: str) -> None:
        """Expose a topic no longer: it was deleted (BrokerTopicStats.removeMetrics)."""
        if self._topics.pop(topic, None) is not None:
            for name in BY_TOPIC:
                self._metrics.counter(name).remove(topic)

    def appended(self, topic: str, size: int, records_count: int, requests: int = 1) -> None:
        """Count received records, and their requests."""
        for figures in (self.of(topic), self._all):
            figures.produces.add(requests)
            figures.bytes_in.add(size)
            figures.messages_in.add(records_count)

    def append_refused(self, topic: str, size_too_large: int = 0) -> None:
        """Count a rejected produce, and the bytes of its batches if they were too large for the topic.

        A missing topic has no counters, because a client may send any name.
        """
        for figures in (self._topics.get(topic), self._all):
            if figures is not None:
                figures.produces.add()
                figures.failed_produces.add()
                figures.bytes_rejected.add(size_too_large)

    def fetched(self, is_from_follower: bool, rows: Iterable[tuple[FetchTarget, PartitionData]]) -> None:
        """Count sent bytes."""
        count = failed = total = 0
        for target, row in rows:
            records = row.records
            size = sum(map(part_size, records)) if isinstance(records, tuple) else 0
            total += size
            if is_from_follower:
                continue
            count += 1
            if row.error_code:
                failed += 1
                known = self._topics.get(target.topic)
                if known is not None:
                    known.fetches.add()
                    known.failed_fetches.add()
                continue
            figures = self.of(target.topic)
            figures.fetches.add()
            figures.bytes_out.add(size)
        if is_from_follower:
            self._replication_bytes_out.add(total)
            return
        self._all.fetches.add(count)
        self._all.failed_fetches.add(failed)
        self._all.bytes_out.add(total)

    def isr_changed(self, expanded: int, shrunk: int) -> None:
        """Count changes of in-sync sets that the controller confirmed."""
        self._isr_expands.add(expanded)
        self._isr_shrinks.add(shrunk)


def watching(purgatory: Purgatory) -> int:
    """Return on how many partitions operations wait, each counted for itself. O(partitions)."""
    return sum(map(len, purgatory.watchers.values()))


def _count(partitions: Iterable[Partition]) -> int:
    return sum(1 for _ in partitions)
