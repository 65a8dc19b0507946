"""The dashboard of a cluster: its health and its traffic."""

from typing import Final

from grafana.expressions import (
    ALL_TOPICS,
    CLUSTER,
    EACH_TOPIC,
    ERRORS,
    LATE,
    OF_APIS,
    PROCESS,
    Target,
    by,
    highest,
    of_each,
    quantile,
    rate,
    series,
    total,
)
from grafana.panels import ACTIVE_CONTROLLERS, CLUSTER_VARIABLE, INSTANCE_VARIABLE, Dashboard, curves, row, stat

STAGES: Final = {
    "requestqueuetimems": "in queue",
    "localtimems": "broker",
    "remotetimems": "waiting for replicas or data",
    "responsequeuetimems": "waiting for earlier responses",
    "totaltimems": "total",
}


def stage_of(request: str, stage: str, label: str) -> Target:
    """Return the duration of a stage of a request, on the slowest broker."""
    selected = f'{PROCESS},request="{request}"{LATE}'
    return highest(series(f"kafka_network_requestmetrics_{stage}", selected)), label


def room(where: str) -> str:
    """Return the share of each log directory's volume that is free."""
    return f"{series('kvorum_log_directory_free_bytes', where)} / {series('kvorum_log_directory_total_bytes', where)}"


CLUSTERS: Final = Dashboard(
    uid="kvorum-cluster",
    title="Kvorum: cluster",
    description="Health and traffic of a cluster.",
    variables=(CLUSTER_VARIABLE, INSTANCE_VARIABLE),
    panels=(
        stat(
            "Brokers",
            total(series("kafka_brokers", CLUSTER)),
            "Brokers that are not fenced, reported by the active controller.",
            red_below=1,
        ),
        ACTIVE_CONTROLLERS,
        stat(
            "Offline partitions",
            highest(series("kafka_controller_kafkacontroller_offlinepartitionscount", CLUSTER)),
            "Partitions without a leader: they cannot be read or written.",
            red_from=1,
        ),
        stat(
            "Under min ISR",
            total(series("kafka_server_replicamanager_underminisrpartitioncount", CLUSTER)),
            "These partitions reject acks=all.",
            red_from=1,
        ),
        stat(
            "Under-replicated",
            total(series("kafka_server_replicamanager_underreplicatedpartitions", CLUSTER)),
            "Partitions with a replica that is out of sync.",
            red_from=1,
        ),
        stat(
            "Offline log directories",
            total(series("kafka_log_logmanager_offlinelogdirectorycount", CLUSTER)),
            "A failed directory stays offline until its broker is restarted.",
            red_from=1,
        ),
        stat(
            "Free space of the fullest disk",
            f"min({room(CLUSTER)})",
            "Free share of the volume.",
            red_below=0.15,
        ),
        row("Traffic"),
        curves(
            "Bytes from producers",
            by("instance", rate("kafka_server_brokertopicmetrics_bytesin_total", PROCESS + ALL_TOPICS)),
            unit="Bps",
            description="Sum of all topics.",
        ),
        curves(
            "Bytes to consumers",
            by("instance", rate("kafka_server_brokertopicmetrics_bytesout_total", PROCESS + ALL_TOPICS)),
            unit="Bps",
        ),
        curves(
            "Records from producers",
            by("instance", rate("kafka_server_brokertopicmetrics_messagesin_total", PROCESS + ALL_TOPICS)),
            unit="cps",
        ),
        curves(
            "Replication",
            (total(rate("kafka_server_brokertopicmetrics_replicationbytesin_total", PROCESS)), "in"),
            (total(rate("kafka_server_brokertopicmetrics_replicationbytesout_total", PROCESS)), "out"),
            unit="Bps",
        ),
        curves(
            "Follower lag, maximum",
            of_each(series("kafka_server_replicafetchermanager_maxlag", PROCESS)),
            description="Committed records that a follower has not fetched yet. A few records are normal.",
        ),
        row("Requests"),
        curves(
            "Requests",
            by("request", rate("kafka_network_requestmetrics_requests_total", PROCESS + OF_APIS)),
            unit="reqps",
        ),
        curves(
            "Responses with an error",
            by("request, error", rate("kafka_network_requestmetrics_errors_total", PROCESS + ERRORS + OF_APIS)),
            unit="reqps",
            description="Top-level error codes. Failed requests per topic include errors of single partitions.",
        ),
        curves(
            "Response time, 99th percentile",
            (quantile("0.99", "kvorum_request_seconds", "request", PROCESS), "{{request}}"),
            unit="s",
            description="A Fetch waits for data for up to fetch.max.wait.ms. This is normal.",
        ),
        curves(
            "Produce time per stage, 99th percentile",
            *(stage_of("Produce", stage, label) for stage, label in STAGES.items()),
            unit="ms",
            description="Slowest broker. acks=all waits for replicas.",
        ),
        curves(
            "Consumer Fetch time per stage, 99th percentile",
            *(stage_of("FetchConsumer", stage, label) for stage, label in STAGES.items()),
            unit="ms",
            description="Slowest broker. A Fetch without data waits for up to fetch.max.wait.ms.",
        ),
        curves(
            "Failed requests per topic",
            by(
                "topic",
                rate("kafka_server_brokertopicmetrics_failedproducerequests_total", PROCESS + EACH_TOPIC),
                "produce ",
            ),
            by(
                "topic",
                rate("kafka_server_brokertopicmetrics_failedfetchrequests_total", PROCESS + EACH_TOPIC),
                "fetch ",
            ),
            unit="reqps",
        ),
        curves(
            "Waiting requests",
            by("delayedOperation", series("kafka_server_delayedoperationpurgatory_numdelayedoperations", PROCESS)),
            description="Produce waits for replicas, Fetch for data.",
        ),
        curves(
            "Connections",
            by("instance, listener", series("kafka_server_socket_server_metrics_connection_count", PROCESS)),
        ),
        curves(
            "New connections",
            by("listener", rate("kafka_server_socket_server_metrics_connection_creation_total", PROCESS)),
            by("reason", rate("kvorum_connections_refused_total", PROCESS), "rejected: "),
            unit="cps",
        ),
        row("Replicas"),
        curves("Partitions led", by("instance", series("kafka_server_replicamanager_leadercount", PROCESS))),
        curves(
            "ISR changes",
            (total(rate("kafka_server_replicamanager_isrshrinks_total", PROCESS)), "shrunk"),
            (total(rate("kafka_server_replicamanager_isrexpands_total", PROCESS)), "expanded"),
            (total(rate("kafka_server_replicamanager_failedisrupdates_total", PROCESS)), "rejected"),
            unit="cps",
        ),
        curves("Log size", by("instance", series("kafka_log_log_size", PROCESS)), unit="bytes"),
        curves(
            "Free disk space",
            (room(PROCESS), "{{instance}} {{logDirectory}}"),
            unit="percentunit",
            description="Free share of the volume of each log directory.",
        ),
        curves(
            "Log cleaner",
            of_each(
                f"max by (instance) ({series('kafka_log_logcleanermanager_max_dirty_percent', PROCESS)})",
                "dirty ratio ",
            ),
            unit="percent",
        ),
    ),
)
