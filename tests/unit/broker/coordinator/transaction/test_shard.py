"""A transaction coordinator at work, in virtual time: ends, timeouts, fencing, failovers, answers that are lost."""

import asyncio
from dataclasses import replace

import pytest

from kvorum.broker.coordinator.runtime.words import Decision, Producer
from kvorum.broker.coordinator.transaction.listing import TransactionFilter
from kvorum.broker.coordinator.transaction.replay import record_of
from kvorum.broker.coordinator.transaction.state import EPOCH_MAX, State
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.topic_partition import TopicPartition
from tests.unit.broker.coordinator.conftest import Run
from tests.unit.broker.coordinator.runtime_kit import ModelLog
from tests.unit.broker.coordinator.transaction.transaction_kit import (
    A0,
    A1,
    B0,
    SETTINGS,
    TIMEOUT_MS,
    Brokers,
    Ids,
    Node,
    Written,
    node,
)

OK, FENCED = ErrorCode.NONE, ErrorCode.PRODUCER_FENCED
CONCURRENT, INVALID = ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.INVALID_TXN_STATE


async def settle(seconds: float = 1.0) -> None:
    await asyncio.sleep(seconds)


@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize(("version", "bump"), [(0, 0), (1, 0), (2, 1)])
def test_a_transaction_from_its_begin_to_its_end(run: Run, is_commit: bool, version: int, bump: int) -> None:
    async def story() -> None:
        at = await node(version)
        producer = await at.producer()
        assert producer == (1_000, 0)
        assert await at.add(producer, A0, A1, B0) is OK
        assert at.state() is State.ONGOING
        answer = await at.end(producer, is_commit=is_commit)
        assert answer == ((OK, 1_000, 1) if bump else (OK, -1, -1))
        await settle()
        expected = Written(1_000, bump, is_commit, at.log.epoch, 2 if bump else 0)
        assert dict(at.brokers.written) == {A0: [expected], A1: [expected], B0: [expected]}
        assert at.state() is (State.COMPLETE_COMMIT if is_commit else State.COMPLETE_ABORT)
        assert at.at().partitions == frozenset()

    run(story())


def test_an_end_is_answered_and_markers_are_sent_when_it_is_committed_and_not_before(run: Run) -> None:
    async def story() -> None:
        at = await node()
        producer = await at.producer()
        await at.add(producer, A0)
        at.log.commits_at_once = False
        end = asyncio.ensure_future(at.end(producer, is_commit=True))
        await settle()
        assert not end.done() and not at.brokers.written
        assert await at.coordinator.verify_partitions(at.adding(producer, A0)) == {A0: OK}, "as far as is certain"
        at.log.commit()
        assert (await end).code is OK
        assert await at.coordinator.verify_partitions(at.adding(producer, A0)) == {A0: FENCED}
        await settle()
        assert at.brokers.written[A0] and at.state() is State.PREPARE_COMMIT, "the completion is not committed"
        at.log.commit()
        assert at.state() is State.COMPLETE_COMMIT

    run(story())


def test_an_end_that_cannot_be_written_has_no_effect(run: Run) -> None:
    async def story() -> None:
        at = await node()
        producer = await at.producer()
        await at.add(producer, A0)
        at.log.refuse = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, "no")
        with pytest.raises(KafkaError) as refused:
            await at.end(producer, is_commit=True)
        assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        at.log.refuse = None
        await settle()
        assert at.state() is State.ONGOING and not at.brokers.written
        assert (await at.end(producer, is_commit=True)).code is OK

    run(story())


def test_a_completion_that_cannot_be_written_is_tried_again(run: Run) -> None:
    async def story() -> None:
        at = await node()
        producer = await at.producer()
        await at.add(producer, A0)
        await at.end(producer, is_commit=True)
        at.log.refuse = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, "no")
        await settle(5)
        assert at.state() is State.PREPARE_COMMIT
        at.log.refuse = None
        await settle(1)
        assert at.state() is State.COMPLETE_COMMIT and len(at.brokers.written[A0]) == 1

    run(story())


