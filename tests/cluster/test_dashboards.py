"""Dashboards and alerts, ours and Strimzi's, ask for what the processes of a running cluster really tell."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from prometheus_client.parser import text_string_to_metric_families

from kvorum.runtime import metric_names as names
from kvorum.runtime.metric_definitions import DEFINITIONS, OF_A_NODE
from tests.cluster.clients import Sender, create_topic, eventually
from tests.cluster.conftest import clusters_in
from tests.cluster.test_observability import get, urls
from tests.monitoring import metrics_asked_for
from tests.unit.repository.test_generated_docs import tool

RECORDS = 30
SIZE_TOO_LARGE = 5_000
GROUP = "billing"

Labels = frozenset[str]
Told = dict[str, set[Labels]]
"""By metric: the label names its samples have; no samples, no entries."""

NOT_YET = {names.CONNECTIONS_REFUSED, names.CERTIFICATE_EXPIRY}
"""Told from the first time it happens on; of listeners with TLS."""

BROKER, CONTROLLER = "broker", "controller"
BOTH = (BROKER, CONTROLLER)
BY_TOPIC, BY_PARTITION = frozenset({"topic"}), frozenset({"topic", "partition"})
BY_GROUP = BY_PARTITION | {"consumergroup"}
ALONE: Labels = frozenset()
STRIMZI: dict[str, tuple[tuple[str, ...], str, Labels]] = {
    # The dashboard of brokers, and the alerts
    "kafka_server_replicamanager_leadercount": ((BROKER,), "gauge", ALONE),
    "kafka_server_replicamanager_partitioncount": ((BROKER,), "gauge", ALONE),
    "kafka_server_replicamanager_underreplicatedpartitions": ((BROKER,), "gauge", ALONE),
    "kafka_server_replicamanager_underminisrpartitioncount": ((BROKER,), "gauge", ALONE),
    "kafka_cluster_partition_atminisr": ((BROKER,), "gauge", BY_PARTITION),
    "kafka_cluster_partition_underminisr": ((BROKER,), "gauge", BY_PARTITION),
    "kafka_cluster_partition_replicascount": ((BROKER,), "gauge", BY_PARTITION),
    "kafka_controller_kafkacontroller_activecontrollercount": ((CONTROLLER,), "gauge", ALONE),
    "kafka_controller_kafkacontroller_offlinepartitionscount": ((CONTROLLER,), "gauge", ALONE),
    "kafka_controller_controllerstats_uncleanleaderelections_total": ((CONTROLLER,), "counter", ALONE),
    "kafka_server_brokertopicmetrics_bytesin_total": ((BROKER,), "counter", BY_TOPIC),
    "kafka_server_brokertopicmetrics_bytesout_total": ((BROKER,), "counter", BY_TOPIC),
    "kafka_server_brokertopicmetrics_messagesin_total": ((BROKER,), "counter", BY_TOPIC),
    "kafka_server_brokertopicmetrics_totalproducerequests_total": ((BROKER,), "counter", BY_TOPIC),
    "kafka_server_brokertopicmetrics_totalfetchrequests_total": ((BROKER,), "counter", BY_TOPIC),
    "kafka_server_brokertopicmetrics_failedproducerequests_total": ((BROKER,), "counter", BY_TOPIC),
    "kafka_server_brokertopicmetrics_failedfetchrequests_total": ((BROKER,), "counter", BY_TOPIC),
    "kafka_log_log_size": ((BROKER,), "gauge", BY_PARTITION),
    "kafka_log_logmanager_offlinelogdirectorycount": ((BROKER,), "gauge", ALONE),
    "kafka_network_socketserver_networkprocessoravgidle_percent": (BOTH, "gauge", ALONE),
    "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent": (BOTH, "gauge", ALONE),
    "kafka_server_kafkaserver_linux_disk_read_bytes": (BOTH, "gauge", ALONE),
    "kafka_server_kafkaserver_linux_disk_write_bytes": (BOTH, "gauge", ALONE),
    "kafka_server_socket_server_metrics_connection_count": (BOTH, "gauge", frozenset({"listener"})),
    "process_open_fds": (BOTH, "gauge", ALONE),
    # That of the quorum
    "kafka_server_raftmetrics_current_state": (BOTH, "gauge", frozenset({"current_state"})),
    "kafka_server_raftmetrics_current_leader": (BOTH, "gauge", ALONE),
    "kafka_server_raftmetrics_current_epoch": (BOTH, "gauge", ALONE),
    "kafka_server_raftmetrics_current_vote": (BOTH, "gauge", ALONE),
    "kafka_server_raftmetrics_high_watermark": (BOTH, "gauge", ALONE),
    "kafka_server_raftmetrics_log_end_offset": (BOTH, "gauge", ALONE),
    "kafka_server_raftmetrics_append_records_rate": (BOTH, "gauge", ALONE),
    "kafka_server_raftmetrics_fetch_records_rate": (BOTH, "gauge", ALONE),
    "kafka_server_raftmetrics_commit_latency_avg": ((CONTROLLER,), "gauge", ALONE),
    "kafka_server_raftchannelmetrics_incoming_byte_total": (BOTH, "counter", ALONE),
    "kafka_server_raftchannelmetrics_outgoing_byte_total": (BOTH, "counter", ALONE),
    "kafka_server_raftchannelmetrics_request_total": (BOTH, "counter", ALONE),
    "kafka_server_raftchannelmetrics_response_total": (BOTH, "counter", ALONE),
    # That of kafka_exporter, and what else that exporter tells
    "kafka_brokers": ((CONTROLLER,), "gauge", ALONE),
    "kafka_broker_info": ((BROKER,), "gauge", frozenset({"id", "address"})),
    "kafka_topic_partitions": ((BROKER,), "gauge", BY_TOPIC),
    "kafka_topic_partition_current_offset": ((BROKER,), "gauge", BY_PARTITION),
    "kafka_topic_partition_oldest_offset": ((BROKER,), "gauge", BY_PARTITION),
    "kafka_topic_partition_replicas": ((BROKER,), "gauge", BY_PARTITION),
    "kafka_topic_partition_in_sync_replica": ((BROKER,), "gauge", BY_PARTITION),
    "kafka_topic_partition_leader": ((BROKER,), "gauge", BY_PARTITION),
    "kafka_topic_partition_leader_is_preferred": ((BROKER,), "gauge", BY_PARTITION),
    "kafka_topic_partition_under_replicated_partition": ((BROKER,), "gauge", BY_PARTITION),
    "kafka_consumergroup_current_offset": ((BROKER,), "gauge", BY_GROUP),
    "kafka_consumergroup_lag": ((BROKER,), "gauge", BY_GROUP),
    "kafka_consumergroup_current_offset_sum": ((BROKER,), "gauge", BY_GROUP - {"partition"}),
    "kafka_consumergroup_lag_sum": ((BROKER,), "gauge", BY_GROUP - {"partition"}),
    "kafka_consumergroup_members": ((BROKER,), "gauge", frozenset({"consumergroup"})),
}
"""What Strimzi's dashboards strimzi-kafka, strimzi-kraft and strimzi-kafka-exporter and its rules for Kafka ask of us:
who tells it (of a node that is both see OF_A_NODE), its type, its labels. What they ask of Kubernetes, and of a Java
machine, is in docs/monitoring.md."""
ADDED_UP = {"process_open_fds", *(f"kafka_server_kafkaserver_linux_disk_{way}_bytes" for way in ("read", "write"))}
"""Numbers without labels that both processes of a node tell, and whose sum is right."""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Give {role: its page} of a node that was written to and read from by a group, one record of which was too large.

    The consumer is still there when the pages are read.
    """
    folder: Path = tmp_path_factory.mktemp("dashboards")
    with clusters_in(folder) as start:
        cluster = start("single.yaml", "kvorum.client.metrics.enable=true")
        bootstrap = cluster.plan.bootstrap
        create_topic(bootstrap, "orders", 3, 1, max_message_bytes="2000")
        sender = Sender(bootstrap, "orders")
        sender.send(RECORDS, partitions=3)
        sender.flush()
        assert refused_for_its_size(bootstrap, "orders", b"x" * SIZE_TOO_LARGE)
        consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": GROUP, "auto.offset.reset": "earliest"}
            | {"enable.auto.commit": False}
        )
        try:
            consumer.subscribe(["orders"])
            read = 0
            while read < RECORDS:
                message = consumer.poll(30)
                assert message is not None and message.error() is None
                read += 1
            consumer.commit(asynchronous=False)
            broker, controller, _ = urls(cluster, cluster.plan.nodes[0].name)

            def settled() -> dict[str, str] | None:
                found = {BROKER: get(f"{broker}/metrics")[1], CONTROLLER: get(f"{controller}/metrics")[1]}
                return (
                    found if f'{names.CONSUMERGROUP_MEMBERS}{{consumergroup="{GROUP}"}} 1.0' in found[BROKER] else None
                )

            yield eventually(settled, "the group told of")
        finally:
            consumer.close()


