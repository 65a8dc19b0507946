"""A coordinator's partition: what it decides on, when it answers, what is left when it ends or an append fails."""

import asyncio
import gc
import weakref

import pytest

from kvorum.broker.coordinator.runtime.partition import APPENDS_OPEN_MAX, CoordinatorPartition
from kvorum.broker.coordinator.runtime.phase import Phase
from kvorum.broker.coordinator.runtime.words import CoordinatorRecord, Decision, Producer
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.records import batches, build_batch
from tests.unit.broker.coordinator.conftest import Run
from tests.unit.broker.coordinator.runtime_kit import (
    KeyShard,
    ModelLog,
    State,
    loaded,
    look,
    marker,
    partition_on,
    put,
    record,
)

Made = CoordinatorPartition[State, KeyShard]


def code_of(future: "asyncio.Future[object]") -> ErrorCode:
    error = future.exception()
    assert isinstance(error, KafkaError)
    return error.code


def test_it_answers_when_the_high_watermark_has_passed_and_not_before(run: Run) -> None:
    async def scenario() -> None:
        log = ModelLog()
        partition = await loaded(log)
        first = partition.write("put", put("1"))
        await asyncio.sleep(0.1)
        assert log.end == 1 and not first.done()
        assert partition.state["k"] == "1" and "k" not in partition.committed_state
        log.commit()
        assert await first == ""
        assert partition.committed_state["k"] == "1"

    run(scenario())


def test_the_next_decision_sees_uncommitted_records(run: Run) -> None:
    async def scenario() -> None:
        log = ModelLog()
        partition = await loaded(log)
        partition.write("put", put("1"))
        second = partition.write("put", put("2"))
        await asyncio.sleep(0)
        third = partition.write("put", put("3"))
        await asyncio.sleep(0.1)
        log.commit()
        assert (await second, await third) == ("1", "2")

    run(scenario())


def test_decisions_of_one_turn_of_the_loop_are_one_batch(run: Run) -> None:
    async def scenario() -> None:
        log = ModelLog(commits_at_once=True)
        partition = await loaded(log)
        answers = await asyncio.gather(*(partition.write("put", put(str(n))) for n in range(5)))
        assert answers == ["", "0", "1", "2", "3"]
        assert len(log.data) == 1 and log.end == 5
        assert partition.committed_state["offset:k"] == "4", "each is replayed at the offset it got"

    run(scenario())


def test_a_batch_that_is_full_makes_room_for_the_next(run: Run) -> None:
    async def scenario() -> None:
        log = ModelLog(commits_at_once=True, bytes_max=1_000)
        partition = await loaded(log)
        writes = [partition.write("put", put(str(n), size=600)) for n in range(3)]
        too_large = partition.write("put", put("x", size=1_000))
        assert await asyncio.gather(*writes)
        assert len(log.data) == 3
        assert code_of(too_large) is ErrorCode.UNKNOWN_SERVER_ERROR
        assert partition.committed_state["k"].startswith("2")

    run(scenario())


def test_a_decision_without_pending_records_is_answered_synchronously(run: Run) -> None:
    async def scenario() -> None:
        log = ModelLog()
        partition = await loaded(log)
        assert partition.write("look", look).done()
        partition.write("put", put("1"))
        assert not partition.write("look", look).done(), "it is behind what is in the open batch"

    run(scenario())


def test_a_given_refusal_result_replaces_the_exception(run: Run) -> None:
    async def scenario() -> None:
        log = ModelLog()
        partition = await loaded(log, timeout_ms=1_000)

        def write() -> "asyncio.Future[str]":
            return partition.write("put", put("1"), refuse=lambda error: f"refused: {error.code.name}")

        def refuse(state: State, now_ms: int) -> Decision[str]:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION, "no")

        refused = partition.write("refuse", refuse, refuse=lambda error: error.code.name)
        assert refused.done() and refused.result() == "ILLEGAL_GENERATION"
        assert await write() == "refused: COORDINATOR_NOT_AVAILABLE", "it was not committed in time"
        log.refuse = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, "no")
        assert await write() == "refused: COORDINATOR_NOT_AVAILABLE"
        log.refuse = None
        appended = write()
        await asyncio.sleep(0.1)
        partition.resign(2)
        assert await appended == await write() == "refused: NOT_COORDINATOR"

    run(scenario())


def test_a_decision_without_records_waits_for_earlier_records(run: Run) -> None:
    async def scenario() -> None:
        log = ModelLog()
        partition = await loaded(log)
        assert (await partition.write("look", look)) == {}
        partition.write("put", put("1"))
        in_batch = partition.write("look", look)
        await asyncio.sleep(0.1)
        behind = partition.write("look", look)
        await asyncio.sleep(0.1)
        assert not in_batch.done() and not behind.done()
        log.commit()
        assert (await in_batch)["k"] == (await behind)["k"] == "1"

    run(scenario())