def test_all_requests_wait_for_pending_markers(run: Run) -> None:
    async def story() -> None:
        at = await node()
        producer = await at.producer()
        await at.add(producer, A0, B0)
        at.brokers.cut = {2}
        next_ = Producer(*(await at.end(producer, is_commit=True))[1:])
        await settle()
        assert (await at.init()).code is CONCURRENT
        assert await at.add(next_, A0) is CONCURRENT
        assert (await at.end(producer, is_commit=True)).code is CONCURRENT
        assert await at.coordinator.verify_partitions(at.adding(next_, A0)) == {A0: CONCURRENT}
        row = at.coordinator.describe("t")
        assert row.transaction_state == "PrepareCommit"
        assert [(topic.topic, topic.partitions) for topic in row.topics] == [("b", [0])], "what is left"
        at.brokers.cut = set()
        await settle()
        assert at.state() is State.COMPLETE_COMMIT and await at.add(next_, A0) is OK

    run(story())


# --- fencing and timeouts ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 2])
def test_a_new_instance_aborts_the_old_ones_transaction_and_fences_it(run: Run, version: int) -> None:
    async def story() -> None:
        at = await node(version)
        old = await at.producer()
        await at.add(old, A0)
        assert (await at.init()).code is CONCURRENT
        await settle()
        assert at.brokers.written[A0][0].is_commit is False
        new = await at.producer()
        assert new == (1_000, 2)
        assert await at.add(old, A1) is FENCED
        assert (await at.end(old, is_commit=True)).code is FENCED
        assert await at.add(new, A1) is OK
        assert (await at.end(old, is_commit=False)).code is FENCED
        assert at.state() is State.ONGOING

    run(story())


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced(run: Run, version: int) -> None:
    async def story() -> None:
        at = await node(version)
        producer = await at.producer()
        await at.add(producer, A0)
        await settle(TIMEOUT_MS / 1000)
        assert at.state() is State.ONGOING
        await settle(SETTINGS.abort_interval_ms / 1000 + 1)
        assert at.state() is State.COMPLETE_ABORT
        assert at.brokers.written[A0] == [Written(1_000, 1, False, 1, 2 if version == 2 else 0)]
        assert (await at.end(producer, is_commit=True)).code is FENCED, "not INVALID_TXN_STATE: KAFKA-20785"
        assert await at.add(producer, A1) is FENCED
        again = await at.init(expected=producer)
        assert again == ((OK, 1_000, 1) if version == 2 else (FENCED, -1, -1))

    run(story())


def test_the_last_epoch_of_an_id_times_out_into_a_new_id(run: Run) -> None:
    async def story() -> None:
        at = await node()
        producer = Producer(1_000, EPOCH_MAX - 1)
        await at.producer()
        at = await with_epoch(at, EPOCH_MAX - 1)
        assert await at.add(producer, A0) is OK
        at.ids.refuse = True
        await settle(TIMEOUT_MS / 1000 + 15)
        assert at.state() is State.ONGOING, "no id could be had"
        at.ids.refuse = False
        await settle(SETTINGS.abort_interval_ms / 1000 + 1)
        assert at.state() is State.COMPLETE_ABORT
        assert (at.at().producer_id, at.at().producer_epoch) == (1_001, 0)
        assert at.brokers.written[A0] == [Written(1_000, EPOCH_MAX, False, at.log.epoch, 2)]
        assert (await at.end(producer, is_commit=False)) == (OK, 1_001, 0)

    run(story())


async def with_epoch(at: Node, epoch: int) -> Node:
    """Put an id that is between transactions into a later epoch, as its log would have it."""
    record = record_of(replace(at.at(), producer_epoch=epoch), 2)
    await at.partition.write("test", lambda state, now_ms: Decision(response=None, records=[record]))
    return at


def test_epochs_go_over_into_a_new_id_and_the_answer_can_be_requested_again(run: Run) -> None:
    async def story() -> None:
        at = await node()
        await at.producer()
        await with_epoch(at, EPOCH_MAX - 2)
        producer = Producer(1_000, EPOCH_MAX - 2)
        await at.add(producer, A0)
        producer = Producer(*(await at.end(producer, is_commit=True))[1:])
        assert producer == (1_000, EPOCH_MAX - 1)
        await settle()
        await at.add(producer, A0)
        answer = await at.end(producer, is_commit=True)
        assert answer == (OK, 1_001, 0)
        await settle()
        assert await at.end(producer, is_commit=True) == answer
        assert [each[:3] for each in at.brokers.written[A0]] == [
            (1_000, EPOCH_MAX - 1, True),
            (1_000, EPOCH_MAX, True),
        ]
        assert await at.add(Producer(1_001, 0), A0) is OK

    run(story())


