"""A forwarded request is answered once this broker has published what the controller committed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kvorum.network.context import RequestContext
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages import (
    alter_client_quotas,
    alter_configs,
    alter_partition_reassignments,
    create_partitions,
    create_topics,
    delete_topics,
    elect_leaders,
    incremental_alter_configs,
    unregister_broker,
    update_features,
)
from kvorum.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from kvorum.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from kvorum.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from kvorum.protocol.schema import Message
from kvorum.protocol.uuids import METADATA_TOPIC_ID, Uuid
from kvorum.quorum.forwarder import Forwarder, published_wait_ms, sending_ms
from kvorum.quorum.image import MetadataDelta, MetadataImage
from kvorum.quorum.loader import MetadataLoader
from kvorum.quorum.publisher import LoaderManifest
from tests.unit.quorum.runtime.net_kit import Net, eventually, running, within_limit
from tests.unit.quorum.runtime.runtime_kit import registration, settings

BROKERS = (11, 12)
TIMEOUT_MS = 30_000


class HeldPublisher:
    """A publisher that takes over nothing while it is closed."""

    def __init__(self) -> None:
        self.is_open = asyncio.Event()
        self.is_open.set()

    async def on_metadata_update(self, delta: MetadataDelta, image: MetadataImage, manifest: LoaderManifest) -> None:
        await self.is_open.wait()


class Broker:
    """One of two brokers beside a controller, with a topic `orders` of one partition on both."""

    def __init__(self, net: Net, loader: MetadataLoader, publisher: HeldPublisher, **changes: object) -> None:
        self.net = net
        self.loader = loader
        self.publisher = publisher
        self.channel = net.channel()
        self.forwarder = Forwarder(self.channel, loader, settings(**changes))

    @property
    def committed(self) -> int:
        return self.net.controllers[0].server.store.image.offset

    def send(self, request: Any) -> "asyncio.Task[Any]":
        ctx = RequestContext(api_key=request.API_KEY, api_version=request.VERSIONS[1])
        return asyncio.get_running_loop().create_task(self.forwarder.forward(ctx, request))

    async def committed_above(self, offset: int) -> None:
        while self.committed <= offset:
            await self.net.controllers[0].server.store.changed()


@asynccontextmanager
async def a_broker(path: Path, controller_wait_ms: int = 0, **changes: object) -> AsyncIterator[Broker]:
    """Yield a broker that has published everything so far. The controller waits for no other, unless told to."""
    async with running(path, kvorum_metadata_read_your_writes_max_ms=controller_wait_ms) as net:
        net.controllers[0].log.elect()
        loader, publisher = net.loader(11), HeldPublisher()
        loader.install(publisher)
        await loader.start()
        broker = Broker(net, loader, publisher, **changes)
        for broker_id in BROKERS:
            answer: Any = await broker.channel.request(registration(broker_id), timeout_ms=TIMEOUT_MS)
            assert answer.error_code == ErrorCode.NONE
            await broker.channel.heartbeat(beat(broker_id, answer.broker_epoch))
        topic = create_topics.CreatableTopic(name="orders", num_partitions=1, replication_factor=2)
        made = await broker.send(create_topics.CreateTopicsRequest(topics=[topic]))
        assert made.topics[0].error_code == ErrorCode.NONE
        await eventually(lambda: loader.image.topics.topic("orders") is not None)  # a broker that does not wait
        # The same replicas in another order: the leader is not the preferred one then, an election changes something.
        made = await broker.send(reassignment(*reversed(loader.image.topics.topic("orders").partitions[0].replicas)))
        assert made.responses[0].partitions[0].error_code == ErrorCode.NONE
        try:
            yield broker
        finally:
            publisher.is_open.set()
            await broker.channel.close()
            await loader.close()
            assert not net.faults


def beat(broker_id: int, broker_epoch: int, **changes: Any) -> BrokerHeartbeatRequest:
    given = {"broker_id": broker_id, "broker_epoch": broker_epoch, "current_metadata_offset": broker_epoch}
    return BrokerHeartbeatRequest(**{**given, **changes})


def incremental_change() -> Message:
    config = incremental_alter_configs.AlterableConfig(name="retention.ms", config_operation=0, value="1000")
    resource = incremental_alter_configs.AlterConfigsResource(resource_type=2, resource_name="orders", configs=[config])
    return incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource])


def full_change() -> Message:
    config = alter_configs.AlterableConfig(name="retention.ms", value="1000")
    resource = alter_configs.AlterConfigsResource(resource_type=2, resource_name="orders", configs=[config])
    return alter_configs.AlterConfigsRequest(resources=[resource])


def reassignment(*replicas: int) -> Message:
    partition = alter_partition_reassignments.ReassignablePartition(partition_index=0, replicas=list(replicas))
    topic = alter_partition_reassignments.ReassignableTopic(name="orders", partitions=[partition])
    return alter_partition_reassignments.AlterPartitionReassignmentsRequest(topics=[topic])


def quota_change() -> Message:
    entity = alter_client_quotas.RequestEntityData(entity_type="user", entity_name="alice")
    entry = alter_client_quotas.RequestEntryData(
        entity=[entity], ops=[alter_client_quotas.OpData(key="producer_byte_rate", value=1000.0)]
    )
    return alter_client_quotas.AlterClientQuotasRequest(entries=[entry])


def feature_change() -> Message:
    update = update_features.FeatureUpdateKey(
        feature="eligible.leader.replicas.version", max_version_level=0, upgrade_type=2
    )
    return update_features.UpdateFeaturesRequest(feature_updates=[update])


def new_topic(**changes: Any) -> create_topics.CreateTopicsRequest:
    topic = create_topics.CreatableTopic(name="new", num_partitions=1, replication_factor=1)
    return create_topics.CreateTopicsRequest(topics=[topic], **changes)


CHANGES = [
    new_topic(),
    delete_topics.DeleteTopicsRequest(topics=[delete_topics.DeleteTopicState(name="orders")], timeout=TIMEOUT_MS),
    create_partitions.CreatePartitionsRequest(
        topics=[create_partitions.CreatePartitionsTopic(name="orders", count=2, assignments=None)], timeout=TIMEOUT_MS
    ),
    incremental_change(),
    full_change(),
    reassignment(12),
    elect_leaders.ElectLeadersRequest(topic_partitions=[elect_leaders.TopicPartitions(topic="orders", partitions=[0])]),
    quota_change(),
    feature_change(),
    unregister_broker.UnregisterBrokerRequest(broker_id=12),
]


@pytest.mark.parametrize("request_", CHANGES, ids=[type(each).__name__ for each in CHANGES])
def test_a_change_is_answered_once_the_forwarding_broker_has_published_it(tmp_path: Path, request_: Any) -> None:
    async def go() -> None:
        async with a_broker(tmp_path, kvorum_metadata_read_your_writes_max_ms=60_000) as broker:
            before = broker.committed
            broker.publisher.is_open.clear()
            answer = broker.send(request_)
            published = []
            answer.add_done_callback(lambda _: published.append(broker.loader.offset))
            await broker.committed_above(before)
            changed = broker.committed
            await asyncio.wait((answer,), timeout=0.05)
            assert not answer.done()
            broker.publisher.is_open.set()
            await answer
            await asyncio.sleep(0)
            assert published[0] >= changed > before

    within_limit(go())


def test_a_response_without_changes_waits_for_the_commit_of_its_base(tmp_path: Path) -> None:
    """A repeated CreateTopics says TOPIC_ALREADY_EXISTS: the topic is to be seen here then."""

    async def go() -> None:
        async with a_broker(tmp_path, kvorum_metadata_read_your_writes_max_ms=60_000) as broker:
            broker.publisher.is_open.clear()
            await broker.channel.request(new_topic(), timeout_ms=TIMEOUT_MS)
            answer = broker.send(new_topic())
            await asyncio.wait((answer,), timeout=0.05)
            assert not answer.done()
            broker.publisher.is_open.set()
            assert (await answer).topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
            assert broker.loader.image.topics.topic("new") is not None

    within_limit(go())


@pytest.mark.parametrize(("wait_ms", "timeout_ms"), [(0, 60_000), (30, 60_000), (60_000, 30), (60_000, 0)])
def test_a_broker_that_does_not_publish_answers_after_the_limit(tmp_path: Path, wait_ms: int, timeout_ms: int) -> None:
    async def go() -> None:
        async with a_broker(tmp_path, kvorum_metadata_read_your_writes_max_ms=wait_ms) as broker:
            broker.publisher.is_open.clear()
            answer = await broker.send(new_topic(timeout=timeout_ms))
            assert answer.topics[0].error_code == ErrorCode.NONE
            assert broker.loader.image.topics.topic("new") is None, "it was not published yet"

    within_limit(go())


def test_a_wait_ends_when_the_broker_stops(tmp_path: Path) -> None:
    async def go() -> None:
        async with a_broker(tmp_path, kvorum_metadata_read_your_writes_max_ms=60_000) as broker:
            before = broker.committed
            broker.publisher.is_open.clear()
            answer = broker.send(new_topic())
            await broker.committed_above(before)
            await asyncio.wait((answer,), timeout=0.05)
            await broker.loader.close()
            assert (await answer).topics[0].error_code == ErrorCode.NONE

    within_limit(go())


def test_the_wait_is_limited_by_the_time_that_the_client_has_left() -> None:
    assert published_wait_ms(new_topic(timeout=5_000), 1_000, 100) == 1_000
    assert published_wait_ms(new_topic(timeout=500), 1_000, 100) == 400
    assert published_wait_ms(new_topic(timeout=500), 1_000, 700) == 0
    assert published_wait_ms(quota_change(), 1_000, 700) == 1_000, "it has no timeout of its own"
    assert published_wait_ms(new_topic(), 0, 0) == 0
    assert sending_ms(new_topic(timeout=5_000), 30_000) == 5_000
    assert sending_ms(new_topic(timeout=60_000), 30_000) == 30_000
    assert sending_ms(new_topic(timeout=0), 30_000) == 30_000, "the client waits for no completion, but for an answer"
    assert sending_ms(quota_change(), 30_000) == 30_000


def test_requests_behind_a_creation_that_waits_for_another_broker_are_answered(tmp_path: Path) -> None:
    async def go() -> None:
        async with a_broker(tmp_path, controller_wait_ms=60_000) as broker:

            async def fetch_as_12() -> None:
                """Fetch from the end of the log: broker 12 has published all below."""
                directory = Uuid(bytes([12]) * 16)
                partition = FetchPartition(fetch_offset=broker.committed + 1, replica_directory_id=directory)
                topic = FetchTopic(topic_id=METADATA_TOPIC_ID, topic="__cluster_metadata", partitions=[partition])
                fetch = FetchRequest(replica_state=ReplicaState(replica_id=12), max_wait=0, topics=[topic])
                await broker.channel.request(fetch, timeout_ms=TIMEOUT_MS)

            await fetch_as_12()
            creation = broker.send(new_topic())
            listed = await broker.send(ListPartitionReassignmentsRequest())
            assert listed.error_code == ErrorCode.NONE and not creation.done(), "broker 12 has not published it"
            await fetch_as_12()
            assert (await creation).topics[0].error_code == ErrorCode.NONE

    within_limit(go())
