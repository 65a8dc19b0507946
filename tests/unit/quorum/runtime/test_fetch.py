"""Fetch, FetchSnapshot, DescribeQuorum and DescribeCluster on a controller's listener."""

import asyncio
from typing import Any

import pytest

from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.api_versions import ApiVersionsRequest
from kvorum.protocol.messages.describe_cluster import DescribeClusterRequest
from kvorum.protocol.messages.describe_quorum import DescribeQuorumRequest, RequestPartitionData, RequestTopicData
from kvorum.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData, ReplicaState
from kvorum.protocol.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    RequestPartitionSnapshot,
    RequestSnapshotId,
    RequestTopicSnapshot,
)
from kvorum.protocol.uuids import METADATA_TOPIC_ID, ZERO_UUID, Uuid
from kvorum.quorum.metadata_log_file import joined
from tests.unit.quorum.runtime.runtime_kit import CLUSTER_ID, World, change, topic_record

DIRECTORY = Uuid((500).to_bytes(16, "big"))


@pytest.fixture
def active(world: World) -> World:
    world.elect()
    world.run(world.server.controller.submit(change(None, topic_record(1), topic_record(2))))
    return world


def request(offset: int, **changes: Any) -> FetchRequest:
    partition = FetchPartition(fetch_offset=offset, partition_max_bytes=1 << 20, replica_directory_id=DIRECTORY)
    fetch = FetchRequest(
        replica_state=ReplicaState(replica_id=11),
        min_bytes=1,
        topics=[FetchTopic(topic_id=METADATA_TOPIC_ID, topic="__cluster_metadata", partitions=[partition])],
    )
    for name, value in changes.items():
        setattr(partition if hasattr(partition, name) else fetch, name, value)
    return fetch


def row(world: World, fetch: FetchRequest, version: int | None = None) -> PartitionData:
    answer = world.run(world.ask(fetch, version=version))
    assert answer.error_code == ErrorCode.NONE
    found: PartitionData = answer.responses[0].partitions[0]
    return found


def test_committed_batches_are_served_with_leader_and_bounds(active: World) -> None:
    found = row(active, request(0))
    assert found.error_code == ErrorCode.NONE
    assert isinstance(found.records, tuple)
    assert joined(found.records) == b"".join(active.log.batches)
    assert found.high_watermark == found.last_stable_offset == active.log.high_watermark
    assert (found.current_leader.leader_id, found.current_leader.leader_epoch) == (1, 1)
    assert found.diverging_epoch.end_offset == found.snapshot_id.end_offset == -1


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"current_leader_epoch": 0}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"current_leader_epoch": 1}, ErrorCode.NONE),
        ({"current_leader_epoch": 2}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"fetch_offset": 1000}, ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
)
def test_an_inconsistent_fetch_gets_the_reason(active: World, changes: dict[str, int], code: ErrorCode) -> None:
    assert row(active, request(0, **changes)).error_code == code


def test_a_follower_returns_the_leader_and_its_address(active: World) -> None:
    active.act(lambda: active.log.depose(leader_id=2))
    answer = active.run(active.ask(request(0)))
    found = answer.responses[0].partitions[0]
    assert found.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert found.current_leader.leader_id == 2
    assert [(node.node_id, node.host, node.port) for node in answer.node_endpoints] == [(2, "127.0.0.1", 19094)]