# --- answers that are lost, requests that come late -------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("is_commit", [True, False])
def test_an_end_whose_answer_was_lost_is_answered_with_success(run: Run, version: int, is_commit: bool) -> None:
    async def story() -> None:
        at = await node(version)
        producer = await at.producer()
        await at.add(producer, A0)
        first = await at.end(producer, is_commit=is_commit)
        await settle()
        assert await at.end(producer, is_commit=is_commit) == first
        assert (await at.end(producer, is_commit=not is_commit)).code is (
            FENCED if version == 2 and not is_commit else INVALID
        )
        assert len(at.brokers.written[A0]) == 1

    run(story())


@pytest.mark.parametrize("late_is_commit", [True, False])
def test_a_late_end_of_an_earlier_transaction_does_not_end_a_later_one(run: Run, late_is_commit: bool) -> None:
    """KAFKA-17754, of transaction version 2."""

    async def story() -> None:
        at = await node(2)
        first = await at.producer()
        await at.add(first, A0)
        second = Producer(*(await at.end(first, is_commit=True))[1:])
        await settle()
        await at.add(second, A0, B0)
        assert (await at.end(first, is_commit=late_is_commit)).code is FENCED
        await settle()
        assert at.state() is State.ONGOING and len(at.brokers.written[A0]) == 1
        assert (await at.end(second, is_commit=True)).code is OK

    run(story())


def test_before_version_2_a_late_end_does_end_a_later_transaction(run: Run) -> None:
    """The gap that KIP-890 closes: nothing in such a request tells one transaction from the next."""

    async def story() -> None:
        at = await node(0)
        producer = await at.producer()
        await at.add(producer, A0)
        await at.end(producer, is_commit=True)
        await settle()
        await at.add(producer, B0)
        assert (await at.end(producer, is_commit=True)).code is OK
        await settle()
        assert at.state() is State.COMPLETE_COMMIT and at.brokers.written[B0]

    run(story())


def test_an_initialisation_whose_answer_was_lost_is_not_made_twice(run: Run) -> None:
    async def story() -> None:
        at = await node()
        producer = await at.producer()
        assert await at.init(expected=producer) == (OK, 1_000, 1)
        assert await at.init(expected=producer) == (OK, 1_000, 1)
        assert await at.init() == (OK, 1_000, 2)
        assert (await at.init(expected=producer)).code is FENCED

    run(story())


def test_markers_whose_answer_was_lost_are_sent_again(run: Run) -> None:
    async def story() -> None:
        at = await node()
        producer = await at.producer()
        await at.add(producer, A0, B0)
        at.brokers.deaf = {1}
        await at.end(producer, is_commit=True)
        await settle(0.05)
        assert at.state() is State.PREPARE_COMMIT
        at.brokers.deaf = set()
        await settle()
        assert at.state() is State.COMPLETE_COMMIT
        assert len(at.brokers.written[A0]) == 2 and len(set(at.brokers.written[A0])) == 1
        assert len(at.brokers.written[B0]) == 1

    run(story())


# --- failover ---------------------------------------------------------------------------------------------------------


def test_failover_in_ongoing_keeps_all_partitions(run: Run) -> None:
    """A coordinator that forgot them would commit the offsets only."""

    async def story() -> None:
        at = await node()
        producer = await at.producer()
        await at.add(producer, A0, A1)
        at = await at.fail_over()
        offsets = TopicPartition("__consumer_offsets", 4)
        at.brokers.leaders[offsets] = 2
        assert await at.add(producer, offsets) is OK
        assert (await at.end(producer, is_commit=True)).code is OK
        await settle()
        assert set(at.brokers.written) == {A0, A1, offsets}
        assert {each[0].coordinator_epoch for each in at.brokers.written.values()} == {2}

    run(story())


def test_failover_in_ongoing_continues_with_the_timeout(run: Run) -> None:
    async def story() -> None:
        at = await node()
        producer = await at.producer()
        await at.add(producer, A0)
        await settle(TIMEOUT_MS / 1000 - 5)
        at = await at.fail_over()
        await settle(SETTINGS.abort_interval_ms / 1000 + 1)
        assert at.state() is State.COMPLETE_ABORT
        assert (await at.end(producer, is_commit=True)).code is FENCED

    run(story())


