"""What the dashboards show: a table each, from which tools/generate_grafana.py writes configs/grafana/*.json.

A target is an expression and its legend. Sums over a cluster are right because of who tells what: a partition its
leader, a group its coordinator, the number of brokers the active controller (docs/monitoring.md).
"""

from dataclasses import dataclass, field
from typing import Final

CLUSTER: Final = 'cluster=~"$cluster"'
PROCESS: Final = 'cluster=~"$cluster",instance=~"$instance"'
TOPIC: Final = 'cluster=~"$cluster",topic=~"$topic"'
GROUP: Final = 'cluster=~"$cluster",consumergroup=~"$consumergroup",topic=~"$topic"'
RATE: Final = "[$__rate_interval]"
ACTIVE: Final = f"kafka_controller_kafkacontroller_activecontrollercount{{{CLUSTER}}} == 1"
"""The active controller: others know the cluster, too, but may be behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One panel, or a row's heading. `red_from`, `red_below`: where a value wants somebody to look."""

    title: str
    targets: tuple[tuple[str, str], ...] = ()
    kind: str = "timeseries"
    unit: str = "short"
    description: str = ""
    red_from: float | None = None
    red_below: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    """One file. `variables`: name and label_values() query."""

    uid: str
    title: str
    description: str
    panels: tuple[Panel, ...] = field(default=())
    variables: tuple[tuple[str, str], ...] = ()


CLUSTER_VARIABLE: Final = ("cluster", "label_values(kvorum_build_info, cluster)")
INSTANCE_VARIABLE: Final = ("instance", f"label_values(kvorum_build_info{{{CLUSTER}}}, instance)")
TOPIC_VARIABLE: Final = ("topic", f"label_values(kafka_topic_partitions{{{CLUSTER}}}, topic)")
GROUP_VARIABLE: Final = ("consumergroup", f"label_values(kafka_consumergroup_members{{{CLUSTER}}}, consumergroup)")


def stat(title: str, expression: str, description: str = "", **limits: float) -> Panel:
    """Return a single number."""
    return Panel(title=title, targets=((expression, ""),), kind="stat", description=description, **limits)  # type: ignore[arg-type]


def row(title: str) -> Panel:
    """Return a heading."""
    return Panel(title=title, kind="row")


def curves(title: str, *targets: tuple[str, str], unit: str = "short", description: str = "") -> Panel:
    """Return curves over time."""
    return Panel(title=title, targets=targets, unit=unit, description=description)


def quantile(share: str, name: str, by: str, where: str) -> str:
    """Return a quantile of a histogram, of each value of some labels."""
    return f"histogram_quantile({share}, sum by (le, {by}) (rate({name}_bucket{{{where}}}{RATE})))"


