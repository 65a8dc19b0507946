"""The dashboard of a chaos run: what clients observe during faults."""

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
    description="Client view during faults. The faults of a chaos run are annotations.",
    variables=(CLUSTER_VARIABLE,),
    panels=(
        curves(
            "Produced records and rejected requests",
            (total(rate("kafka_server_brokertopicmetrics_messagesin_total", CLUSTER + ALL_TOPICS)), "records appended"),
            (
                total(rate("kafka_server_brokertopicmetrics_failedproducerequests_total", CLUSTER + ALL_TOPICS)),
                "produce requests rejected",
            ),
            unit="cps",
        ),
        curves(
            "Offline and under-replicated partitions",
            (highest(series("kafka_controller_kafkacontroller_offlinepartitionscount", CLUSTER)), "offline"),
            (total(series("kafka_server_replicamanager_underminisrpartitioncount", CLUSTER)), "under min ISR"),
            (total(series("kafka_server_replicamanager_underreplicatedpartitions", CLUSTER)), "under-replicated"),
        ),
        curves(
            "Produce response time",
            (quantile("0.5", "kvorum_request_seconds", "request", PRODUCE), "median"),
            (quantile("0.99", "kvorum_request_seconds", "request", PRODUCE), "99th percentile"),
            unit="s",
        ),
        curves(
            "Brokers and controllers",
            (total(series("kafka_brokers", CLUSTER)), "brokers"),
            (total(series("kafka_controller_kafkacontroller_activecontrollercount", CLUSTER)), "active controllers"),
            (highest(series("kafka_controller_kafkacontroller_fencedbrokercount", CLUSTER)), "fenced brokers"),
        ),
        curves(
            "Elections and fenced brokers",
            (total(increase("kvorum_leader_elections_total", CLUSTER)), "leader elections"),
            (total(increase("kvorum_raft_elections_total", CLUSTER)), "quorum elections"),
            (total(increase("kvorum_fast_fencings_total", CLUSTER)), "brokers fenced after refused connections"),
            (
                total(increase("kafka_controller_controllerstats_uncleanleaderelections_total", CLUSTER)),
                "unclean elections",
            ),
        ),
        curves("Event loop lag, maximum", of_each(series("kvorum_event_loop_lag_max_seconds", CLUSTER)), unit="s"),
        curves(
            "Errors returned to clients",
            by("error", rate("kafka_network_requestmetrics_errors_total", CLUSTER + ERRORS)),
            unit="reqps",
        ),
        curves("Lag", by("consumergroup", series("kafka_consumergroup_lag_sum", CLUSTER))),
    ),
)
