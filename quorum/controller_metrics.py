"""Metrics of a controller, computed at each scrape.

Only elections are counted at their commit, on the active controller: summed over the controllers, each is counted once,
and a controller that replays the log at its start counts none again.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial

from kvorum.quorum.broker_admin_states import BrokerAdminStates
from kvorum.quorum.controller_tasks import ControllerTasks
from kvorum.quorum.image import MetadataDelta
from kvorum.quorum.image.partition import PartitionRegistration
from kvorum.quorum.records import NO_LEADER
from kvorum.quorum.services import ControllerServices
from kvorum.quorum.steps import Steps, pieces
from kvorum.runtime import metric_names as names
from kvorum.runtime.metrics import Metrics


def follow(
    metrics: Metrics, services: ControllerServices, tasks: ControllerTasks, broker_admin_states: BrokerAdminStates
) -> None:
    """Register the controller's gauges and counters."""
    log, store, controller = services.metadata_log, services.store, services.controller
    gauges: dict[str, Callable[[], float]] = {
        names.ACTIVE_CONTROLLER_COUNT: lambda: int(controller.is_active()),
        names.ACTIVE_BROKER_COUNT: lambda: _brokers(services, fenced=False),
        names.FENCED_BROKER_COUNT: lambda: _brokers(services, fenced=True),
        names.GLOBAL_TOPIC_COUNT: lambda: len(store.image.topics.by_id),
        names.GLOBAL_PARTITION_COUNT: lambda: store.image.topics.partition_count,
        names.OFFLINE_PARTITIONS_COUNT: lambda: store.image.topics.index.leader_count(NO_LEADER),
        names.PREFERRED_REPLICA_IMBALANCE_COUNT: lambda: len(store.image.topics.index.imbalanced),
        names.LAST_APPLIED_RECORD_OFFSET: lambda: store.image.offset,
        names.LAST_COMMITTED_RECORD_OFFSET: lambda: store.end_offset - 1,
        names.TIMED_OUT_HEARTBEATS: lambda: tasks.session_ends,
        names.CURRENT_METADATA_VERSION: lambda: store.image.features.metadata_version,
        names.CURRENT_CONTROLLER_ID: lambda: -1 if log.leader_id is None else log.leader_id,
        names.RAFT_CURRENT_LEADER: lambda: -1 if log.leader_id is None else log.leader_id,
        names.RAFT_CURRENT_EPOCH: lambda: log.epoch,
        names.RAFT_HIGH_WATERMARK: lambda: log.high_watermark,
        names.RAFT_LOG_END_OFFSET: lambda: log.log_end_offset,
        names.RAFT_LOG_END_EPOCH: lambda: store.epoch,
        names.RAFT_VOTERS: lambda: len(log.voters()),
    }
    for name, value in gauges.items():
        metrics.gauge(name).labels().follow(value)

    def brokers() -> list[tuple[tuple[()], float]]:
        return [((), _brokers(services, fenced=False))] if controller.is_active() else []

    def observers() -> list[tuple[tuple[()], float]]:
        return [((), len(services.followers()))] if controller.is_active() else []

    metrics.gauge(names.BROKERS).sample(brokers)
    metrics.gauge(names.RAFT_OBSERVERS).sample(observers)
    mutation, loop, times = services.quotas.mutation, asyncio.get_running_loop(), controller.times
    metrics.summary(names.EVENT_QUEUE_TIME).follow(times.queue_ms, lambda: loop.time() * 1000)
    metrics.summary(names.EVENT_PROCESSING_TIME).follow(times.processing_ms, lambda: loop.time() * 1000)
    metrics.gauge(names.QUOTA_MUTATION_TOKENS).sample(
        lambda: [(each.scope, each.measure.tokens(each.bound, loop.time() * 1000)) for each in mutation.meters()]
    )
    metrics.gauge(names.QUOTA_MUTATION_THROTTLE_TIME).sample(
        lambda: [(each.scope, each.throttle_time_ms(loop.time() * 1000)) for each in mutation.meters()]
    )
    metrics.counter(names.FAST_FENCINGS).sample(lambda: [((), tasks.fast_fencings)])
    for name, left in (
        (names.DECOMMISSION_PARTITIONS_LEFT, broker_admin_states.partitions_left),
        (names.MAINTENANCE_LEADERS_LEFT, broker_admin_states.leaders_left),
    ):
        metrics.gauge(name).sample(partial(_by_broker, left))
    store.on_change = ElectionCounts(metrics, controller.is_active).take


def _by_broker(left: Callable[[], Mapping[int, int]]) -> list[tuple[tuple[str], float]]:
    return [((str(broker_id),), count) for broker_id, count in left().items()]


class ElectionCounts:
    """Counts the leaders that committed changes elected."""

    __slots__ = ("_elections", "_eligible", "_is_active", "_unclean")

    def __init__(self, metrics: Metrics, is_active: Callable[[], bool]) -> None:
        """Register the counters."""
        self._is_active = is_active
        self._elections = metrics.counter(names.LEADER_ELECTIONS).labels()
        self._unclean = metrics.counter(names.UNCLEAN_LEADER_ELECTIONS).labels()
        self._eligible = metrics.counter(names.ELIGIBLE_LEADER_ELECTIONS).labels()

    def take(self, delta: MetadataDelta) -> Steps[None]:
        """Count the elections of a delta. A new partition's first leader is not counted (ControllerMetricsChanges)."""
        if delta.topics_delta.is_empty or not self._is_active():
            return
        for topic in delta.topics_delta.changed_topics.values():
            for piece in pieces(topic.partition_changes.items()):
                for partition_id, now in piece:
                    self._count(topic.image.partitions.get(partition_id), now)
                yield

    def _count(self, before: PartitionRegistration | None, now: PartitionRegistration) -> None:
        if before is None or not now.has_leader or now.leader == before.leader:
            return
        self._elections.add()
        if is_unclean(before, now.leader):
            self._unclean.add()
        if now.leader in before.elr:
            self._eligible.add()


def is_unclean(before: PartitionRegistration, leader: int) -> bool:
    """Return whether a leader outside the eligible replicas was elected (PartitionRegistration.electionWasClean)."""
    return leader not in before.isr and leader not in before.elr


def _brokers(services: ControllerServices, *, fenced: bool) -> int:
    return sum(1 for broker in services.store.image.cluster.brokers.values() if broker.fenced == fenced)
