"""Names of all metrics, with their labels and what they count.

Names follow the JMX exporter (`kafka_DOMAIN_TYPE_NAME`, `_total` for counts, lower case), as existing dashboards and
alerts for Kafka ask for them; consumer lag and topics follow kafka_exporter; `kvorum_` is what only we have.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class MetricDef:
    """One metric's help text and label names, in order."""

    help: str
    labels: tuple[str, ...] = ()


# Data plane (Strimzi's dashboards and alerts ask for these)
BYTES_IN = "kafka_server_brokertopicmetrics_bytesin_total"
BYTES_OUT = "kafka_server_brokertopicmetrics_bytesout_total"
MESSAGES_IN = "kafka_server_brokertopicmetrics_messagesin_total"
REPLICATION_BYTES_IN = "kafka_server_brokertopicmetrics_replicationbytesin_total"
REPLICATION_BYTES_OUT = "kafka_server_brokertopicmetrics_replicationbytesout_total"
REASSIGNMENT_BYTES_IN = "kafka_server_brokertopicmetrics_reassignmentbytesin_total"
REASSIGNMENT_BYTES_OUT = "kafka_server_brokertopicmetrics_reassignmentbytesout_total"
LEADER_REPLICATION_RATE = "kafka_server_leaderreplication_byte_rate"
FOLLOWER_REPLICATION_RATE = "kafka_server_followerreplication_byte_rate"
TOTAL_PRODUCE_REQUESTS = "kafka_server_brokertopicmetrics_totalproducerequests_total"
TOTAL_FETCH_REQUESTS = "kafka_server_brokertopicmetrics_totalfetchrequests_total"
FAILED_PRODUCE_REQUESTS = "kafka_server_brokertopicmetrics_failedproducerequests_total"
FAILED_FETCH_REQUESTS = "kafka_server_brokertopicmetrics_failedfetchrequests_total"
BYTES_REJECTED = "kafka_server_brokertopicmetrics_bytesrejected_total"

# Client quotas
QUOTA_PRODUCE_BYTE_RATE = "kafka_server_produce_byte_rate"
QUOTA_PRODUCE_THROTTLE_TIME = "kafka_server_produce_throttle_time"
QUOTA_FETCH_BYTE_RATE = "kafka_server_fetch_byte_rate"
QUOTA_FETCH_THROTTLE_TIME = "kafka_server_fetch_throttle_time"
QUOTA_REQUEST_TIME = "kafka_server_request_request_time"
QUOTA_REQUEST_THROTTLE_TIME = "kafka_server_request_throttle_time"
QUOTA_MUTATION_TOKENS = "kafka_server_controllermutation_tokens"
QUOTA_MUTATION_THROTTLE_TIME = "kafka_server_controllermutation_throttle_time"

# Replicas
LEADER_COUNT = "kafka_server_replicamanager_leadercount"
PARTITION_COUNT = "kafka_server_replicamanager_partitioncount"
OFFLINE_REPLICA_COUNT = "kafka_server_replicamanager_offlinereplicacount"
UNDER_REPLICATED_PARTITIONS = "kafka_server_replicamanager_underreplicatedpartitions"
REASSIGNING_PARTITIONS = "kafka_server_replicamanager_reassigningpartitions"
UNDER_MIN_ISR_PARTITION_COUNT = "kafka_server_replicamanager_underminisrpartitioncount"
AT_MIN_ISR_PARTITION_COUNT = "kafka_server_replicamanager_atminisrpartitioncount"
ISR_SHRINKS = "kafka_server_replicamanager_isrshrinks_total"
ISR_EXPANDS = "kafka_server_replicamanager_isrexpands_total"
FAILED_ISR_UPDATES = "kafka_server_replicamanager_failedisrupdates_total"
MOVES_MAX_LAG = "kafka_server_replicaalterlogdirsmanager_maxlag"
MOVES_FAILED_PARTITIONS = "kafka_server_replicaalterlogdirsmanager_failedpartitionscount"
MOVES_DEAD_THREADS = "kafka_server_replicaalterlogdirsmanager_deadthreadcount"
PARTITION_UNDER_MIN_ISR = "kafka_cluster_partition_underminisr"
PARTITION_AT_MIN_ISR = "kafka_cluster_partition_atminisr"
PARTITION_REPLICAS_COUNT = "kafka_cluster_partition_replicascount"
PARTITION_IN_SYNC_REPLICAS_COUNT = "kafka_cluster_partition_insyncreplicascount"
PARTITIONS_WITH_LATE_TRANSACTIONS = "kafka_server_replicamanager_partitionswithlatetransactionscount"
PRODUCER_ID_COUNT = "kafka_server_replicamanager_produceridcount"
DELAYED_OPERATIONS = "kafka_server_delayedoperationpurgatory_purgatorysize"
FETCH_SESSIONS = "kafka_server_fetchsessioncache_numincrementalfetchsessions"

