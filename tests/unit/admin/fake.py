"""A cluster of one broker in memory behind ClusterClient.ask: real batches, real requests, no sockets.

It answers as a broker does where the routes depend on it; what it does not know it refuses as an unsupported version.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from aiohttp.test_utils import TestClient, TestServer
from aiohttp.web import BaseRunner

from kvorum.admin.app import AdminApp
from kvorum.admin.http.access import Access
from kvorum.admin.http.http_server import runner_of
from kvorum.admin.v1.jobs.connect_client import ConnectClient
from kvorum.client.wire.cluster_client import METADATA_TOPIC, ClusterClient, Unreachable
from kvorum.network.addresses import Address
from kvorum.protocol.batch_header import HEADER_SIZE
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages import consumer_group_describe as cgd
from kvorum.protocol.messages import (
    delete_groups,
    delete_records,
    describe_cluster,
    describe_groups,
    fetch,
    find_coordinator,
    leave_group,
    list_groups,
    list_offsets,
    list_transactions,
    metadata,
)
from kvorum.protocol.messages import describe_log_dirs as dirs
from kvorum.protocol.messages import describe_producers as producers
from kvorum.protocol.messages import describe_transactions as described
from kvorum.protocol.messages import offset_commit as commits
from kvorum.protocol.messages import offset_delete as deletes
from kvorum.protocol.messages import offset_fetch as fetches
from kvorum.protocol.messages import produce as produces
from kvorum.protocol.messages import write_txn_markers as markers
from kvorum.protocol.records import Record, batches, build_batch, decode_records, patch_place
from kvorum.protocol.schema import Message
from kvorum.protocol.uuids import METADATA_TOPIC_ID, Uuid
from kvorum.runtime.metrics import Metrics

ME: Address = ("127.0.0.1", 9001)
NOW_MS = 1_700_000_000_000
Client = TestClient[Any, Any]


class FakeClock:
    """Time that stands still until a test moves it."""

    def __init__(self) -> None:
        self.now_ms = NOW_MS

    def wall_ms(self) -> int:
        return self.now_ms

    def monotonic_ms(self) -> int:
        return self.now_ms


def instance_of(member: cgd.Member | describe_groups.DescribedGroupMember) -> str | None:
    """Return the group.instance.id of a member of either protocol."""
    return member.instance_id if isinstance(member, cgd.Member) else member.group_instance_id


class Log:
    """A partition: its batches, where it begins, and what was aborted in it."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.start = 0
        self.end = 0
        self.stable: int | None = None
        self.aborted: list[fetch.AbortedTransaction] = []
        self.leader = 1

    def append(self, *records: Record, **options: Any) -> int:
        return self.append_batch(build_batch(records, **options))

    def append_batch(self, batch: bytearray) -> int:
        base = self.end
        with memoryview(batch) as view:
            patch_place(view, 0, base, 0)
            ((_, header),) = batches(view)
            self.end = base + header.last_offset_delta + 1
        self.batches.append(bytes(batch))
        return base

    def read(self, offset: int, size: int) -> bytes:
        found = b""
        for batch in self.batches:
            ((_, header),) = batches(memoryview(batch))
            if header.base_offset + header.last_offset_delta >= offset and (
                not found or len(found) + len(batch) <= size
            ):
                found += batch
        return found

    def records(self) -> list[Record]:
        return [record for batch in self.batches for record in decode_records(memoryview(batch))]


