"""Transactions on one broker's replicas: verified before they begin, hidden while open, ended by markers (KIP-890)."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kvorum.broker.replica.transactions import (
    Support,
    TransactionalProducer,
    VerifierDone,
    produce_support,
    txn_offset_commit_support,
)
from kvorum.broker.replica.types import FetchParams, IsolationLevel
from kvorum.protocol.batch_header import NO_SEQUENCE
from kvorum.protocol.control import marker
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.fetch import PartitionData
from kvorum.protocol.messages.produce import PartitionProduceResponse
from kvorum.protocol.records import Record, build_batch
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.runtime import metric_names as names
from kvorum.storage.verification import UNCHECKED
from tests.unit.broker.replica.manager_kit import (
    World,
    brokers,
    fetch,
    follower_params,
    produce,
    settled,
    target,
    topic,
    until,
    values,
)

KEY = TopicPartition("orders", 0)
PRODUCER = 7
COMMITTED = FetchParams(isolation_level=IsolationLevel.READ_COMMITTED)


@dataclass
class Coordinator:
    """A verifier that notes what it is asked and answers when it is told to, or at once what it was told before."""

    answers: list[ErrorCode] = field(default_factory=list)
    requested: list[tuple[TransactionalProducer, tuple[TopicPartition, ...]]] = field(default_factory=list)
    waiting: list[Callable[[ErrorCode], None]] = field(default_factory=list)

    def add_or_verify(
        self, producer: TransactionalProducer, partitions: Sequence[TopicPartition], on_done: VerifierDone
    ) -> None:
        self.requested.append((producer, tuple(partitions)))

        def answer(code: ErrorCode) -> None:
            on_done({} if code is ErrorCode.NONE else dict.fromkeys(partitions, code))

        if self.answers:
            answer(self.answers.pop(0))
        else:
            self.waiting.append(answer)


@asynccontextmanager
async def a_world(folder: Path, coordinator: Coordinator | None, **settings: object) -> AsyncIterator[World]:
    replicas = settings.pop("replicas", (1,))
    given = {key.replace("_", "."): value for key, value in settings.items()}
    world = await World(folder, settings=given).start()
    await world.metadata(*brokers(), *topic(partitions=2, replicas=replicas))  # type: ignore[arg-type]
    if coordinator is not None:
        world.manager.transactions.verifier = coordinator
    try:
        yield world
    finally:
        await world.close()


def run(test: Callable[[], Coroutine[None, None, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 60))


def producing(
    version: int = 9, epoch: int = 0, transactional_id: str | None = "mine", producer_id: int = PRODUCER
) -> TransactionalProducer:
    return TransactionalProducer(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=epoch,
        support=produce_support(version),
    )


def send(
    world: World, value: bytes, *, sequence: int = 0, acks: int = -1, keys: Sequence[TopicPartition] = (KEY,),
    producer: TransactionalProducer | None = None,
) -> "asyncio.Future[Mapping[TopicPartition, PartitionProduceResponse]]":  # fmt: skip
    """One transactional produce: the same batch to each partition."""
    by = producer or producing()
    done: asyncio.Future[Mapping[TopicPartition, PartitionProduceResponse]] = asyncio.get_running_loop().create_future()
    entries = {
        key: memoryview(
            build_batch(
                [Record(value, timestamp=1)],
                producer_id=by.producer_id,
                producer_epoch=by.producer_epoch,
                base_sequence=sequence,
                is_transactional=True,
            )
        )
        for key in keys
    }
    sequences = dict.fromkeys(keys, sequence)
    world.manager.transactions.append_records(by, 1000, acks, entries, sequences, done.set_result)
    return done


def code_of(done: "asyncio.Future[Mapping[TopicPartition, PartitionProduceResponse]]") -> int:
    return done.result()[KEY].error_code


def end(
    world: World, commit: bool, *, epoch: int = 0, version: int = 0, coordinator_epoch: int = 1, timeout_ms: int = 1000
) -> "asyncio.Future[dict[TopicPartition, ErrorCode]]":
    done: asyncio.Future[dict[TopicPartition, ErrorCode]] = asyncio.get_running_loop().create_future()
    data = marker(PRODUCER, epoch, is_commit=commit, coordinator_epoch=coordinator_epoch, timestamp=1)
    world.manager.transactions.append_markers(timeout_ms, {KEY: memoryview(data)}, version, done.set_result)
    return done


def committed(world: World, offset: int = 0) -> PartitionData:
    return fetch(world, target(offset), params=COMMITTED).result()[0]


def test_only_the_first_batch_waits_for_the_coordinator(tmp_path: Path) -> None:
    async def test() -> None:
        coordinator = Coordinator()
        async with a_world(tmp_path, coordinator) as world:
            first = send(world, b"a")
            assert not first.done()
            assert coordinator.requested == [(producing(), (KEY,))]
            assert world.manager.partition_or_raise(KEY).log_or_raise(-1, True).log_end_offset == 0
            coordinator.waiting[0](ErrorCode.NONE)
            assert (code_of(first), first.result()[KEY].base_offset) == (0, 0)
            assert send(world, b"b", sequence=1).result()[KEY].base_offset == 1
            assert len(coordinator.requested) == 1

    run(test)


def test_an_open_transaction_is_hidden_and_a_marker_shows_or_aborts_it(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_world(tmp_path, Coordinator([ErrorCode.NONE] * 2)) as world:
            produce(world, b"plain").result()
            send(world, b"a")
            read = committed(world)
            assert (values(read), read.last_stable_offset, read.high_watermark) == ([b"plain"], 1, 2)
            assert end(world, commit=True).result() == {KEY: ErrorCode.NONE}
            send(world, b"b", sequence=1)
            assert committed(world).last_stable_offset == 3
            assert end(world, commit=False).result() == {KEY: ErrorCode.NONE}
            read = committed(world)
            assert (read.last_stable_offset, read.high_watermark) == (5, 5)
            assert read.aborted_transactions is not None
            assert [(each.producer_id, each.first_offset) for each in read.aborted_transactions] == [(PRODUCER, 3)]
            assert committed(world, 1).aborted_transactions == read.aborted_transactions
            uncommitted = fetch(world).result()[0]
            assert uncommitted.aborted_transactions is None

    run(test)


def test_a_consumer_that_waits_is_woken_by_the_marker(tmp_path: Path) -> None:
    """The high watermark moves with every write; only the last stable offset concerns who reads committed."""

    async def test() -> None:
        async with a_world(tmp_path, Coordinator([ErrorCode.NONE])) as world:
            send(world, b"a")
            params = FetchParams(isolation_level=IsolationLevel.READ_COMMITTED, max_wait_ms=10_000)
            waiting = fetch(world, target(0), params=params)
            produce(world, b"plain").result()
            send(world, b"b", sequence=1).result()
            await settled()
            assert not waiting.done()
            end(world, commit=True).result()
            assert values(waiting.result()[0])[:3] == [b"a", b"plain", b"b"]

    run(test)


def test_a_marker_counts_when_it_is_replicated(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_world(tmp_path, Coordinator([ErrorCode.NONE]), replicas=(1, 2)) as world:
            sent = send(world, b"a")
            ended = end(world, commit=True)
            assert not sent.done() and not ended.done()
            fetch(world, target(1), params=follower_params())
            assert sent.done() and not ended.done()
            assert committed(world).last_stable_offset == 0
            fetch(world, target(2), params=follower_params())
            assert ended.result() == {KEY: ErrorCode.NONE}
            assert committed(world).last_stable_offset == 2

    run(test)


def test_a_marker_that_is_not_replicated_in_time_is_reported(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_world(tmp_path, Coordinator([ErrorCode.NONE]), replicas=(1, 2)) as world:
            send(world, b"a")
            ended = end(world, commit=True, timeout_ms=20)
            world.clock.now_ms += 21
            await until(ended.done)
            assert ended.result() == {KEY: ErrorCode.REQUEST_TIMED_OUT}

    run(test)


def test_a_late_marker_is_refused_by_its_epoch(tmp_path: Path) -> None:
    """KAFKA-17754: of transaction version 2 it cannot end a later transaction; the same once more does no harm."""

    async def test() -> None:
        async with a_world(tmp_path, Coordinator([ErrorCode.NONE] * 2)) as world:
            new = producing(12)
            send(world, b"a", producer=new)
            assert end(world, commit=True, epoch=0, version=2).result() == {KEY: ErrorCode.INVALID_PRODUCER_EPOCH}
            assert end(world, commit=True, epoch=1, version=2).result() == {KEY: ErrorCode.NONE}
            assert end(world, commit=True, epoch=1, version=2).result() == {KEY: ErrorCode.NONE}
            assert code_of(send(world, b"late", sequence=1, producer=new)) == ErrorCode.INVALID_PRODUCER_EPOCH
            assert code_of(send(world, b"b", producer=producing(12, epoch=1))) == 0
            assert end(world, commit=False, epoch=1, version=2).result() == {KEY: ErrorCode.INVALID_PRODUCER_EPOCH}
            assert end(world, commit=False, epoch=2, version=2, coordinator_epoch=0).result() == {
                KEY: ErrorCode.TRANSACTION_COORDINATOR_FENCED
            }

    run(test)


def test_a_batch_that_comes_after_the_end_leaves_nothing_hanging(tmp_path: Path) -> None:
    """The answer was under way when the transaction was aborted: the guard is gone, the log stays closed (KIP-890)."""

    async def test() -> None:
        coordinator = Coordinator()
        async with a_world(tmp_path, coordinator) as world:
            late = send(world, b"late")
            assert end(world, commit=False).result() == {KEY: ErrorCode.NONE}
            again = send(world, b"again")
            coordinator.waiting[0](ErrorCode.NONE)
            assert code_of(late) == ErrorCode.INVALID_TXN_STATE
            assert committed(world).last_stable_offset == 1
            coordinator.waiting[1](ErrorCode.NONE)
            assert code_of(again) == 0

    run(test)


ANSWERS = [
    (ErrorCode.INVALID_TXN_STATE, 9, ErrorCode.INVALID_TXN_STATE),
    (ErrorCode.INVALID_TXN_STATE, 12, ErrorCode.INVALID_TXN_STATE),
    (ErrorCode.PRODUCER_FENCED, 9, ErrorCode.INVALID_PRODUCER_EPOCH),
    (ErrorCode.INVALID_PRODUCER_EPOCH, 12, ErrorCode.INVALID_PRODUCER_EPOCH),
    (ErrorCode.INVALID_PRODUCER_ID_MAPPING, 9, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    (ErrorCode.TRANSACTION_ABORTABLE, 10, ErrorCode.INVALID_TXN_STATE),
    (ErrorCode.TRANSACTION_ABORTABLE, 11, ErrorCode.TRANSACTION_ABORTABLE),
    (ErrorCode.TRANSACTION_ABORTABLE, 12, ErrorCode.TRANSACTION_ABORTABLE),
    (ErrorCode.CONCURRENT_TRANSACTIONS, 11, ErrorCode.NOT_ENOUGH_REPLICAS),
    (ErrorCode.NETWORK_EXCEPTION, 12, ErrorCode.NOT_ENOUGH_REPLICAS),
    (ErrorCode.COORDINATOR_NOT_AVAILABLE, 9, ErrorCode.NOT_ENOUGH_REPLICAS),
    (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 9, ErrorCode.NOT_ENOUGH_REPLICAS),
    (ErrorCode.NOT_COORDINATOR, 13, ErrorCode.NOT_ENOUGH_REPLICAS),
    (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, 9, ErrorCode.INVALID_TXN_STATE),
]


@pytest.mark.parametrize(("answered", "version", "code"), ANSWERS)
def test_a_refusal_of_the_coordinator_is_reported_as_the_client_knows_it(
    tmp_path: Path, answered: ErrorCode, version: int, code: ErrorCode
) -> None:
    async def test() -> None:
        async with a_world(tmp_path, Coordinator([answered])) as world:
            row = send(world, b"a", producer=producing(version)).result()[KEY]
            assert (row.error_code, row.base_offset) == (code, -1)
            assert world.manager.partition_or_raise(KEY).log_or_raise(-1, True).log_end_offset == 0

    run(test)


def test_a_transaction_still_ending_is_waited_for_before_a_new_producer_is_reported(tmp_path: Path) -> None:
    """add.partitions.to.txn.retry.backoff.ms between two questions, .max.ms in all."""

    async def test() -> None:
        concurrent = ErrorCode.CONCURRENT_TRANSACTIONS
        coordinator = Coordinator([concurrent, concurrent, ErrorCode.NONE])
        async with a_world(
            tmp_path, coordinator, add_partitions_to_txn_retry_backoff_ms=1,
            add_partitions_to_txn_retry_backoff_max_ms=60_000,
        ) as world:  # fmt: skip
            sent = send(world, b"a", producer=producing(12))
            await until(sent.done)
            assert (code_of(sent), len(coordinator.requested)) == (0, 3)
        coordinator = Coordinator([concurrent] * 1000)
        async with a_world(
            tmp_path, coordinator, add_partitions_to_txn_retry_backoff_ms=1,
            add_partitions_to_txn_retry_backoff_max_ms=5,
        ) as world:  # fmt: skip
            sent = send(world, b"b", producer=producing(12, epoch=1, producer_id=8))
            await until(sent.done)
            assert code_of(sent) == concurrent
            assert 1 < len(coordinator.requested) < 1000

    run(test)


def test_without_a_coordinator_or_an_id_no_transaction_begins(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_world(tmp_path, None) as world:
            assert code_of(send(world, b"a")) == ErrorCode.INVALID_TXN_STATE
            world.manager.transactions.verifier = coordinator = Coordinator()
            nobody = producing(transactional_id=None)
            assert code_of(send(world, b"a", producer=nobody)) == ErrorCode.INVALID_TXN_STATE
            assert coordinator.requested == []

    run(test)


@pytest.mark.parametrize(("version", "is_asked"), [(9, False), (11, False), (12, True)])
def test_verification_can_be_switched_off_but_not_the_adding(tmp_path: Path, version: int, is_asked: bool) -> None:
    async def test() -> None:
        coordinator = Coordinator([ErrorCode.NONE])
        async with a_world(tmp_path, coordinator, transaction_partition_verification_enable=False) as world:
            assert code_of(send(world, b"a", producer=producing(version))) == 0
            assert bool(coordinator.requested) == is_asked

    run(test)


def test_each_partition_has_its_own_outcome(tmp_path: Path) -> None:
    """One open already, one to be verified, one that is nowhere."""

    async def test() -> None:
        coordinator = Coordinator([ErrorCode.NONE])
        other, nowhere = TopicPartition("orders", 1), TopicPartition("orders", 9)
        async with a_world(tmp_path, coordinator) as world:
            send(world, b"a", keys=[other])
            sent = send(world, b"b", sequence=1, keys=[other])
            assert sent.result()[other].error_code == 0
            both = send(world, b"c", sequence=0, keys=[KEY, nowhere])
            assert coordinator.requested[-1][1] == (KEY,)
            coordinator.waiting[0](ErrorCode.NONE)
            assert {key: row.error_code for key, row in both.result().items()} == {
                KEY: 0,
                nowhere: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            }

    run(test)


def test_a_coordinators_own_records_need_a_guard_too(tmp_path: Path) -> None:
    """Offsets committed within a transaction: what the group coordinator writes."""

    async def test() -> None:
        async with a_world(tmp_path, Coordinator([ErrorCode.NONE])) as world:

            def offsets() -> memoryview:
                return memoryview(
                    build_batch([Record(b"v", b"k", 1)], producer_id=PRODUCER, producer_epoch=0, is_transactional=True)
                )

            with pytest.raises(KafkaError) as refused:
                world.manager.append_as_coordinator(KEY, offsets(), 0)
            assert refused.value.code is ErrorCode.INVALID_TXN_STATE
            got: list[object] = []
            world.manager.transactions.verify(
                producing(), {KEY: NO_SEQUENCE}, lambda errors, guards: got.extend((errors, guards[KEY]))
            )
            assert got[0] == {} and got[1] is not UNCHECKED
            assert world.manager.append_as_coordinator(KEY, offsets(), 0, got[1]) == 0  # type: ignore[arg-type]
            assert world.manager.append_as_coordinator(KEY, offsets(), 0) == 1
            assert committed(world).last_stable_offset == 0

    run(test)


def test_errors_depend_on_the_clients_version() -> None:
    assert [produce_support(version) for version in (3, 10, 11, 12, 13)] == [
        Support.DEFAULT_ERROR,
        Support.DEFAULT_ERROR,
        Support.GENERIC_ERROR,
        Support.ADD_PARTITION,
        Support.ADD_PARTITION,
    ]
    assert [txn_offset_commit_support(version) for version in (0, 3, 4, 5)] == [
        Support.DEFAULT_ERROR,
        Support.DEFAULT_ERROR,
        Support.GENERIC_ERROR,
        Support.ADD_PARTITION,
    ]


def test_a_transaction_open_for_longer_than_any_may_be_is_counted(tmp_path: Path) -> None:
    """Its producer last wrote at 1 ms after 1970; the clock stands at the day the test is run, or was written."""

    async def story() -> None:
        async with a_world(tmp_path, Coordinator([ErrorCode.NONE])) as world:
            late = world.metrics.gauge(names.PARTITIONS_WITH_LATE_TRANSACTIONS).labels()
            producers = world.metrics.gauge(names.PRODUCER_ID_COUNT).labels()
            assert (late.read(), producers.read()) == (0, 0)
            sent = send(world, b"x")
            await until(sent.done)
            assert (late.read(), producers.read()) == (1, 1)
            ended = end(world, commit=False)
            await until(ended.done)
            assert (late.read(), producers.read()) == (0, 1)

    run(story)


def test_records_sent_during_verification_are_appended_in_order(tmp_path: Path) -> None:
    """Its requests are pipelined: the second must not overtake the first, nor end its question."""

    async def story() -> None:
        coordinator = Coordinator()
        async with a_world(tmp_path, coordinator) as world:
            sent = [send(world, b"%d" % number, sequence=number, producer=producing(12)) for number in range(3)]
            assert len(coordinator.requested) == len(coordinator.waiting) == 1
            coordinator.waiting[0](ErrorCode.NONE)
            for each in sent:
                await until(each.done)
            assert [(code_of(each), each.result()[KEY].base_offset) for each in sent] == [(0, 0), (0, 1), (0, 2)]
            assert len(coordinator.requested) == 1, "the transaction is open"

    run(story)


def test_the_marker_of_the_transaction_before_does_not_overtake_the_next_one(tmp_path: Path) -> None:
    """Version 2: its first write may come before that marker, and is verified when the coordinator has heard of it."""

    async def story() -> None:
        coordinator = Coordinator([ErrorCode.NONE])
        async with a_world(tmp_path, coordinator) as world:
            await until(send(world, b"first", producer=producing(12)).done)
            following = send(world, b"next", producer=producing(12, epoch=1))
            ended = end(world, commit=True, epoch=1, version=2)
            await until(ended.done)
            coordinator.waiting[0](ErrorCode.NONE)
            await until(following.done)
            assert code_of(following) == ErrorCode.NONE

    run(story)


def test_a_write_that_the_end_of_its_own_transaction_overtook_opens_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        coordinator = Coordinator()
        async with a_world(tmp_path, coordinator) as world:
            late = send(world, b"late", producer=producing(12))
            ended = end(world, commit=False, epoch=1, version=2)
            await until(ended.done)
            coordinator.waiting[0](ErrorCode.NONE)
            await until(late.done)
            assert code_of(late) == ErrorCode.INVALID_PRODUCER_EPOCH

    run(story)
