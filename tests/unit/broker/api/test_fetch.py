"""Fetch: sessions, authorisation, hints, the metadata log; what is read is the replica manager's business."""

import asyncio
from random import Random
from typing import Any

import pytest

from kvorum.broker.fetch_session import FetchSessionCache
from kvorum.broker.metadata.metadata_log import MetadataLogReader
from kvorum.broker.replica.fetches import data_row, error_row
from kvorum.broker.replica.types import FetchParams, IsolationLevel, LogRead
from kvorum.network.authorizer import CLUSTER_NAME, ClusterPrincipals, Operation, ResourceType
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from kvorum.protocol.uuids import METADATA_TOPIC_ID
from kvorum.quorum.records import UserScramCredential
from kvorum.security.principal import ANONYMOUS, Principal
from kvorum.storage.log_read import ReadInfo
from tests.unit.broker.api.api_kit import OTHER_ID, TOPIC_ID, Rules, a_broker, ask, asking, three_brokers, topic


class Replicas:
    """A replica manager whose partitions hold what the test says; answers now, or parks."""

    def __init__(self, data: bytes = b"records", code: ErrorCode = ErrorCode.NONE, *, parks: bool = False) -> None:
        self.data = data
        self.code = code
        self.parks = parks
        self.params: list[FetchParams] = []
        self.parked: list[Any] = []
        self.cancelled = 0

    def fetch_records(self, params: FetchParams, targets: Any, on_done: Any, has_resting: bool = False) -> Any:
        self.params.append(params)
        rows = [(target, self.row(target)) for target in targets]
        if not self.parks or params.max_wait_ms == 0:
            on_done(rows)
            return None
        self.parked.append(lambda: on_done(rows))
        return self

    def rest(self, params: FetchParams, target: Any) -> None:
        """Everything is looked at each time."""

    def cancel(self) -> None:
        self.cancelled += 1

    def row(self, target: Any) -> Any:
        if self.code is not ErrorCode.NONE:
            return error_row(target.partition, self.code)
        parts = (self.data,) if self.data else ()
        return data_row(target.partition, LogRead(parts, len(self.data), 70, 69, 3, 71))


def orders() -> list[Any]:
    return [*three_brokers(), *topic("orders", TOPIC_ID, ((1, 2), (1, 2), 1), ((2, 1), (2, 1), 2))]


def a_fetching_broker(replicas: Replicas, **parts: Any) -> Any:
    sessions = FetchSessionCache(10, 120_000, Random(3))
    return a_broker(*orders(), replica_manager=replicas, fetch_sessions=sessions, **parts)


def request(
    *partitions: int, name: str = "orders", topic_id: Any = TOPIC_ID, offset: int = 50, **more: Any
) -> FetchRequest:
    requested = [FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1000) for index in partitions]
    values = {"max_wait": 500, "min_bytes": 1, "max_bytes": 10_000, **more}
    return FetchRequest(topics=[FetchTopic(topic=name, topic_id=topic_id, partitions=requested)], **values)


def rows_of(answer: Any) -> dict[int, Any]:
    return {row.partition_index: row for each in answer.responses for row in each.partitions}


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version_reads_by_its_own_name_for_the_topic(version: int) -> None:
    answer = ask(a_fetching_broker(Replicas()), request(0, 1), version)
    rows = rows_of(answer)
    assert {index: bytes(row.records) for index, row in rows.items()} == {0: b"records", 1: b"records"}
    assert (rows[0].error_code, rows[0].high_watermark, rows[0].last_stable_offset) == (0, 70, 69)
    (reported,) = answer.responses
    assert reported.topic_id == TOPIC_ID if version >= 13 else reported.topic == "orders"


def test_an_empty_answer_has_empty_records_never_null() -> None:
    for replicas in (Replicas(b""), Replicas(code=ErrorCode.OFFSET_OUT_OF_RANGE)):
        row = rows_of(ask(a_fetching_broker(replicas), request(0), 12))[0]
        assert row.records is not None
        assert bytes(row.records) == b""


