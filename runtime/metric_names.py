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
TOTAL_PRODUCE_REQUESTS = "kafka_server_brokertopicmetrics_totalproducerequests_total"
TOTAL_FETCH_REQUESTS = "kafka_server_brokertopicmetrics_totalfetchrequests_total"
FAILED_PRODUCE_REQUESTS = "kafka_server_brokertopicmetrics_failedproducerequests_total"
FAILED_FETCH_REQUESTS = "kafka_server_brokertopicmetrics_failedfetchrequests_total"
BYTES_REJECTED = "kafka_server_brokertopicmetrics_bytesrejected_total"

# Replicas
LEADER_COUNT = "kafka_server_replicamanager_leadercount"
PARTITION_COUNT = "kafka_server_replicamanager_partitioncount"
OFFLINE_REPLICA_COUNT = "kafka_server_replicamanager_offlinereplicacount"
UNDER_REPLICATED_PARTITIONS = "kafka_server_replicamanager_underreplicatedpartitions"
UNDER_MIN_ISR_PARTITION_COUNT = "kafka_server_replicamanager_underminisrpartitioncount"
AT_MIN_ISR_PARTITION_COUNT = "kafka_server_replicamanager_atminisrpartitioncount"
ISR_SHRINKS = "kafka_server_replicamanager_isrshrinks_total"
ISR_EXPANDS = "kafka_server_replicamanager_isrexpands_total"
FAILED_ISR_UPDATES = "kafka_server_replicamanager_failedisrupdates_total"
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
METADATA_ERROR_COUNT = "kafka_controller_kafkacontroller_metadataerrorcount"
LAST_APPLIED_RECORD_OFFSET = "kafka_controller_kafkacontroller_lastappliedrecordoffset"
LAST_COMMITTED_RECORD_OFFSET = "kafka_controller_kafkacontroller_lastcommittedrecordoffset"
EVENT_QUEUE_SECONDS = "kvorum_controller_event_seconds"
UNCLEAN_LEADER_ELECTIONS = "kafka_controller_controllerstats_uncleanleaderelections_total"
ELIGIBLE_LEADER_ELECTIONS = "kafka_controller_controllerstats_electionfromeligibleleaderreplicas_total"
LEADER_ELECTIONS = "kafka_controller_controllerstats_leaderelection_total"
FAST_FENCINGS = "kvorum_fast_fencings_total"

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
RAFT_APPEND_RECORDS_RATE = "kafka_server_raftmetrics_append_records_rate"
RAFT_FETCH_RECORDS_RATE = "kafka_server_raftmetrics_fetch_records_rate"
RAFT_COMMIT_LATENCY_AVG = "kafka_server_raftmetrics_commit_latency_avg"
RAFT_COMMIT_LATENCY_MAX = "kafka_server_raftmetrics_commit_latency_max"
RAFT_ELECTION_LATENCY_AVG = "kafka_server_raftmetrics_election_latency_avg"
RAFT_ELECTIONS = "kvorum_raft_elections_total"
RAFT_INCOMING_BYTES = "kafka_server_raftchannelmetrics_incoming_byte_total"
RAFT_OUTGOING_BYTES = "kafka_server_raftchannelmetrics_outgoing_byte_total"
RAFT_REQUESTS = "kafka_server_raftchannelmetrics_request_total"
RAFT_RESPONSES = "kafka_server_raftchannelmetrics_response_total"
JOURNAL_SYNC_SECONDS = "kvorum_journal_sync_seconds"

# Metadata as a broker sees it
BROKER_METADATA_OFFSET = "kafka_server_broker_metadata_metrics_last_applied_record_offset"
BROKER_METADATA_LAG = "kafka_server_broker_metadata_metrics_last_applied_record_lag_ms"
BROKER_METADATA_LOAD_ERRORS = "kafka_server_broker_metadata_metrics_metadata_load_error_count"
BROKER_METADATA_APPLY_ERRORS = "kafka_server_broker_metadata_metrics_metadata_apply_error_count"

# Topics and consumer lag (kafka_exporter's names)
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

# The process
BUILD_INFO = "kvorum_build_info"
METRICS_OVERFLOWED = "kvorum_metrics_overflowed"

