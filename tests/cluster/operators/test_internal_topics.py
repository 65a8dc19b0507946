"""Internal topics keep what they hold, by whatever request they are created or changed: as Apache Kafka 4.3.0 answers.

The codes were recorded from Apache Kafka 4.3.0 with the same requests. All tests share one cluster of three nodes.
"""

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvorum.cluster.local.local import LocalCluster
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages import alter_configs as whole
from kvorum.protocol.messages import incremental_alter_configs as incremental
from kvorum.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kvorum.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kvorum.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kvorum.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kvorum.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kvorum.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kvorum.protocol.messages.find_coordinator import FindCoordinatorRequest
from kvorum.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kvorum.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kvorum.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kvorum.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kvorum.protocol.records import Record, build_batch
from kvorum.protocol.schema import Message
from tests.cluster.clients import eventually
from tests.cluster.conftest import clusters_in
from tests.cluster.nodes import addresses, name_of
from tests.cluster.wire.raw import Raw

OFFSETS, TRANSACTIONS, SHARE = INTERNAL = "__consumer_offsets", "__transaction_state", "__share_group_state"
METADATA = "__cluster_metadata"
PARTITIONS = 4
SETTINGS = (
    "auto.create.topics.enable=true",
    *(
        f"{prefix}.num.partitions={PARTITIONS}"
        for prefix in ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
    ),
)
SEGMENT = {"segment.bytes": "104857600"}
CONFIGS = {
    OFFSETS: {"cleanup.policy": "compact", "compression.type": "producer", **SEGMENT},
    TRANSACTIONS: {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": "2",
        "unclean.leader.election.enable": "false",
        **SEGMENT,
    },
    SHARE: {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "min.insync.replicas": "2",
        "retention.ms": "-1",
        **SEGMENT,
    },
}
GROUPS = [f"group-{number}" for number in range(8)]
KVORUM = str(Path(sys.executable).with_name("kvorum"))