# Logs
LOG_SIZE = "kafka_log_log_size"
LOG_START_OFFSET = "kafka_log_log_logstartoffset"
LOG_END_OFFSET = "kafka_log_log_logendoffset"
LOG_SEGMENTS = "kafka_log_log_numlogsegments"
OFFLINE_LOG_DIRECTORY_COUNT = "kafka_log_logmanager_offlinelogdirectorycount"
CLEANER_MAX_DIRTY_PERCENT = "kafka_log_logcleanermanager_max_dirty_percent"
CLEANER_TIME_SINCE_LAST_RUN_MS = "kafka_log_logcleanermanager_time_since_last_run_ms"
CLEANER_UNCLEANABLE_PARTITIONS = "kafka_log_logcleanermanager_uncleanable_partitions_count"
CLEANER_UNCLEANABLE_BYTES = "kafka_log_logcleanermanager_uncleanable_bytes"
CLEANER_BUFFER_UTILIZATION = "kafka_log_logcleaner_max_buffer_utilization_percent"
CLEANER_RECOPY_PERCENT = "kafka_log_logcleaner_cleaner_recopy_percent"
CLEANER_MAX_CLEAN_SECONDS = "kafka_log_logcleaner_max_clean_time_secs"
CLEANER_MAX_COMPACTION_DELAY_SECONDS = "kafka_log_logcleaner_max_compaction_delay_secs"
CLEANER_DEAD_THREADS = "kafka_log_logcleaner_deadthreadcount"
LOG_FLUSHES = "kafka_log_logflushstats_logflush_total"
LOG_FLUSH_SECONDS = "kvorum_log_flush_seconds"

# Network and requests
REQUESTS = "kafka_network_requestmetrics_requests_total"
REQUEST_ERRORS = "kafka_network_requestmetrics_errors_total"
REQUEST_SECONDS = "kvorum_request_seconds"
CONNECTION_COUNT = "kafka_server_socket_server_metrics_connection_count"
CONNECTION_CREATION = "kafka_server_socket_server_metrics_connection_creation_total"
CONNECTION_CLOSE = "kafka_server_socket_server_metrics_connection_close_total"
CONNECTIONS_REFUSED = "kvorum_connections_refused_total"
QUEUED_REQUESTS = "kafka_network_requestchannel_requestqueuesize"
QUEUED_REQUEST_BYTES = "kvorum_queued_request_bytes"
NETWORK_PROCESSOR_AVG_IDLE = "kafka_network_socketserver_networkprocessoravgidle_percent"
REQUEST_HANDLER_AVG_IDLE = "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent"
EVENT_LOOP_LAG = "kvorum_event_loop_lag_seconds"
EVENT_LOOP_LAG_MAX = "kvorum_event_loop_lag_max_seconds"

# Transactions
VERIFICATION_FAILURES = "kafka_server_addpartitionstotxnmanager_verificationfailurerate_total"
VERIFICATION_MS = "kafka_server_addpartitionstotxnmanager_verificationtimems"
MARKERS_WITHOUT_LEADER = "kafka_coordinator_transaction_transactionmarkerchannelmanager_unknowndestinationqueuesize"
MARKERS_RETRIED = "kafka_coordinator_transaction_transactionmarkerchannelmanager_logappendretryqueuesize"

# Groups
GROUP_OFFSETS = "kafka_coordinator_group_groupmetadatamanager_numoffsets"
GROUPS = "kafka_coordinator_group_groupmetadatamanager_numgroups"
GROUPS_PREPARING_REBALANCE = "kafka_coordinator_group_groupmetadatamanager_numgroupspreparingrebalance"
GROUPS_COMPLETING_REBALANCE = "kafka_coordinator_group_groupmetadatamanager_numgroupscompletingrebalance"
GROUPS_STABLE = "kafka_coordinator_group_groupmetadatamanager_numgroupsstable"
GROUPS_DEAD = "kafka_coordinator_group_groupmetadatamanager_numgroupsdead"
GROUPS_EMPTY = "kafka_coordinator_group_groupmetadatamanager_numgroupsempty"
GROUPS_BY_PROTOCOL = "kafka_server_group_coordinator_metrics_group_count"
CONSUMER_GROUPS_BY_STATE = "kafka_server_group_coordinator_metrics_consumer_group_count"
OFFSET_COMMITS = "kafka_server_group_coordinator_metrics_offset_commit_total"
OFFSET_EXPIRATIONS = "kafka_server_group_coordinator_metrics_offset_expiration_total"
OFFSET_DELETIONS = "kafka_server_group_coordinator_metrics_offset_deletion_total"
GROUP_COMPLETED_REBALANCES = "kafka_server_group_coordinator_metrics_group_completed_rebalance_total"
CONSUMER_GROUP_REBALANCES = "kafka_server_group_coordinator_metrics_consumer_group_rebalance_total"

