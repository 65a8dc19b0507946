"""Metrics count cheaply and come out as Prometheus reads them."""

import re
import subprocess
import sys

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kvorum.runtime import metric_names as names
from kvorum.runtime import metrics as module
from kvorum.runtime.metric_definitions import DEFINITIONS
from kvorum.runtime.metrics import Metrics


def values(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Return every sample of the rendered text by name and labels, read by Prometheus' own parser."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(metrics.render().decode())
        for sample in family.samples
    }


def test_a_counter_counts_a_label_value_apart() -> None:
    metrics = Metrics()
    bytes_in = metrics.counter(names.BYTES_IN)
    bytes_in.labels("orders").add(100)
    bytes_in.labels("orders").add(5)
    bytes_in.labels("audit").add()
    found = values(metrics)
    assert found["kafka_server_brokertopicmetrics_bytesin_total", (("topic", "orders"),)] == 105
    assert found["kafka_server_brokertopicmetrics_bytesin_total", (("topic", "audit"),)] == 1


def test_a_gauge_is_set_moved_or_followed() -> None:
    metrics, led = Metrics(), ["a", "b"]
    metrics.gauge(names.PARTITION_COUNT).labels().set(7)
    metrics.gauge(names.PARTITION_COUNT).labels().add(-2)
    metrics.gauge(names.LEADER_COUNT).labels().follow(lambda: len(led))
    assert values(metrics)["kafka_server_replicamanager_partitioncount", ()] == 5
    assert values(metrics)["kafka_server_replicamanager_leadercount", ()] == 2
    led.append("c")
    assert values(metrics)["kafka_server_replicamanager_leadercount", ()] == 3


def test_a_family_can_be_sampled_at_the_time_of_the_scrape() -> None:
    metrics, sizes = Metrics(), {("orders", 0): 10.0, ("orders", 1): 20.0}
    metrics.gauge(names.LOG_SIZE).sample(lambda: [((topic, str(p)), size) for (topic, p), size in sizes.items()])
    assert values(metrics)["kafka_log_log_size", (("partition", "1"), ("topic", "orders"))] == 20
    del sizes["orders", 1]
    assert ("kafka_log_log_size", (("partition", "1"), ("topic", "orders"))) not in values(metrics)


def test_a_histogram_counts_up_to_each_bound() -> None:
    metrics = Metrics()
    seconds = metrics.histogram("kvorum_test_seconds", "For this test", ("request",), bounds=(0.1, 1.0)).labels("Fetch")
    for value in (0.05, 0.1, 0.5, 3.0):
        seconds.observe(value)
    found = values(metrics)
    buckets = {dict(labels)["le"]: value for (name, labels), value in found.items() if name.endswith("_bucket")}
    assert buckets == {"0.1": 2, "1.0": 3, "+Inf": 4}
    assert found["kvorum_test_seconds_count", (("request", "Fetch"),)] == 4
    assert found["kvorum_test_seconds_sum", (("request", "Fetch"),)] == pytest.approx(3.65)


def test_asking_again_gives_the_same_family_and_the_same_child() -> None:
    metrics = Metrics()
    assert metrics.counter(names.BYTES_IN) is metrics.counter(names.BYTES_IN)
    assert metrics.counter(names.BYTES_IN).labels("a") is metrics.counter(names.BYTES_IN).labels("a")
    assert metrics.gauge(names.LOG_SIZE).labels("a", 1) is metrics.gauge(names.LOG_SIZE).labels("a", "1")


def test_a_removed_child_is_no_longer_shown() -> None:
    metrics = Metrics()
    metrics.counter(names.BYTES_IN).labels("gone").add()
    metrics.counter(names.BYTES_IN).remove("gone")
    metrics.counter(names.BYTES_IN).remove("never")
    assert b"gone" not in metrics.render()


def test_label_values_are_exported_unchanged() -> None:
    metrics = Metrics()
    metrics.gauge("kvorum_test", "For this test", ("client",)).labels('a"b\\c\nd é').set(1)
    assert values(metrics)["kvorum_test", (("client", 'a"b\\c\nd é'),)] == 1


def test_excess_label_values_are_dropped_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHILDREN_MAX", 2)
    metrics = Metrics()
    for topic in ("a", "b", "c", "d"):
        metrics.counter(names.BYTES_IN).labels(topic).add()
    found = values(metrics)
    assert sum(name == names.BYTES_IN for name, _ in found) == 2
    assert found[names.METRICS_OVERFLOWED, ()] == 1


def test_the_process_itself_is_measured() -> None:
    found = values(Metrics())
    assert found["process_resident_memory_bytes", ()] > 1_000_000
    assert found[names.METRICS_OVERFLOWED, ()] == 0


