"""Who waits for a commit: one timer for all, and nobody is kept who has been answered."""

import asyncio
import gc
import weakref

import pytest

from kvorum.broker.coordinator.runtime.history import Answer
from kvorum.broker.coordinator.runtime.waiting import Waiting
from kvorum.broker.coordinator.runtime.words import CoordinatorRecord, Decision
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.runtime.timers import Timers
from tests.unit.broker.coordinator.conftest import Run
from tests.unit.broker.coordinator.runtime_kit import ModelLog, State, loaded, put


class Response:
    """An answer that tells whether anybody has it still."""


def code_of(future: "asyncio.Future[Response]") -> ErrorCode:
    error = future.exception()
    assert isinstance(error, KafkaError)
    return error.code


def waiter(waiting: Waiting, now_ms: int) -> tuple["asyncio.Future[Response]", Answer]:
    future: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
    return future, waiting.answer_of(future, Response(), now_ms)


def test_one_timer_is_set_for_the_oldest_waiter(run: Run) -> None:
    async def scenario() -> None:
        timers, now = Timers(), [0]
        waiting = Waiting(1_000, lambda: now[0])
        waiting.arm(timers)
        assert not len(timers), "nobody waits"

        def moves_to(now_ms: int) -> None:
            now[0] = now_ms
            assert timers.advance(now_ms) == 1

        first, answer_first = waiter(waiting, 0)
        second, _ = waiter(waiting, 100)
        third, _ = waiter(waiting, 200)
        waiting.arm(timers)
        assert timers.next_deadline_ms() == 1_000
        waiting.arm(timers)
        assert len(timers) == 1, "it is armed already"
        waiting.tell([answer_first], None)
        moves_to(1_000)
        assert first.exception() is None and not second.done()
        assert timers.next_deadline_ms() == 1_100
        moves_to(1_100)
        assert code_of(second) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert not third.done() and timers.next_deadline_ms() == 1_200 and len(timers) == 1

    run(scenario())


@pytest.mark.parametrize("error", [None, KafkaError(ErrorCode.NOT_COORDINATOR, "no")])
def test_answered_waiters_are_released_before_the_timer_fires(run: Run, error: KafkaError | None) -> None:
    async def scenario() -> None:
        timers = Timers()
        waiting = Waiting(1_000, lambda: 0)
        future: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        response = Response()
        kept = weakref.ref(response)
        answers = [waiting.answer_of(future, response, 0)]
        behind, _ = waiter(waiting, 1)
        waiting.arm(timers)
        assert timers.next_deadline_ms() == 1_000
        waiting.tell(answers, error)
        assert (future.exception() is error) and not behind.done()
        del answers, response, future
        assert kept() is None

    run(scenario())


def test_immediately_rejected_requests_are_not_stored(run: Run) -> None:
    async def scenario() -> None:
        partition = await loaded(ModelLog(bytes_max=200))
        made: weakref.WeakSet[Response] = weakref.WeakSet()

        def too_large(state: State, now_ms: int) -> Decision[Response]:
            response = Response()
            made.add(response)
            return Decision(response=response, records=[CoordinatorRecord(b"k", b"x" * 200)])

        assert code_of(partition.write("large", too_large)) is ErrorCode.UNKNOWN_SERVER_ERROR
        gc.collect()  # errors and their frames have each other
        assert not made

    run(scenario())


def test_decisions_that_fill_a_batch_to_its_last_byte_go_into_one(run: Run) -> None:
    """61 bytes of header; a record takes 40 beside key and value at the most."""

    async def scenario(bytes_max: int) -> int:
        log = ModelLog(commits_at_once=True, bytes_max=bytes_max)
        partition = await loaded(log)
        await asyncio.gather(partition.write("put", put("1" * 9)), partition.write("put", put("2" * 9)))
        return len(log.data)

    batches: list[int] = []

    async def both() -> None:
        batches.extend([await scenario(61 + 2 * (40 + 1 + 9)), await scenario(61 + 2 * (40 + 1 + 9) - 1)])

    run(both())
    assert batches == [1, 2]