@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize("reached", [set(), {1}, {2}])
def test_failover_after_the_decision_finishes_it_with_half_the_markers_written_or_none(
    run: Run, is_commit: bool, reached: set[int]
) -> None:
    async def story() -> None:
        at = await node()
        producer = await at.producer()
        await at.add(producer, A0, A1, B0)
        at.brokers.cut = {1, 2} - reached
        answer = await at.end(producer, is_commit=is_commit)
        await settle()
        assert at.state().is_prepared
        before = {key for key, written in at.brokers.written.items() if written}
        assert before == {key for key, leader in at.brokers.leaders.items() if leader in reached}
        at = await at.fail_over()
        at.brokers.cut = set()
        await settle()
        assert at.state().is_complete
        for key in (A0, A1, B0):
            marks = at.brokers.written[key]
            assert marks[-1] == Written(1_000, 1, is_commit, 2, 2)
            assert {each[:3] for each in marks} == {(1_000, 1, is_commit)}, "no part of it ended otherwise"
        assert await at.end(producer, is_commit=is_commit) == answer

    run(story())


def test_a_new_coordinator_sends_no_markers_for_uncommitted_decisions(run: Run) -> None:
    async def story() -> None:
        at = await node()
        producer = await at.producer()
        await at.add(producer, A0)
        at.log.commits_at_once = False
        end = asyncio.ensure_future(at.end(producer, is_commit=True))
        await settle(0.01)
        at = await at.fail_over()
        with pytest.raises(KafkaError):
            await end
        await settle()
        assert not at.brokers.written
        at.log.commit()
        await settle()
        assert at.brokers.written[A0][0].is_commit
        at.log.commit()
        assert at.state() is State.COMPLETE_COMMIT

    run(story())


def test_a_decision_lost_with_its_leader_has_no_effect(run: Run) -> None:
    async def story() -> None:
        at = await node()
        producer = await at.producer()
        await at.add(producer, A0)
        at.log.commits_at_once = False
        end = asyncio.ensure_future(at.end(producer, is_commit=True))
        await settle(0.01)
        at = await at.fail_over(keeps_uncommitted=False)
        at.log.commits_at_once = True
        with pytest.raises(KafkaError) as reported:
            await end
        assert reported.value.code is ErrorCode.NOT_COORDINATOR
        assert at.state() is State.ONGOING
        assert (await at.end(producer, is_commit=False)).code is OK
        await settle()
        assert [each.is_commit for each in at.brokers.written[A0]] == [False]

    run(story())


def test_a_deposed_coordinator_sends_and_writes_nothing_more(run: Run) -> None:
    async def story() -> None:
        at = await node()
        producer = await at.producer()
        await at.add(producer, A0)
        at.brokers.cut = {1}
        await at.end(producer, is_commit=True)
        await settle(0.15)
        end = at.log.end
        at.partition.resign(9)
        at.brokers.cut = set()
        await settle(120)
        assert not at.brokers.written and at.log.end == end
        with pytest.raises(KafkaError) as reported:
            await at.init()
        assert reported.value.code is ErrorCode.NOT_COORDINATOR

    run(story())


# --- partitions, listings, expiry -------------------------------------------------------------------------------------