def refused_for_its_size(bootstrap: str, topic: str, value: bytes) -> bool:
    """Send a record; tell whether it was refused as too large."""
    codes: list[int] = []
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    producer.produce(topic, value, on_delivery=lambda error, _: codes.append(0 if error is None else error.code()))
    producer.flush(30)
    return codes == [KafkaError.MSG_SIZE_TOO_LARGE]


def told_on(page: str) -> tuple[Told, dict[str, str]]:
    """Return the label names of each metric's samples, and each metric's type."""
    reported: Told = {}
    types: dict[str, str] = {}
    for family in text_string_to_metric_families(page):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        types[name] = family.type
        for sample in family.samples:
            reported.setdefault(sample.name, set()).add(frozenset(sample.labels))
    return reported, types


def test_metrics_of_dashboards_and_alerts_are_exported(pages: dict[str, str]) -> None:
    reported = {name for page in pages.values() for name in told_on(page)[0]}
    types = {name for page in pages.values() for name in told_on(page)[1]}
    requested = metrics_asked_for()
    assert len(requested) > 60
    assert requested - reported == requested & NOT_YET
    assert types >= NOT_YET


def test_strimzis_dashboards_find_their_metrics_at_the_expected_process(pages: dict[str, str]) -> None:
    for role, page in pages.items():
        reported, types = told_on(page)
        for name, (roles, kind, labels) in STRIMZI.items():
            if role in roles and OF_A_NODE.get(name, role) == role:
                assert reported.get(name) == {labels}, (role, name)
                assert types[name] == kind, (role, name)
            else:
                assert name not in reported, (role, name)