# Controller
ACTIVE_CONTROLLER_COUNT = "kafka_controller_kafkacontroller_activecontrollercount"
ACTIVE_BROKER_COUNT = "kafka_controller_kafkacontroller_activebrokercount"
FENCED_BROKER_COUNT = "kafka_controller_kafkacontroller_fencedbrokercount"
GLOBAL_TOPIC_COUNT = "kafka_controller_kafkacontroller_globaltopiccount"
GLOBAL_PARTITION_COUNT = "kafka_controller_kafkacontroller_globalpartitioncount"
OFFLINE_PARTITIONS_COUNT = "kafka_controller_kafkacontroller_offlinepartitionscount"
PREFERRED_REPLICA_IMBALANCE_COUNT = "kafka_controller_kafkacontroller_preferredreplicaimbalancecount"
LAST_APPLIED_RECORD_OFFSET = "kafka_controller_kafkacontroller_lastappliedrecordoffset"
LAST_COMMITTED_RECORD_OFFSET = "kafka_controller_kafkacontroller_lastcommittedrecordoffset"
UNCLEAN_LEADER_ELECTIONS = "kafka_controller_controllerstats_uncleanleaderelections_total"
ELIGIBLE_LEADER_ELECTIONS = "kafka_controller_controllerstats_electionfromeligibleleaderreplicas_total"
LEADER_ELECTIONS = "kafka_controller_controllerstats_leaderelection_total"
FAST_FENCINGS = "kvorum_fast_fencings_total"
DECOMMISSION_PARTITIONS_LEFT = "kvorum_decommission_partitions_left"
MAINTENANCE_LEADERS_LEFT = "kvorum_maintenance_leaders_left"
LAST_APPLIED_RECORD_TIMESTAMP = "kafka_controller_kafkacontroller_lastappliedrecordtimestamp"
LAST_APPLIED_RECORD_LAG_MS = "kafka_controller_kafkacontroller_lastappliedrecordlagms"
TIMED_OUT_HEARTBEATS = "kafka_controller_kafkacontroller_timedoutbrokerheartbeatcount"
NEW_ACTIVE_CONTROLLERS = "kafka_controller_kafkacontroller_newactivecontrollerscount"
CONTROLLER_AVG_IDLE = "kafka_controller_controllereventmanager_avgidleratio"

# Raft
RAFT_CURRENT_STATE = "kafka_server_raft_metrics_current_state_info"
RAFT_STATE = "kafka_server_raftmetrics_current_state"
RAFT_CURRENT_LEADER = "kafka_server_raftmetrics_current_leader"
RAFT_CURRENT_EPOCH = "kafka_server_raftmetrics_current_epoch"
RAFT_CURRENT_VOTE = "kafka_server_raftmetrics_current_vote"
RAFT_HIGH_WATERMARK = "kafka_server_raftmetrics_high_watermark"
RAFT_LOG_END_OFFSET = "kafka_server_raftmetrics_log_end_offset"
RAFT_LOG_END_EPOCH = "kafka_server_raftmetrics_log_end_epoch"
RAFT_VOTERS = "kafka_server_raftmetrics_number_of_voters"
RAFT_OBSERVERS = "kafka_server_raftmetrics_number_of_observers"
RAFT_APPEND_RECORDS_RATE = "kafka_server_raftmetrics_append_records_rate"
RAFT_FETCH_RECORDS_RATE = "kafka_server_raftmetrics_fetch_records_rate"
RAFT_COMMIT_LATENCY_AVG = "kafka_server_raftmetrics_commit_latency_avg"
RAFT_COMMIT_LATENCY_MAX = "kafka_server_raftmetrics_commit_latency_max"
RAFT_ELECTION_LATENCY_AVG = "kafka_server_raftmetrics_election_latency_avg"
RAFT_ELECTION_LATENCY_MAX = "kafka_server_raftmetrics_election_latency_max"
RAFT_POLL_IDLE = "kafka_server_raftmetrics_poll_idle_ratio_avg"
RAFT_ELECTIONS = "kvorum_raft_elections_total"
RAFT_INCOMING_BYTES = "kafka_server_raftchannelmetrics_incoming_byte_total"
RAFT_OUTGOING_BYTES = "kafka_server_raftchannelmetrics_outgoing_byte_total"
RAFT_REQUESTS = "kafka_server_raftchannelmetrics_request_total"
RAFT_RESPONSES = "kafka_server_raftchannelmetrics_response_total"
JOURNAL_SYNC_SECONDS = "kvorum_journal_sync_seconds"

