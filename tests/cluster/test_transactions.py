"""Transactions by unmodified clients of three makes, on one cluster: what is seen, who is fenced, what hangs."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from kvorum.client.wire.cluster_client import ConfigChange, ResourceType
from kvorum.cluster.local.local import LocalCluster
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kvorum.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from kvorum.quorum.controller.features import UpgradeType
from tests.cluster.clients import DEADLINE_SECONDS, create_topic, eventually, leader_of
from tests.cluster.conftest import clusters_in
from tests.cluster.raw_transactions import RawProducer, hang
from tests.cluster.transactional import (
    CLIENTS,
    Asker,
    ByConfluent,
    TransactionalClient,
    ends,
    on_cluster,
    values,
)

PARTITIONS = 2


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One cluster for all tests here: each has a topic and transactional ids of its own."""
    with clusters_in(tmp_path_factory.mktemp("transactions")) as start:
        yield start("three-nodes.yaml", "transaction.abort.timed.out.transaction.cleanup.interval.ms=500")


@pytest.fixture
def asker(cluster: LocalCluster) -> Iterator[Asker]:
    with on_cluster(cluster.plan.bootstrap) as found:
        yield found


@pytest.fixture
def topic(cluster: LocalCluster, request: pytest.FixtureRequest) -> str:
    name = "".join(each if each.isalnum() else "-" for each in request.node.name)
    create_topic(cluster.plan.bootstrap, name, PARTITIONS, 3)
    return name


@pytest.fixture
def begun() -> Iterator[ExitStack]:
    """Closes the producers that a test made, whatever became of them."""
    with ExitStack() as stack:
        yield stack


@pytest.mark.parametrize("make", CLIENTS.values(), ids=CLIENTS.keys())
def test_committed_records_are_visible_and_aborted_ones_are_not(
    cluster: LocalCluster, asker: Asker, topic: str, make: Any, begun: ExitStack
) -> None:
    bootstrap = cluster.plan.bootstrap
    producer: TransactionalClient = begun.enter_context(closing(make(bootstrap, topic)))
    for number in range(6):
        producer.begin()
        for partition in range(PARTITIONS):
            producer.send(topic, f"{number}-{partition}".encode(), partition)
        producer.flush()
        producer.abort() if number % 3 == 1 else producer.commit()
    producer.begin()
    producer.send(topic, b"open", 0)
    producer.flush()
    eventually(lambda: ends(bootstrap, topic, "read_committed")[1] == ends(bootstrap, topic, "x")[1], "a settled end")
    written = {f"{number}-{partition}".encode() for number in range(6) for partition in range(PARTITIONS)}
    aborted = {each for each in written if each[:1] in b"14"}
    assert values(bootstrap, topic, PARTITIONS, "read_uncommitted") == sorted(written | {b"open"})
    assert ends(bootstrap, topic, "read_committed")[0] == ends(bootstrap, topic, "x")[0] - 1, "LSO: the open one"
    assert values(bootstrap, topic, PARTITIONS) == sorted(written - aborted)
    producer.commit()
    eventually(lambda: asker.is_settled(topic, PARTITIONS), "markers everywhere")
    assert values(bootstrap, topic, PARTITIONS) == sorted((written - aborted) | {b"open"})


@pytest.mark.parametrize("make", CLIENTS.values(), ids=CLIENTS.keys())
def test_a_zombie_is_fenced_by_the_next_producer_of_its_id(
    cluster: LocalCluster, topic: str, make: Any, begun: ExitStack
) -> None:
    """The next one's InitProducerId aborts what the zombie has open; whatever the zombie tries then is refused."""
    bootstrap = cluster.plan.bootstrap
    zombie: TransactionalClient = begun.enter_context(closing(make(bootstrap, topic)))
    zombie.begin()
    zombie.send(topic, b"zombie", 0)
    zombie.flush()
    successor = ByConfluent(bootstrap, topic)
    successor.begin()
    successor.send(topic, b"successor", 0)
    successor.commit()
    with pytest.raises(Exception, match=r"(?i)fenced|epoch|newer|obsolete"):
        zombie.commit()
    assert values(bootstrap, topic, PARTITIONS) == [b"successor"]