DEFINITIONS: Mapping[str, MetricDef] = MappingProxyType(
    {
        BYTES_IN: MetricDef("Bytes of record batches received from producers", ("topic",)),
        BYTES_OUT: MetricDef("Bytes of record batches sent to consumers", ("topic",)),
        MESSAGES_IN: MetricDef("Records received from producers", ("topic",)),
        REPLICATION_BYTES_IN: MetricDef("Bytes fetched from leaders by this broker's followers"),
        REPLICATION_BYTES_OUT: MetricDef("Bytes sent to followers on other brokers"),
        TOTAL_PRODUCE_REQUESTS: MetricDef("Produce requests, counted once a topic", ("topic",)),
        TOTAL_FETCH_REQUESTS: MetricDef("Fetch requests, counted once a topic", ("topic",)),
        FAILED_PRODUCE_REQUESTS: MetricDef("Produce requests that were refused, counted once a topic", ("topic",)),
        FAILED_FETCH_REQUESTS: MetricDef("Fetch requests that were refused, counted once a topic", ("topic",)),
        BYTES_REJECTED: MetricDef("Bytes of record batches larger than allowed", ("topic",)),
        LEADER_COUNT: MetricDef("Partitions this broker leads"),
        PARTITION_COUNT: MetricDef("Partitions this broker has a replica of"),
        OFFLINE_REPLICA_COUNT: MetricDef("Replicas here whose log directory is offline"),
        UNDER_REPLICATED_PARTITIONS: MetricDef("Partitions led here with replicas out of sync"),
        UNDER_MIN_ISR_PARTITION_COUNT: MetricDef(
            "Partitions led here with fewer in-sync replicas than min.insync.replicas"
        ),
        AT_MIN_ISR_PARTITION_COUNT: MetricDef("Partitions led here with just min.insync.replicas in-sync replicas"),
        ISR_SHRINKS: MetricDef("Times an in-sync set lost a replica"),
        ISR_EXPANDS: MetricDef("Times an in-sync set gained a replica"),
        FAILED_ISR_UPDATES: MetricDef("Changes of an in-sync set that the controller refused"),
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
        EVENT_LOOP_LAG: MetricDef("How late a timer of the event loop was at most, in the last ten seconds"),
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
        METADATA_ERROR_COUNT: MetricDef("Metadata records that could not be replayed"),
        LAST_APPLIED_RECORD_OFFSET: MetricDef("Offset of the last metadata record applied by this controller"),
        LAST_COMMITTED_RECORD_OFFSET: MetricDef(
            "Offset of the last metadata record committed, as this controller knows"
        ),
        EVENT_QUEUE_SECONDS: MetricDef("Seconds a controller decision took, from request to answer"),
        UNCLEAN_LEADER_ELECTIONS: MetricDef("Leaders elected from outside the in-sync set and the eligible ones"),
        ELIGIBLE_LEADER_ELECTIONS: MetricDef("Leaders elected from the eligible leader replicas (KIP-966)"),
        LEADER_ELECTIONS: MetricDef("Leaders elected"),
        FAST_FENCINGS: MetricDef("Brokers fenced because their address refused connections"),
        RAFT_CURRENT_STATE: MetricDef("1 under the state this voter or observer is in", ("state",)),
        RAFT_STATE: MetricDef("State as a number: 0 observer, 1 follower, 2 prospective, 3 candidate, 4 leader"),
        RAFT_CURRENT_LEADER: MetricDef("Node id of the leader, -1 when unknown"),
        RAFT_CURRENT_EPOCH: MetricDef("Epoch (term) of the quorum"),
        RAFT_CURRENT_VOTE: MetricDef("Node id voted for in this epoch, -1 when none"),
        RAFT_HIGH_WATERMARK: MetricDef("High watermark of the metadata log, -1 when unknown"),
        RAFT_LOG_END_OFFSET: MetricDef("End offset of the metadata log here"),
        RAFT_LOG_END_EPOCH: MetricDef("Epoch of the last metadata record here"),
        RAFT_VOTERS: MetricDef("Voters of the quorum"),
        RAFT_APPEND_RECORDS_RATE: MetricDef("Metadata records this leader appended, a second of the last minute"),
        RAFT_FETCH_RECORDS_RATE: MetricDef("Metadata records replicated from the leader, a second of the last minute"),
        RAFT_COMMIT_LATENCY_AVG: MetricDef("Milliseconds from append to commit, mean of the last minute"),
        RAFT_COMMIT_LATENCY_MAX: MetricDef("Milliseconds from append to commit, longest of the last minute"),
        RAFT_ELECTION_LATENCY_AVG: MetricDef("Milliseconds from candidate to leader, mean of the last minute"),
        RAFT_ELECTIONS: MetricDef("Times this voter became a candidate"),
        RAFT_INCOMING_BYTES: MetricDef("Bytes received from other voters"),
        RAFT_OUTGOING_BYTES: MetricDef("Bytes sent to other voters"),
        RAFT_REQUESTS: MetricDef("Raft messages sent"),
        RAFT_RESPONSES: MetricDef("Raft messages received"),
        JOURNAL_SYNC_SECONDS: MetricDef("Seconds it took to force the Raft journal to disk"),
        BROKER_METADATA_OFFSET: MetricDef("Offset of the last metadata record this broker applied"),
        BROKER_METADATA_LAG: MetricDef("Milliseconds this broker's metadata is behind"),
        BROKER_METADATA_LOAD_ERRORS: MetricDef("Metadata batches that could not be loaded"),
        BROKER_METADATA_APPLY_ERRORS: MetricDef("Metadata changes that could not be applied"),
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
        BUILD_INFO: MetricDef("1, with what runs here as labels", ("version", "role", "node_id")),
        METRICS_OVERFLOWED: MetricDef("Metrics that have more label values than are kept"),
    }
)