class Client:
    """Requests to a cluster, each to its first broker or to the one that is named."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        self.bootstrap = cluster.plan.bootstrap.split(",")[0]

    def ask(self, message: Message, version: int, broker: int | None = None) -> Any:
        """Return the response."""
        address = self.bootstrap if broker is None else addresses(self.cluster)[name_of(self.cluster, broker)]
        host, _, port = address.rpartition(":")
        with Raw(host, int(port)) as connection:
            answer = connection.ask(message, version)
        assert answer is not None, "the connection was closed"
        return answer

    def metadata(self, *names: str, create: bool = False) -> dict[str, Any]:
        """Return {topic: row}."""
        wanted = [MetadataRequestTopic(name=name) for name in names]
        found = self.ask(MetadataRequest(topics=wanted, allow_auto_topic_creation=create), 12)
        return {topic.name: topic for topic in found.topics}

    def shape(self, name: str) -> tuple[int, int] | None:
        """Return a topic's (partitions, replicas), None while it does not exist."""
        topic = self.metadata(name)[name]
        return (len(topic.partitions), len(topic.partitions[0].replica_nodes)) if topic.error_code == 0 else None

    def configs(self, name: str) -> dict[str, str]:
        """Return what is set on a topic."""
        requested = DescribeConfigsRequest(resources=[DescribeConfigsResource(resource_type=2, resource_name=name)])
        found = self.ask(requested, 4).results[0]
        assert found.error_code == 0, found
        return {each.name: each.value for each in found.configs if each.config_source == 1}

    def create(self, name: str, partitions: int = 3, replicas: int = 1, **configs: str) -> str:
        """Send CreateTopics; return the code."""
        values = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas, configs=values)
        return code(self.ask(CreateTopicsRequest(topics=[topic], timeout=15_000), 7).topics[0])

    def delete(self, name: str) -> str:
        """Send DeleteTopics; return the code."""
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout=15_000)
        return code(self.ask(request, 6).responses[0])

    def without(self, name: str) -> None:
        """Delete a topic if it exists, and wait until this broker no longer has it."""
        assert self.delete(name) in ("NONE", "UNKNOWN_TOPIC_OR_PARTITION")
        eventually(lambda: self.shape(name) is None, f"no {name}")

    def add_partitions(self, name: str, count: int) -> str:
        """Send CreatePartitions; return the code."""
        topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
        return code(self.ask(CreatePartitionsRequest(topics=[topic], timeout=15_000), 3).results[0])

    def set(self, name: str, **configs: str) -> str:
        """Send IncrementalAlterConfigs; return the code."""
        values = [
            incremental.AlterableConfig(name=key.replace("_", "."), config_operation=0, value=value)
            for key, value in configs.items()
        ]
        item = incremental.AlterConfigsResource(resource_type=2, resource_name=name, configs=values)
        return code(self.ask(incremental.IncrementalAlterConfigsRequest(resources=[item]), 1).responses[0])

    def replace(self, name: str, **configs: str) -> str:
        """Send AlterConfigs, which leaves no other config; return the code."""
        values = [whole.AlterableConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
        item = whole.AlterConfigsResource(resource_type=2, resource_name=name, configs=values)
        return code(self.ask(whole.AlterConfigsRequest(resources=[item]), 2).responses[0])

    def coordinator(self, kind: int, key: str) -> int:
        """Return the node that coordinates a key, once one does."""

        def find() -> int | None:
            row = self.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]), 4).coordinators[0]
            return None if row.error_code else row.node_id

        return eventually(find, f"a coordinator of {key}")

    def commit(self, group: str, offset: int) -> None:
        """Commit an offset of partition 0 of topic `data`."""
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        request = OffsetCommitRequest(group_id=group, generation_id_or_member_epoch=-1, member_id="")
        request.topics = [OffsetCommitRequestTopic(name="data", partitions=[partition])]

        def commit() -> bool:
            found = self.ask(request, 8, self.coordinator(0, group))
            return code(found.topics[0].partitions[0]) == "NONE"

        eventually(commit, f"a commit of {group}")

    def committed(self, group: str) -> int:
        """Return the committed offset."""
        topics = [OffsetFetchRequestTopics(name="data", partition_indexes=[0])]
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)])

        def fetch() -> tuple[int] | None:
            row = self.ask(request, 8, self.coordinator(0, group)).groups[0]
            return None if row.error_code else (row.topics[0].partitions[0].committed_offset,)

        return eventually(fetch, f"offsets of {group}")[0]

    def produce(self, name: str) -> str:
        """Send one record to partition 0; return the code of its leader."""
        data = bytes(build_batch([Record(b"value", b"key", time.time_ns() // 1_000_000)]))
        topic = TopicProduceData(name=name, partition_data=[PartitionProduceData(index=0, records=data)])
        leader = self.metadata(name)[name].partitions
        found = self.ask(
            ProduceRequest(acks=-1, timeout=10_000, topic_data=[topic]), 9, leader[0].leader_id if leader else None
        )
        return code(found.responses[0].partition_responses[0])

    def warnings(self, topic: str) -> list[str]:
        """Return the warnings of all brokers about a topic's configuration."""
        logs = [Path(self.cluster.node(each.name).log("broker")) for each in self.cluster.plan.nodes]
        lines = [line for log in logs for line in log.read_text().splitlines()]
        return [line for line in lines if "kvorum topics alter" in line and topic in line]


def code(row: Any) -> str:
    return ErrorCode(row.error_code).name


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with clusters_in(tmp_path_factory.mktemp("internal-topics")) as start:
        cluster = Client(start("three-nodes.yaml", *SETTINGS))
        cluster.create("data")
        yield cluster


@pytest.mark.parametrize("name", INTERNAL)
def test_a_topic_created_through_metadata_has_its_own_configuration(client: Client, name: str) -> None:
    client.without(name)
    row = client.metadata(name, create=True)[name]
    assert (code(row), row.is_internal) == ("UNKNOWN_TOPIC_OR_PARTITION", True)
    assert eventually(lambda: client.shape(name), name) == (PARTITIONS, 3)
    assert client.configs(name) == CONFIGS[name]


@pytest.mark.parametrize(("kind", "name"), [(0, OFFSETS), (1, TRANSACTIONS)])
def test_a_topic_created_through_find_coordinator_has_its_own_configuration(
    client: Client, kind: int, name: str
) -> None:
    client.without(name)
    client.coordinator(kind, "key")
    assert client.shape(name) == (PARTITIONS, 3)
    assert client.configs(name) == CONFIGS[name]


@pytest.mark.parametrize("name", INTERNAL)
def test_a_client_may_create_and_delete_it_as_any_topic(client: Client, name: str) -> None:
    client.without(name)
    assert client.create(name, 2, 1, cleanup_policy="compact") == "NONE"
    assert eventually(lambda: client.shape(name), name) == (2, 1)
    assert client.configs(name) == {"cleanup.policy": "compact"}
    assert client.create(name) == "TOPIC_ALREADY_EXISTS"
    assert client.delete(name) == "NONE"
    eventually(lambda: client.shape(name) is None, f"no {name}")


def test_the_metadata_topic_is_refused(client: Client) -> None:
    assert client.create(METADATA) == "INVALID_REQUEST"
    unknown = "UNKNOWN_TOPIC_OR_PARTITION"
    found = client.delete(METADATA), client.add_partitions(METADATA, 2)
    assert (*found, client.set(METADATA, cleanup_policy="delete"), client.replace(METADATA)) == (unknown,) * 4


@pytest.mark.parametrize("name", INTERNAL)
def test_configs_are_altered_as_of_any_topic(client: Client, name: str) -> None:
    client.without(name)
    client.metadata(name, create=True)
    eventually(lambda: client.shape(name), name)
    assert client.set(name, cleanup_policy="delete") == "NONE"
    assert client.set(name, segment_bytes="1") == "INVALID_CONFIG"
    eventually(lambda: client.configs(name) == {**CONFIGS[name], "cleanup.policy": "delete"}, "the new policy")
    assert client.replace(name, retention_ms="5000") == "NONE"
    eventually(lambda: client.configs(name) == {"retention.ms": "5000"}, "one config")
    client.without(name)


def test_committed_offsets_are_found_after_partitions_were_added(client: Client) -> None:
    client.without(OFFSETS)
    for group in GROUPS:
        client.commit(group, 7)
    assert client.add_partitions(OFFSETS, 7) == "NONE"
    eventually(lambda: client.shape(OFFSETS) == (7, 3), "seven partitions")
    assert [client.committed(group) for group in GROUPS] == [7] * len(GROUPS)
    assert client.add_partitions(OFFSETS, 9) == "NONE"
    assert client.replace(OFFSETS, cleanup_policy="compact") == "NONE"
    eventually(lambda: client.configs(OFFSETS) == {"cleanup.policy": "compact"}, "one config")
    cluster = client.cluster
    for node in cluster.plan.nodes:  # a broker that starts after the change finds the same partitions
        cluster.kill(node.name)
    assert set(cluster.start().values()) == {"ready"}
    assert eventually(lambda: client.shape(OFFSETS), OFFSETS) == (9, 3)
    assert [client.committed(group) for group in GROUPS] == [7] * len(GROUPS)


def test_records_are_neither_written_nor_deleted_by_clients(client: Client) -> None:
    for name in INTERNAL:
        client.metadata(name, create=True)
        eventually(lambda name=name: client.shape(name), name)
        eventually(lambda name=name: client.produce(name) == "INVALID_TOPIC_EXCEPTION", f"a refusal of {name}")
        partition = DeleteRecordsPartition(partition_index=0, offset=0)
        request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=name, partitions=[partition])], timeout=5_000)
        assert code(client.ask(request, 2).topics[0].partitions[0]) == "INVALID_TOPIC_EXCEPTION"
    assert client.produce("no-such-topic") == "UNKNOWN_TOPIC_OR_PARTITION"
    assert client.shape("no-such-topic") is None, "Produce creates nothing"


@pytest.mark.parametrize(
    ("names", "codes"),
    [
        ([OFFSETS], ["TOPIC_AUTHORIZATION_FAILED"]),
        ([SHARE], ["TOPIC_AUTHORIZATION_FAILED"]),
        ([TRANSACTIONS, "data"], ["TOPIC_AUTHORIZATION_FAILED", "OPERATION_NOT_ATTEMPTED"]),
        ([METADATA], ["UNKNOWN_TOPIC_OR_PARTITION"]),
    ],
)
def test_no_transaction_has_a_partition_of_an_internal_topic(
    client: Client, names: list[str], codes: list[str]
) -> None:
    request = AddPartitionsToTxnRequest(v3_and_below_transactional_id="t", v3_and_below_producer_id=1)
    request.v3_and_below_topics = [AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in names]
    found = client.ask(request, 3).results_by_topic_v3_and_below
    assert [ErrorCode(each.results_by_partition[0].partition_error_code).name for each in found] == codes


def test_a_configuration_that_loses_data_is_warned_of_with_the_command_that_repairs_it(client: Client) -> None:
    client.without(OFFSETS)
    assert client.create(OFFSETS, PARTITIONS, 1) == "NONE"

    def warnings() -> list[str]:
        wrong = "cleanup.policy=delete", "replication factor is 1, not 3"
        return [line for line in client.warnings(OFFSETS) if all(each in line for each in wrong)]

    line = eventually(warnings, "a warning of both")[0]
    command = line.partition('command="')[2].rstrip('"').split()
    subprocess.run([KVORUM, *command[1:]], check=True, capture_output=True)
    assert eventually(lambda: client.shape(OFFSETS) == (PARTITIONS, 3), "three replicas")
    assert client.configs(OFFSETS) == {"cleanup.policy": "compact"}


def test_a_restored_folder_does_not_become_the_topic(client: Client, tmp_path: Path) -> None:
    client.without(OFFSETS)
    client.commit(GROUPS[0], 7)
    node = client.cluster.plan.nodes[0]
    data = Path(client.cluster.node(node.name).data)
    shutil.copytree(data / f"{OFFSETS}-0", tmp_path / "backup")
    client.without(OFFSETS)
    client.cluster.kill(node.name)
    shutil.copytree(tmp_path / "backup", data / f"{OFFSETS}-0", dirs_exist_ok=True)
    assert set(client.cluster.start(node.name).values()) == {"ready"}
    assert client.committed(GROUPS[0]) == -1
    assert client.shape(OFFSETS) == (PARTITIONS, 3)
    assert client.configs(OFFSETS) == CONFIGS[OFFSETS]
    assert list(data.glob(f"{OFFSETS}-0.*-stray")), "the folder is kept beside the new topic's"
