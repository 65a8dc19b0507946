"""What rests is told, and told of its follower, just what it would be if every fetch looked at everything."""

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kvorum.broker.fetch_session import FetchSessionCache
from kvorum.broker.replica.fetches import Fetches
from kvorum.broker.replica.figures import Figures
from kvorum.broker.replica.hosted import HostedPartitions, Outbox
from kvorum.broker.replica.isr_changes import complete_alter_partition, maybe_shrink_isr, out_of_sync_replicas
from kvorum.broker.replica.isr_manager import is_current
from kvorum.broker.replica.partition import Partition
from kvorum.broker.replica.replication_quota import ReplicationQuota
from kvorum.broker.replica.types import FetchParams, IsolationLevel
from kvorum.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.runtime.config import Settings
from kvorum.runtime.metrics import Metrics
from kvorum.runtime.timers import Timers
from tests.unit.broker.replica.replica_kit import (
    LAG_MS,
    TOPIC_ID,
    ModelCluster,
    ModelLog,
    batch,
    config,
    granted,
    registration,
)

TOPIC = "orders"
COUNT = 4
"""Partitions led by broker 1, followed by 2 and 3."""
CONSUMER = -1
EVICTION_MS = 120_000


class Leader:
    """Broker 1 with its sessions; `rests` or looks at everything each time."""

    def __init__(self, rests: bool) -> None:
        self.rests = rests
        self.now_ms = 0
        self.cluster = ModelCluster()
        self.hosted = HostedPartitions(self.cluster)  # type: ignore[arg-type]
        self.timers = Timers()
        self.outbox = Outbox(self.timers, lambda expanded, shrunk: None)
        self.outbox.isr_sender = self
        self.proposals: dict[TopicPartition, tuple[Partition, Any]] = {}
        self.quota = ReplicationQuota(1, Settings.of({}))
        self.fetches = Fetches(self.hosted, self.outbox, lambda: self.now_ms, Figures(Metrics()), self.quota)
        self.sessions = FetchSessionCache(10, EVICTION_MS, Random(1))
        self.epochs: dict[int, tuple[int, int]] = {}
        self.looked_at = 0
        for index in range(COUNT):
            key = TopicPartition(TOPIC, index)
            made = Partition(
                topic_partition=key,
                topic_id=TOPIC_ID,
                broker_id=1,
                brokers=self.cluster,
                local_broker_epoch=lambda: 101,
                replica_lag_time_ms_max=LAG_MS,
            )
            made.make_leader(registration(), ModelLog(config()), 0)
            self.hosted.by_name[key] = made

    def submit(self, partition: Partition, proposal: Any) -> None:
        self.proposals[partition.topic_partition] = partition, proposal

    def partition(self, index: int) -> Partition:
        return self.hosted.by_name[TopicPartition(TOPIC, index)]

    def log(self, index: int) -> ModelLog:
        log = self.partition(index).log
        assert isinstance(log, ModelLog)
        return log

    def settle(self) -> None:
        for each in self.hosted.by_name.values():
            self.outbox.settle(each)

    def fetch(
        self,
        reader: int,
        requested: dict[int, tuple[int, int]],
        forgotten: tuple[int, ...] = (),
        *,
        wait_ms: int = 0,
        incarnation: int = 0,
        committed_only: bool = False,
    ) -> Callable[[], FetchResponse | None]:
        """Fetch {partition: (offset, log start)} by the reader's session; what is returned tells the answer."""
        session_id, epoch = self.epochs.get(reader, (0, 0))
        is_follower = reader != CONSUMER
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=reader, replica_epoch=100 + reader + incarnation),
            session_id=session_id,
            session_epoch=epoch,
            topics=[
                FetchTopic(
                    topic_id=TOPIC_ID,
                    partitions=[
                        FetchPartition(
                            partition=index,
                            current_leader_epoch=self.partition(index).leader_epoch,
                            fetch_offset=offset,
                            log_start_offset=start,
                            partition_max_bytes=9999,
                        )
                        for index, (offset, start) in requested.items()
                    ],
                )
            ],
            forgotten_topics_data=[ForgottenTopic(topic_id=TOPIC_ID, partitions=list(forgotten))],
        )
        params = FetchParams(
            replica_id=reader,
            replica_epoch=100 + reader + incarnation if is_follower else -1,
            max_wait_ms=wait_ms,
            isolation_level=IsolationLevel(int(committed_only)),
        )
        context = self.sessions.context(
            request,
            17,
            is_from_follower=is_follower,
            topic_name=lambda topic_id: TOPIC,
            now_ms=self.now_ms,
            asker=(params.replica_epoch, self.cluster.broker_epoch(reader), committed_only),
        )
        answers: list[FetchResponse] = []

        def on_done(rows: Any) -> None:
            self.looked_at += len(rows)
            try_rest = partial(self.fetches.rest, params) if self.rests else None
            answers.append(context.respond(rows, self.now_ms, try_rest))
            if epoch == 0:
                self.epochs[reader] = (answers[0].session_id, 1)

        if epoch:
            self.epochs[reader] = (session_id, epoch + 1)
        parked = self.fetches.fetch_records(params, context.targets, on_done, context.has_resting)
        if parked is not None:
            context.waits(parked)
        return lambda: answers[0] if answers else None