def test_a_fetchs_limits_are_capped_by_the_brokers() -> None:
    replicas = Replicas()
    broker = a_fetching_broker(replicas, settings={"fetch.max.bytes": 1024})
    ask(broker, request(0, max_bytes=5000, min_bytes=3000, isolation_level=1), 10)
    ask(broker, request(0, rack_id="a"), 11)
    ask(broker, request(0, replica_id=2), 14)
    ask(broker, request(0, replica_state=ReplicaState(replica_id=2, replica_epoch=9)), 15)
    ask(broker, request(0, replica_id=-2), 12)
    first, rack, by_id, by_state, debugger = replicas.params
    assert (first.max_bytes, first.min_bytes, first.isolation_level) == (1024, 1024, IsolationLevel.READ_COMMITTED)
    assert (first.fetch_only_leader, rack.fetch_only_leader, rack.rack_id) == (True, False, "a")
    assert (by_id.replica_id, by_id.replica_epoch, by_id.fetch_only_leader) == (2, -1, True)
    assert (by_state.replica_id, by_state.replica_epoch) == (2, 9)
    assert debugger.replica_id == -1


@pytest.mark.parametrize(
    ("sent", "version", "code"),
    [
        (request(9), 12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (request(0, name="nowhere"), 12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (request(0, topic_id=OTHER_ID), 13, ErrorCode.UNKNOWN_TOPIC_ID),
        (request(0, name="secret"), 12, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (request(0, replica_id=2), 12, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ],
)
def test_an_unreadable_file_is_reported_at_once(sent: FetchRequest, version: int, code: ErrorCode) -> None:
    refused = Rules(
        {
            (Operation.READ, ResourceType.TOPIC, "secret"),
            (Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME),
        }
    )
    replicas = Replicas(parks=True)
    answer = ask(a_fetching_broker(replicas, authorizer=refused), sent, version)
    assert [row.error_code for row in rows_of(answer).values()] == [code]
    assert replicas.parked == []


def test_a_fetch_waits_and_is_answered_when_it_is_due_or_forgotten_when_none_waits() -> None:
    replicas = Replicas(parks=True)

    async def run() -> Any:
        broker = a_fetching_broker(replicas)
        requested = asyncio.ensure_future(asking(broker, request(0), 12))
        given_up = asyncio.ensure_future(asking(broker, request(1), 12))
        await asyncio.sleep(0)
        given_up.cancel()
        replicas.parked[0]()
        return await requested

    assert bytes(rows_of(asyncio.run(run()))[0].records) == b"records"
    assert replicas.cancelled == 1


def test_a_session_reports_only_what_changed_and_bad_epochs_are_refused() -> None:
    replicas = Replicas(b"")
    broker = a_fetching_broker(replicas)
    first = ask(broker, request(0, 1, session_epoch=0), 12)
    assert first.session_id > 0
    assert sorted(rows_of(first)) == [0, 1]
    nothing = FetchRequest(session_id=first.session_id, session_epoch=1, max_wait=0, max_bytes=100)
    again = ask(broker, nothing, 12)
    assert (again.session_id, again.error_code, again.responses) == (first.session_id, 0, [])
    assert ask(broker, nothing, 12).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    lost = FetchRequest(session_id=12345, session_epoch=1, max_bytes=100)
    assert ask(broker, lost, 12).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize(("version", "hinted"), [(15, False), (16, True)])
@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH])
def test_a_broker_that_does_not_lead_returns_the_leader(code: ErrorCode, version: int, hinted: bool) -> None:
    answer = ask(a_fetching_broker(Replicas(code=code)), request(1), version)
    row = rows_of(answer)[1]
    assert (row.current_leader.leader_id, row.current_leader.leader_epoch) == ((2, 5) if hinted else (-1, -1))
    assert [(each.node_id, each.port) for each in answer.node_endpoints] == ([(2, 9002)] if hinted else [])


class Copy:
    """A copy of the metadata log: offsets 10 to `end`, read as their own numbers."""

    log_start_offset = 10
    latest_epoch = 3

    def __init__(self, end: int) -> None:
        self.high_watermark = end

    def read(self, offset: int, max_bytes: int, upper_bound_offset: int, min_one_message: bool) -> ReadInfo:
        data = b",".join(b"%d" % each for each in range(offset, upper_bound_offset))
        return ReadInfo((data,), len(data))


def metadata_request(offset: int, *others: int, **more: Any) -> FetchRequest:
    requested = [FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1000)]
    sent = request(*others, **more)
    sent.topics.insert(0, FetchTopic(topic="__cluster_metadata", topic_id=METADATA_TOPIC_ID, partitions=requested))
    return sent


@pytest.mark.parametrize("version", [4, 12, 13, 18])
def test_the_metadata_log_is_read_from_this_brokers_copy(version: int) -> None:
    reader = MetadataLogReader(lambda: Copy(14))
    broker = a_fetching_broker(Replicas(), metadata_log=reader)
    answer = ask(broker, metadata_request(12, 0), version)
    metadata, others = answer.responses
    assert (metadata.partitions[0].high_watermark, bytes(metadata.partitions[0].records)) == (14, b"12,13")
    assert bytes(others.partitions[0].records) == b"records"


def test_the_metadata_log_is_read_as_far_as_this_broker_answers_by_it() -> None:
    """Between the copy's growing and that, logs of new replicas are made. Who has read of a change sees it."""
    broker = a_fetching_broker(Replicas(), metadata_log=MetadataLogReader(lambda: Copy(14), lambda: 12))
    row = rows_of(ask(broker, metadata_request(11), 12))[0]
    assert (row.high_watermark, bytes(row.records)) == (12, b"11")
    row = rows_of(ask(broker, metadata_request(12, max_wait=1), 12))[0]
    assert (row.high_watermark, row.error_code, bytes(row.records)) == (12, 0, b"")
    behind = a_fetching_broker(Replicas(), metadata_log=MetadataLogReader(lambda: Copy(14), lambda: 9))
    assert rows_of(ask(behind, metadata_request(10), 12))[0].error_code == ErrorCode.OFFSET_NOT_AVAILABLE


def test_the_metadata_log_answers_its_own_range_and_authorisation() -> None:
    reader = MetadataLogReader(lambda: Copy(14))
    assert rows_of(ask(a_fetching_broker(Replicas(), metadata_log=reader), metadata_request(9), 12))[0].error_code == (
        ErrorCode.OFFSET_OUT_OF_RANGE
    )
    refused = Rules({(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)})
    guarded = a_fetching_broker(Replicas(), metadata_log=reader, authorizer=refused)
    assert rows_of(ask(guarded, metadata_request(12), 12))[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.parametrize("replica_id", [-1, 2], ids=["consumer", "replica"])
def test_a_metadata_log_with_credentials_is_read_by_principals_of_the_cluster_only(replica_id: int) -> None:
    credential = UserScramCredential(name="u", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"k", iterations=1)
    node, client = Principal("User", "node"), Principal("User", "client")
    broker = a_broker(
        *orders(),
        credential,
        replica_manager=Replicas(),
        fetch_sessions=FetchSessionCache(10, 120_000, Random(3)),
        metadata_log=MetadataLogReader(lambda: Copy(14)),
        authorizer=ClusterPrincipals({"INSIDE": frozenset((node,))}),
    )
    codes = {
        (listener, principal.name): rows_of(
            ask(broker, metadata_request(12, replica_id=replica_id), 12, listener=listener, principal=principal)
        )[0].error_code
        for listener, principal in (("INSIDE", node), ("INSIDE", client), ("PLAINTEXT", ANONYMOUS))
    }
    refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert codes == {("INSIDE", "node"): 0, ("INSIDE", "client"): refused, ("PLAINTEXT", "ANONYMOUS"): refused}


@pytest.mark.parametrize("others", [(), (0,)])
def test_a_fetch_at_the_end_of_the_metadata_log_waits_for_it_to_move(others: tuple[int, ...]) -> None:
    copy = Copy(14)
    replicas = Replicas(b"", parks=True)

    async def run() -> Any:
        reader = MetadataLogReader(lambda: copy)
        broker = a_fetching_broker(replicas, metadata_log=reader)
        requested = asyncio.ensure_future(asking(broker, metadata_request(14, *others, max_wait=60_000), 12))
        for _ in range(3):
            await asyncio.sleep(0)
        assert not requested.done()
        copy.high_watermark = 15
        reader.wake()
        return await requested

    answer = asyncio.run(run())
    assert bytes(answer.responses[0].partitions[0].records) == b"14"
    assert replicas.cancelled == len(others)


def test_a_fetch_of_the_metadata_log_is_answered_when_its_patience_is_over() -> None:
    broker = a_fetching_broker(Replicas(), metadata_log=MetadataLogReader(lambda: Copy(14)))
    row = rows_of(ask(broker, metadata_request(14, max_wait=1), 12))[0]
    assert (row.error_code, bytes(row.records)) == (0, b"")


def test_an_unreadable_copy_is_a_retriable_error() -> None:
    """Java's consumer fails on LEADER_NOT_AVAILABLE in a Fetch; OFFSET_NOT_AVAILABLE has it come again."""
    broker = a_fetching_broker(Replicas(), metadata_log=MetadataLogReader(lambda: None))
    assert rows_of(ask(broker, metadata_request(14), 12))[0].error_code == ErrorCode.OFFSET_NOT_AVAILABLE