OVERVIEW: Final = Dashboard(
    uid="kvorum-cluster",
    title="Kvorum: cluster",
    description="Whether all is well, and what goes through.",
    variables=(CLUSTER_VARIABLE, INSTANCE_VARIABLE),
    panels=(
        stat("Brokers", f"sum(kafka_brokers{{{CLUSTER}}})", "Not fenced, as the active controller knows.", red_below=1),
        stat(
            "Active controllers",
            f"sum(kafka_controller_kafkacontroller_activecontrollercount{{{CLUSTER}}})",
            "One, but for the moment of an election.",
            red_below=1,
        ),
        stat(
            "Offline partitions",
            f"max(kafka_controller_kafkacontroller_offlinepartitionscount{{{CLUSTER}}})",
            "Without a leader: nobody can write or read them.",
            red_from=1,
        ),
        stat(
            "Under min ISR",
            f"sum(kafka_server_replicamanager_underminisrpartitioncount{{{CLUSTER}}})",
            "acks=all is refused there.",
            red_from=1,
        ),
        stat(
            "Under-replicated",
            f"sum(kafka_server_replicamanager_underreplicatedpartitions{{{CLUSTER}}})",
            "A replica is behind or gone.",
            red_from=1,
        ),
        stat(
            "Offline log directories",
            f"sum(kafka_log_logmanager_offlinelogdirectorycount{{{CLUSTER}}})",
            "A disk failed and is out of service until its broker starts again.",
            red_from=1,
        ),
        row("What goes through"),
        curves(
            "Bytes from producers",
            (
                f'sum by (instance) (rate(kafka_server_brokertopicmetrics_bytesin_total{{{PROCESS},topic=""}}{RATE}))',
                "{{instance}}",
            ),
            unit="Bps",
            description="The row without a topic is that of all topics.",
        ),
        curves(
            "Bytes to consumers",
            (
                f'sum by (instance) (rate(kafka_server_brokertopicmetrics_bytesout_total{{{PROCESS},topic=""}}{RATE}))',
                "{{instance}}",
            ),
            unit="Bps",
        ),
        curves(
            "Records from producers",
            (
                "sum by (instance) "
                f'(rate(kafka_server_brokertopicmetrics_messagesin_total{{{PROCESS},topic=""}}{RATE}))',
                "{{instance}}",
            ),
            unit="cps",
        ),
        curves(
            "Replication",
            (f"sum(rate(kafka_server_brokertopicmetrics_replicationbytesin_total{{{PROCESS}}}{RATE}))", "in"),
            (f"sum(rate(kafka_server_brokertopicmetrics_replicationbytesout_total{{{PROCESS}}}{RATE}))", "out"),
            unit="Bps",
        ),
        row("Requests"),
        curves(
            "Requests",
            (f"sum by (request) (rate(kafka_network_requestmetrics_requests_total{{{PROCESS}}}{RATE}))", "{{request}}"),
            unit="reqps",
        ),
        curves(
            "Requests answered with an error",
            (
                "sum by (request, error) "
                f'(rate(kafka_network_requestmetrics_errors_total{{{PROCESS},error!="NONE"}}{RATE}))',
                "{{request}} {{error}}",
            ),
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
            "Failed by topic",
            (
                "sum by (topic) "
                f'(rate(kafka_server_brokertopicmetrics_failedproducerequests_total{{{PROCESS},topic!=""}}{RATE}))',
                "produce {{topic}}",
            ),
            (
                "sum by (topic) "
                f'(rate(kafka_server_brokertopicmetrics_failedfetchrequests_total{{{PROCESS},topic!=""}}{RATE}))',
                "fetch {{topic}}",
            ),
            unit="reqps",
        ),
        curves(
            "Waiting requests",
            (
                f"sum by (delayedoperation) (kafka_server_delayedoperationpurgatory_purgatorysize{{{PROCESS}}})",
                "{{delayedoperation}}",
            ),
            description="Produce waits for replicas, Fetch for data.",
        ),
        curves(
            "Connections",
            (
                f"sum by (instance, listener) (kafka_server_socket_server_metrics_connection_count{{{PROCESS}}})",
                "{{instance}} {{listener}}",
            ),
        ),
        curves(
            "Connections made",
            (
                "sum by (listener) "
                f"(rate(kafka_server_socket_server_metrics_connection_creation_total{{{PROCESS}}}{RATE}))",
                "{{listener}}",
            ),
            (f"sum by (reason) (rate(kvorum_connections_refused_total{{{PROCESS}}}{RATE}))", "refused: {{reason}}"),
            unit="cps",
        ),
        row("Replicas"),
        curves(
            "Partitions led",
            (f"sum by (instance) (kafka_server_replicamanager_leadercount{{{PROCESS}}})", "{{instance}}"),
        ),
        curves(
            "In-sync sets that changed",
            (f"sum(rate(kafka_server_replicamanager_isrshrinks_total{{{PROCESS}}}{RATE}))", "shrunk"),
            (f"sum(rate(kafka_server_replicamanager_isrexpands_total{{{PROCESS}}}{RATE}))", "expanded"),
            (f"sum(rate(kafka_server_replicamanager_failedisrupdates_total{{{PROCESS}}}{RATE}))", "refused"),
            unit="cps",
        ),
        curves("Log size", (f"sum by (instance) (kafka_log_log_size{{{PROCESS}}})", "{{instance}}"), unit="bytes"),
        curves(
            "Log cleaner",
            (
                f"max by (instance) (kafka_log_logcleanermanager_max_dirty_percent{{{PROCESS}}})",
                "dirtiest {{instance}}",
            ),
            unit="percent",
        ),
    ),
)

