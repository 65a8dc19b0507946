"""Internal topics are made once, with the configured shape, and no more replicas than there are brokers."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from kvorum.broker.coordinator.internal_topics import SETTLED_MS, WAIT_MS, InternalTopics
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from kvorum.protocol.uuids import Uuid
from kvorum.quorum import records
from kvorum.quorum.image import MetadataDelta, MetadataImage
from kvorum.quorum.publisher import LoaderManifest, ManifestKind
from kvorum.runtime.config import Settings
from tests.unit.broker.coordinator.conftest import Run

OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
MANIFEST = LoaderManifest(kind=ManifestKind.LOG_DELTA, offset=1, epoch=1, batches_count=1, bytes_count=1, leader_id=-1)


@dataclass
class Cluster:
    """A controller that makes topics when told to, and metadata that comes when told to."""

    code: ErrorCode = ErrorCode.NONE
    failure: KafkaError | None = None
    arrives: bool = True
    delay_s: float = 0.05
    settings: dict[str, object] = field(default_factory=dict)
    requests: list[CreateTopicsRequest] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.image = MetadataImage()
        values = Settings.of({"node.id": 1, **self.settings})
        self.topics = InternalTopics(self, lambda: values, lambda: self.image)

    async def ask(self, message: Any, response: Any, *, timeout_ms: int) -> Any:
        self.requests.append(message)
        await asyncio.sleep(self.delay_s)
        if self.failure is not None:
            raise self.failure
        row = CreatableTopicResult(name=message.topics[0].name, error_code=self.code, error_message="because")
        if self.arrives and self.code is ErrorCode.NONE:
            loop = asyncio.get_running_loop()
            loop.call_later(0.01, self.replay, records.Topic(name=row.name, topic_id=Uuid(row.name.encode()[:16])))
        return CreateTopicsResponse(topics=[row])

    def replay(self, *made: Any) -> None:
        """Take over metadata, as the loader has the publishers do."""
        delta = MetadataDelta(self.image)
        for record in made:
            delta.replay(record)
        self.image = delta.apply(self.image.offset + 1, 1)
        self.topics.on_metadata_update(delta, self.image, MANIFEST)

    def register(self, *broker_ids: int) -> None:
        self.replay(
            *(
                records.RegisterBroker(
                    broker_id=each,
                    broker_epoch=0,
                    incarnation_id=Uuid(bytes([each]) * 16),
                    endpoints=(),
                    rack=None,
                    fenced=False,
                )
                for each in broker_ids
            )
        )

    async def refused(self, name: str = OFFSETS) -> ErrorCode:
        """Ensure a topic that does not come; return the code."""
        with pytest.raises(KafkaError) as error:
            await self.topics.ensure(name)
        return error.value.code


def shape(request: CreateTopicsRequest) -> tuple[str, int, int, dict[str, str | None]]:
    (topic,) = request.topics
    return topic.name, topic.num_partitions, topic.replication_factor, {each.name: each.value for each in topic.configs}


def test_topics_have_kafkas_shape(run: Run) -> None:
    async def work() -> None:
        cluster = Cluster()
        cluster.register(1, 2, 3)
        await cluster.topics.ensure(OFFSETS)
        await cluster.topics.ensure(TRANSACTIONS)
        common = {"cleanup.policy": "compact", "segment.bytes": "104857600"}
        assert [shape(request) for request in cluster.requests] == [
            (OFFSETS, 50, 3, {**common, "compression.type": "producer"}),
            (
                TRANSACTIONS,
                50,
                3,
                {
                    **common,
                    "compression.type": "uncompressed",
                    "min.insync.replicas": "2",
                    "unclean.leader.election.enable": "false",
                },
            ),
        ]

    run(work())


def test_the_configuration_decides(run: Run) -> None:
    async def work() -> None:
        settings = {
            "offsets.topic.num.partitions": 7,
            "offsets.topic.replication.factor": 2,
            "offsets.topic.segment.bytes": 1_000_000,
        }
        cluster = Cluster(settings=settings)
        cluster.register(1, 2, 3)
        await cluster.topics.ensure(OFFSETS)
        name, partitions, replicas, configs = shape(cluster.requests[0])
        assert (name, partitions, replicas, configs["segment.bytes"]) == (OFFSETS, 7, 2, "1000000")

    run(work())


def test_many_callers_share_one_attempt_and_an_existing_topic_needs_none(run: Run) -> None:
    async def work() -> None:
        cluster = Cluster()
        cluster.register(1, 2, 3)
        await asyncio.gather(*(cluster.topics.ensure(OFFSETS) for _ in range(100)))
        await cluster.topics.ensure(OFFSETS)
        assert len(cluster.requests) == 1

    run(work())


def test_fewer_brokers_than_replicas_are_waited_for_and_then_enough(run: Run) -> None:
    async def work() -> None:
        cluster = Cluster()
        cluster.register(1)
        assert await cluster.refused() is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert not cluster.requests
        await asyncio.sleep(SETTLED_MS / 1000)
        await cluster.topics.ensure(OFFSETS)
        assert [shape(request)[2] for request in cluster.requests] == [1]

    run(work())


def test_brokers_that_start_together_all_get_a_replica(run: Run) -> None:
    async def work() -> None:
        cluster = Cluster()
        cluster.register(1)
        requested = asyncio.ensure_future(cluster.refused())
        await asyncio.sleep(0.9 * SETTLED_MS / 1000)
        assert await requested is ErrorCode.COORDINATOR_NOT_AVAILABLE
        cluster.register(2)
        await asyncio.sleep(0.9 * SETTLED_MS / 1000)
        assert not cluster.requests
        cluster.register(3)
        await cluster.topics.ensure(OFFSETS)
        assert [shape(request)[2] for request in cluster.requests] == [3]

    run(work())


def test_no_caller_waits_long_and_the_next_finds_the_topic(run: Run) -> None:
    async def work() -> None:
        cluster = Cluster(delay_s=3.0)
        cluster.register(1, 2, 3)
        loop = asyncio.get_running_loop()
        began = loop.time()
        assert await cluster.refused() is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert loop.time() - began == pytest.approx(WAIT_MS / 1000, abs=0.05)
        assert await cluster.refused() is ErrorCode.COORDINATOR_NOT_AVAILABLE
        await asyncio.sleep(1.5)
        await cluster.topics.ensure(OFFSETS)
        assert len(cluster.requests) == 1

    run(work())


@pytest.mark.parametrize("failure", [KafkaError(ErrorCode.REQUEST_TIMED_OUT, "no controller"), None])
def test_a_rejected_request_is_repeated_with_the_next_controller(run: Run, failure: KafkaError | None) -> None:
    async def work() -> None:
        cluster = Cluster(failure=failure, code=ErrorCode.INVALID_REPLICATION_FACTOR)
        cluster.register(1, 2, 3)
        assert await cluster.refused() is ErrorCode.COORDINATOR_NOT_AVAILABLE
        cluster.failure, cluster.code = None, ErrorCode.NONE
        await cluster.topics.ensure(OFFSETS)
        assert len(cluster.requests) == 2

    run(work())


def test_another_broker_may_have_been_first(run: Run) -> None:
    async def work() -> None:
        cluster = Cluster(code=ErrorCode.TOPIC_ALREADY_EXISTS)
        cluster.register(1, 2, 3)
        requested = asyncio.ensure_future(cluster.topics.ensure(OFFSETS))
        await asyncio.sleep(0.5)
        assert not requested.done(), "the metadata has not come yet"
        cluster.replay(records.Topic(name=OFFSETS, topic_id=Uuid(b"\x02" * 16)))
        await requested

    run(work())


def test_closing_fails_all_waiters(run: Run) -> None:
    async def work() -> None:
        cluster = Cluster(delay_s=100.0)
        cluster.register(1, 2, 3)
        requested = asyncio.ensure_future(cluster.refused())
        await asyncio.sleep(0.1)
        await cluster.topics.close()
        assert await requested is ErrorCode.COORDINATOR_NOT_AVAILABLE

    run(work())
