"""Whether a cluster is well, and what goes through it."""

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
    "requestqueuetimems": "waits for its turn",
    "localtimems": "broker",
    "remotetimems": "replicas or data",
    "responsequeuetimems": "answers before it",
    "totaltimems": "all",
}


def stage_of(request: str, stage: str, what: str) -> Target:
    """Return what a stage of a request takes at most on any broker."""
    selected = f'{PROCESS},request="{request}"{LATE}'
    return highest(series(f"kafka_network_requestmetrics_{stage}", selected)), what


def room(where: str) -> str:
    """Return the share of each log directory's volume that is free."""
    return f"{series('kvorum_log_directory_free_bytes', where)} / {series('kvorum_log_directory_total_bytes', where)}"


CLUSTERS: Final = Dashboard(
    uid="kvorum-cluster",
    title="Kvorum: cluster",
    description="Whether all is well, and what goes through.",
    variables=(CLUSTER_VARIABLE, INSTANCE_VARIABLE),
    panels=(
        stat(
            "Brokers",
            total(series("kafka_brokers", CLUSTER)),
            "Not fenced, as the active controller knows.",
            red_below=1,
        ),
        ACTIVE_CONTROLLERS,
        stat(
            "Offline partitions",
            highest(series("kafka_controller_kafkacontroller_offlinepartitionscount", CLUSTER)),
            "Without a leader: nobody can write or read them.",
            red_from=1,
        ),
        stat(
            "Under min ISR",
            total(series("kafka_server_replicamanager_underminisrpartitioncount", CLUSTER)),
            "acks=all is refused there.",
            red_from=1,
        ),
        stat(
            "Under-replicated",
            total(series("kafka_server_replicamanager_underreplicatedpartitions", CLUSTER)),
            "A replica is behind or gone.",
            red_from=1,
        ),
        stat(
            "Offline log directories",
            total(series("kafka_log_logmanager_offlinelogdirectorycount", CLUSTER)),
            "A disk failed and is out of service until its broker starts again.",
            red_from=1,
        ),
        stat(
            "Room on the fullest disk",
            f"min({room(CLUSTER)})",
            "Share of its volume that is free.",
            red_below=0.15,
        ),
        row("What goes through"),
        curves(
            "Bytes from producers",
            by("instance", rate("kafka_server_brokertopicmetrics_bytesin_total", PROCESS + ALL_TOPICS)),
            unit="Bps",
            description="The row without a topic is that of all topics.",
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
            "Followers behind, at most",
            of_each(series("kafka_server_replicafetchermanager_maxlag", PROCESS)),
            description="Committed records that a broker lacks of a partition it follows. Some are no lag.",
        ),
        row("Requests"),
        curves(
            "Requests",
            by("request", rate("kafka_network_requestmetrics_requests_total", PROCESS + OF_APIS)),
            unit="reqps",
        ),
        curves(
            "Requests answered with an error",
            by("request, error", rate("kafka_network_requestmetrics_errors_total", PROCESS + ERRORS + OF_APIS)),
            unit="reqps",
            description="The code at the answer's top. Errors of single partitions are in the topics' failed requests.",
        ),
        curves(
            "Time to answer, 99th percentile",
            (quantile("0.99", "kvorum_request_seconds", "request", PROCESS), "{{request}}"),
            unit="s",
            description="A Fetch that waits for data takes up to its fetch.max.wait.ms: that is no fault.",
        ),
        curves(
            "Where the time of a Produce goes, 99th percentiles",
            *(stage_of("Produce", stage, what) for stage, what in STAGES.items()),
            unit="ms",
            description="Of the slowest broker. Replicas are what acks=all waits for.",
        ),
        curves(
            "Where the time of a consumer's Fetch goes, 99th percentiles",
            *(stage_of("FetchConsumer", stage, what) for stage, what in STAGES.items()),
            unit="ms",
            description="Of the slowest broker. One that finds nothing waits for data, up to its fetch.max.wait.ms.",
        ),
        curves(
            "Failed by topic",
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
            "Connections made",
            by("listener", rate("kafka_server_socket_server_metrics_connection_creation_total", PROCESS)),
            by("reason", rate("kvorum_connections_refused_total", PROCESS), "refused: "),
            unit="cps",
        ),
        row("Replicas"),
        curves("Partitions led", by("instance", series("kafka_server_replicamanager_leadercount", PROCESS))),
        curves(
            "In-sync sets that changed",
            (total(rate("kafka_server_replicamanager_isrshrinks_total", PROCESS)), "shrunk"),
            (total(rate("kafka_server_replicamanager_isrexpands_total", PROCESS)), "expanded"),
            (total(rate("kafka_server_replicamanager_failedisrupdates_total", PROCESS)), "refused"),
            unit="cps",
        ),
        curves("Log size", by("instance", series("kafka_log_log_size", PROCESS)), unit="bytes"),
        curves(
            "Room on the disks",
            (room(PROCESS), "{{instance}} {{logDirectory}}"),
            unit="percentunit",
            description="Share of each log directory's volume that is free.",
        ),
        curves(
            "Log cleaner",
            of_each(
                f"max by (instance) ({series('kafka_log_logcleanermanager_max_dirty_percent', PROCESS)})", "dirtiest "
            ),
            unit="percent",
        ),
    ),
)