QUORUM: Final = Dashboard(
    uid="kvorum-quorum",
    title="Kvorum: KRaft quorum",
    description="The controllers, their elections and their log.",
    variables=(CLUSTER_VARIABLE, INSTANCE_VARIABLE),
    panels=(
        stat(
            "Leader",
            f"max(kafka_server_raftmetrics_current_leader{{{CLUSTER}}})",
            "Its node id; -1: nobody.",
            red_below=0,
        ),
        stat("Epoch", f"max(kafka_server_raftmetrics_current_epoch{{{CLUSTER}}})", "One more with each election."),
        stat("Voters", f"max(kafka_server_raftmetrics_number_of_voters{{{CLUSTER}}})"),
        stat("Observers", f"max(kafka_server_raftmetrics_number_of_observers{{{CLUSTER}}})", "Brokers that follow."),
        stat(
            "Fenced brokers",
            f"max(kafka_controller_kafkacontroller_fencedbrokercount{{{CLUSTER}}})",
            "Registered, and out of service.",
            red_from=1,
        ),
        stat(
            "Active controllers",
            f"sum(kafka_controller_kafkacontroller_activecontrollercount{{{CLUSTER}}})",
            "One, but for the moment of an election.",
            red_below=1,
        ),
        Panel(
            title="State of each controller",
            targets=((f"kafka_server_raftmetrics_current_state{{{PROCESS}}}", "{{instance}} {{current_state}}"),),
            kind="state-timeline",
        ),
        curves("Epoch", (f"kafka_server_raftmetrics_current_epoch{{{PROCESS}}}", "{{instance}}")),
        curves(
            "Vote and leader",
            (f"kafka_server_raftmetrics_current_vote{{{PROCESS}}}", "vote of {{instance}}"),
            (f"kafka_server_raftmetrics_current_leader{{{PROCESS}}}", "leader to {{instance}}"),
        ),
        curves("Elections", (f"increase(kvorum_raft_elections_total{{{PROCESS}}}{RATE})", "candidate: {{instance}}")),
        curves(
            "Time of an election",
            (f"kafka_server_raftmetrics_election_latency_avg{{{PROCESS}}}", "mean {{instance}}"),
            (f"kafka_server_raftmetrics_election_latency_max{{{PROCESS}}}", "longest {{instance}}"),
            unit="ms",
        ),
        row("The metadata log"),
        curves(
            "High watermark behind the leader's",
            (
                f"max(kafka_server_raftmetrics_high_watermark{{{CLUSTER}}}) - on () group_right () "
                f"kafka_server_raftmetrics_high_watermark{{{PROCESS}}}",
                "{{instance}}",
            ),
            description="Records. Scrapes are not taken at one moment: some records are no lag.",
        ),
        curves(
            "Log end offset",
            (f"kafka_server_raftmetrics_log_end_offset{{{PROCESS}}}", "{{instance}}"),
        ),
        curves(
            "From append to commit",
            (f"kafka_server_raftmetrics_commit_latency_avg{{{PROCESS}}}", "mean {{instance}}"),
            (f"kafka_server_raftmetrics_commit_latency_max{{{PROCESS}}}", "longest {{instance}}"),
            unit="ms",
        ),
        curves(
            "Forcing the journal to disk, 99th percentile",
            (quantile("0.99", "kvorum_journal_sync_seconds", "instance", PROCESS), "{{instance}}"),
            unit="s",
        ),
        curves(
            "Records",
            (f"kafka_server_raftmetrics_append_records_rate{{{PROCESS}}}", "appended by {{instance}}"),
            (f"kafka_server_raftmetrics_fetch_records_rate{{{PROCESS}}}", "replicated by {{instance}}"),
            unit="cps",
        ),
        curves(
            "Metadata of brokers: age",
            (f"kafka_server_broker_metadata_metrics_last_applied_record_lag_ms{{{PROCESS}}}", "{{instance}}"),
            unit="ms",
            description="Since the last record: in a quiet cluster the time since the last change.",
        ),
        row("Between controllers"),
        curves(
            "Bytes between controllers",
            (f"rate(kafka_server_raftchannelmetrics_incoming_byte_total{{{PROCESS}}}{RATE})", "in {{instance}}"),
            (f"rate(kafka_server_raftchannelmetrics_outgoing_byte_total{{{PROCESS}}}{RATE})", "out {{instance}}"),
            unit="Bps",
        ),
        curves(
            "Messages between controllers",
            (f"rate(kafka_server_raftchannelmetrics_request_total{{{PROCESS}}}{RATE})", "sent {{instance}}"),
            (f"rate(kafka_server_raftchannelmetrics_response_total{{{PROCESS}}}{RATE})", "received {{instance}}"),
            unit="cps",
        ),
        row("The active controller's decisions"),
        curves(
            "Leaders elected",
            (f"sum(increase(kafka_controller_controllerstats_leaderelection_total{{{CLUSTER}}}{RATE}))", "all"),
            (
                "sum(increase(kafka_controller_controllerstats_electionfromeligibleleaderreplicas_total"
                f"{{{CLUSTER}}}{RATE}))",
                "eligible (KIP-966)",
            ),
            (
                f"sum(increase(kafka_controller_controllerstats_uncleanleaderelections_total{{{CLUSTER}}}{RATE}))",
                "unclean",
            ),
        ),
        curves(
            "Brokers",
            (f"kafka_controller_kafkacontroller_activebrokercount{{{CLUSTER}}} and on (instance) {ACTIVE}", "active"),
            (f"kafka_controller_kafkacontroller_fencedbrokercount{{{CLUSTER}}} and on (instance) {ACTIVE}", "fenced"),
        ),
        curves(
            "Not led by their preferred replica",
            (
                f"kafka_controller_kafkacontroller_preferredreplicaimbalancecount{{{CLUSTER}}} "
                f"and on (instance) {ACTIVE}",
                "partitions",
            ),
        ),
        curves(
            "Idle share of the controllers' loops",
            (f"kafka_controller_controllereventmanager_avgidleratio{{{PROCESS}}}", "{{instance}}"),
            unit="percentunit",
        ),
    ),
)