@pytest.mark.parametrize(
    ("refusal", "answer"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
    ],
)
def test_a_refused_append_is_as_if_nothing_of_its_batch_had_been_decided(
    run: Run, refusal: ErrorCode, answer: ErrorCode
) -> None:
    async def scenario() -> None:
        log = ModelLog()
        partition = await loaded(log)
        kept = partition.write("put", put("kept"))
        await asyncio.sleep(0.1)
        reported: list[KafkaError | None] = []
        log.refuse = KafkaError(refusal, "no")
        lost = [partition.write("put", put("lost")), partition.write("look", look)]
        records = [CoordinatorRecord(b"other", b"lost")]
        partition.write_nowait(
            "timer", lambda state, now: Decision(response=None, records=records, outcome=reported.append)
        )
        await asyncio.sleep(0.1)
        assert [code_of(each) for each in lost] == [answer, answer]
        assert reported[0] is not None and reported[0].code is answer
        log.refuse = None
        after = partition.write("put", put("after"))
        await asyncio.sleep(0.1)
        log.commit()
        assert await after == "kept" and await kept == ""
        assert "other" not in partition.state

    run(scenario())


def test_a_rejected_decision_changes_nothing_and_its_error_is_returned(run: Run) -> None:
    async def scenario() -> None:
        log = ModelLog(commits_at_once=True)
        partition = await loaded(log)

        def refuse(state: State, now_ms: int) -> Decision[None]:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, "who?")

        with pytest.raises(KafkaError) as refused:
            await partition.write("refuse", refuse)
        assert refused.value.code is ErrorCode.UNKNOWN_MEMBER_ID
        await asyncio.sleep(0.1)
        assert log.end == 0

    run(scenario())


