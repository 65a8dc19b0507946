"""What is measured, the same way of both systems: first acknowledgement, memory, CPU, throughput, the longest gap."""

import re
import subprocess
import time
from dataclasses import dataclass

from confluent_kafka import KafkaError, Message, Producer

from bench.apache_kafka import jars, java
from bench.processes import cpu_seconds
from bench.stalled import StalledError
from bench.systems import System
from kvorum.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from kvorum.protocol.messages.describe_quorum import DescribeQuorumRequest, RequestPartitionData, RequestTopicData
from kvorum.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kvorum.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kvorum.protocol.records import Record, build_batch
from kvorum.protocol.schema import Message as Request
from tests.wire.raw import Raw

RETRY_SECONDS = 0.005
DEADLINE_SECONDS = 120.0
PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
TOTAL = re.compile(
    r"(\d+) records sent, ([\d.]+) records/sec \(([\d.]+) MB/sec\), ([\d.]+) ms avg latency, ([\d.]+) ms max latency"
    r"(?:, (\d+) ms 50th, (\d+) ms 95th, (\d+) ms 99th)?"
)


class Asker:
    """A client that knows nothing of back-off: asks a node again after 5 ms until it has its answer."""

    def __init__(self, system: System, node: int) -> None:
        self._system = system
        self._node = node
        self._connection: Raw | None = None
        self._deadline = time.monotonic() + DEADLINE_SECONDS

    def ask(self, request: Request, version: int) -> Request:
        """Return the answer, over a new connection when the last one was refused or closed."""
        while True:
            if time.monotonic() > self._deadline:
                raise StalledError(f"{self._system.name} does not answer {type(request).__name__}")
            try:
                if self._connection is None:
                    self._connection = Raw(*self._system.address(self._node))
                answer = self._connection.ask(request, version)
                if answer is not None:
                    return answer
            except ConnectionRefusedError:
                self._connection = None
            self.close()
            time.sleep(RETRY_SECONDS)

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def create_topic(asker: Asker, name: str, replicas: int, order: list[int] | None = None) -> None:
    """Create a topic of one partition as soon as the cluster can, its replicas in this order; wait for its leader."""
    assigned = [CreatableReplicaAssignment(partition_index=0, broker_ids=order)] if order else []
    counts = (-1, -1) if order else (1, replicas)
    topic = CreatableTopic(name=name, num_partitions=counts[0], replication_factor=counts[1], assignments=assigned)
    while asker.ask(CreateTopicsRequest(topics=[topic], timeout=5000), 7).topics[0].error_code not in (0, 36):
        time.sleep(RETRY_SECONDS)
    while leader_of(asker, name) < 0:
        time.sleep(RETRY_SECONDS)


def leader_of(asker: Asker, name: str) -> int:
    """Return the leader of partition 0, -1 while there is none."""
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
    topic = asker.ask(asked, 12).topics[0]
    return int(topic.partitions[0].leader_id) if topic.error_code == 0 else -1


def active_controller(asker: Asker) -> int:
    """Return the leader of the quorum."""
    asked = RequestTopicData(topic_name="__cluster_metadata", partitions=[RequestPartitionData(partition_index=0)])
    return int(asker.ask(DescribeQuorumRequest(topics=[asked]), 1).topics[0].partitions[0].leader_id)


def first_acknowledgement(system: System, replicas: int) -> float:
    """Start a formatted cluster; return the seconds until a record with acks=all was acknowledged in a new topic."""
    started = time.monotonic()
    system.start()
    first = Asker(system, 1)
    create_topic(first, "first", replicas)
    leader = Asker(system, leader_of(first, "first"))
    batch = bytes(build_batch([Record(b"v", b"k", time.time_ns() // 1_000_000)]))
    data = TopicProduceData(name="first", partition_data=[PartitionProduceData(index=0, records=batch)])
    request = ProduceRequest(acks=-1, timeout=5000, topic_data=[data])
    while leader.ask(request, 12).responses[0].partition_responses[0].error_code:
        time.sleep(RETRY_SECONDS)
    elapsed = time.monotonic() - started
    first.close()
    leader.close()
    return elapsed


@dataclass(frozen=True, slots=True)
class Throughput:
    """One run of ProducerPerformance, and the CPU seconds of all the cluster's processes meanwhile."""

    records_per_second: float
    average_latency_ms: float
    p99_latency_ms: float
    cpu_seconds: float


def throughput(system: System, topic: str, records: int, acks: str, size: int = 100) -> Throughput:
    """Run Kafka's own ProducerPerformance against a topic that is there."""
    command = [java(), "-Xmx512M", "-cp", jars(), PERFORMANCE, "--topic", topic, "--num-records", str(records)]
    command += ["--record-size", str(size), "--throughput", "-1"]
    command += ["--producer-props", f"bootstrap.servers={system.bootstrap}", f"acks={acks}"]
    before = cpu_seconds(system.pids())
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    used = cpu_seconds(system.pids()) - before
    found = TOTAL.findall(done.stdout)
    assert done.returncode == 0 and found, f"{done.stdout[-1500:]}{done.stderr[-1500:]}"
    sent, rate, _, average, _, _, _, last = found[-1]
    assert int(sent) == records, found[-1]
    return Throughput(float(rate), float(average), float(last or "nan"), used)


@dataclass(frozen=True, slots=True)
class Gap:
    """A leader killed under load."""

    seconds: float
    """The longest time without an acknowledgement."""
    acknowledged: int
    failed: int
    was_controller: bool
    """Whether the killed node was the active controller too."""


class Clock:
    """Remembers when acknowledgements came."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.failed = 0

    def delivered(self, error: KafkaError | None, _message: Message) -> None:
        """Take a delivery report."""
        if error is None:
            self.times.append(time.monotonic())
        else:
            self.failed += 1


def longest_gap(system: System, on_controller: bool, before: float = 3.0, after: float = 5.0) -> Gap:
    """kill -9 the leader's node under acks=all load; go on until acknowledgements came for `after` seconds again."""
    asker = Asker(system, 1)
    controller = active_controller(asker)
    others = [node for node in (1, 2, 3) if node != controller]
    order = [controller, *others] if on_controller else [*others, controller]
    topic = f"gap-{order[0]}"
    create_topic(asker, topic, 3, order)
    asker.close()
    clock = Clock()
    producer = Producer({"bootstrap.servers": system.bootstrap, "acks": "all", "linger.ms": 1, "log_level": 0})
    started = time.monotonic()
    killed = 0.0
    while True:
        now = time.monotonic()
        if not killed and clock.times and now - started > before:
            system.kill(order[0])
            killed = time.monotonic()
        if killed and resumed_for(clock.times, killed, now) > after:
            break
        if now - started > DEADLINE_SECONDS:
            raise StalledError(
                f"{system.name}: {len(clock.times)} acknowledgements and no end after {now - started:.0f} s"
            )
        try:
            producer.produce(topic, b"x" * 100, on_delivery=clock.delivered)
        except BufferError:
            producer.poll(0.01)
        producer.poll(0.001)
    gap = max(later - earlier for earlier, later in zip(clock.times, clock.times[1:], strict=False))
    producer.flush(30)
    return Gap(gap, len(clock.times), clock.failed, on_controller)


def resumed_for(times: list[float], killed: float, now: float) -> float:
    """Return for how long acknowledgements have come again: since the first a second or more after the kill, else 0.

    What comes within that second may have been on its way when the leader died.
    """
    place = len(times)
    while place and times[place - 1] > killed + 1.0:
        place -= 1
    return now - times[place] if place < len(times) else 0.0