TOPICS: Final = Dashboard(
    uid="kvorum-topics",
    title="Kvorum: topics and partitions",
    description="What each topic takes in, gives out and holds, and which partitions are not as they should be.",
    variables=(CLUSTER_VARIABLE, TOPIC_VARIABLE),
    panels=(
        stat("Topics", f"count(kafka_topic_partitions{{{TOPIC}}})"),
        stat("Partitions", f"sum(kafka_topic_partitions{{{TOPIC}}})"),
        stat("Replicas", f"sum(kafka_topic_partition_replicas{{{TOPIC}}})"),
        stat("In sync", f"sum(kafka_topic_partition_in_sync_replica{{{TOPIC}}})"),
        stat(
            "Under-replicated",
            f"sum(kafka_topic_partition_under_replicated_partition{{{TOPIC}}})",
            red_from=1,
        ),
        stat("Under min ISR", f"sum(kafka_cluster_partition_underminisr{{{TOPIC}}})", red_from=1),
        curves(
            "Bytes in",
            (
                f'sum by (topic) (rate(kafka_server_brokertopicmetrics_bytesin_total{{{TOPIC},topic!=""}}{RATE}))',
                "{{topic}}",
            ),
            unit="Bps",
        ),
        curves(
            "Bytes out",
            (
                f'sum by (topic) (rate(kafka_server_brokertopicmetrics_bytesout_total{{{TOPIC},topic!=""}}{RATE}))',
                "{{topic}}",
            ),
            unit="Bps",
        ),
        curves(
            "Records in, by the ends of the partitions",
            (f"sum by (topic) (rate(kafka_topic_partition_current_offset{{{TOPIC}}}{RATE}))", "{{topic}}"),
            unit="cps",
            description="High watermarks: what consumers can read, markers of transactions included.",
        ),
        curves(
            "Requests for a topic",
            (
                "sum by (topic) "
                f'(rate(kafka_server_brokertopicmetrics_totalproducerequests_total{{{TOPIC},topic!=""}}{RATE}))',
                "produce {{topic}}",
            ),
            (
                "sum by (topic) "
                f'(rate(kafka_server_brokertopicmetrics_totalfetchrequests_total{{{TOPIC},topic!=""}}{RATE}))',
                "fetch {{topic}}",
            ),
            unit="reqps",
        ),
        curves(
            "Size of all replicas",
            (f"sum by (topic) (kafka_log_log_size{{{TOPIC}}})", "{{topic}}"),
            unit="bytes",
        ),
        curves(
            "Records held",
            (
                f"sum by (topic) (kafka_topic_partition_current_offset{{{TOPIC}}} "
                f"- kafka_topic_partition_oldest_offset{{{TOPIC}}})",
                "{{topic}}",
            ),
            description="By offsets: of a compacted topic more than there are.",
        ),
        curves("Segments", (f"sum by (topic) (kafka_log_log_numlogsegments{{{TOPIC}}})", "{{topic}}")),
        curves(
            "Partitions that are not as they should be",
            (f"sum(kafka_topic_partition_under_replicated_partition{{{TOPIC}}})", "under-replicated"),
            (f"sum(kafka_cluster_partition_underminisr{{{TOPIC}}})", "under min ISR"),
            (f"sum(kafka_cluster_partition_atminisr{{{TOPIC}}})", "at min ISR"),
            (f"sum(kafka_topic_partition_leader_is_preferred{{{TOPIC}}} < bool 1)", "not led by the preferred replica"),
        ),
        Panel(
            title="Under-replicated partitions",
            targets=((f"kafka_topic_partition_under_replicated_partition{{{TOPIC}}} == 1", ""),),
            kind="table",
        ),
        Panel(
            title="The largest partitions",
            targets=((f"topk(20, max by (topic, partition) (kafka_log_log_size{{{TOPIC}}}))", ""),),
            kind="table",
            unit="bytes",
        ),
    ),
)

