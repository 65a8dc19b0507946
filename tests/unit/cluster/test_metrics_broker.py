"""What a broker tells of its logs and partitions, over partitions that are real and a server that is not."""

from types import SimpleNamespace

from prometheus_client.parser import text_string_to_metric_families

from kvorum.broker.metadata.lifecycle import BrokerState
from kvorum.broker.replica.partition import Partition
from kvorum.cluster.metrics.broker_metrics import follow_broker
from kvorum.network.traffic import Traffic
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.protocol.uuids import ZERO_UUID
from kvorum.quorum.configs.layers import LeftOut
from kvorum.quorum.image.partition import PartitionRegistration
from kvorum.runtime import metric_names as names
from kvorum.runtime.metrics import READ_AT_ONCE, Metrics
from kvorum.runtime.recent import Recent

OWN_ID = 2


class FakeLog:
    """As much of a log as metrics and leadership look at."""

    def __init__(self, topic: str, index: int, start: int, high_watermark: int, end: int, min_isr: int = 1) -> None:
        self.partition = TopicPartition(topic, index)
        self.log_start_offset = start
        self.high_watermark = high_watermark
        self.log_end_offset = self.committable_end_offset = end
        self.config = SimpleNamespace(min_insync_replicas=min_isr)
        self.size = 1000 + index
        self.segment_count = 3
        self.failure: Exception | None = None

    def assign_epoch_start_offset(self, epoch: int, start_offset: int) -> None:
        pass


class AllAlive:
    def is_fenced(self, broker_id: int) -> bool:
        return False

    def is_shutting_down(self, broker_id: int) -> bool:
        return False

    def broker_epoch(self, broker_id: int) -> int | None:
        return 1


class FakeDisk:
    """The volume of /c fails."""

    def free_bytes(self, path: str) -> int:
        if path == "/c":
            raise OSError("no answer")
        return 150

    def total_bytes(self, path: str) -> int:
        return 10 * self.free_bytes(path)


class FakeClock:
    def monotonic_ms(self) -> int:
        return 0

    def wall_ms(self) -> int:
        return 10_500


def partition(log: FakeLog, replicas: tuple[int, ...], isr: tuple[int, ...], leader: int) -> Partition:
    made = Partition(
        topic_partition=log.partition,
        topic_id=ZERO_UUID,
        broker_id=OWN_ID,
        brokers=AllAlive(),
        local_broker_epoch=lambda: 1,
        replica_lag_time_ms_max=30_000,
    )
    registration = PartitionRegistration(
        replicas=replicas,
        isr=isr,
        leader=leader,
        leader_epoch=4,
        partition_epoch=5,
        leader_recovery_state=0,
        directories=(ZERO_UUID,) * len(replicas),
    )
    if leader == OWN_ID:
        made.make_leader(registration, log, now_ms=0)  # type: ignore[arg-type]
    else:
        made.make_follower(registration, log)  # type: ignore[arg-type]
    return made


class FakeServer:
    """A BrokerServer's outside, with the parts that metrics look into."""

    queued_requests = 7
    queued_request_bytes = 4096
    broker_id = OWN_ID
    advertised_address: str | None = "127.0.0.1:9092"

    def __init__(self, partitions: list[Partition], logs: list[FakeLog], topics: dict[str, int]) -> None:
        hosted = SimpleNamespace(leaders=lambda: iter([each for each in partitions if each.is_leader]))
        metadata_log = FakeLog("__cluster_metadata", 0, 0, 40, 41)
        self.disk = FakeDisk()
        self.running = SimpleNamespace(
            log_manager=SimpleNamespace(
                logs=lambda: iter(logs),
                dirs=[
                    SimpleNamespace(path="/a", is_online=True),
                    SimpleNamespace(path="/b", is_online=False),
                    SimpleNamespace(path="/c", is_online=True),
                ],
            ),
            replica_manager=SimpleNamespace(hosted=hosted),
            registration=SimpleNamespace(lifecycle=SimpleNamespace(state=BrokerState.RUNNING)),
            loader=SimpleNamespace(
                offset=39,
                timestamp_ms=10_000,
                leader_id=1,
                log=metadata_log,
                log_end_epoch=6,
                fetched=Recent(60),
                traffic=Traffic(),
                snapshot=(4_000, 90_000),
                image=SimpleNamespace(epoch=6, features=SimpleNamespace(metadata_version=30)),
            ),
            broker=SimpleNamespace(
                metadata=SimpleNamespace(
                    topic=lambda name: SimpleNamespace(partitions=range(topics[name])) if name in topics else None
                ),
                configs=SimpleNamespace(
                    errors=3,
                    layers=SimpleNamespace(
                        left_out=(LeftOut("log.roll.ms", "0", "dynamic config of this broker", "no"),)
                    ),
                ),
            ),
        )
        self.parts: SimpleNamespace | None = None


