"""Markers find their leaders, and are tried again until every partition has its own."""

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvorum.broker.coordinator.transaction.markers import (
    DONE,
    NO_LEADER,
    RETRIED,
    Codes,
    Ending,
    EndingKey,
    Entry,
    Marker,
    MarkerPlan,
    codes_of,
    request_of,
)
from kvorum.broker.coordinator.transaction.sender import REQUESTS_PER_BROKER_MAX, MarkerSender
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from kvorum.protocol.topic_partition import TopicPartition
from tests.unit.broker.coordinator.conftest import Run
from tests.unit.broker.coordinator.transaction.transaction_kit import A0, A1, B0, HOME, Brokers

OTHER_HOME = TopicPartition("__transaction_state", 4)
LEADERS = {A0: 1, A1: 1, B0: 2}


class Ended:
    """Counts what is done."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


def ending(*keys: TopicPartition, name: str = "t", producer_id: int = 7, home: TopicPartition = HOME) -> Ending:
    return Ending(EndingKey(home, name), Marker(producer_id, 5, True, 3, 2), set(keys), Ended())


def answers(sent: list[Entry], code: ErrorCode = ErrorCode.NONE) -> Codes:
    return {entry.ending.marker.producer_id: dict.fromkeys(entry.partitions, code) for entry in sent}


def routed(*endings: Ending) -> MarkerPlan:
    plan = MarkerPlan()
    for each in endings:
        assert plan.begin(each)
    assert plan.route(LEADERS.get) == ([], False)
    return plan


def test_each_leader_is_sent_its_partitions() -> None:
    one = ending(A0, A1, B0)
    plan = routed(one)
    assert sorted(plan.brokers) == [1, 2]
    assert plan.take(1, 10) == [Entry(one, frozenset({A0, A1}))]
    assert plan.take(2, 10) == [Entry(one, frozenset({B0}))]
    assert plan.brokers == [] and plan.take(1, 10) == []


def test_a_transaction_is_done_with_its_last_partition() -> None:
    one = ending(A0, B0)
    plan = routed(one)
    first, second = plan.take(1, 10), plan.take(2, 10)
    assert plan.settle(first, answers(first)) == ([], False)
    assert plan.unfinished(one.key) == frozenset({B0})
    assert plan.settle(second, answers(second)) == ([one], False)
    assert plan.unfinished(one.key) is None
    assert plan.settle(second, answers(second)) == ([], False), "once"


def test_one_without_partitions_is_done_when_it_is_routed() -> None:
    one = ending()
    plan = MarkerPlan()
    plan.begin(one)
    assert plan.route(LEADERS.get) == ([one], False)


def test_a_transaction_is_taken_on_once() -> None:
    plan = routed(ending(A0))
    assert not plan.begin(ending(A0)) and plan.begin(ending(A0, home=OTHER_HOME))


def test_markers_wait_for_leaders_and_skip_deleted_partitions() -> None:
    one = ending(A0, B0)
    plan = MarkerPlan()
    plan.begin(one)
    assert plan.route({A0: NO_LEADER}.get) == ([], True)
    assert plan.unfinished(one.key) == frozenset({A0}) and plan.brokers == []
    assert plan.route({A0: 1}.get) == ([], False) and plan.brokers == [], "not before it is retried"
    plan.retry()
    assert plan.route(lambda key: None) == ([one], False)


@pytest.mark.parametrize("code", sorted(set(ErrorCode)))
def test_every_code_ends_a_partition_or_has_it_tried_again_or_ends_all(code: ErrorCode) -> None:
    one = ending(A0, B0)
    plan = routed(one)
    sent = plan.take(1, 10)
    settled = plan.settle(sent, answers(sent, code))
    if code is ErrorCode.TRANSACTION_COORDINATOR_FENCED:
        assert settled == ([], False) and plan.unfinished(one.key) is None and plan.brokers == []
        return
    assert settled == ([], code not in DONE)
    assert plan.unfinished(one.key) == frozenset({B0} if code in DONE else {A0, B0})
    plan.retry()
    plan.route(LEADERS.get)
    assert (1 in plan.brokers) is (code not in DONE)


def test_codes_are_sorted_as_in_kafka() -> None:
    assert not DONE & RETRIED
    assert {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT} <= RETRIED


def test_a_partition_that_was_not_answered_is_tried_again() -> None:
    one = ending(A0, A1)
    plan = routed(one)
    sent = plan.take(1, 10)
    assert plan.settle(sent, {7: {A0: ErrorCode.NONE}}) == ([], True)
    plan.retry()
    plan.route(LEADERS.get)
    assert plan.take(1, 10) == [Entry(one, frozenset({A1}))]


def test_without_a_response_all_records_are_sent_again_to_the_new_leader() -> None:
    one = ending(A0, A1)
    plan = routed(one)
    plan.give_back(plan.take(1, 10))
    plan.retry()
    plan.route({A0: 3, A1: 1}.get)
    assert plan.take(3, 10) == [Entry(one, frozenset({A0}))]


def test_transactions_per_request_are_limited() -> None:
    plan = routed(*(ending(A0, name=f"t{n}", producer_id=n) for n in range(5)))
    assert [len(plan.take(1, 2)) for _ in range(4)] == [2, 2, 1, 0]


def test_a_home_that_is_lost_takes_its_transactions_along() -> None:
    mine, other = ending(A0, B0), ending(A0, home=OTHER_HOME, producer_id=8)
    plan = routed(mine, other)
    sent = plan.take(1, 10)
    plan.cancel(HOME)
    assert plan.brokers == [] and plan.unfinished(mine.key) is None
    assert plan.settle(sent, answers(sent)) == ([other], False)
    again = ending(A1)
    assert plan.begin(again)
    plan.give_back(sent)
    plan.retry()
    assert plan.route(LEADERS.get) == ([], False)
    assert plan.take(1, 10) == [Entry(again, frozenset({A1}))], "nothing of what was sent before"


def test_the_markers_request_and_its_response() -> None:
    request = request_of([Entry(ending(), frozenset({B0, A1, A0}))])
    (row,) = request.markers
    assert (row.producer_id, row.producer_epoch, row.transaction_result) == (7, 5, True)
    assert (row.coordinator_epoch, row.transaction_version) == (3, 2)
    assert [(topic.name, topic.partition_indexes) for topic in row.topics] == [("a", [0, 1]), ("b", [0])]
    response = asyncio.run(Brokers(refusals={A1: [ErrorCode.REQUEST_TIMED_OUT]}).write_txn_markers(1, request))
    codes = {A0: ErrorCode.NONE, A1: ErrorCode.REQUEST_TIMED_OUT, B0: ErrorCode.NONE}
    assert codes_of(response) == {7: codes}


@given(seed=st.integers(0, 2**32), count=st.integers(1, 6))
def test_each_transaction_completes_once_with_all_markers_despite_failures(seed: int, count: int) -> None:
    chance = random.Random(seed)
    plan, keys = MarkerPlan(), [A0, A1, B0]
    endings = [ending(*chance.sample(keys, chance.randint(0, 3)), name=str(n), producer_id=n) for n in range(count)]
    wanted = {each: set(each.unfinished) for each in endings}
    marked: dict[Ending, set[TopicPartition]] = {each: set() for each in endings}
    done: list[Ending] = []
    for each in endings:
        plan.begin(each)
    for step in range(200):
        is_calm = step > 100
        leaders = {key: LEADERS[key] if is_calm else chance.choice([NO_LEADER, 1, 2, 3]) for key in keys}
        plan.retry()
        done += plan.route(leaders.get).done
        for broker_id in plan.brokers:
            sent = plan.take(broker_id, chance.randint(1, 3))
            for each, partitions in sent:
                # Each broker is asked for one of at least, so what was queued before it got calm goes within `count`.
                assert all(leaders[key] == broker_id for key in partitions) or step <= 100 + count
                marked[each] |= partitions
            if not is_calm and chance.random() < 0.3:
                plan.give_back(sent)
                continue
            code = ErrorCode.NONE if is_calm else chance.choice([ErrorCode.NONE, *RETRIED])
            done += plan.settle(sent, answers(sent, code)).done
    assert sorted(each.key for each in done) == sorted(each.key for each in endings)
    assert marked == wanted


# --- the sender -------------------------------------------------------------------------------------------------------


class SlowBrokers(Brokers):
    """Answers when told to."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = asyncio.Event()

    async def write_txn_markers(self, broker_id: int, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        response = await super().write_txn_markers(broker_id, request)
        await self.answers.wait()
        return response


def test_pending_requests_to_a_slow_broker_are_limited_and_then_batched(run: Run) -> None:
    async def story() -> None:
        brokers = SlowBrokers()
        sender = MarkerSender(brokers, brokers.leader_of)
        endings = [ending(A0, name=f"t{n}", producer_id=n) for n in range(10)]
        for each in endings:
            sender.send(each)
            await asyncio.sleep(0.01)
        assert brokers.requests == [(1, 1)] * REQUESTS_PER_BROKER_MAX
        brokers.answers.set()
        await asyncio.sleep(0.05)
        assert brokers.requests[REQUESTS_PER_BROKER_MAX:] == [(1, 10 - REQUESTS_PER_BROKER_MAX)]
        assert [each.on_done.count for each in endings] == [1] * 10  # type: ignore[attr-defined]
        await sender.close()

    run(story())


def test_a_new_leader_is_tried_at_once(run: Run) -> None:
    async def story() -> None:
        brokers = Brokers(leaders={A0: NO_LEADER})
        sender = MarkerSender(brokers, brokers.leader_of)
        one = ending(A0)
        sender.send(one)
        await asyncio.sleep(0.01)
        brokers.leaders[A0] = 1
        sender.metadata_changed()
        await asyncio.sleep(0.01)
        assert one.on_done.count == 1 and brokers.requests == [(1, 1)]  # type: ignore[attr-defined]
        await sender.close()

    run(story())


def test_nothing_is_sent_after_the_end(run: Run) -> None:
    async def story() -> None:
        brokers = Brokers(cut={1})
        sender = MarkerSender(brokers, brokers.leader_of)
        sender.send(ending(A0))
        await asyncio.sleep(0.3)
        await sender.close()
        count = len(brokers.requests)
        assert count >= 2
        await asyncio.sleep(5)
        assert len(brokers.requests) == count

    run(story())