class FakeCluster(ClusterClient):
    """See the module. Set `reachable` to False, or put codes into `codes`, to see how routes bear it."""

    def __init__(self) -> None:
        super().__init__([ME])
        self._changed = asyncio.Event()
        self.waits = True
        """Whether a fetch waits for what may come."""
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self.logs: dict[str, list[Log]] = {METADATA_TOPIC: [Log()]}
        self.ids: dict[str, Uuid] = {METADATA_TOPIC: METADATA_TOPIC_ID}
        self.offsets_of: dict[str, dict[tuple[str, int], int]] = {}
        self.consumers: dict[str, cgd.DescribedGroup] = {}
        self.classics: dict[str, describe_groups.DescribedGroup] = {}
        self.transactions: dict[str, described.TransactionState] = {}
        self.producers: dict[tuple[str, int], list[producers.ProducerState]] = {}
        self.ended: list[markers.WritableTxnMarker] = []
        self.codes: dict[type, ErrorCode] = {}
        self.reachable = True
        self.loading = 0
        """So many times a coordinator is asked for that is not there yet."""
        self.requested: list[Message] = []
        self.closed = 0
        self.waiting: set[asyncio.Event] = set()

    def add(self, name: str, partitions: int = 1) -> list[Log]:
        self.logs[name] = [Log() for _ in range(partitions)]
        self.ids[name] = Uuid(len(self.ids).to_bytes(16, "big"))
        return self.logs[name]

    def wake(self) -> None:
        """Let what waits look again."""
        for each in self.waiting:
            each.set()

    async def until(self, check: Callable[[], bool]) -> None:
        """Wait until a question or a closing made it true; what waits for news is woken meanwhile. For 10 s at most."""
        async with asyncio.timeout(10):
            while not check():
                self._changed.clear()
                self.wake()
                await self._changed.wait()

    def another(self) -> "FakeCluster":
        return self

    @property
    def ids_there(self) -> list[int]:
        """Return the brokers there are."""
        return [1]

    async def up_to_date(self) -> "FakeCluster":
        return self

    async def close(self) -> None:
        self.closed += 1
        self._changed.set()

    async def ask(  # type: ignore[override]  # one class for every answer
        self,
        request: Message,
        response: type,
        address: Address | None = None,
        *,
        version_max: int | None = None,
        timeout_ms: int | None = None,
    ) -> Any:
        self.requested.append(request)
        self._changed.set()
        if not self.reachable:
            raise Unreachable("127.0.0.1:9001 refused")
        assert address in (None, ME), address
        code = self.codes.get(type(request))
        if code is not None:
            raise KafkaError(code, "as the test wants")
        answer = ANSWERS.get(type(request))
        if answer is None:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, type(request).__name__)
        found = answer(self, request)
        return await found if asyncio.iscoroutine(found) else found

    def _metadata(self, request: metadata.MetadataRequest) -> metadata.MetadataResponse:
        names = [each.name or "" for each in request.topics] if request.topics is not None else None
        wanted = [name for name in self.logs if name != METADATA_TOPIC] if names is None else names
        brokers = [
            metadata.MetadataResponseBroker(node_id=each, host=ME[0], port=ME[1] + each - 1) for each in self.ids_there
        ]
        return metadata.MetadataResponse(brokers=brokers, topics=[self._topic(name) for name in wanted])

    def _topic(self, name: str) -> metadata.MetadataResponseTopic:
        if name not in self.logs:
            return metadata.MetadataResponseTopic(name=name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        rows = [
            metadata.MetadataResponsePartition(
                partition_index=index, leader_id=log.leader, leader_epoch=3, replica_nodes=[1], isr_nodes=[1]
            )
            for index, log in enumerate(self.logs[name])
        ]
        return metadata.MetadataResponseTopic(name=name, topic_id=self.ids[name], partitions=rows)

    def _brokers(self, request: describe_cluster.DescribeClusterRequest) -> describe_cluster.DescribeClusterResponse:
        broker = describe_cluster.DescribeClusterBroker(broker_id=1, host=ME[0], port=ME[1])
        return describe_cluster.DescribeClusterResponse(cluster_id="c", controller_id=1, brokers=[broker])

    def _log(self, topic: str, partition: int) -> Log | None:
        rows = self.logs.get(topic, [])
        return rows[partition] if partition < len(rows) else None

    def _list_offsets(self, request: list_offsets.ListOffsetsRequest) -> list_offsets.ListOffsetsResponse:
        topics = []
        for topic in request.topics:
            rows = []
            for row in topic.partitions:
                log = self._log(topic.name, row.partition_index)
                if log is None:
                    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    rows.append(
                        list_offsets.ListOffsetsPartitionResponse(partition_index=row.partition_index, error_code=code)
                    )
                    continue
                late = [each.offset for each in log.records() if each.timestamp >= row.timestamp]
                latest = log.end if log.stable is None or not request.isolation_level else log.stable
                offset = {-2: log.start, -1: latest}.get(row.timestamp, min(late, default=-1))
                rows.append(
                    list_offsets.ListOffsetsPartitionResponse(partition_index=row.partition_index, offset=offset)
                )
            topics.append(list_offsets.ListOffsetsTopicResponse(name=topic.name, partitions=rows))
        return list_offsets.ListOffsetsResponse(topics=topics)

    async def _fetch(self, request: fetch.FetchRequest) -> fetch.FetchResponse:
        deadline = asyncio.get_running_loop().time() + request.max_wait / 1000
        while True:
            answer = self._fetched(request)
            rows = [row for topic in answer.responses for row in topic.partitions]
            left = deadline - asyncio.get_running_loop().time()
            if not self.waits or left <= 0 or any(row.records or row.error_code for row in rows):
                return answer
            moved = asyncio.Event()
            self.waiting.add(moved)
            try:
                await asyncio.wait_for(moved.wait(), left)
            except TimeoutError:
                return answer
            finally:
                self.waiting.discard(moved)

    def _fetched(self, request: fetch.FetchRequest) -> fetch.FetchResponse:
        """As a leader reads: in the order asked, up to max_bytes in all; only the first batch comes at any size."""
        topics = []
        left = request.max_bytes
        for topic in request.topics:
            rows = []
            for row in topic.partitions:
                log = self._log(topic.topic, row.partition)
                if log is None or log.leader != 1:
                    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if log is None else ErrorCode.NOT_LEADER_OR_FOLLOWER
                    rows.append(fetch.PartitionData(partition_index=row.partition, error_code=code))
                elif not log.start <= row.fetch_offset <= log.end:
                    code = ErrorCode.OFFSET_OUT_OF_RANGE
                    rows.append(fetch.PartitionData(partition_index=row.partition, error_code=code))
                else:
                    room = min(left, row.partition_max_bytes)
                    data = log.read(row.fetch_offset, room)
                    assert len(data) == 0 or len(data) > HEADER_SIZE
                    if len(data) > room and left < request.max_bytes:
                        data = b""
                    left = max(0, left - len(data))
                    rows.append(
                        fetch.PartitionData(
                            partition_index=row.partition,
                            high_watermark=log.end,
                            last_stable_offset=log.end if log.stable is None else log.stable,
                            log_start_offset=log.start,
                            aborted_transactions=log.aborted if request.isolation_level else None,
                            records=memoryview(data),
                        )
                    )
            topics.append(fetch.FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=rows))
        return fetch.FetchResponse(responses=topics)

    def _produce(self, request: produces.ProduceRequest) -> produces.ProduceResponse:
        topics = []
        for topic in request.topic_data:
            rows = []
            for data in topic.partition_data:
                log = self._log(topic.name, data.index)
                assert log is not None and data.records is not None
                base = log.append_batch(bytearray(memoryview(data.records)))  # type: ignore[arg-type]  # bytes
                rows.append(produces.PartitionProduceResponse(index=data.index, base_offset=base))
            topics.append(produces.TopicProduceResponse(name=topic.name, partition_responses=rows))
        return produces.ProduceResponse(responses=topics)

    def _coordinator(
        self, request: find_coordinator.FindCoordinatorRequest
    ) -> find_coordinator.FindCoordinatorResponse:
        self.loading -= 1
        if self.loading >= 0:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            return find_coordinator.FindCoordinatorResponse(
                coordinators=[find_coordinator.Coordinator(error_code=code)]
            )
        rows = [
            find_coordinator.Coordinator(key=key, node_id=1, host=ME[0], port=ME[1]) for key in request.coordinator_keys
        ]
        return find_coordinator.FindCoordinatorResponse(coordinators=rows)

    def _list_groups(self, request: list_groups.ListGroupsRequest) -> list_groups.ListGroupsResponse:
        rows = [
            list_groups.ListedGroup(
                group_id=name, protocol_type="consumer", group_state=row.group_state, group_type=kind
            )
            for kind, found in (("consumer", self.consumers), ("classic", self.classics))
            for name, row in found.items()
        ]
        states = [each.lower() for each in request.states_filter]
        kept = [
            row
            for row in rows
            if (not states or row.group_state.lower() in states)
            and (not request.types_filter or row.group_type in request.types_filter)
        ]
        return list_groups.ListGroupsResponse(groups=kept)

    def _describe_consumers(self, request: cgd.ConsumerGroupDescribeRequest) -> cgd.ConsumerGroupDescribeResponse:
        missing = cgd.DescribedGroup(error_code=ErrorCode.GROUP_ID_NOT_FOUND)
        return cgd.ConsumerGroupDescribeResponse(groups=[self.consumers.get(id_, missing) for id_ in request.group_ids])

    def _describe_classics(
        self, request: describe_groups.DescribeGroupsRequest
    ) -> describe_groups.DescribeGroupsResponse:
        missing = describe_groups.DescribedGroup(error_code=ErrorCode.GROUP_ID_NOT_FOUND, group_state="Dead")
        rows = [self.classics.get(group_id, missing) for group_id in request.groups]
        return describe_groups.DescribeGroupsResponse(groups=rows)

    def _offset_fetch(self, request: fetches.OffsetFetchRequest) -> fetches.OffsetFetchResponse:
        groups = []
        for group in request.groups:
            assert group.topics is None
            topics: dict[str, fetches.OffsetFetchResponseTopics] = {}
            for (topic, partition), offset in self.offsets_of.get(group.group_id, {}).items():
                row = fetches.OffsetFetchResponsePartitions(partition_index=partition, committed_offset=offset)
                topics.setdefault(topic, fetches.OffsetFetchResponseTopics(name=topic)).partitions.append(row)
            groups.append(fetches.OffsetFetchResponseGroup(group_id=group.group_id, topics=list(topics.values())))
        return fetches.OffsetFetchResponse(groups=groups)

    def _offset_commit(self, request: commits.OffsetCommitRequest) -> commits.OffsetCommitResponse:
        topics = []
        for topic in request.topics:
            rows = []
            for row in topic.partitions:
                place = (topic.name, row.partition_index)
                self.offsets_of.setdefault(request.group_id, {})[place] = row.committed_offset
                rows.append(commits.OffsetCommitResponsePartition(partition_index=row.partition_index))
            topics.append(commits.OffsetCommitResponseTopic(name=topic.name, partitions=rows))
        return commits.OffsetCommitResponse(topics=topics)

    def _offset_delete(self, request: deletes.OffsetDeleteRequest) -> deletes.OffsetDeleteResponse:
        topics = []
        for topic in request.topics:
            rows = []
            for row in topic.partitions:
                gone = self.offsets_of.get(request.group_id, {}).pop((topic.name, row.partition_index), None)
                code = ErrorCode.NONE if gone is not None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                rows.append(deletes.OffsetDeleteResponsePartition(partition_index=row.partition_index, error_code=code))
            topics.append(deletes.OffsetDeleteResponseTopic(name=topic.name, partitions=rows))
        return deletes.OffsetDeleteResponse(topics=topics)

    def _delete_groups(self, request: delete_groups.DeleteGroupsRequest) -> delete_groups.DeleteGroupsResponse:
        rows = []
        for group_id in request.groups_names:
            group = self.consumers.get(group_id) or self.classics.get(group_id)
            code = ErrorCode.NONE if group is not None else ErrorCode.GROUP_ID_NOT_FOUND
            if group is not None and group.members:
                code = ErrorCode.NON_EMPTY_GROUP
            if code is ErrorCode.NONE:
                self.consumers.pop(group_id, None)
                self.classics.pop(group_id, None)
            rows.append(delete_groups.DeletableGroupResult(group_id=group_id, error_code=code))
        return delete_groups.DeleteGroupsResponse(results=rows)

    def _leave_group(self, request: leave_group.LeaveGroupRequest) -> leave_group.LeaveGroupResponse:
        group = self.classics.get(request.group_id) or self.consumers.get(request.group_id)
        members: list[Any] = [] if group is None else group.members
        rows = []
        for each in request.members:
            gone = [
                member
                for member in members
                if each.member_id == member.member_id or (each.group_instance_id or "-") == instance_of(member)
            ]
            members[:] = [member for member in members if member not in gone]
            code = ErrorCode.NONE if gone else ErrorCode.UNKNOWN_MEMBER_ID
            rows.append(
                leave_group.MemberResponse(
                    member_id=each.member_id, group_instance_id=each.group_instance_id, error_code=code
                )
            )
        return leave_group.LeaveGroupResponse(members=rows)

    def _delete_records(self, request: delete_records.DeleteRecordsRequest) -> delete_records.DeleteRecordsResponse:
        topics = []
        for topic in request.topics:
            rows = []
            for row in topic.partitions:
                log = self.logs[topic.name][row.partition_index]
                offset = log.end if row.offset == -1 else row.offset
                code = ErrorCode.OFFSET_OUT_OF_RANGE if offset > log.end else ErrorCode.NONE
                if code is ErrorCode.NONE:
                    log.start = max(log.start, offset)
                rows.append(
                    delete_records.DeleteRecordsPartitionResult(
                        partition_index=row.partition_index, low_watermark=log.start, error_code=code
                    )
                )
            topics.append(delete_records.DeleteRecordsTopicResult(name=topic.name, partitions=rows))
        return delete_records.DeleteRecordsResponse(topics=topics)

    def _log_dirs(self, request: dirs.DescribeLogDirsRequest) -> dirs.DescribeLogDirsResponse:
        wanted = None if request.topics is None else {each.topic: each.partitions for each in request.topics}
        topics = [
            dirs.DescribeLogDirsTopic(
                name=name,
                partitions=[
                    dirs.DescribeLogDirsPartition(partition_index=index, partition_size=sum(map(len, log.batches)))
                    for index, log in enumerate(logs)
                    if wanted is None or index in wanted[name]
                ],
            )
            for name, logs in self.logs.items()
            if name != METADATA_TOPIC and (wanted is None or name in wanted)
        ]
        return dirs.DescribeLogDirsResponse(results=[dirs.DescribeLogDirsResult(log_dir="/data", topics=topics)])

    def _list_transactions(
        self, request: list_transactions.ListTransactionsRequest
    ) -> list_transactions.ListTransactionsResponse:
        rows = [
            list_transactions.TransactionState(
                transactional_id=name, producer_id=row.producer_id, transaction_state=row.transaction_state
            )
            for name, row in self.transactions.items()
            if not request.state_filters or row.transaction_state in request.state_filters
        ]
        return list_transactions.ListTransactionsResponse(transaction_states=rows)

    def _describe_transactions(
        self, request: described.DescribeTransactionsRequest
    ) -> described.DescribeTransactionsResponse:
        missing = described.TransactionState(error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        rows = [self.transactions.get(each, missing) for each in request.transactional_ids]
        return described.DescribeTransactionsResponse(transaction_states=rows)

    def _describe_producers(self, request: producers.DescribeProducersRequest) -> producers.DescribeProducersResponse:
        topics = [
            producers.TopicResponse(
                name=topic.name,
                partitions=[
                    producers.PartitionResponse(
                        partition_index=each, active_producers=self.producers.get((topic.name, each), [])
                    )
                    for each in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
        return producers.DescribeProducersResponse(topics=topics)

    def _write_markers(self, request: markers.WriteTxnMarkersRequest) -> markers.WriteTxnMarkersResponse:
        self.ended += request.markers
        rows = []
        for marker in request.markers:
            topics = [
                markers.WritableTxnMarkerTopicResult(
                    name=topic.name,
                    partitions=[
                        markers.WritableTxnMarkerPartitionResult(partition_index=each)
                        for each in topic.partition_indexes
                    ],
                )
                for topic in marker.topics
            ]
            rows.append(markers.WritableTxnMarkerResult(producer_id=marker.producer_id, topics=topics))
        return markers.WriteTxnMarkersResponse(markers=rows)


ANSWERS: dict[type, Callable[[FakeCluster, Any], Any]] = {
    metadata.MetadataRequest: FakeCluster._metadata,
    describe_cluster.DescribeClusterRequest: FakeCluster._brokers,
    list_offsets.ListOffsetsRequest: FakeCluster._list_offsets,
    fetch.FetchRequest: FakeCluster._fetch,
    produces.ProduceRequest: FakeCluster._produce,
    find_coordinator.FindCoordinatorRequest: FakeCluster._coordinator,
    list_groups.ListGroupsRequest: FakeCluster._list_groups,
    cgd.ConsumerGroupDescribeRequest: FakeCluster._describe_consumers,
    describe_groups.DescribeGroupsRequest: FakeCluster._describe_classics,
    fetches.OffsetFetchRequest: FakeCluster._offset_fetch,
    commits.OffsetCommitRequest: FakeCluster._offset_commit,
    deletes.OffsetDeleteRequest: FakeCluster._offset_delete,
    delete_groups.DeleteGroupsRequest: FakeCluster._delete_groups,
    leave_group.LeaveGroupRequest: FakeCluster._leave_group,
    delete_records.DeleteRecordsRequest: FakeCluster._delete_records,
    dirs.DescribeLogDirsRequest: FakeCluster._log_dirs,
    list_transactions.ListTransactionsRequest: FakeCluster._list_transactions,
    described.DescribeTransactionsRequest: FakeCluster._describe_transactions,
    producers.DescribeProducersRequest: FakeCluster._describe_producers,
    markers.WriteTxnMarkersRequest: FakeCluster._write_markers,
}


class Server(TestServer):
    """A server as the process runs it; aiohttp's own for tests has other rules of what becomes of a request."""

    async def _make_runner(self, **_: Any) -> BaseRunner:
        return runner_of(self.app)


@asynccontextmanager
async def serve(
    cluster: FakeCluster,
    access: Access | None = None,
    clock: Any = None,
    local: Any = None,
    connect: ConnectClient | None = None,
) -> AsyncIterator[Client]:
    """Serve the API of a fake cluster over real HTTP."""
    app = AdminApp(cluster, Metrics(), access, clock, local, connect=connect).build()
    async with TestClient(Server(app)) as client:
        yield client


def with_fake(test: Callable[[Client, FakeCluster], Coroutine[Any, Any, None]], access: Access | None = None) -> None:
    """Run a test with a served fake cluster."""

    async def run() -> None:
        cluster = FakeCluster()
        async with serve(cluster, access) as client:
            await test(client, cluster)

    asyncio.run(run())


async def call(client: Client, method: str, path: str, body: Any = None, **options: Any) -> tuple[int, Any]:
    """Return (status, what the JSON says)."""
    async with client.request(method, path, json=body, **options) as answer:
        return answer.status, await answer.json() if await answer.read() else None