# Metadata as a broker sees it, or both
CURRENT_METADATA_VERSION = "kafka_server_metadataloader_currentmetadataversion"
CURRENT_CONTROLLER_ID = "kafka_server_metadataloader_currentcontrollerid"
BROKER_METADATA_OFFSET = "kafka_server_broker_metadata_metrics_last_applied_record_offset"
BROKER_METADATA_LAG = "kafka_server_broker_metadata_metrics_last_applied_record_lag_ms"

# Topics and consumer lag (kafka_exporter's names)
BROKERS = "kafka_brokers"
BROKER_INFO = "kafka_broker_info"
TOPIC_PARTITIONS = "kafka_topic_partitions"
TOPIC_PARTITION_CURRENT_OFFSET = "kafka_topic_partition_current_offset"
TOPIC_PARTITION_OLDEST_OFFSET = "kafka_topic_partition_oldest_offset"
TOPIC_PARTITION_LEADER = "kafka_topic_partition_leader"
TOPIC_PARTITION_REPLICAS = "kafka_topic_partition_replicas"
TOPIC_PARTITION_IN_SYNC_REPLICA = "kafka_topic_partition_in_sync_replica"
TOPIC_PARTITION_LEADER_IS_PREFERRED = "kafka_topic_partition_leader_is_preferred"
TOPIC_PARTITION_UNDER_REPLICATED = "kafka_topic_partition_under_replicated_partition"
CONSUMERGROUP_CURRENT_OFFSET = "kafka_consumergroup_current_offset"
CONSUMERGROUP_LAG = "kafka_consumergroup_lag"
CONSUMERGROUP_CURRENT_OFFSET_SUM = "kafka_consumergroup_current_offset_sum"
CONSUMERGROUP_LAG_SUM = "kafka_consumergroup_lag_sum"
CONSUMERGROUP_MEMBERS = "kafka_consumergroup_members"

# What clients push (KIP-714)
CLIENT_METRIC = "kvorum_client_metric"
CLIENT_METRICS_INSTANCES = "kafka_server_client_metrics_instance_count"
CLIENT_METRICS_UNKNOWN_SUBSCRIPTIONS = "kafka_server_client_metrics_unknown_subscription_request_total"
CLIENT_METRICS_THROTTLED = "kafka_server_client_metrics_throttle_total"
CLIENT_METRICS_EXPORTS = "kafka_server_client_metrics_plugin_export_total"
CLIENT_METRICS_EXPORT_ERRORS = "kafka_server_client_metrics_plugin_error_total"
CLIENT_METRICS_BYTES = "kvorum_client_metrics_bytes_total"
CLIENT_METRICS_DROPPED = "kvorum_client_metrics_dropped_total"

# The process
BROKER_STATE = "kafka_server_kafkaserver_brokerstate"
DISK_READ_BYTES = "kafka_server_kafkaserver_linux_disk_read_bytes"
DISK_WRITE_BYTES = "kafka_server_kafkaserver_linux_disk_write_bytes"
BUILD_INFO = "kvorum_build_info"
METRICS_OVERFLOWED = "kvorum_metrics_overflowed"

