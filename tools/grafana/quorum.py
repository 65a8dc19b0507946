"""The dashboard of the metadata quorum: leader, elections, commits, decisions of the active controller."""

from typing import Final

from grafana.expressions import CLUSTER, LATE, PROCESS, highest, increase, of_each, quantile, rate, series, total
from grafana.panels import ACTIVE_CONTROLLERS, CLUSTER_VARIABLE, INSTANCE_VARIABLE, Dashboard, Panel, curves, row, stat

HIGH_WATERMARK: Final = "kafka_server_raftmetrics_high_watermark"
ACTIVE: Final = "kafka_controller_kafkacontroller_activecontrollercount"


STATE: Final = "kafka_server_raftmetrics_current_state"
EVENT: Final = "kafka_controller_controllereventmanager_eventqueue"
VOTERS: Final = ',current_state!="observer"'
"""Excludes brokers, which are observers of the quorum."""


def by_active(name: str) -> str:
    """Return a metric of the active controller. Other controllers also export it, but may lag."""
    return f"{series(name, CLUSTER)} and on (instance) {series(ACTIVE, CLUSTER)} == 1"


QUORUM: Final = Dashboard(
    uid="kvorum-quorum",
    title="Kvorum: KRaft quorum",
    description="The controllers, their elections and their log.",
    variables=(CLUSTER_VARIABLE, INSTANCE_VARIABLE),
    panels=(
        stat(
            "Leader",
            highest(series("kafka_server_raftmetrics_current_leader", CLUSTER)),
            "Node id of the leader; -1: none.",
            red_below=0,
        ),
        stat(
            "Epoch", highest(series("kafka_server_raftmetrics_current_epoch", CLUSTER)), "Incremented by each election."
        ),
        stat("Voters", highest(series("kafka_server_raftmetrics_number_of_voters", CLUSTER))),
        stat(
            "Observers",
            highest(series("kafka_server_raftmetrics_number_of_observers", CLUSTER)),
            "Brokers that fetch the metadata log.",
        ),
        stat(
            "Fenced brokers",
            highest(series("kafka_controller_kafkacontroller_fencedbrokercount", CLUSTER)),
            "Registered brokers that are fenced.",
            red_from=1,
        ),
        ACTIVE_CONTROLLERS,
        Panel(
            title="State of each controller",
            targets=((series(STATE, PROCESS + VOTERS), "{{instance}} {{current_state}}"),),
            kind="state-timeline",
        ),
        curves("Epoch", of_each(series("kafka_server_raftmetrics_current_epoch", PROCESS))),
        curves(
            "Vote and leader",
            of_each(series("kafka_server_raftmetrics_current_vote", PROCESS), "vote: "),
            of_each(series("kafka_server_raftmetrics_current_leader", PROCESS), "leader: "),
        ),
        curves("Elections", of_each(increase("kvorum_raft_elections_total", PROCESS), "candidate: ")),
        curves(
            "Election time",
            of_each(series("kafka_server_raftmetrics_election_latency_avg", PROCESS), "mean "),
            of_each(series("kafka_server_raftmetrics_election_latency_max", PROCESS), "maximum "),
            unit="ms",
        ),
        row("The metadata log"),
        curves(
            "High watermark lag",
            of_each(
                f"{highest(series(HIGH_WATERMARK, CLUSTER))} - on () group_right () {series(HIGH_WATERMARK, PROCESS)}"
            ),
            description="Records. The scrapes are not simultaneous, so a few records are normal.",
        ),
        curves("Log end offset", of_each(series("kafka_server_raftmetrics_log_end_offset", PROCESS))),
        curves(
            "Commit latency",
            of_each(series("kafka_server_raftmetrics_commit_latency_avg", PROCESS), "mean "),
            of_each(series("kafka_server_raftmetrics_commit_latency_max", PROCESS), "maximum "),
            unit="ms",
        ),
        curves(
            "Journal sync time, 99th percentile",
            of_each(quantile("0.99", "kvorum_journal_sync_seconds", "instance", PROCESS)),
            unit="s",
        ),
        curves(
            "Records",
            of_each(series("kafka_server_raftmetrics_append_records_rate", PROCESS), "appended by "),
            of_each(series("kafka_server_raftmetrics_fetch_records_rate", PROCESS), "replicated by "),
            unit="cps",
        ),
        curves(
            "Broker metadata lag",
            of_each(
                f"{highest(series(HIGH_WATERMARK, CLUSTER))} - on () group_right () "
                + series("kafka_server_broker_metadata_metrics_last_applied_record_offset", PROCESS)
            ),
            description="Records. The value 1 means no lag: the last offset is one below the log end offset.",
        ),
        curves(
            "Broker metadata age",
            of_each(series("kafka_server_broker_metadata_metrics_last_applied_record_lag_ms", PROCESS)),
            unit="ms",
            description="Time since the last applied record. In an idle cluster it is the time since the last change.",
        ),
        row("Between controllers"),
        curves(
            "Bytes between controllers",
            of_each(rate("kafka_server_raftchannelmetrics_incoming_byte_total", PROCESS), "in "),
            of_each(rate("kafka_server_raftchannelmetrics_outgoing_byte_total", PROCESS), "out "),
            unit="Bps",
        ),
        curves(
            "Messages between controllers",
            of_each(rate("kafka_server_raftchannelmetrics_request_total", PROCESS), "sent "),
            of_each(rate("kafka_server_raftchannelmetrics_response_total", PROCESS), "received "),
            unit="cps",
        ),
        row("Active controller"),
        curves(
            "Leaders elected",
            (total(increase("kvorum_leader_elections_total", CLUSTER)), "all"),
            (
                total(increase("kafka_controller_controllerstats_electionfromeligibleleaderreplicas_total", CLUSTER)),
                "eligible (KIP-966)",
            ),
            (total(increase("kafka_controller_controllerstats_uncleanleaderelections_total", CLUSTER)), "unclean"),
        ),
        curves(
            "Brokers",
            (by_active("kafka_controller_kafkacontroller_activebrokercount"), "active"),
            (by_active("kafka_controller_kafkacontroller_fencedbrokercount"), "fenced"),
        ),
        curves(
            "Not led by their preferred replica",
            (by_active("kafka_controller_kafkacontroller_preferredreplicaimbalancecount"), "partitions"),
        ),
        curves(
            "Metadata change time, 99th percentile",
            of_each(
                series(f"{EVENT}timems", PROCESS + LATE),
                "in queue: ",
            ),
            of_each(
                series(f"{EVENT}processingtimems", PROCESS + LATE),
                "processing: ",
            ),
            unit="ms",
        ),
        curves(
            "Controller event loop idle share",
            of_each(series("kafka_controller_controllereventmanager_avgidleratio", PROCESS)),
            unit="percentunit",
        ),
    ),
)