def test_metrics_summed_by_pod_are_exported_by_one_process(pages: dict[str, str]) -> None:
    """Broker and controller are two targets with the labels of one pod, and Kafka's is one process."""
    reported = {role: told_on(page)[0] for role, page in pages.items()}
    twice = {name for name in STRIMZI if all(reported[role].get(name) == {ALONE} for role in BOTH)}
    assert twice == ADDED_UP
    assert all(name in reported[role] for name, role in OF_A_NODE.items())


def test_every_defined_metric_is_exported_by_the_documented_process(pages: dict[str, str]) -> None:
    types = {role: told_on(page)[1].keys() for role, page in pages.items()}
    exposed_by = {
        name: "both" if all(name in each for each in types.values()) else "".join(r for r in types if name in types[r])
        for name in DEFINITIONS
    }
    assert exposed_by == tool().processes_by_metric() | OF_A_NODE


def test_every_exported_metric_is_documented(pages: dict[str, str]) -> None:
    reported = {name for page in pages.values() for name in told_on(page)[1]}
    assert {name for name in reported - DEFINITIONS.keys() if not name.startswith("process_")} == set()


def test_where_the_time_of_requests_goes_is_reported_in_quantiles(pages: dict[str, str]) -> None:
    lines = dict(line.rsplit(" ", 1) for line in pages[BROKER].splitlines() if not line.startswith("#"))
    for request in ("Produce", "Fetch", "FetchConsumer", "OffsetCommit"):
        for stage in ("requestqueue", "local", "remote", "throttle", "responsequeue", "responsesend", "total"):
            for quantile in ("0.50", "0.75", "0.95", "0.98", "0.99", "0.999"):
                labels = f'quantile="{quantile}",request="{request}"'
                assert float(lines[f"kafka_network_requestmetrics_{stage}timems{{{labels}}}"]) >= 0
    produced = 'request="Produce"'
    count = lines[f"kvorum_request_seconds_count{{{produced}}}"]
    assert lines[f"kafka_network_requestmetrics_totaltimems_count{{{produced}}}"] == count


def test_lag_and_refused_bytes_are_right(pages: dict[str, str]) -> None:
    lines = pages[BROKER].splitlines()
    assert (
        f'{names.CONSUMERGROUP_CURRENT_OFFSET_SUM}{{consumergroup="{GROUP}",topic="orders"}} {float(RECORDS)}' in lines
    )
    assert f'{names.CONSUMERGROUP_LAG_SUM}{{consumergroup="{GROUP}",topic="orders"}} 0.0' in lines
    (refused,) = [line for line in lines if line.startswith(f'{names.BYTES_REJECTED}{{topic="orders"}}')]
    assert float(refused.split()[-1]) > SIZE_TOO_LARGE
    assert f"{names.BROKERS} 1.0" in pages[CONTROLLER].splitlines()