LAG: Final = Dashboard(
    uid="kvorum-consumer-lag",
    title="Kvorum: consumer groups and lag",
    description="How far consumers are behind. Told by the coordinator of each group: no exporter is needed.",
    variables=(CLUSTER_VARIABLE, GROUP_VARIABLE, TOPIC_VARIABLE),
    panels=(
        stat("Groups", f"sum(kafka_server_group_coordinator_metrics_group_count{{{CLUSTER}}})"),
        stat("Members", f'sum(kafka_consumergroup_members{{{CLUSTER},consumergroup=~"$consumergroup"}})'),
        stat("Records behind", f"sum(kafka_consumergroup_lag{{{GROUP}}})"),
        stat("Farthest behind", f"max(kafka_consumergroup_lag_sum{{{GROUP}}})", "A group and a topic."),
        curves(
            "Lag",
            (
                f"sum by (consumergroup, topic) (kafka_consumergroup_lag_sum{{{GROUP}}})",
                "{{consumergroup}} {{topic}}",
            ),
            description="Records between the committed offset and the high watermark.",
        ),
        curves(
            "Seconds behind, at the pace of now",
            (
                f"sum by (consumergroup, topic) (kafka_consumergroup_lag_sum{{{GROUP}}}) / "
                "clamp_min(sum by (consumergroup, topic) "
                f"(rate(kafka_consumergroup_current_offset_sum{{{GROUP}}}{RATE})), 0.01)",
                "{{consumergroup}} {{topic}}",
            ),
            unit="s",
            description="How long the group would need for what is there, were nothing added.",
        ),
        curves(
            "Records consumed",
            (
                f"sum by (consumergroup, topic) (rate(kafka_consumergroup_current_offset_sum{{{GROUP}}}{RATE}))",
                "{{consumergroup}} {{topic}}",
            ),
            unit="cps",
            description="By commits.",
        ),
        curves(
            "Members",
            (
                f'sum by (consumergroup) (kafka_consumergroup_members{{{CLUSTER},consumergroup=~"$consumergroup"}})',
                "{{consumergroup}}",
            ),
        ),
        curves(
            "Lag by partition",
            (f"topk(30, kafka_consumergroup_lag{{{GROUP}}})", "{{consumergroup}} {{topic}}-{{partition}}"),
            description="The thirty largest.",
        ),
        curves(
            "Rebalances",
            (
                f"sum(rate(kafka_server_group_coordinator_metrics_group_completed_rebalance_total{{{CLUSTER}}}{RATE}))",
                "classic",
            ),
            (
                f"sum(rate(kafka_server_group_coordinator_metrics_consumer_group_rebalance_total{{{CLUSTER}}}{RATE}))",
                "consumer (KIP-848)",
            ),
            unit="cps",
        ),
        curves(
            "Classic groups by state",
            (f"sum(kafka_coordinator_group_groupmetadatamanager_numgroupsstable{{{CLUSTER}}})", "stable"),
            (
                f"sum(kafka_coordinator_group_groupmetadatamanager_numgroupspreparingrebalance{{{CLUSTER}}})",
                "preparing rebalance",
            ),
            (
                f"sum(kafka_coordinator_group_groupmetadatamanager_numgroupscompletingrebalance{{{CLUSTER}}})",
                "completing rebalance",
            ),
            (f"sum(kafka_coordinator_group_groupmetadatamanager_numgroupsempty{{{CLUSTER}}})", "empty"),
            (f"sum(kafka_coordinator_group_groupmetadatamanager_numgroupsdead{{{CLUSTER}}})", "dead"),
        ),
        curves(
            "Consumer groups by state",
            (
                f"sum by (state) (kafka_server_group_coordinator_metrics_consumer_group_count{{{CLUSTER}}})",
                "{{state}}",
            ),
        ),
        curves(
            "Offsets",
            (f"sum(rate(kafka_server_group_coordinator_metrics_offset_commit_total{{{CLUSTER}}}{RATE}))", "committed"),
            (
                f"sum(rate(kafka_server_group_coordinator_metrics_offset_expiration_total{{{CLUSTER}}}{RATE}))",
                "expired",
            ),
            (f"sum(rate(kafka_server_group_coordinator_metrics_offset_deletion_total{{{CLUSTER}}}{RATE}))", "deleted"),
            unit="cps",
        ),
        curves(
            "Transactions",
            (
                f"sum(kafka_server_replicamanager_partitionswithlatetransactionscount{{{CLUSTER}}})",
                "partitions with a hanging one",
            ),
            (
                "sum(kafka_coordinator_transaction_transactionmarkerchannelmanager_unknowndestinationqueuesize"
                f"{{{CLUSTER}}})",
                "markers without a leader",
            ),
            (
                "sum(kafka_coordinator_transaction_transactionmarkerchannelmanager_logappendretryqueuesize"
                f"{{{CLUSTER}}})",
                "markers that wait for another try",
            ),
        ),
    ),
)