DEFINITIONS: Mapping[str, MetricDef] = MappingProxyType(
    {
        BYTES_IN: MetricDef("Bytes of record batches received from producers", ("topic",)),
        BYTES_OUT: MetricDef("Bytes of record batches sent to consumers", ("topic",)),
        MESSAGES_IN: MetricDef("Records received from producers", ("topic",)),
        REPLICATION_BYTES_IN: MetricDef("Bytes fetched from leaders by this broker's followers"),
        REPLICATION_BYTES_OUT: MetricDef("Bytes sent to followers on other brokers"),
        REASSIGNMENT_BYTES_IN: MetricDef("Bytes fetched for replicas that are being added here"),
        REASSIGNMENT_BYTES_OUT: MetricDef("Bytes sent to replicas that are being added to a partition"),
        LEADER_REPLICATION_RATE: MetricDef("Bytes a second served lately of throttled replicas"),
        FOLLOWER_REPLICATION_RATE: MetricDef("Bytes a second fetched lately for throttled replicas"),
        TOTAL_PRODUCE_REQUESTS: MetricDef("Produce requests, counted once a topic", ("topic",)),
        TOTAL_FETCH_REQUESTS: MetricDef("Fetch requests, counted once a topic", ("topic",)),
        FAILED_PRODUCE_REQUESTS: MetricDef("Produce requests that were refused, counted once a topic", ("topic",)),
        FAILED_FETCH_REQUESTS: MetricDef("Fetch requests that were refused, counted once a topic", ("topic",)),
        BYTES_REJECTED: MetricDef("Bytes of record batches larger than allowed", ("topic",)),
        QUOTA_PRODUCE_BYTE_RATE: MetricDef("Bytes a second produced by who has a quota", ("user", "client_id")),
        QUOTA_PRODUCE_THROTTLE_TIME: MetricDef(
            "Milliseconds producers were held back, mean of the last minute", ("user", "client_id")
        ),
        QUOTA_FETCH_BYTE_RATE: MetricDef("Bytes a second fetched by who has a quota", ("user", "client_id")),
        QUOTA_FETCH_THROTTLE_TIME: MetricDef(
            "Milliseconds consumers were held back, mean of the last minute", ("user", "client_id")
        ),
        QUOTA_REQUEST_TIME: MetricDef("Percent of the event loop used by who has a quota", ("user", "client_id")),
        QUOTA_REQUEST_THROTTLE_TIME: MetricDef(
            "Milliseconds clients were held back for it, mean of the last minute", ("user", "client_id")
        ),
        QUOTA_MUTATION_TOKENS: MetricDef(
            "Partitions that may be made or removed now by who has a quota", ("user", "client_id")
        ),
        QUOTA_MUTATION_THROTTLE_TIME: MetricDef(
            "Milliseconds clients were held back for it, mean of the last minute", ("user", "client_id")
        ),
        LEADER_COUNT: MetricDef("Partitions this broker leads"),
        PARTITION_COUNT: MetricDef("Partitions this broker has a replica of"),
        OFFLINE_REPLICA_COUNT: MetricDef("Replicas here whose log directory is offline"),
        UNDER_REPLICATED_PARTITIONS: MetricDef("Partitions led here with replicas out of sync"),
        REASSIGNING_PARTITIONS: MetricDef("Partitions led here whose replicas are being added or removed"),
        UNDER_MIN_ISR_PARTITION_COUNT: MetricDef(
            "Partitions led here with fewer in-sync replicas than min.insync.replicas"
        ),
        AT_MIN_ISR_PARTITION_COUNT: MetricDef("Partitions led here with just min.insync.replicas in-sync replicas"),
        ISR_SHRINKS: MetricDef("Times an in-sync set lost a replica"),
        ISR_EXPANDS: MetricDef("Times an in-sync set gained a replica"),
        FAILED_ISR_UPDATES: MetricDef("Changes of an in-sync set that the controller refused"),
        MOVES_MAX_LAG: MetricDef(
            "Committed records that the copy furthest behind lacks, of replicas that move to another log directory",
            ("clientid",),
        ),
        MOVES_FAILED_PARTITIONS: MetricDef(
            "Replicas whose move to another log directory met an error; asked for again it begins anew", ("clientid",)
        ),
        MOVES_DEAD_THREADS: MetricDef(
            "0: a fault of our own in such a move ends the broker, and no thread is left dead", ("clientid",)
        ),
        PARTITION_UNDER_MIN_ISR: MetricDef(
            "1 if the partition led here has fewer in-sync replicas than min.insync.replicas", ("topic", "partition")
        ),
        PARTITION_AT_MIN_ISR: MetricDef(
            "1 if the partition led here has just min.insync.replicas in-sync replicas", ("topic", "partition")
        ),
        PARTITION_REPLICAS_COUNT: MetricDef("Replicas of the partition led here", ("topic", "partition")),
        PARTITION_IN_SYNC_REPLICAS_COUNT: MetricDef(
            "In-sync replicas of the partition led here", ("topic", "partition")
        ),
        PARTITIONS_WITH_LATE_TRANSACTIONS: MetricDef(
            "Partitions led here with a transaction open for longer than transaction.max.timeout.ms and five minutes"
        ),
        PRODUCER_ID_COUNT: MetricDef("Producers with state on the replicas here"),
        DELAYED_OPERATIONS: MetricDef(
            "Requests parked until more data, or more replicas, are there", ("delayedoperation",)
        ),
        FETCH_SESSIONS: MetricDef("Incremental fetch sessions kept"),
        LOG_SIZE: MetricDef("Bytes of a partition's log here", ("topic", "partition")),
        LOG_START_OFFSET: MetricDef("First offset of a partition's log here", ("topic", "partition")),
        LOG_END_OFFSET: MetricDef("Offset the next record of a partition's log here will have", ("topic", "partition")),
        LOG_SEGMENTS: MetricDef("Segments of a partition's log here", ("topic", "partition")),
        OFFLINE_LOG_DIRECTORY_COUNT: MetricDef("Log directories taken out of service"),
        CLEANER_MAX_DIRTY_PERCENT: MetricDef("Dirty share of the dirtiest compacted log, in percent"),
        CLEANER_TIME_SINCE_LAST_RUN_MS: MetricDef("Milliseconds since a cleaner last looked for a log to clean"),
        CLEANER_UNCLEANABLE_PARTITIONS: MetricDef("Logs whose cleaning failed", ("logdirectory",)),
        CLEANER_UNCLEANABLE_BYTES: MetricDef("Bytes of such logs that wait for their cleaning", ("logdirectory",)),
        CLEANER_BUFFER_UTILIZATION: MetricDef(
            "Percent of a cleaner's key slots taken by its last cleaning, the greatest"
        ),
        CLEANER_RECOPY_PERCENT: MetricDef("Percent of the bytes read that the last cleanings kept"),
        CLEANER_MAX_CLEAN_SECONDS: MetricDef("Seconds a cleaner's last cleaning took, the longest"),
        CLEANER_MAX_COMPACTION_DELAY_SECONDS: MetricDef("Seconds by which max.compaction.lag.ms is overdue, at most"),
        CLEANER_DEAD_THREADS: MetricDef("Cleaners that ended with a fault"),
        LOG_FLUSHES: MetricDef("Times a log was forced to disk"),
        LOG_FLUSH_SECONDS: MetricDef("Seconds it took to force a log to disk"),
        REQUESTS: MetricDef("Requests received", ("request", "version")),
        REQUEST_ERRORS: MetricDef(
            "Error codes answered (NONE is success), counted once an answer", ("request", "error")
        ),
        REQUEST_SECONDS: MetricDef("Seconds from a request's last byte to its answer's first", ("request",)),
        CONNECTION_COUNT: MetricDef("Open connections", ("listener",)),
        CONNECTION_CREATION: MetricDef("Connections accepted", ("listener",)),
        CONNECTION_CLOSE: MetricDef("Connections closed", ("listener",)),
        CONNECTIONS_REFUSED: MetricDef(
            "Connections closed at once: a limit was reached, or the bytes were no request", ("listener", "reason")
        ),
        QUEUED_REQUESTS: MetricDef("Requests received and not answered yet"),
        QUEUED_REQUEST_BYTES: MetricDef("Bytes of requests received and not answered yet"),
        NETWORK_PROCESSOR_AVG_IDLE: MetricDef(
            "Share of the last ten seconds in which the event loop used no processor, 0 to 1"
        ),
        REQUEST_HANDLER_AVG_IDLE: MetricDef("The same: one event loop does both"),
        EVENT_LOOP_LAG: MetricDef(
            "Seconds by which the event loop was late with what came due, looked at ten times a second"
        ),
        EVENT_LOOP_LAG_MAX: MetricDef("Seconds by which it was late at most, in the last minute"),
        VERIFICATION_FAILURES: MetricDef("Partitions that a transaction's coordinator did not vouch for"),
        VERIFICATION_MS: MetricDef("Milliseconds until a transaction's coordinator had answered"),
        MARKERS_WITHOUT_LEADER: MetricDef("Transaction markers whose partition has no leader"),
        MARKERS_RETRIED: MetricDef("Transaction markers that were refused, and wait for another try"),
        GROUP_OFFSETS: MetricDef("Offsets committed by the groups coordinated here"),
        GROUPS: MetricDef("Classic groups coordinated here"),
        GROUPS_PREPARING_REBALANCE: MetricDef("Classic groups that wait for their members to join"),
        GROUPS_COMPLETING_REBALANCE: MetricDef("Classic groups that wait for their leader's assignment"),
        GROUPS_STABLE: MetricDef("Classic groups whose members have their assignments"),
        GROUPS_DEAD: MetricDef("Classic groups that are being let go of"),
        GROUPS_EMPTY: MetricDef("Classic groups without members"),
        GROUPS_BY_PROTOCOL: MetricDef("Groups coordinated here: classic ones, and consumer groups", ("protocol",)),
        CONSUMER_GROUPS_BY_STATE: MetricDef("Consumer groups (KIP-848) coordinated here", ("state",)),
        OFFSET_COMMITS: MetricDef("Offsets committed"),
        OFFSET_EXPIRATIONS: MetricDef("Offsets forgotten because they were old"),
        OFFSET_DELETIONS: MetricDef("Offsets deleted by an admin"),
        GROUP_COMPLETED_REBALANCES: MetricDef("Rebalances of classic groups that came to an assignment"),
        CONSUMER_GROUP_REBALANCES: MetricDef("Times that the epoch of a consumer group rose for what its members read"),
        ACTIVE_CONTROLLER_COUNT: MetricDef("1 on the active controller, 0 on the others"),
        ACTIVE_BROKER_COUNT: MetricDef("Brokers that are registered and not fenced"),
        FENCED_BROKER_COUNT: MetricDef("Brokers that are registered and fenced"),
        GLOBAL_TOPIC_COUNT: MetricDef("Topics of the cluster"),
        GLOBAL_PARTITION_COUNT: MetricDef("Partitions of the cluster"),
        OFFLINE_PARTITIONS_COUNT: MetricDef("Partitions without a leader"),
        PREFERRED_REPLICA_IMBALANCE_COUNT: MetricDef("Partitions not led by their preferred replica"),
        LAST_APPLIED_RECORD_OFFSET: MetricDef("Offset of the last metadata record applied by this controller"),
        LAST_COMMITTED_RECORD_OFFSET: MetricDef(
            "Offset of the last metadata record committed, as this controller knows"
        ),
        UNCLEAN_LEADER_ELECTIONS: MetricDef("Leaders elected from outside the in-sync set and the eligible ones"),
        ELIGIBLE_LEADER_ELECTIONS: MetricDef("Leaders elected from the eligible leader replicas (KIP-966)"),
        LEADER_ELECTIONS: MetricDef("Leaders elected"),
        DECOMMISSION_PARTITIONS_LEFT: MetricDef(
            "Partitions that a broker which is decommissioned still has, as the active controller knows", ("broker",)
        ),
        MAINTENANCE_LEADERS_LEFT: MetricDef(
            "Partitions that a broker in maintenance still leads, as the active controller knows", ("broker",)
        ),
        FAST_FENCINGS: MetricDef("Brokers fenced because their address refused connections"),
        LAST_APPLIED_RECORD_TIMESTAMP: MetricDef(
            "When the last metadata record applied here was written, ms since 1970"
        ),
        LAST_APPLIED_RECORD_LAG_MS: MetricDef("Milliseconds since then; 0 on the active controller"),
        TIMED_OUT_HEARTBEATS: MetricDef("Brokers that this controller fenced because their session was over"),
        NEW_ACTIVE_CONTROLLERS: MetricDef("Times this controller saw one become the active controller"),
        CONTROLLER_AVG_IDLE: MetricDef("Share of time in which the controller's event loop used no processor, 0 to 1"),
        RAFT_CURRENT_STATE: MetricDef("1 under the state this voter or observer is in", ("state",)),
        RAFT_STATE: MetricDef("The same, with the label that Strimzi's dashboards ask for", ("current_state",)),
        RAFT_CURRENT_LEADER: MetricDef("Node id of the leader, -1 when unknown"),
        RAFT_CURRENT_EPOCH: MetricDef("Epoch (term) of the quorum"),
        RAFT_CURRENT_VOTE: MetricDef("Node id voted for in this epoch, -1 when none"),
        RAFT_HIGH_WATERMARK: MetricDef("High watermark of the metadata log, -1 when unknown"),
        RAFT_LOG_END_OFFSET: MetricDef("End offset of the metadata log here"),
        RAFT_LOG_END_EPOCH: MetricDef("Epoch of the last metadata record here"),
        RAFT_VOTERS: MetricDef("Voters of the quorum"),
        RAFT_OBSERVERS: MetricDef("Brokers that fetch the metadata log, told by the leader alone"),
        RAFT_APPEND_RECORDS_RATE: MetricDef("Metadata records this leader appended, a second of the last minute"),
        RAFT_FETCH_RECORDS_RATE: MetricDef("Metadata records replicated from the leader, a second of the last minute"),
        RAFT_COMMIT_LATENCY_AVG: MetricDef("Milliseconds from append to commit, mean of the last minute"),
        RAFT_COMMIT_LATENCY_MAX: MetricDef("Milliseconds from append to commit, longest of the last minute"),
        RAFT_ELECTION_LATENCY_AVG: MetricDef("Milliseconds from candidate to leader, mean of the last minute"),
        RAFT_ELECTION_LATENCY_MAX: MetricDef("Milliseconds from candidate to leader, longest of the last minute"),
        RAFT_POLL_IDLE: MetricDef("The same as the controller's idle ratio: one event loop does both"),
        RAFT_ELECTIONS: MetricDef("Times this voter became a candidate"),
        RAFT_INCOMING_BYTES: MetricDef("Bytes received from other voters"),
        RAFT_OUTGOING_BYTES: MetricDef("Bytes sent to other voters"),
        RAFT_REQUESTS: MetricDef("Raft messages sent"),
        RAFT_RESPONSES: MetricDef("Raft messages received"),
        JOURNAL_SYNC_SECONDS: MetricDef("Seconds it took to force the Raft journal to disk"),
        CURRENT_METADATA_VERSION: MetricDef("Level of the feature metadata.version, as this process knows"),
        CURRENT_CONTROLLER_ID: MetricDef("Node id of the active controller, -1 when unknown (Kafka's MetadataLoader)"),
        BROKER_METADATA_OFFSET: MetricDef("Offset of the last metadata record this broker applied"),
        BROKER_METADATA_LAG: MetricDef("Milliseconds this broker's metadata is behind"),
        BROKERS: MetricDef("Brokers of the cluster that are not fenced, told by the active controller alone"),
        BROKER_INFO: MetricDef("1, of the broker itself: where clients are told to connect", ("id", "address")),
        TOPIC_PARTITIONS: MetricDef("Partitions of the topic", ("topic",)),
        TOPIC_PARTITION_CURRENT_OFFSET: MetricDef(
            "High watermark: the end of the partition to consumers", ("topic", "partition")
        ),
        TOPIC_PARTITION_OLDEST_OFFSET: MetricDef("First offset of the partition", ("topic", "partition")),
        TOPIC_PARTITION_LEADER: MetricDef("Node id of the partition's leader", ("topic", "partition")),
        TOPIC_PARTITION_REPLICAS: MetricDef("Replicas of the partition", ("topic", "partition")),
        TOPIC_PARTITION_IN_SYNC_REPLICA: MetricDef("In-sync replicas of the partition", ("topic", "partition")),
        TOPIC_PARTITION_LEADER_IS_PREFERRED: MetricDef(
            "1 if the partition's first replica leads it", ("topic", "partition")
        ),
        TOPIC_PARTITION_UNDER_REPLICATED: MetricDef(
            "1 if replicas of the partition are out of sync", ("topic", "partition")
        ),
        CONSUMERGROUP_CURRENT_OFFSET: MetricDef("Offset the group committed", ("consumergroup", "topic", "partition")),
        CONSUMERGROUP_LAG: MetricDef(
            "Records between the group's committed offset and the end", ("consumergroup", "topic", "partition")
        ),
        CONSUMERGROUP_CURRENT_OFFSET_SUM: MetricDef("The same of a topic's partitions", ("consumergroup", "topic")),
        CONSUMERGROUP_LAG_SUM: MetricDef("The lags of a topic's partitions together", ("consumergroup", "topic")),
        CONSUMERGROUP_MEMBERS: MetricDef("Members of the group", ("consumergroup",)),
        BROKER_STATE: MetricDef(
            "1 starting, 2 caught up and fenced, 3 running, 6 asked to be let go, 7 shutting down (Kafka's BrokerState)"
        ),
        DISK_READ_BYTES: MetricDef("Bytes that the process had read from disks, the page cache not counted"),
        DISK_WRITE_BYTES: MetricDef("Bytes that the process gave to be written to disks"),
        CLIENT_METRIC: MetricDef(
            "What a client's metric was when it pushed last; what it counts by increments is summed up",
            ("client_id", "client_instance_id", "metric", "attributes"),
        ),
        CLIENT_METRICS_INSTANCES: MetricDef("Client instances that are asked for metrics here"),
        CLIENT_METRICS_UNKNOWN_SUBSCRIPTIONS: MetricDef("Pushes under a subscription id that is not the client's"),
        CLIENT_METRICS_THROTTLED: MetricDef("Requests of clients before their push interval was over"),
        CLIENT_METRICS_EXPORTS: MetricDef("Pushes taken"),
        CLIENT_METRICS_EXPORT_ERRORS: MetricDef("Pushes that could not be read"),
        CLIENT_METRICS_BYTES: MetricDef("Bytes of pushes taken, as they came"),
        CLIENT_METRICS_DROPPED: MetricDef("Numbers left out of pushes, for a limit"),
        BUILD_INFO: MetricDef("1, with what runs here as labels", ("version", "role", "node_id")),
        METRICS_OVERFLOWED: MetricDef("Metrics that have more label values than are kept"),
    }
)