def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced(
    cluster: LocalCluster, asker: Asker, topic: str
) -> None:
    bootstrap = cluster.plan.bootstrap
    producer = ByConfluent(bootstrap, topic, timeout_ms=1_000)
    producer.begin()
    producer.send(topic, b"late", 0)
    producer.flush()
    asker.wait_for_state(topic, "CompleteAbort")
    with pytest.raises(KafkaException, match=r"(?i)fenced|epoch"):
        producer.commit()
    assert values(bootstrap, topic, PARTITIONS) == []
    assert ends(bootstrap, topic, "read_committed") == ends(bootstrap, topic, "read_uncommitted")


def test_offsets_are_committed_with_the_transaction_under_subscribe(cluster: LocalCluster, topic: str) -> None:
    """sendOffsetsToTransaction: an abort leaves the group where it was, a commit moves it with the output."""
    bootstrap, output = cluster.plan.bootstrap, f"{topic}-out"
    create_topic(bootstrap, output, 1, 3)
    source = ByConfluent(bootstrap, f"{topic}-source")
    source.begin()
    for number in range(10):
        source.send(topic, b"%d" % number, 0)
    source.commit()
    consumer = consumer_of(bootstrap, topic)
    producer = ByConfluent(bootstrap, topic)
    try:
        consumer.subscribe([topic])
        read = poll(consumer, 10)
        copy(producer, consumer, read[:6], output)
        producer.abort()
        assert committed(consumer, topic) < 0, "no offset was committed"
        copy(producer, consumer, read[:4], output)
        producer.commit()
        eventually(lambda: committed(consumer, topic) == 4, lambda: str(committed(consumer, topic)))
    finally:
        consumer.close()
    successor = consumer_of(bootstrap, topic)
    try:
        successor.subscribe([topic])
        assert [each.value() for each in poll(successor, 6)] == [b"%d" % number for number in range(4, 10)]
    finally:
        successor.close()
    assert values(bootstrap, output, 1) == [b"0", b"1", b"2", b"3"]


def test_offsets_of_an_open_transaction_are_unstable(cluster: LocalCluster, topic: str) -> None:
    """Who asks for stable offsets (KIP-447) waits; who does not gets those of before."""
    bootstrap = cluster.plan.bootstrap
    source = ByConfluent(bootstrap, f"{topic}-source")
    source.begin()
    source.send(topic, b"one", 0)
    source.commit()
    consumer = consumer_of(bootstrap, topic)
    producer = ByConfluent(bootstrap, topic)
    try:
        consumer.subscribe([topic])
        read = poll(consumer, 1)
        copy(producer, consumer, read, topic)
        producer.flush()
        with pytest.raises(KafkaException):
            consumer.committed([TopicPartition(topic, 0)], 2.0)
        other = consumer_of(bootstrap, topic, **{"isolation.level": "read_uncommitted"})
        assert other.committed([TopicPartition(topic, 0)], DEADLINE_SECONDS)[0].offset < 0
        other.close()
        producer.commit()
        eventually(lambda: committed(consumer, topic) == 1, lambda: str(committed(consumer, topic)))
    finally:
        consumer.close()


def test_a_member_that_lost_its_generation_commits_no_offsets(cluster: LocalCluster, topic: str) -> None:
    """KIP-447: the group's metadata goes with the offsets, and a zombie member's is of another generation."""
    bootstrap = cluster.plan.bootstrap
    source = ByConfluent(bootstrap, f"{topic}-source")
    source.begin()
    source.send(topic, b"one", 0)
    source.send(topic, b"two", 1)
    source.commit()
    zombie = consumer_of(bootstrap, topic)
    successor = consumer_of(bootstrap, topic)
    producer = ByConfluent(bootstrap, topic)
    try:
        zombie.subscribe([topic])
        read = poll(zombie, 2)
        stale = zombie.consumer_group_metadata()
        successor.subscribe([topic])

        def is_assigned() -> bool:
            zombie.poll(0.1)
            successor.poll(0.1)
            return bool(successor.assignment())

        eventually(is_assigned, "a rebalance")
        producer.begin()
        with pytest.raises(KafkaException, match=r"(?i)generation"):
            producer.producer.send_offsets_to_transaction(
                [TopicPartition(topic, each.partition(), each.offset() + 1) for each in read], stale, DEADLINE_SECONDS
            )
        producer.abort()
    finally:
        zombie.close()
        successor.close()