PROCESSES: Final = Dashboard(
    uid="kvorum-process",
    title="Kvorum: processes and event loops",
    description="Each broker and controller is one process with one event loop: how late it is, and what it uses.",
    variables=(CLUSTER_VARIABLE, INSTANCE_VARIABLE),
    panels=(
        stat(
            "Latest event loop",
            f"max(kvorum_event_loop_lag_max_seconds{{{PROCESS}}})",
            "Seconds, the most of the last minute.",
            red_from=0.5,
        ),
        stat(
            "Least idle loop",
            f"min(kafka_network_socketserver_networkprocessoravgidle_percent{{{PROCESS}}})",
            "Share of time without work, 0 to 1.",
            red_below=0.1,
        ),
        stat("Processes", f"count(kvorum_build_info{{{PROCESS}}})"),
        stat("Metrics that overflowed", f"sum(kvorum_metrics_overflowed{{{PROCESS}}})", red_from=1),
        curves(
            "Event loop: late by, 99th percentile",
            (quantile("0.99", "kvorum_event_loop_lag_seconds", "instance", PROCESS), "{{instance}}"),
            unit="s",
        ),
        curves(
            "Event loop: late by, at most",
            (f"kvorum_event_loop_lag_max_seconds{{{PROCESS}}}", "{{instance}}"),
            unit="s",
        ),
        curves(
            "Idle share",
            (f"kafka_network_socketserver_networkprocessoravgidle_percent{{{PROCESS}}}", "{{instance}}"),
            unit="percentunit",
            description="Of the loop's thread. Request handlers and network share it: both metrics say the same.",
        ),
        curves(
            "Processor",
            (f"rate(process_cpu_seconds_total{{{PROCESS}}}{RATE})", "{{instance}}"),
            unit="percentunit",
            description="All threads; 1 is a core.",
        ),
        curves("Memory", (f"process_resident_memory_bytes{{{PROCESS}}}", "{{instance}}"), unit="bytes"),
        curves(
            "Open files, share of the limit",
            (f"process_open_fds{{{PROCESS}}} / process_max_fds{{{PROCESS}}}", "{{instance}}"),
            unit="percentunit",
        ),
        curves(
            "Disk",
            (f"rate(kafka_server_kafkaserver_linux_disk_read_bytes{{{PROCESS}}}{RATE})", "read {{instance}}"),
            (f"rate(kafka_server_kafkaserver_linux_disk_write_bytes{{{PROCESS}}}{RATE})", "written {{instance}}"),
            unit="Bps",
            description="What went to or came from disks; what the page cache served is not in it.",
        ),
        curves(
            "Forcing logs to disk, 99th percentile",
            (quantile("0.99", "kvorum_log_flush_seconds", "instance", PROCESS), "{{instance}}"),
            unit="s",
        ),
        curves(
            "Requests that wait for the loop",
            (f"kafka_network_requestchannel_requestqueuesize{{{PROCESS}}}", "{{instance}}"),
        ),
        curves(
            "Bytes of requests that wait",
            (f"kvorum_queued_request_bytes{{{PROCESS}}}", "{{instance}}"),
            unit="bytes",
        ),
        Panel(
            title="What runs",
            targets=((f"kvorum_build_info{{{PROCESS}}}", ""),),
            kind="table",
        ),
        Panel(
            title="State of each broker",
            targets=((f"kafka_server_kafkaserver_brokerstate{{{PROCESS}}}", "{{instance}}"),),
            kind="table",
            description="1 starting, 2 fenced, 3 running, 6 and 7 shutting down.",
        ),
    ),
)

