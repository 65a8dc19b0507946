"""What single brokers say of topics: asked one by one, over the wire, since a client asks whom it likes best."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from kvorum.cluster.local.local import LocalCluster
from kvorum.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kvorum.protocol.messages.metadata import MetadataResponseTopic as Topic
from kvorum.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.cluster.clients import eventually
from tests.cluster.nodes import addresses
from tests.cluster.wire.raw import Raw, batch, record

METADATA_VERSION = 12
PRODUCE_VERSION = 12


class Plan(NamedTuple):
    """What a creation asked for."""

    partitions: int
    replicas: int


def raw(address: str) -> Raw:
    """Connect to HOST:PORT."""
    host, _, port = address.rpartition(":")
    return Raw(host, int(port))


def topics_at(address: str, *names: str) -> dict[str, Topic]:
    """Return what one broker's Metadata says of these topics (of all, when none is named)."""
    requested = [MetadataRequestTopic(name=name) for name in names] or None
    with raw(address) as connection:
        request = MetadataRequest(topics=requested, allow_auto_topic_creation=False)
        answer = connection.ask(request, METADATA_VERSION)
    assert isinstance(answer, MetadataResponse)
    return {topic.name: topic for topic in answer.topics if topic.name is not None}


def produce_code(address: str, topic: str, acks: int = -1) -> int:
    """Send one record for a topic's partition 0 to this very broker; return the error code it answers."""
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(records=memoryview(batch(record())))])
    with raw(address) as connection:
        answer = connection.ask(ProduceRequest(acks=acks, timeout=10_000, topic_data=[data]), PRODUCE_VERSION)
    assert isinstance(answer, ProduceResponse)
    return answer.responses[0].partition_responses[0].error_code


def assert_all_topics_whole(
    cluster: LocalCluster, planned: Mapping[str, Plan], acknowledged: Collection[str]
) -> set[str]:
    """Every acknowledged topic is on every broker as planned and led; any other is so too, or is nowhere.

    Returns the topics that are there.
    """
    known: dict[str, set[str]] = {}
    for node, address in addresses(cluster).items():

        def complaints(address: str = address, node: str = node) -> list[str]:
            topics = topics_at(address)
            known[node] = set(topics)
            found = [f"{name} is lost" for name in acknowledged if name not in topics]
            for name, topic in topics.items():
                found += complaints_of(topic, planned[name])
            return found

        eventually(lambda: not complaints(), lambda: f"{node}: {complaints()[:5]}")  # noqa: B023
    everywhere, *others = known.values()
    assert all(each == everywhere for each in others), f"on some nodes only: {set.union(*others) ^ everywhere}"
    return everywhere


def complaints_of(topic: Topic, plan: Plan) -> list[str]:
    """Return how a topic differs from a whole one of this plan."""
    rows = topic.partitions
    found = []
    if sorted(row.partition_index for row in rows) != list(range(plan.partitions)):
        found.append(f"{topic.name} has {len(rows)} partitions of {plan.partitions}")
    if any(len(set(row.replica_nodes)) != plan.replicas for row in rows):
        found.append(f"{topic.name} has {[row.replica_nodes for row in rows]}, planned are {plan.replicas} replicas")
    leaderless = [row.partition_index for row in rows if row.leader_id < 0]
    if leaderless:
        found.append(f"{len(leaderless)} partitions of {topic.name} are not led: {leaderless[:5]}")
    return found
