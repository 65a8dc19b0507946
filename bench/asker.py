"""A client without back-off, and its requests: topics, leaders, the first acknowledgement."""

import time
from collections.abc import Sequence

from bench.stalled import StalledError
from bench.systems import System
from kvorum.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from kvorum.protocol.messages.describe_quorum import DescribeQuorumRequest, RequestPartitionData, RequestTopicData
from kvorum.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kvorum.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kvorum.protocol.records import Record, build_batch
from kvorum.protocol.schema import Message as Request
from tests.cluster.wire.raw import Raw

RETRY_SECONDS = 0.005
DEADLINE_SECONDS = 120.0
TOPIC_ALREADY_EXISTS = 36


class Asker:
    """Repeats a request every 5 ms until it succeeds."""

    def __init__(self, system: System, node: int) -> None:
        self._system = system
        self._node = node
        self._connection: Raw | None = None
        self._deadline = time.monotonic() + DEADLINE_SECONDS

    def ask(self, request: Request, version: int) -> Request:
        """Return the answer, over a new connection when the last one was refused or closed. Raises StalledError."""
        while True:
            if time.monotonic() > self._deadline:
                raise StalledError(f"{self._system.name} does not answer {type(request).__name__}")
            try:
                if self._connection is None:
                    self._connection = Raw(*self._system.address(self._node))
                answer = self._connection.ask(request, version)
                if answer is not None:
                    return answer
            except (ConnectionRefusedError, TimeoutError):
                pass
            self.close()
            time.sleep(RETRY_SECONDS)

    def wait(self) -> None:
        """Wait before the next request. Raises StalledError after the time limit."""
        if time.monotonic() > self._deadline:
            raise StalledError(f"{self._system.name} has not come to it after {DEADLINE_SECONDS:.0f} s")
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
    request = CreateTopicsRequest(topics=[topic], timeout=5000)
    while asker.ask(request, 7).topics[0].error_code not in (0, TOPIC_ALREADY_EXISTS):  # type: ignore[attr-defined]
        asker.wait()
    wait_led(asker, name, 1)


def leaders_of(asker: Asker, name: str) -> list[int]:
    """Return the leader of each partition, -1 where there is none; nothing while the topic is not known."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
    topic = asker.ask(request, 12).topics[0]  # type: ignore[attr-defined]
    found = sorted((row.partition_index, row.leader_id) for row in topic.partitions)
    return [leader for _, leader in found] if topic.error_code == 0 else []


def wait_led(asker: Asker, name: str, partitions: int) -> list[int]:
    """Return the leaders as soon as there is one of each partition. Raises StalledError."""
    while len(found := leaders_of(asker, name)) != partitions or min(found) < 0:
        asker.wait()
    return found


def active_controller(asker: Asker) -> int:
    """Return the leader of the quorum."""
    topic = RequestTopicData(topic_name="__cluster_metadata", partitions=[RequestPartitionData(partition_index=0)])
    answer = asker.ask(DescribeQuorumRequest(topics=[topic]), 1)
    return int(answer.topics[0].partitions[0].leader_id)  # type: ignore[attr-defined]


def one_record(topic: str, partitions: Sequence[int]) -> ProduceRequest:
    """Return a request with acks=all that has one record for each partition."""
    batch = bytes(build_batch([Record(b"v", b"k", time.time_ns() // 1_000_000)]))
    rows = [PartitionProduceData(index=index, records=batch) for index in partitions]
    return ProduceRequest(acks=-1, timeout=5000, topic_data=[TopicProduceData(name=topic, partition_data=rows)])


def acknowledge(system: System, topic: str, partitions: int = 1) -> None:
    """Return as soon as each partition has acknowledged a record with acks=all, whatever is in the way until then."""
    first = Asker(system, 1)
    leaders = wait_led(first, topic, partitions)
    first.close()
    for node in sorted(set(leaders)):
        wanted = [index for index, leader in enumerate(leaders) if leader == node]
        asker = Asker(system, node)
        while wanted:
            rows = asker.ask(one_record(topic, wanted), 12).responses[0].partition_responses  # type: ignore[attr-defined]
            wanted = [row.index for row in rows if row.error_code]
            if wanted:
                asker.wait()
        asker.close()