CHAOS: Final = Dashboard(
    uid="kvorum-chaos",
    title="Kvorum: chaos",
    description="What clients feel while faults come and go; the faults of a run are annotations.",
    variables=(CLUSTER_VARIABLE,),
    panels=(
        curves(
            "Records acknowledged or not",
            (
                f'sum(rate(kafka_server_brokertopicmetrics_messagesin_total{{{CLUSTER},topic=""}}{RATE}))',
                "records taken in",
            ),
            (
                f'sum(rate(kafka_server_brokertopicmetrics_failedproducerequests_total{{{CLUSTER},topic=""}}{RATE}))',
                "produce requests refused",
            ),
            unit="cps",
        ),
        curves(
            "Partitions that are not served, or not safe",
            (f"max(kafka_controller_kafkacontroller_offlinepartitionscount{{{CLUSTER}}})", "offline"),
            (f"sum(kafka_server_replicamanager_underminisrpartitioncount{{{CLUSTER}}})", "under min ISR"),
            (f"sum(kafka_server_replicamanager_underreplicatedpartitions{{{CLUSTER}}})", "under-replicated"),
        ),
        curves(
            "Time to answer a Produce",
            (quantile("0.5", "kvorum_request_seconds", "request", CLUSTER + ',request="Produce"'), "median"),
            (quantile("0.99", "kvorum_request_seconds", "request", CLUSTER + ',request="Produce"'), "99th percentile"),
            unit="s",
        ),
        curves(
            "Who is there",
            (f"sum(kafka_brokers{{{CLUSTER}}})", "brokers"),
            (f"sum(kafka_controller_kafkacontroller_activecontrollercount{{{CLUSTER}}})", "active controllers"),
            (f"max(kafka_controller_kafkacontroller_fencedbrokercount{{{CLUSTER}}})", "fenced brokers"),
        ),
        curves(
            "Elections and fencings",
            (f"sum(increase(kafka_controller_controllerstats_leaderelection_total{{{CLUSTER}}}{RATE}))", "leaders"),
            (f"sum(increase(kvorum_raft_elections_total{{{CLUSTER}}}{RATE}))", "candidates of the quorum"),
            (f"sum(increase(kvorum_fast_fencings_total{{{CLUSTER}}}{RATE}))", "brokers fenced at once"),
            (
                f"sum(increase(kafka_controller_controllerstats_uncleanleaderelections_total{{{CLUSTER}}}{RATE}))",
                "unclean leaders",
            ),
        ),
        curves(
            "Event loops: late by, at most",
            (f"kvorum_event_loop_lag_max_seconds{{{CLUSTER}}}", "{{instance}}"),
            unit="s",
        ),
        curves(
            "Errors that clients got",
            (
                f'sum by (error) (rate(kafka_network_requestmetrics_errors_total{{{CLUSTER},error!="NONE"}}{RATE}))',
                "{{error}}",
            ),
            unit="reqps",
        ),
        curves("Lag", (f"sum by (consumergroup) (kafka_consumergroup_lag_sum{{{CLUSTER}}})", "{{consumergroup}}")),
    ),
)

DASHBOARDS: Final = (OVERVIEW, QUORUM, TOPICS, LAG, PROCESSES, CHAOS)