def reported(response: FetchResponse) -> dict[int, tuple[object, ...]]:
    return {
        row.partition_index: (
            row.error_code,
            row.high_watermark,
            row.log_start_offset,
            row.diverging_epoch.epoch,
            sum(map(len, row.records or ())),
        )
        for topic in response.responses
        for row in topic.partitions
    }


class Both(RuleBasedStateMachine):
    """The same happens to a leader whose sessions let partitions rest and to one whose do not."""

    def __init__(self) -> None:
        super().__init__()
        self.pair = (Leader(rests=True), Leader(rests=False))
        self.ends: dict[int, dict[int, tuple[int, int]]] = {reader: {} for reader in (CONSUMER, 2, 3)}
        self.waiting: dict[int, tuple[Any, Any]] = {}

    indexes = st.integers(0, COUNT - 1)
    readers = st.sampled_from((CONSUMER, 2, 3))

    @rule(index=indexes)
    def produce(self, index: int) -> None:
        for each in self.pair:
            if not each.partition(index).is_leader:
                return
            each.partition(index).append_records_to_leader(batch(b"value"), 1, each.now_ms)
            each.outbox.appended(each.partition(index))
        self.take_answers()

    @rule(reader=readers, data=st.data())
    def fetch(self, reader: int, data: st.DataObject) -> None:
        """Ask where the reader is; of some a record further, if there is one, and of some with another log start.

        While a consumer waits, a follower is further in one partition only: the first high watermark that rises ends
        the wait, and the two leaders look at the partitions of a session in different orders.
        """
        if reader in self.waiting:
            return
        known = self.ends[reader]
        requested: dict[int, tuple[int, int]] = {}
        may_rise = COUNT if CONSUMER not in self.waiting else 1
        for index in data.draw(st.sets(self.indexes)) if known else range(COUNT):
            log = self.pair[0].partition(index).log
            end = 0 if log is None else log.log_end_offset
            offset, start = known.get(index, (0, 0))
            asked = data.draw(st.integers(offset, max(offset, end))) if may_rise else offset
            may_rise -= asked > offset
            requested[index] = asked, max(start, data.draw(st.integers(0, 1)))
        forgotten = tuple(data.draw(st.sets(st.sampled_from(sorted(known)), max_size=1))) if len(known) > 1 else ()
        how = {
            "wait_ms": data.draw(st.sampled_from((0, 500))),
            "incarnation": data.draw(st.sampled_from((0, 0, 0, 0, 1))) if reader != CONSUMER else 0,
            "committed_only": reader == CONSUMER and data.draw(st.booleans()),
        }
        if known and not set(known) | set(requested) > set(forgotten):
            return
        known.update(requested)
        for index in forgotten:
            known.pop(index)
        ours, theirs = (each.fetch(reader, requested, forgotten, **how) for each in self.pair)
        self.waiting[reader] = ours, theirs
        self.take_answers()

    def take_answers(self) -> None:
        for reader, (ours, theirs) in tuple(self.waiting.items()):
            one, other = ours(), theirs()
            assert (one is None) == (other is None), (reader, one, other)
            if one is not None and other is not None:
                assert reported(one) == reported(other)
                del self.waiting[reader]

    @rule(ms=st.sampled_from((1, 400, LAG_MS // 2, LAG_MS + 1)))
    def time_goes_by(self, ms: int) -> None:
        for each in self.pair:
            each.now_ms += ms
            each.timers.advance(each.now_ms)
        self.take_answers()

    @rule(index=indexes)
    def shrink(self, index: int) -> None:
        for each in self.pair:
            maybe_shrink_isr(each.partition(index), each.now_ms)
            each.settle()
        self.take_answers()

    @rule()
    @precondition(lambda self: self.pair[0].proposals)
    def controller_grants(self) -> None:
        for each in self.pair:
            partition, proposal = each.proposals.pop(min(each.proposals))
            if not is_current(partition, proposal):
                continue
            answer = granted(proposal)
            complete_alter_partition(partition, proposal, answer, each.now_ms)
            partition.make_leader(
                registration(isr=answer.isr, leader_epoch=answer.leader_epoch, partition_epoch=answer.partition_epoch),
                partition.log,
                each.now_ms,
            )
            each.outbox.leadership_changed(partition)
        self.take_answers()

    @rule(index=indexes)
    def log_start_rises(self, index: int) -> None:
        for each in self.pair:
            log = each.partition(index).log
            if log is None:
                return
            log.maybe_increment_log_start_offset(min(log.log_start_offset + 1, log.high_watermark))

    @rule(index=indexes, leads=st.booleans())
    def role_changes(self, index: int, leads: bool) -> None:
        for each in self.pair:
            partition = each.partition(index)
            if partition.log is None:
                continue
            epoch = partition.leader_epoch + 1
            fresh = registration(1 if leads else 2, leader_epoch=epoch, partition_epoch=partition.partition_epoch + 1)
            if leads:
                partition.make_leader(fresh, partition.log, each.now_ms)
            else:
                partition.make_follower(fresh, partition.log)
            each.outbox.leadership_changed(partition)
        self.take_answers()

    @rule(index=indexes, broker_id=st.sampled_from((2, 3)))
    def controller_drops(self, index: int, broker_id: int) -> None:
        """A member leaves the ISR in the same leader epoch; it may join again."""
        for each in self.pair:
            partition = each.partition(index)
            if not partition.is_leader:
                return
            fresh = registration(
                isr=sorted(partition.isr - {broker_id}),
                leader_epoch=partition.leader_epoch,
                partition_epoch=partition.partition_epoch + 1,
            )
            assert partition.log is not None
            partition.make_leader(fresh, partition.log, each.now_ms)
            each.outbox.leadership_changed(partition)
        self.take_answers()

    @rule(index=st.integers(0, 0))
    def disk_fails(self, index: int) -> None:
        for each in self.pair:
            each.partition(index).mark_offline()
            each.outbox.wake_all(TopicPartition(TOPIC, index))
        self.take_answers()

    @rule(broker_id=st.sampled_from((2, 3)))
    def broker_registers_anew(self, broker_id: int) -> None:
        for each in self.pair:
            each.cluster.epochs[broker_id] += 1

    @invariant()
    def same_state(self) -> None:
        one, other = self.pair
        for index in range(COUNT):
            ours, theirs = one.partition(index), other.partition(index)
            assert one.proposals.keys() == other.proposals.keys()
            assert ours.isr_state.isr == theirs.isr_state.isr
            assert ours.isr_state.maximal_isr == theirs.isr_state.maximal_isr
            assert out_of_sync_replicas(ours, one.now_ms) == out_of_sync_replicas(theirs, other.now_ms)
            if ours.log is not None and theirs.log is not None:
                assert ours.log.high_watermark == theirs.log.high_watermark
        assert one.looked_at <= other.looked_at
        for session in one.sessions._sessions.values():
            resting = sum(target.rest is not None for target in session.partitions.values())
            assert resting + len(session.active) == len(session.partitions)
            assert all(target.rest is None for target in session.active)


TestBoth = Both.TestCase
TestBoth.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)


def caught_up() -> Leader:
    """A leader with a record in partition 0, its followers at the end of all, everything told."""
    leader = Leader(rests=True)
    leader.partition(0).append_records_to_leader(batch(b"value"), 1, 0)
    everything = {index: (int(index == 0), 0) for index in range(COUNT)}
    for reader in (2, 3):
        leader.fetch(reader, everything)
    for reader in (2, 3):
        leader.fetch(reader, {})
    return leader


def test_an_idle_session_looks_at_nothing() -> None:
    leader = caught_up()
    leader.looked_at = 0
    for _ in range(10):
        leader.fetch(2, {})
    assert leader.looked_at == 0
    assert all(len(leader.partition(index).watchers) == 2 for index in range(COUNT))


def test_idle_partitions_wake_a_waiting_fetch() -> None:
    leader = caught_up()
    answer = leader.fetch(2, {}, wait_ms=500)
    assert answer() is None
    leader.partition(3).append_records_to_leader(batch(b"value"), 1, 0)
    leader.outbox.appended(leader.partition(3))
    response = answer()
    assert response is not None and set(reported(response)) == {3}


def test_a_follower_that_rests_has_its_whole_lag_time_from_its_last_fetch() -> None:
    leader = caught_up()
    leader.now_ms = 10 * LAG_MS
    leader.fetch(2, {})
    leader.now_ms += LAG_MS // 2
    leader.partition(1).append_records_to_leader(batch(b"value"), 1, leader.now_ms)
    assert out_of_sync_replicas(leader.partition(1), leader.now_ms) == {3}
    leader.now_ms += LAG_MS // 2
    assert out_of_sync_replicas(leader.partition(1), leader.now_ms) == {3}
    leader.now_ms += 1
    assert out_of_sync_replicas(leader.partition(1), leader.now_ms) == {2, 3}


def test_a_closed_session_leaves_no_watcher() -> None:
    leader = caught_up()
    leader.epochs.clear()
    leader.sessions.context(
        FetchRequest(session_id=next(iter(leader.sessions._sessions)), session_epoch=-1),
        17,
        is_from_follower=True,
        topic_name=lambda topic_id: TOPIC,
        now_ms=0,
    )
    assert all(len(leader.partition(index).watchers) == 1 for index in range(COUNT))
