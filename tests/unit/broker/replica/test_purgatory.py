"""Operations wait, are woken, time out, and leave nothing behind."""

from collections.abc import Callable

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kvorum.broker.replica.figures import watching
from kvorum.broker.replica.purgatory import DEADLINE_STEP_MS, Parked, Purgatory
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.runtime.timers import Timers

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


class Waiting:
    """Completes when `ready`; writes down what happened to it."""

    def __init__(self, ready: bool = False, then: Callable[[], object] | None = None) -> None:
        self.ready = ready
        self.events: list[str] = []
        self.looked_at: list[TopicPartition | None] = []
        self.then = then

    def try_complete(self, key: TopicPartition | None) -> bool:
        self.looked_at.append(key)
        return self.ready

    def on_expire(self) -> None:
        self.events.append("expired")

    def on_complete(self) -> None:
        self.events.append("completed")
        if self.then is not None:
            self.then()


def test_immediately_complete_operations_are_never_parked() -> None:
    purgatory = Purgatory(Timers())
    operation = Waiting(ready=True)
    assert purgatory.park(operation, [A], 100) is None
    assert operation.events == ["completed"] and len(purgatory) == 0


def test_it_completes_once_when_one_of_its_keys_is_touched() -> None:
    timers = Timers()
    purgatory = Purgatory(timers)
    operation = Waiting()
    purgatory.park(operation, [A, B], 100)
    assert purgatory.touched(A) == 0
    assert (len(purgatory), watching(purgatory)) == (1, 2)
    operation.ready = True
    assert purgatory.touched(B) == 1
    assert purgatory.touched(A) == 0
    timers.advance(1000)
    assert operation.events == ["completed"]
    assert operation.looked_at == [None, A, B]
    assert (len(purgatory), purgatory.watched(A), purgatory.watched(B)) == (0, 0, 0)
    assert watching(purgatory) == 0


def test_its_time_ends_it_not_before_the_deadline_and_not_long_after() -> None:
    timers = Timers()
    purgatory = Purgatory(timers)
    operation = Waiting()
    purgatory.park(operation, [A], 101)
    timers.advance(101)
    assert operation.events == []
    timers.advance(101 + DEADLINE_STEP_MS)
    assert operation.events == ["expired", "completed"]
    assert (len(purgatory), purgatory.watched(A)) == (0, 0)


def test_one_too_many_is_answered_at_once() -> None:
    purgatory = Purgatory(Timers(), operations_max=1)
    purgatory.park(Waiting(), [A], 100)
    late = Waiting()
    assert purgatory.park(late, [A], 100) is None
    assert late.events == ["expired", "completed"] and len(purgatory) == 1


def test_many_that_complete_early_leave_no_timers_behind() -> None:
    timers = Timers()
    purgatory = Purgatory(timers)
    for step in range(10_000):
        operation = Waiting()
        purgatory.park(operation, [A], 30_000 + step % 100)
        operation.ready = True
        purgatory.touched(A)
    fired = timers.advance(40_000)
    assert fired <= 100 // DEADLINE_STEP_MS + 1


def test_an_answer_may_complete_and_park_others_on_the_same_key() -> None:
    purgatory = Purgatory(Timers())
    second = Waiting()
    third = Waiting()

    def chain() -> None:
        second.ready = True
        purgatory.touched(A)
        purgatory.park(third, [A], 100)

    first = Waiting(then=chain)
    purgatory.park(first, [A], 100)
    purgatory.park(second, [A], 100)
    first.ready = True
    purgatory.touched(A)
    assert first.events == second.events == ["completed"]
    assert third.events == [] and len(purgatory) == 1


class PurgatoryMachine(RuleBasedStateMachine):
    """Whatever the order of parks, touches, cancels and time: each ends once, and the books are right."""

    def __init__(self) -> None:
        super().__init__()
        self.timers = Timers()
        self.purgatory = Purgatory(self.timers, operations_max=5)
        self.now_ms = 0
        self.parked: list[tuple[Waiting, Parked]] = []
        self.cancelled: set[int] = set()

    @rule(keys=st.sets(st.sampled_from([A, B]), min_size=1), wait_ms=st.integers(0, 50))
    def park(self, keys: set[TopicPartition], wait_ms: int) -> None:
        operation = Waiting()
        parked = self.purgatory.park(operation, sorted(keys), self.now_ms + wait_ms)
        if parked is not None:
            self.parked.append((operation, parked))
        else:
            assert operation.events == ["expired", "completed"]

    @rule(index=st.integers(0, 20))
    def becomes_ready(self, index: int) -> None:
        if index < len(self.parked):
            self.parked[index][0].ready = True

    @rule(key=st.sampled_from([A, B]))
    def touch(self, key: TopicPartition) -> None:
        self.purgatory.touched(key)

    @rule(index=st.integers(0, 20))
    def cancel(self, index: int) -> None:
        if index < len(self.parked):
            operation, parked = self.parked[index]
            if not operation.events:
                self.cancelled.add(id(operation))
            parked.cancel()

    @rule(step_ms=st.integers(1, 30))
    def time_passes(self, step_ms: int) -> None:
        self.now_ms += step_ms
        self.timers.advance(self.now_ms)

    @invariant()
    def each_ends_once_and_only_the_living_are_counted(self) -> None:
        alive = 0
        for operation, parked in self.parked:
            assert operation.events in ([], ["completed"], ["expired", "completed"])
            assert not (operation.events and id(operation) in self.cancelled)
            is_alive = not operation.events and id(operation) not in self.cancelled
            assert (parked.operation is not None) == is_alive
            alive += is_alive
        assert len(self.purgatory) == alive <= 5


PurgatoryMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestPurgatoryMachine = PurgatoryMachine.TestCase