def test_a_hanging_transaction_is_found_and_aborted(cluster: LocalCluster, asker: Asker, topic: str) -> None:
    """One that was opened on a partition behind its coordinator's back, as brokers before verification let happen."""
    bootstrap = cluster.plan.bootstrap
    set_verification(asker, False)
    try:
        hang(asker, leader_of(bootstrap, topic, 0), topic)
    finally:
        set_verification(asker, True)
    producer = ByConfluent(bootstrap, topic)
    producer.begin()
    producer.send(topic, b"behind", 0)
    producer.commit()
    assert values(bootstrap, topic, PARTITIONS) == [], "nothing behind it can be read"
    assert run("list", "--state", "Ongoing", bootstrap=bootstrap) == []
    time_is_past = ("--max-transaction-timeout", "0", "--topic", topic)
    found = eventually(lambda: run("find-hanging", *time_is_past, bootstrap=bootstrap), "the hanging transaction")
    assert [(each["partition"], each["start_offset"]) for each in found] == [(0, 0)]
    shown = run("describe-producers", "--topic", topic, "--partition", "0", bootstrap=bootstrap)
    assert sorted(each["current_transaction_start_offset"] is None for each in shown) == [False, True]
    where = ("--topic", topic, "--partition", "0")
    command("abort", *where, "--start-offset", "0", bootstrap=bootstrap)
    assert run("find-hanging", *time_is_past, bootstrap=bootstrap) == []
    assert values(bootstrap, topic, PARTITIONS) == [b"behind"]
    described = run("describe", "--transactional-id", topic, bootstrap=bootstrap)
    assert described["state"] == "CompleteCommit"
    listed = run("list", "--transactional-id-pattern", f"{topic[:10]}.*", bootstrap=bootstrap)
    assert [(each["transactional_id"], each["state"]) for each in listed] == [(topic, "CompleteCommit")]