def test_two_registries_know_nothing_of_each_other() -> None:
    one, other = Metrics(), Metrics()
    one.counter(names.ISR_SHRINKS).labels().add(3)
    other.counter(names.ISR_SHRINKS).labels().add(4)
    assert values(one)[names.ISR_SHRINKS, ()] == 3
    assert values(other)[names.ISR_SHRINKS, ()] == 4


def test_our_own_mistakes_are_caught() -> None:
    metrics = Metrics()
    metrics.gauge(names.LOG_SIZE)
    with pytest.raises(AssertionError, match="another type"):
        metrics.histogram(names.LOG_SIZE)
    with pytest.raises(AssertionError, match="labels"):
        metrics.gauge(names.LOG_SIZE).labels("only-a-topic")
    with pytest.raises(AssertionError, match="_total"):
        metrics.counter("kvorum_things", "Things")
    with pytest.raises(AssertionError, match="missing in metric_definitions"):
        metrics.gauge("kvorum_things")
    with pytest.raises(AssertionError, match="has labels"):
        metrics.counter(names.BYTES_IN, labels=("partition",))


BEANS_LABELS = {"clientId", "delayedOperation", "logDirectory"}
"""The JMX exporter's rules put names in lower case, and leave labels as Kafka's beans have them."""


@pytest.mark.parametrize("name", DEFINITIONS)
def test_every_name_is_one_prometheus_takes(name: str) -> None:
    definition = DEFINITIONS[name]
    assert re.fullmatch(r"(kafka|kvorum)_[a-z0-9_]+", name)
    own = [label for label in definition.labels if label not in BEANS_LABELS]
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", label) for label in own)
    assert definition.help
    constants = [key for key, value in vars(names).items() if value == name]
    assert len(constants) == 1


# What Strimzi's dashboards and alerts ask for by name.
DASHBOARDS = [
    "kafka_server_replicamanager_leadercount",
    "kafka_server_replicamanager_partitioncount",
    "kafka_server_replicamanager_underreplicatedpartitions",
    "kafka_server_replicamanager_underminisrpartitioncount",
    "kafka_controller_kafkacontroller_activecontrollercount",
    "kafka_controller_kafkacontroller_offlinepartitionscount",
    "kafka_controller_controllerstats_uncleanleaderelections_total",
    "kafka_server_brokertopicmetrics_bytesin_total",
    "kafka_server_brokertopicmetrics_bytesout_total",
    "kafka_server_brokertopicmetrics_messagesin_total",
    "kafka_server_brokertopicmetrics_totalproducerequests_total",
    "kafka_server_brokertopicmetrics_totalfetchrequests_total",
    "kafka_server_brokertopicmetrics_failedproducerequests_total",
    "kafka_server_brokertopicmetrics_failedfetchrequests_total",
    "kafka_log_log_size",
    "kafka_log_logmanager_offlinelogdirectorycount",
    "kafka_cluster_partition_underminisr",
    "kafka_cluster_partition_atminisr",
    "kafka_cluster_partition_replicascount",
    "kafka_network_socketserver_networkprocessoravgidle_percent",
    "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
    "kafka_server_socket_server_metrics_connection_count",
    "kafka_server_raftmetrics_current_state",
    "kafka_server_raftmetrics_current_leader",
    "kafka_server_raftmetrics_current_epoch",
    "kafka_server_raftmetrics_current_vote",
    "kafka_server_raftmetrics_high_watermark",
    "kafka_server_raftmetrics_log_end_offset",
    "kafka_server_raftmetrics_append_records_rate",
    "kafka_server_raftmetrics_fetch_records_rate",
    "kafka_server_raftmetrics_commit_latency_avg",
    "kafka_server_raftchannelmetrics_incoming_byte_total",
    "kafka_server_raftchannelmetrics_outgoing_byte_total",
    "kafka_server_raftchannelmetrics_request_total",
    "kafka_server_raftchannelmetrics_response_total",
    "kafka_consumergroup_lag",
    "kafka_topic_partitions",
]


@pytest.mark.parametrize("name", DASHBOARDS)
def test_metrics_of_the_dashboards_exist(name: str) -> None:
    assert name in DEFINITIONS


def test_the_library_is_imported_only_for_a_scrape() -> None:
    script = (
        "import sys\n"
        "from kvorum.runtime.metrics import Metrics\n"
        "Metrics().gauge('kvorum_x', 'x').labels().set(1)\n"
        "print('prometheus_client' in sys.modules)\n"
    )
    assert (
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "False\n"
    )