def test_a_fault_in_a_decision_ends_the_process(run: Run) -> None:
    async def scenario() -> None:
        faults: list[BaseException] = []
        log = ModelLog()
        partition = partition_on(log, on_fault=faults.append)
        partition.lead(1)
        await asyncio.sleep(0.1)
        with pytest.raises(ZeroDivisionError):
            partition.write("fault", lambda state, now_ms: Decision(response=1 // 0))
        assert len(faults) == 1

    run(scenario())


def test_losing_leadership_fails_waiters_and_a_later_high_watermark_completes_none(run: Run) -> None:
    """KAFKA-20634: what a follower learns of another leader's log says nothing of what was appended here."""

    async def scenario() -> None:
        log = ModelLog()
        partition = await loaded(log)
        shard = partition.shard
        appended = partition.write("put", put("1"))
        await asyncio.sleep(0.1)
        deciding = partition.write("put", put("2"))
        partition.resign(2)
        assert code_of(appended) is code_of(deciding) is ErrorCode.NOT_COORDINATOR
        assert shard.ended is not None and shard.ended.code is ErrorCode.NOT_COORDINATOR
        log.commit(5)
        await asyncio.sleep(0.1)
        assert log.end == 1, "what was only decided is never appended"
        assert code_of(partition.write("put", put("3"))) is ErrorCode.NOT_COORDINATOR

    run(scenario())


def test_a_log_is_replayed_up_to_its_end_and_committed_up_to_the_high_watermark(run: Run) -> None:
    async def scenario() -> None:
        log = ModelLog()
        log.write("1", "2")
        log.commit()
        log.write("3")
        partition = partition_on(log)
        partition.lead(1)
        assert partition.phase is Phase.LOADING
        assert code_of(partition.write("put", put("x"))) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await asyncio.sleep(0.1)
        assert partition.state["k"] == "3" and partition.committed_state["k"] == "2"
        waiting = partition.write("look", look)
        log.commit()
        assert (await waiting)["k"] == "3" and partition.committed_state["k"] == "3"

    run(scenario())


def test_a_load_that_is_overtaken_by_the_next_epoch_leaves_nothing_behind(run: Run) -> None:
    async def scenario() -> None:
        log = ModelLog()
        log.write("old")
        log.commit()
        partition = partition_on(log)
        partition.lead(1)
        log.epoch = 2
        log.write("new")
        log.commit()
        partition.lead(2)
        partition.lead(1)
        await asyncio.sleep(0.1)
        assert partition.phase is Phase.ACTIVE and partition.epoch == 2
        assert partition.committed_state["k"] == "new"
        partition.resign(1)
        assert partition.phase is Phase.ACTIVE, "an older word changes nothing"

    run(scenario())


def test_a_log_that_cannot_be_read_leaves_the_coordinator_failed_until_the_next_epoch(run: Run) -> None:
    async def scenario() -> None:
        log = ModelLog(end=3)
        partition = partition_on(log)
        partition.lead(1)
        await asyncio.sleep(0.1)
        assert partition.phase is Phase.FAILED
        assert code_of(partition.write("put", put("x"))) is ErrorCode.NOT_COORDINATOR
        log.end, log.epoch = 0, 2
        partition.lead(2)
        await asyncio.sleep(0.1)
        assert partition.phase is Phase.ACTIVE

    run(scenario())


def test_a_record_that_cannot_be_replayed_leaves_the_coordinator_failed_and_the_broker_running(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka lets an admin client produce any bytes to an internal topic."""

    async def scenario() -> None:
        faults: list[BaseException] = []
        log = ModelLog(commits_at_once=True)
        log.write("foreign")
        partition = partition_on(log, on_fault=faults.append)
        with monkeypatch.context() as patch:
            patch.setattr(KeyShard, "replay", lambda *_: 1 // 0)
            partition.lead(1)
            await asyncio.sleep(0.1)
        assert partition.phase is Phase.FAILED and not faults
        assert code_of(partition.write("put", put("x"))) is ErrorCode.NOT_COORDINATOR
        log.epoch = 2
        partition.lead(2)
        await asyncio.sleep(0.1)
        assert partition.phase is Phase.ACTIVE

    run(scenario())


def test_a_partition_written_by_another_coordinator_is_reloaded(run: Run) -> None:
    async def scenario() -> None:
        log = ModelLog(commits_at_once=True)
        partition = await loaded(log)
        log.write("foreign")
        lost = partition.write("put", put("1"))
        await asyncio.sleep(0.1)
        assert code_of(lost) is ErrorCode.NOT_COORDINATOR
        assert partition.phase is Phase.ACTIVE and partition.state["k"] == "foreign"
        assert await partition.write("put", put("2")) == "foreign"

    run(scenario())


def test_a_timed_out_request_gets_an_error_and_its_change_may_still_happen(run: Run) -> None:
    async def scenario() -> None:
        log = ModelLog()
        partition = await loaded(log, timeout_ms=1_000)
        began = asyncio.get_running_loop().time()
        first = partition.write("put", put("1"))
        await asyncio.sleep(0.5)
        second = partition.write("put", put("2"))
        with pytest.raises(KafkaError) as late:
            await first
        assert late.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert 1.0 <= asyncio.get_running_loop().time() - began < 1.1
        assert not second.done()
        log.commit()
        assert await second == "1" and partition.committed_state["k"] == "2"

    run(scenario())


def test_transactional_writes_are_in_separate_batches_and_count_after_the_marker(run: Run) -> None:
    async def scenario() -> None:
        log = ModelLog(commits_at_once=True)
        partition = await loaded(log)
        one, two = Producer(11, 0), Producer(12, 0)
        await asyncio.gather(
            partition.write("put", put("plain")),
            partition.write("put", put("one", key="a"), one),
            partition.write("put", put("two", key="b"), two),
        )
        assert [header.producer_id for data in log.data for _, header in batches(memoryview(data))] == [-1, 11, 12]
        assert "a" not in partition.committed_state
        await partition.write_marker(marker(one, is_commit=True), one, True)
        await partition.write_marker(marker(two, is_commit=False), two, False)
        seen = partition.committed_state
        assert seen["a"] == "one" and "b" not in seen and not any(key.startswith("pending") for key in seen)
        again = await loaded(log)
        assert again.committed_state == seen, "a restart replays the same"

    run(scenario())


def test_timers_of_an_ended_leadership_do_not_go_off(run: Run) -> None:
    async def scenario() -> None:
        log = ModelLog()
        partition = await loaded(log)
        fired: list[str] = []
        partition.at(partition.now_ms() + 100, lambda: fired.append("kept"))
        await asyncio.sleep(0.2)
        partition.at(partition.now_ms() + 100, lambda: fired.append("dropped"))
        partition.at(partition.now_ms() + 50, lambda: partition.resign(2))
        await asyncio.sleep(0.5)
        assert fired == ["kept"]

    run(scenario())


def test_a_shard_goes_with_its_leadership(run: Run) -> None:
    """It may be large: all members of the partition's groups."""

    async def scenario() -> None:
        partition = await loaded(ModelLog())
        shard = weakref.ref(partition.shard)
        partition.at(partition.now_ms() + 100, lambda: None)
        waiter = partition.write("put", put("1"))
        partition.resign(2)
        assert isinstance(waiter.exception(), KafkaError)
        gc.collect()  # the error's frames know the partition
        assert shard() is None

    run(scenario())


def test_too_many_open_appends_are_refused(run: Run) -> None:
    async def scenario() -> None:
        log = ModelLog()
        partition = await loaded(log, timeout_ms=10**6)
        for _ in range(APPENDS_OPEN_MAX):
            partition.write("put", put("1"))
            await asyncio.sleep(0)
        await asyncio.sleep(0.1)
        assert code_of(partition.write("put", put("1"))) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        log.commit()
        waiting = partition.write("put", put("2"))
        await asyncio.sleep(0.1)
        log.commit()
        assert await waiting == "1"

    run(scenario())


def test_a_batch_that_begins_below_the_log_start_is_replayed_from_there(run: Run) -> None:
    async def scenario() -> None:
        log = ModelLog()
        log.append(build_batch([record("a", "gone"), record("b", "there")]), 1)
        log.commit()
        log.start_offset = lambda: 1  # type: ignore[method-assign]
        partition = await loaded(log)
        assert partition.state["b"] == "there" and "a" not in partition.state

    run(scenario())