def test_a_partition_whose_topic_is_gone_is_skipped(run: Run) -> None:
    async def story() -> None:
        at = await node()
        producer = await at.producer()
        await at.add(producer, A0, B0)
        at.brokers.refusals[B0] = [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 100
        await at.end(producer, is_commit=True)
        await settle()
        assert at.state() is State.PREPARE_COMMIT
        del at.brokers.leaders[B0]
        await settle()
        assert at.state() is State.COMPLETE_COMMIT and not at.brokers.written[B0]

    run(story())


def test_markers_of_transactions_that_end_together_go_together(run: Run) -> None:
    async def story() -> None:
        at = await node()
        names = [f"t{n}" for n in range(20)]
        producers = {name: await at.producer(name) for name in names}
        for name in names:
            await at.add(producers[name], A0, B0, name=name)
        at.log.commits_at_once = False
        ends = [asyncio.ensure_future(at.end(producers[name], is_commit=True, name=name)) for name in names]
        await settle()
        at.log.commit()
        await asyncio.gather(*ends)
        await settle()
        assert sorted(at.brokers.requests) == [(1, 20), (2, 20)]
        at.log.commit()
        assert {at.state(name) for name in names} == {State.COMPLETE_COMMIT}

    run(story())


def test_unused_ids_expire_but_never_within_a_transaction(run: Run) -> None:
    async def story() -> None:
        settings = replace(SETTINGS, expiration_ms=600_000, expiry_interval_ms=60_000)
        at = await Node(ModelLog(commits_at_once=True), Brokers(), Ids(), settings=settings).lead()
        open_ = await at.producer("open", timeout_ms=900_000)
        await at.add(open_, A0, name="open")
        at.brokers.cut = {1}
        await at.end(open_, is_commit=True, name="open")
        for number in range(700):
            await at.producer(f"idle-{number}")
        await settle(500)
        used = await at.producer("used")
        await settle(200)
        assert set(at.partition.committed_state.transactions) == {"open", "used"}
        at.brokers.cut = set()
        await settle()
        assert at.state("open") is State.COMPLETE_COMMIT
        assert at.coordinator.describe("idle-1").error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        assert await at.add(used, A0, name="used") is OK
        assert await at.producer("idle-1") == (1_702, 0), "it begins anew"

    run(story())


def test_descriptions(run: Run) -> None:
    async def story() -> None:
        at = await node()
        producer = await at.producer()
        await at.add(producer, B0, A1, A0)
        row = at.coordinator.describe("t")
        assert (row.error_code, row.transaction_state, row.transaction_timeout) == (0, "Ongoing", TIMEOUT_MS)
        assert (row.producer_id, row.producer_epoch) == (1_000, 0)
        assert row.transaction_start_time == at.at().start_ms > 0
        assert [(topic.topic, topic.partitions) for topic in row.topics] == [("a", [0, 1]), ("b", [0])]
        assert at.coordinator.describe("u").error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        assert at.coordinator.describe("").error_code == ErrorCode.INVALID_REQUEST
        at.partition.resign(9)
        assert at.coordinator.describe("t").error_code == ErrorCode.NOT_COORDINATOR

    run(story())


def test_lists_and_their_filters(run: Run) -> None:
    async def story() -> None:
        at = await node()
        for name in ("x1", "x2", "y1"):
            await at.producer(name)
        await at.add(Producer(1_001, 0), A0, name="x2")
        await settle(20)
        await at.add(Producer(1_002, 0), A0, name="y1")

        def listed(**filters: object) -> set[str]:
            wanted = TransactionFilter(**filters)  # type: ignore[arg-type]
            response = at.coordinator.list_transactions(wanted)
            assert response.error_code == OK
            return {row.transactional_id for row in response.transaction_states}

        assert listed() == {"x1", "x2", "y1"}
        assert listed(state_names=["Ongoing"]) == {"x2", "y1"}
        assert listed(state_names=["Ongoing", "Empty", "Nonsense"]) == {"x1", "x2", "y1"}
        assert listed(state_names=["Nonsense"]) == set()
        assert listed(producer_ids=frozenset({1_000, 1_002})) == {"x1", "y1"}
        assert listed(duration_ms=10_000, state_names=["Ongoing"]) == {"x2"}
        assert listed(matches=lambda name: name.startswith("x")) == {"x1", "x2"}
        wanted = TransactionFilter(state_names=["Nonsense", "Empty"])
        assert at.coordinator.list_transactions(wanted).unknown_state_filters == ["Nonsense"]

    run(story())


def test_lists_wait_for_all_partitions(run: Run) -> None:
    async def story() -> None:
        at = Node(ModelLog(), Brokers(), Ids())
        at.partition.lead(1)
        response = at.coordinator.list_transactions(TransactionFilter())
        assert response.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await settle()
        assert at.coordinator.list_transactions(TransactionFilter()).error_code == OK

    run(story())


def test_no_producer_id_can_be_had(run: Run) -> None:
    async def story() -> None:
        at = await node()
        at.ids.refuse = True
        assert (await at.init()).code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert at.partition.committed_state.get("t") is None
        assert (await at.init("")).code is ErrorCode.INVALID_REQUEST

    run(story())