def test_an_ongoing_transaction_does_not_hang_and_can_be_terminated(
    cluster: LocalCluster, asker: Asker, topic: str
) -> None:
    bootstrap = cluster.plan.bootstrap
    producer = ByConfluent(bootstrap, topic)
    producer.begin()
    producer.send(topic, b"open", 1)
    producer.flush()
    sent_ms = time.time_ns() // 1_000_000
    eventually(lambda: time.time_ns() // 1_000_000 > sent_ms + 1, "the transaction is older than 0 ms")
    assert run("find-hanging", "--max-transaction-timeout", "0", "--topic", topic, bootstrap=bootstrap) == []
    assert run("describe", "--transactional-id", topic, bootstrap=bootstrap)["partitions"] == [f"{topic}-1"]
    command("force-terminate", "--transactional-id", topic, bootstrap=bootstrap)
    asker.wait_for_state(topic, "Empty")
    with pytest.raises(KafkaException, match=r"(?i)fenced|epoch"):
        producer.commit()


# --- what the tests above do ------------------------------------------------------------------------------------------


def consumer_of(bootstrap: str, group: str, **options: Any) -> Consumer:
    config = {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False}
    return Consumer(config | {"auto.offset.reset": "earliest", "isolation.level": "read_committed"} | options)


def poll(consumer: Consumer, count: int) -> list[Any]:
    """Return the next so many records."""
    found: list[Any] = []

    def has_all() -> bool:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            found.append(message)
        return len(found) >= count

    eventually(has_all, lambda: f"{len(found)} of {count} records")
    return found


def copy(producer: ByConfluent, consumer: Consumer, messages: list[Any], output: str) -> None:
    """Begin, and write the messages and the offset behind them."""
    producer.begin()
    for each in messages:
        producer.send(output, each.value(), 0)
    last = messages[-1]
    producer.producer.send_offsets_to_transaction(
        [TopicPartition(last.topic(), last.partition(), last.offset() + 1)],
        consumer.consumer_group_metadata(),
        DEADLINE_SECONDS,
    )


def committed(consumer: Consumer, topic: str) -> int:
    return int(consumer.committed([TopicPartition(topic, 0)], DEADLINE_SECONDS)[0].offset)


def set_verification(asker: Asker, is_enabled: bool) -> None:
    """Set transaction.partition.verification.enable for the whole cluster, and wait until every broker has it."""
    name, value = "transaction.partition.verification.enable", str(is_enabled).lower()
    cluster = asker.cluster
    asker.run(cluster.alter_configs(ResourceType.BROKER, "", [ConfigChange(name=name, value=value)]))

    def is_told() -> bool:
        reported = [
            row.value
            for broker_id in (1, 2, 3)
            for row in asker.run(cluster.describe_configs(ResourceType.BROKER, str(broker_id)))
            if row.name == name
        ]
        return reported == [value] * 3

    eventually(is_told, f"{name}={value} everywhere")


def command(*arguments: str, bootstrap: str) -> str:
    """Run `kvorum transactions` and return what it printed."""
    words = [sys.executable, "-m", "kvorum.cli.main", "transactions", *arguments, "--bootstrap", bootstrap]
    done = subprocess.run(words, capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def run(*arguments: str, bootstrap: str) -> Any:
    return json.loads(command(*arguments, "-o", "json", bootstrap=bootstrap))


# --- single requests that come late, or twice -------------------------------------------------------------------------


def test_a_late_end_of_the_transaction_before_does_not_end_this_one(
    cluster: LocalCluster, asker: Asker, topic: str
) -> None:
    """KAFKA-17754: of transaction version 2 each transaction has its own epoch."""
    producer = RawProducer(asker, cluster.plan.bootstrap, topic).init()
    epoch = producer.epoch
    assert producer.write(topic, 0, b"first", 0).error_code == 0
    assert producer.end(is_commit=True) == ErrorCode.NONE
    assert producer.epoch == epoch + 1
    assert producer.write(topic, 0, b"second", 0).error_code == 0
    assert producer.end(is_commit=True, epoch=epoch, moves_on=False) == ErrorCode.PRODUCER_FENCED
    assert asker.state(topic) == "Ongoing"
    assert producer.end(is_commit=False) == ErrorCode.NONE
    asker.wait_for_state(topic, "CompleteAbort")
    assert values(cluster.plan.bootstrap, topic, PARTITIONS) == [b"first"]


@pytest.mark.xfail(strict=True, reason="clients before version 2 use one epoch for all (docs/skipped.md)")
def test_a_late_end_of_an_older_clients_transaction_before_does_not_end_this_one(
    cluster: LocalCluster, asker: Asker, topic: str
) -> None:
    """So it is in Kafka, too: only the client can help itself, by asking for a new epoch after an unclear answer."""
    producer = RawProducer(asker, cluster.plan.bootstrap, topic, version=0).init()
    for number in range(2):
        assert producer.add(topic, 0) == ErrorCode.NONE
        assert producer.write(topic, 0, b"%d" % number, number).error_code == 0
        if number == 0:
            assert producer.end(is_commit=True) == ErrorCode.NONE
            asker.wait_for_state(topic, "CompleteCommit")
    producer.end(is_commit=True)  # that of the first transaction, once more
    assert asker.state(topic) == "Ongoing"


@pytest.mark.parametrize("version", [0, 2])
def test_a_late_write_of_an_aborted_transaction_hangs_nothing(
    cluster: LocalCluster, asker: Asker, topic: str, version: int
) -> None:
    """KIP-890: the coordinator does not vouch for it (version 0), or it is of an earlier epoch (version 2)."""
    bootstrap = cluster.plan.bootstrap
    producer = RawProducer(asker, bootstrap, topic, version).init()
    if version == 0:
        assert producer.add(topic, 0) == ErrorCode.NONE
    epoch = producer.epoch
    assert producer.write(topic, 0, b"in time", 0).error_code == 0
    assert producer.end(is_commit=False) == ErrorCode.NONE
    asker.wait_for_state(topic, "CompleteAbort")
    late = producer.write(topic, 0, b"late", 1, epoch=epoch)
    expected = {
        0: {ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE},
        2: {ErrorCode.INVALID_PRODUCER_EPOCH},
    }
    assert late.error_code in expected[version], ErrorCode(late.error_code).name
    assert ends(bootstrap, topic, "read_committed") == ends(bootstrap, topic, "read_uncommitted")


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("is_commit", [True, False])
def test_a_repeated_end_after_a_lost_response_gets_the_same_result(
    cluster: LocalCluster, asker: Asker, topic: str, version: int, is_commit: bool
) -> None:
    producer = RawProducer(asker, cluster.plan.bootstrap, topic, version).init()
    if version == 0:
        assert producer.add(topic, 0) == ErrorCode.NONE
    assert producer.write(topic, 0, b"once", 0).error_code == 0
    assert producer.end(is_commit=is_commit, moves_on=False) == ErrorCode.NONE
    assert producer.end(is_commit=is_commit) == ErrorCode.NONE
    asker.wait_for_state(topic, "CompleteCommit" if is_commit else "CompleteAbort")


def test_a_write_that_is_repeated_is_answered_with_its_first_offset(
    cluster: LocalCluster, asker: Asker, topic: str
) -> None:
    producer = RawProducer(asker, cluster.plan.bootstrap, topic).init()
    rows = [producer.write(topic, 0, b"%d" % number, number) for number in (0, 1, 2, 0, 2)]
    assert [(row.error_code, row.base_offset) for row in rows] == [(0, 0), (0, 1), (0, 2), (0, 0), (0, 2)]
    assert producer.end(is_commit=True) == ErrorCode.NONE


def test_after_a_commit_the_offsets_are_kafkas(cluster: LocalCluster, asker: Asker, topic: str) -> None:
    """N records and one marker."""
    producer = RawProducer(asker, cluster.plan.bootstrap, topic).init()
    for number in range(3):
        assert producer.write(topic, 0, b"%d" % number, number).base_offset == number
    assert producer.end(is_commit=True) == ErrorCode.NONE
    asker.wait_for_state(topic, "CompleteCommit")
    assert ends(cluster.plan.bootstrap, topic, "read_committed")[0] == 4


def test_a_cluster_at_transaction_version_0_works_as_before(cluster: LocalCluster, asker: Asker, topic: str) -> None:
    """As one that was formatted by a release without the feature; it is raised again while a transaction is open."""
    bootstrap = cluster.plan.bootstrap
    set_transaction_version(asker, 0)
    try:
        for name, make in CLIENTS.items():
            with closing(make(bootstrap, f"{topic}-{name}")) as producer:
                for number in range(3):
                    producer.begin()
                    producer.send(topic, f"{name}-{number}".encode(), 0)
                    producer.abort() if number == 1 else producer.commit()
        open_since = ByConfluent(bootstrap, topic)
        open_since.begin()
        open_since.send(topic, b"open", 1)
        open_since.flush()
    finally:
        set_transaction_version(asker, 2)
    open_since.commit()
    written = [f"{name}-{number}".encode() for name in CLIENTS for number in (0, 2)]
    eventually(lambda: asker.is_settled(topic, PARTITIONS), "markers everywhere")
    assert values(bootstrap, topic, PARTITIONS) == sorted([*written, b"open"])


def set_transaction_version(asker: Asker, level: int) -> None:
    """Have the cluster work at another level."""
    kind = UpgradeType.UPGRADE if level else UpgradeType.SAFE_DOWNGRADE
    update = FeatureUpdateKey(feature="transaction.version", max_version_level=level, upgrade_type=kind)
    answer = asker.ask(1, UpdateFeaturesRequest(feature_updates=[update]), UpdateFeaturesResponse, 2)
    assert answer.error_code == 0, answer

    def is_told() -> bool:
        levels = []
        for broker_id in (1, 2, 3):
            reported = asker.ask(
                broker_id,
                ApiVersionsRequest(client_software_name="test", client_software_version="1"),
                ApiVersionsResponse,
                4,
            ).finalized_features
            levels += [sum(each.max_version_level for each in reported if each.name == "transaction.version")]
        return levels == [level] * 3

    eventually(is_told, f"transaction.version {level} everywhere")
