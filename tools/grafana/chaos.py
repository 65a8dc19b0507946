"""What clients feel while faults come and go."""

from typing import Final

from grafana.expressions import (
    ALL_TOPICS,
    CLUSTER,
    ERRORS,
    by,
    highest,
    increase,
    of_each,
    quantile,
    rate,
    series,
    total,
)
from grafana.panels import CLUSTER_VARIABLE, Dashboard, curves

PRODUCE: Final = f'{CLUSTER},request="Produce"'

CHAOS: Final = Dashboard(
    uid="kvorum-chaos",
    title="Kvorum: chaos",
    description="What clients feel while faults come and go; the faults of a run are annotations.",
    variables=(CLUSTER_VARIABLE,),
    panels=(
        curves(
            "Records acknowledged or not",
            (total(rate("kafka_server_brokertopicmetrics_messagesin_total", CLUSTER + ALL_TOPICS)), "records taken in"),
            (
                total(rate("kafka_server_brokertopicmetrics_failedproducerequests_total", CLUSTER + ALL_TOPICS)),
                "produce requests refused",
            ),
            unit="cps",
        ),
        curves(
            "Partitions that are not served, or not safe",
            (highest(series("kafka_controller_kafkacontroller_offlinepartitionscount", CLUSTER)), "offline"),
            (total(series("kafka_server_replicamanager_underminisrpartitioncount", CLUSTER)), "under min ISR"),
            (total(series("kafka_server_replicamanager_underreplicatedpartitions", CLUSTER)), "under-replicated"),
        ),
        curves(
            "Time to answer a Produce",
            (quantile("0.5", "kvorum_request_seconds", "request", PRODUCE), "median"),
            (quantile("0.99", "kvorum_request_seconds", "request", PRODUCE), "99th percentile"),
            unit="s",
        ),
        curves(
            "Who is there",
            (total(series("kafka_brokers", CLUSTER)), "brokers"),
            (total(series("kafka_controller_kafkacontroller_activecontrollercount", CLUSTER)), "active controllers"),
            (highest(series("kafka_controller_kafkacontroller_fencedbrokercount", CLUSTER)), "fenced brokers"),
        ),
        curves(
            "Elections and fencings",
            (total(increase("kvorum_leader_elections_total", CLUSTER)), "leaders"),
            (total(increase("kvorum_raft_elections_total", CLUSTER)), "candidates of the quorum"),
            (total(increase("kvorum_fast_fencings_total", CLUSTER)), "brokers fenced at once"),
            (
                total(increase("kafka_controller_controllerstats_uncleanleaderelections_total", CLUSTER)),
                "unclean leaders",
            ),
        ),
        curves(
            "Event loops: late by, at most", of_each(series("kvorum_event_loop_lag_max_seconds", CLUSTER)), unit="s"
        ),
        curves(
            "Errors that clients got",
            by("error", rate("kafka_network_requestmetrics_errors_total", CLUSTER + ERRORS)),
            unit="reqps",
        ),
        curves("Lag", by("consumergroup", series("kafka_consumergroup_lag_sum", CLUSTER))),
    ),
)