def scraped(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Return {(name, labels): value}; each may be there once only."""
    found: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    for family in text_string_to_metric_families(metrics.render().decode()):
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in found, f"{key} is a duplicate"
            found[key] = sample.value
    return found


def of(topic: str, index: int) -> tuple[tuple[str, str], ...]:
    return ("partition", str(index)), ("topic", topic)


def a_broker(*, tells_raft: bool = True) -> tuple[Metrics, FakeServer]:
    """Lead t-0 (all in sync), t-1 (under min ISR, not preferred); follow u-0; have a log that failed."""
    logs = [
        FakeLog("t", 0, start=3, high_watermark=10, end=12),
        FakeLog("t", 1, start=0, high_watermark=20, end=20, min_isr=2),
        FakeLog("u", 0, start=0, high_watermark=5, end=5),
        FakeLog("v", 0, start=0, high_watermark=0, end=0),
    ]
    logs[3].failure = OSError("gone")
    partitions = [
        partition(logs[0], replicas=(2, 3), isr=(2, 3), leader=2),
        partition(logs[1], replicas=(3, 2, 1), isr=(2,), leader=2),
        partition(logs[2], replicas=(3, 2), isr=(3, 2), leader=3),
    ]
    metrics, server = Metrics(), FakeServer(partitions, logs, {"t": 2, "u": 1})
    follow_broker(metrics, server, FakeClock(), tells_raft=tells_raft)  # type: ignore[arg-type]
    return metrics, server


def test_a_broker_that_has_not_started_reports_nothing_and_does_not_fail() -> None:
    metrics, _ = a_broker()
    found = scraped(metrics)
    assert not [name for name, _ in found if name.startswith(("kafka_topic", "kafka_log", "kafka_server_raft"))]
    assert found[names.QUEUED_REQUESTS, ()] == 7
    assert found[names.QUEUED_REQUEST_BYTES, ()] == 4096


def test_partitions_are_reported_by_their_leader_only() -> None:
    metrics, server = a_broker()
    server.parts = server.running
    found = scraped(metrics)
    expected = {
        names.TOPIC_PARTITION_CURRENT_OFFSET: (10, 20),
        names.TOPIC_PARTITION_OLDEST_OFFSET: (3, 0),
        names.TOPIC_PARTITION_LEADER: (2, 2),
        names.TOPIC_PARTITION_REPLICAS: (2, 3),
        names.TOPIC_PARTITION_IN_SYNC_REPLICA: (2, 1),
        names.TOPIC_PARTITION_LEADER_IS_PREFERRED: (1, 0),
        names.TOPIC_PARTITION_UNDER_REPLICATED: (0, 1),
        names.PARTITION_UNDER_MIN_ISR: (0, 1),
        names.PARTITION_AT_MIN_ISR: (0, 0),
        names.PARTITION_REPLICAS_COUNT: (2, 3),
        names.PARTITION_IN_SYNC_REPLICAS_COUNT: (2, 1),
    }
    for name, (first, second) in expected.items():
        assert found[name, of("t", 0)] == first, name
        assert found[name, of("t", 1)] == second, name
        assert (name, of("u", 0)) not in found, name
    assert found[names.TOPIC_PARTITIONS, (("topic", "t"),)] == 2
    assert (names.TOPIC_PARTITIONS, (("topic", "u"),)) not in found


def test_logs_are_reported_by_every_broker_unless_their_disk_failed() -> None:
    metrics, server = a_broker()
    server.parts = server.running
    found = scraped(metrics)
    assert found[names.LOG_SIZE, of("t", 1)] == 1001
    assert found[names.LOG_START_OFFSET, of("t", 0)] == 3
    assert found[names.LOG_END_OFFSET, of("t", 0)] == 12
    assert found[names.LOG_SEGMENTS, of("u", 0)] == 3
    assert found[names.LOG_END_OFFSET, of("__cluster_metadata", 0)] == 41
    assert (names.LOG_SIZE, of("v", 0)) not in found
    assert found[names.OFFLINE_LOG_DIRECTORY_COUNT, ()] == 1


def test_a_broker_is_an_observer_of_the_quorum() -> None:
    metrics, server = a_broker()
    server.parts = server.running
    found = scraped(metrics)
    assert found[names.RAFT_CURRENT_STATE, (("state", "observer"),)] == 1
    assert found[names.RAFT_STATE, (("current_state", "observer"),)] == 1
    assert found[names.RAFT_CURRENT_LEADER, ()] == found[names.CURRENT_CONTROLLER_ID, ()] == 1
    assert found[names.CURRENT_METADATA_VERSION, ()] == 30
    assert found[names.RAFT_CURRENT_EPOCH, ()] == 6
    assert found[names.RAFT_HIGH_WATERMARK, ()] == 40
    assert found[names.RAFT_LOG_END_OFFSET, ()] == 41
    assert found[names.RAFT_LOG_END_EPOCH, ()] == 6
    assert found[names.RAFT_CURRENT_VOTE, ()] == -1
    assert found[names.RAFT_APPEND_RECORDS_RATE, ()] == found[names.RAFT_FETCH_RECORDS_RATE, ()] == 0
    server.running.loader.fetched.add(120, 0)
    server.running.loader.traffic.sent(100)
    server.running.loader.traffic.received(2_000)
    found = scraped(metrics)
    assert found[names.RAFT_FETCH_RECORDS_RATE, ()] == 2
    assert (found[names.RAFT_REQUESTS, ()], found[names.RAFT_RESPONSES, ()]) == (1, 1)
    assert (found[names.RAFT_OUTGOING_BYTES, ()], found[names.RAFT_INCOMING_BYTES, ()]) == (100, 2_000)
    assert (found[names.SNAPSHOT_BYTES, ()], found[names.SNAPSHOT_AGE_MS, ()]) == (4_000, 90_000)
    assert found[names.BROKER_METADATA_OFFSET, ()] == 39
    assert found[names.BROKER_METADATA_LAG, ()] == 500
    server.running.loader.log = server.running.loader.leader_id = None
    server.running.loader.timestamp_ms = -1
    found = scraped(metrics)
    assert found[names.RAFT_CURRENT_LEADER, ()] == found[names.RAFT_HIGH_WATERMARK, ()] == -1
    assert found[names.BROKER_METADATA_LAG, ()] == 0


def test_beside_a_controller_a_broker_leaves_the_quorum_to_it() -> None:
    metrics, server = a_broker(tells_raft=False)
    server.parts = server.running
    found = {name for name, _ in scraped(metrics)}
    assert not [name for name in found if name.startswith("kafka_server_raft")]
    assert {names.BROKER_METADATA_OFFSET, names.CURRENT_CONTROLLER_ID} <= found


def test_log_directories_are_reported_and_the_room_on_their_volumes() -> None:
    """/b is out of service; the volume of /c does not answer."""
    metrics, server = a_broker()
    server.parts = server.running
    found = scraped(metrics)

    def of_directories(name: str) -> dict[str, float]:
        return {labels[0][1]: value for (each, labels), value in found.items() if each == name}

    assert of_directories(names.LOG_DIRECTORY_OFFLINE) == {"/a": 0, "/b": 1, "/c": 0}
    assert of_directories(names.LOG_DIRECTORY_FREE_BYTES) == {"/a": 150}
    assert of_directories(names.LOG_DIRECTORY_TOTAL_BYTES) == {"/a": 1_500}


def test_a_broker_reports_its_own_address_and_state() -> None:
    """kafka_exporter tells all brokers; here each tells itself, so that all are there once, and a dead one is not."""
    metrics, server = a_broker()
    who = (("address", "127.0.0.1:9092"), ("id", str(OWN_ID)))
    assert (names.BROKER_INFO, who) not in scraped(metrics)
    server.parts = server.running
    assert scraped(metrics)[names.BROKER_INFO, who] == 1
    assert scraped(metrics)[names.BROKER_STATE, ()] == 3
    server.running.registration.lifecycle = None
    server.advertised_address = None
    found = scraped(metrics)
    assert found[names.BROKER_STATE, ()] == 1
    assert (names.BROKER_INFO, who) not in found


def test_partitions_may_come_and_go_while_a_scrape_is_between_two_slices() -> None:
    """The scrape is cut after each READ_AT_ONCE samples; meanwhile half of the partitions go, and their logs."""
    logs = [FakeLog("t", index, start=0, high_watermark=1, end=1) for index in range(3 * READ_AT_ONCE)]
    partitions = {log.partition: partition(log, replicas=(2,), isr=(2,), leader=2) for log in logs}
    kept = {log.partition: log for log in logs}
    metrics, server = Metrics(), FakeServer([], [], {})
    follow_broker(metrics, server, FakeClock(), tells_raft=True)  # type: ignore[arg-type]
    server.running.replica_manager.hosted.leaders = lambda: iter(partitions.values())
    server.running.log_manager.logs = lambda: iter(kept.values())
    server.parts = server.running
    pieces: dict[str, int] = {}
    for family in metrics.collect(lambda count: True):
        pieces[family.name] = pieces.get(family.name, 0) + 1
        if pieces == {names.LOG_SIZE: 1} or family.name == names.PARTITION_UNDER_MIN_ISR:
            for gone in list(partitions)[: READ_AT_ONCE // 2]:
                del partitions[gone], kept[gone]
    assert pieces[names.LOG_SIZE] > 3
    assert pieces[names.PARTITION_UNDER_MIN_ISR] > 2


def test_configs_that_do_not_count_are_reported() -> None:
    metrics, server = a_broker()
    server.parts = server.running
    reported = scraped(metrics)
    assert reported[names.CONFIGS_LEFT_OUT, (("key", "log.roll.ms"), ("layer", "dynamic config of this broker"))] == 1
    assert reported[names.BROKER_METADATA_APPLY_ERRORS, ()] == 3