def test_a_leader_without_a_majority_serves_nothing(active: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(active.log, "is_active", lambda: False)
    assert row(active, request(0)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert active.run(active.create_topic("t")).topics[0].error_code == ErrorCode.NOT_CONTROLLER


def test_other_partitions_and_clusters_are_refused(active: World) -> None:
    assert active.run(active.ask(request(0, cluster_id="another"))).error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    assert active.run(active.ask(request(0, cluster_id=CLUSTER_ID))).error_code == ErrorCode.NONE
    assert active.run(active.ask(request(0, partition=1))).error_code == ErrorCode.INVALID_REQUEST
    assert active.run(active.ask(request(0, topics=[]))).error_code == ErrorCode.INVALID_REQUEST
    other = request(0)
    other.topics[0].topic_id = DIRECTORY
    assert active.run(active.ask(other)).error_code == ErrorCode.INVALID_REQUEST


def test_by_name_below_version_13(active: World) -> None:
    fetch = request(0)
    fetch.topics[0].topic_id = ZERO_UUID
    assert row(active, fetch, version=12).error_code == ErrorCode.NONE
    fetch.topics[0].topic = "other"
    assert active.run(active.ask(fetch, version=12)).error_code == ErrorCode.INVALID_REQUEST


def test_a_long_poll_is_woken_by_a_commit(active: World) -> None:
    async def go() -> None:
        end = active.log.high_watermark
        polling = asyncio.ensure_future(active.ask(request(end, max_wait=10_000)))
        await asyncio.sleep(1)
        assert not polling.done()
        await active.server.controller.submit(change(None, topic_record(3)))
        began = active.loop.time()
        answer = await polling
        assert active.loop.time() - began < 0.01
        assert joined(answer.responses[0].partitions[0].records) == active.log.batches[-1]

    active.run(go())


def test_a_long_poll_ends_empty_when_its_time_is_over(active: World) -> None:
    async def go() -> None:
        began = active.loop.time()
        answer = await active.ask(request(active.log.high_watermark, max_wait=700))
        assert 0.69 < active.loop.time() - began < 0.72
        assert answer.responses[0].partitions[0].records == b""

    active.run(go())


def test_a_long_poll_ends_with_leadership(active: World) -> None:
    async def go() -> None:
        polling = asyncio.ensure_future(active.ask(request(active.log.high_watermark, max_wait=10_000)))
        await asyncio.sleep(1)
        active.log.depose(leader_id=2)
        answer = await polling
        assert answer.responses[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    active.run(go())


def test_another_history_is_reported_where_it_diverges(active: World) -> None:
    end = active.log.high_watermark
    active.elect()
    found = row(active, request(end + 1, last_fetched_epoch=1))
    assert (found.diverging_epoch.epoch, found.diverging_epoch.end_offset) == (1, end)
    assert row(active, request(end, last_fetched_epoch=1)).diverging_epoch.end_offset == -1
    assert row(active, request(end + 1, last_fetched_epoch=2)).diverging_epoch.end_offset == -1


def trimmed(world: World) -> tuple[int, int]:
    """Take a snapshot and let go of the log below; return its end offset and epoch."""

    async def go() -> tuple[int, int]:
        snapshot_id = await world.log.take_snapshot()
        assert snapshot_id is not None
        world.server.store.trim(snapshot_id.end_offset)
        return snapshot_id.end_offset, snapshot_id.epoch

    return world.run(go())


def test_below_the_log_start_the_snapshot_is_named_and_served(active: World) -> None:
    end_offset, epoch = trimmed(active)
    found = row(active, request(0))
    assert (found.snapshot_id.end_offset, found.snapshot_id.epoch) == (end_offset, epoch)

    def ask(position: int, **changes: Any) -> Any:
        piece = RequestPartitionSnapshot(
            current_leader_epoch=1,
            snapshot_id=RequestSnapshotId(end_offset=end_offset, epoch=epoch),
            position=position,
        )
        for name, value in changes.items():
            setattr(piece, name, value)
        topic = RequestTopicSnapshot(name="__cluster_metadata", partitions=[piece])
        answer = active.run(active.ask(FetchSnapshotRequest(replica_id=11, max_bytes=100, topics=[topic])))
        assert answer.error_code == ErrorCode.NONE
        return answer.topics[0].partitions[0]

    data, size = b"", 1
    while len(data) < size:
        piece = ask(len(data))
        size = piece.size
        assert piece.error_code == ErrorCode.NONE and piece.position == len(data)
        assert 0 < len(piece.unaligned_records) <= 100
        data += piece.unaligned_records
    snapshot = active.log.latest_snapshot()
    assert snapshot is not None and data == snapshot.read(0, 1 << 20)
    assert ask(len(data)).error_code == ErrorCode.POSITION_OUT_OF_RANGE
    assert ask(-1).error_code == ErrorCode.POSITION_OUT_OF_RANGE
    assert ask(0, current_leader_epoch=0).error_code == ErrorCode.FENCED_LEADER_EPOCH
    unknown = RequestSnapshotId(end_offset=end_offset + 1, epoch=epoch)
    assert ask(0, snapshot_id=unknown).error_code == ErrorCode.SNAPSHOT_NOT_FOUND
    assert ask(0, partition=1).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def describe(world: World) -> Any:
    topic = RequestTopicData(topic_name="__cluster_metadata", partitions=[RequestPartitionData(partition_index=0)])
    return world.run(world.ask(DescribeQuorumRequest(topics=[topic])))


def test_describe_quorum_lists_a_combined_node_once(active: World) -> None:
    """Its broker fetches the log with a directory of its own; in Kafka it reads the controller's."""
    row(active, request(1, replica_state=ReplicaState(replica_id=1)))
    row(active, request(1))
    found = describe(active).topics[0].partitions[0]
    assert [voter.replica_id for voter in found.current_voters] == [1]
    assert [observer.replica_id for observer in found.observers] == [11]


def test_describe_quorum_reports_voters_observers_and_nodes(active: World) -> None:
    end = active.log.high_watermark
    row(active, request(1))
    found = describe(active).topics[0].partitions[0]
    assert (found.error_code, found.leader_id, found.leader_epoch, found.high_watermark) == (0, 1, 1, end)
    assert [(voter.replica_id, voter.log_end_offset) for voter in found.current_voters] == [(1, end)]
    (observer,) = found.observers
    assert (observer.replica_id, observer.replica_directory_id, observer.log_end_offset) == (11, DIRECTORY, 1)
    assert observer.last_fetch_timestamp > 0 and observer.last_caught_up_timestamp == -1
    row(active, request(end))
    assert describe(active).topics[0].partitions[0].observers[0].last_caught_up_timestamp > 0
    active.advance(301_000)
    assert describe(active).topics[0].partitions[0].observers == []
    assert [(node.node_id, node.listeners[0].port) for node in describe(active).nodes] == [(1, 19093), (2, 19094)]


def test_describe_quorum_is_the_leaders_to_answer(active: World) -> None:
    active.act(lambda: active.log.depose(leader_id=2))
    assert describe(active).topics[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    other = RequestTopicData(topic_name="other", partitions=[RequestPartitionData(partition_index=3)])
    found = active.run(active.ask(DescribeQuorumRequest(topics=[other]))).topics[0]
    assert (found.topic_name, found.partitions[0].error_code) == ("other", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def test_describe_cluster_reports_controllers_only(active: World) -> None:
    answer = active.run(active.ask(DescribeClusterRequest(endpoint_type=2)))
    assert (answer.cluster_id, answer.controller_id) == (CLUSTER_ID, 1)
    assert [(each.broker_id, each.port) for each in answer.brokers] == [(1, 19093), (2, 19094)]
    refused = active.run(active.ask(DescribeClusterRequest(endpoint_type=1)))
    assert refused.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
    unknown = active.run(active.ask(DescribeClusterRequest(endpoint_type=9)))
    assert unknown.error_code == ErrorCode.UNSUPPORTED_ENDPOINT_TYPE


def test_api_versions_reports_the_finalized_features(active: World) -> None:
    answer = active.run(active.ask(ApiVersionsRequest(client_software_name="a", client_software_version="1")))
    assert {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}[56] == (2, 3)
    finalized = [(each.name, each.max_version_level) for each in answer.finalized_features]
    assert finalized == [
        ("eligible.leader.replicas.version", 1),
        ("group.version", 1),
        ("metadata.version", 30),
        ("transaction.version", 2),
    ]
    assert answer.finalized_features_epoch == active.log.high_watermark - 1
    bad = active.run(active.ask(ApiVersionsRequest(client_software_name="-", client_software_version="1")))
    assert bad.error_code == ErrorCode.INVALID_REQUEST
