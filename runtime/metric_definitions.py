"""Help texts and labels of all metrics, for `/metrics` and the table of docs/monitoring.md."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from kvorum.runtime import metric_names as names


@dataclass(frozen=True, slots=True)
class MetricDef:
    """Help text and label names of one metric; `in_quantiles` adds the label `quantile` and a count."""

    help: str
    labels: tuple[str, ...] = ()
    in_quantiles: bool = False


DEFINITIONS: Mapping[str, MetricDef] = MappingProxyType(
    {
        names.BYTES_IN: MetricDef("Bytes of record batches received from producers", ("topic",)),
        names.BYTES_OUT: MetricDef("Bytes of record batches sent to consumers", ("topic",)),
        names.MESSAGES_IN: MetricDef("Records received from producers", ("topic",)),
        names.REPLICATION_BYTES_IN: MetricDef("Bytes fetched from leaders by this broker's followers"),
        names.REPLICATION_BYTES_OUT: MetricDef("Bytes sent to followers on other brokers"),
        names.REASSIGNMENT_BYTES_IN: MetricDef("Bytes fetched for replicas that are being added here"),
        names.REASSIGNMENT_BYTES_OUT: MetricDef("Bytes sent to replicas that are being added to a partition"),
        names.LEADER_REPLICATION_RATE: MetricDef("Recent bytes per second sent for throttled replicas"),
        names.FOLLOWER_REPLICATION_RATE: MetricDef("Recent bytes per second fetched for throttled replicas"),
        names.TOTAL_PRODUCE_REQUESTS: MetricDef("Produce requests, counted once per topic", ("topic",)),
        names.TOTAL_FETCH_REQUESTS: MetricDef("Fetch requests, counted once per topic", ("topic",)),
        names.FAILED_PRODUCE_REQUESTS: MetricDef("Rejected Produce requests, counted once per topic", ("topic",)),
        names.FAILED_FETCH_REQUESTS: MetricDef("Rejected Fetch requests, counted once per topic", ("topic",)),
        names.BYTES_REJECTED: MetricDef("Bytes of record batches rejected because of their size", ("topic",)),
        names.QUOTA_PRODUCE_BYTE_RATE: MetricDef(
            "Bytes per second produced by clients with a quota", ("user", "client_id")
        ),
        names.QUOTA_PRODUCE_THROTTLE_TIME: MetricDef(
            "Throttle time of producers in milliseconds, mean of the last minute", ("user", "client_id")
        ),
        names.QUOTA_FETCH_BYTE_RATE: MetricDef(
            "Bytes per second fetched by clients with a quota", ("user", "client_id")
        ),
        names.QUOTA_FETCH_THROTTLE_TIME: MetricDef(
            "Throttle time of consumers in milliseconds, mean of the last minute", ("user", "client_id")
        ),
        names.QUOTA_REQUEST_TIME: MetricDef(
            "Percent of the event loop used by clients with a request quota", ("user", "client_id")
        ),
        names.QUOTA_REQUEST_THROTTLE_TIME: MetricDef(
            "Throttle time of clients by request quotas in milliseconds, mean of the last minute", ("user", "client_id")
        ),
        names.QUOTA_MUTATION_TOKENS: MetricDef(
            "Partitions that clients with a mutation quota may create or delete now", ("user", "client_id")
        ),
        names.QUOTA_MUTATION_THROTTLE_TIME: MetricDef(
            "Throttle time of clients by mutation quotas in milliseconds, mean of the last minute",
            ("user", "client_id"),
        ),
        names.LEADER_COUNT: MetricDef("Partitions this broker leads"),
        names.PARTITION_COUNT: MetricDef("Partitions this broker has a replica of"),
        names.OFFLINE_REPLICA_COUNT: MetricDef("Replicas here whose log directory is offline"),
        names.UNDER_REPLICATED_PARTITIONS: MetricDef("Partitions led by this broker with replicas out of sync"),
        names.REASSIGNING_PARTITIONS: MetricDef("Partitions led by this broker that are being reassigned"),
        names.UNDER_MIN_ISR_PARTITION_COUNT: MetricDef(
            "Partitions led by this broker with fewer in-sync replicas than min.insync.replicas"
        ),
        names.AT_MIN_ISR_PARTITION_COUNT: MetricDef(
            "Partitions led by this broker with exactly min.insync.replicas in-sync replicas"
        ),
        names.ISR_SHRINKS: MetricDef("Number of times an ISR lost a replica"),
        names.ISR_EXPANDS: MetricDef("Number of times an ISR gained a replica"),
        names.FAILED_ISR_UPDATES: MetricDef("ISR changes rejected by the controller"),
        names.MOVES_MAX_LAG: MetricDef(
            "Largest lag in records of replicas that move to another log directory",
            ("clientId",),
        ),
        names.MOVES_FAILED_PARTITIONS: MetricDef(
            "Replicas whose move to another log directory failed; request the move again to restart it", ("clientId",)
        ),
        names.MOVES_DEAD_THREADS: MetricDef("Always 0: an internal error in a move ends the broker", ("clientId",)),
        names.FOLLOWERS_MAX_LAG: MetricDef(
            "Largest lag in records of this broker's followers, by their leaders' last responses",
            ("clientId",),
        ),
        names.FOLLOWERS_FAILED_PARTITIONS: MetricDef(
            "Followers on this broker that wait for a newer leader in the metadata after FENCED_LEADER_EPOCH",
            ("clientId",),
        ),
        names.FOLLOWERS_DEAD_THREADS: MetricDef(
            "Always 0: an internal error in a fetcher ends the broker", ("clientId",)
        ),
        names.FOLLOWER_LAG: MetricDef(
            "Lag in records of the follower on this broker, by its leader's last response",
            ("clientId", "topic", "partition"),
        ),
        names.PARTITION_UNDER_MIN_ISR: MetricDef(
            "1 if the partition has fewer in-sync replicas than min.insync.replicas", ("topic", "partition")
        ),
        names.PARTITION_AT_MIN_ISR: MetricDef(
            "1 if the partition has exactly min.insync.replicas in-sync replicas", ("topic", "partition")
        ),
        names.PARTITION_REPLICAS_COUNT: MetricDef(
            "Replicas of the partition led by this broker", ("topic", "partition")
        ),
        names.PARTITION_IN_SYNC_REPLICAS_COUNT: MetricDef(
            "In-sync replicas of the partition led by this broker", ("topic", "partition")
        ),
        names.PARTITIONS_WITH_LATE_TRANSACTIONS: MetricDef(
            "Partitions with a transaction open for longer than transaction.max.timeout.ms plus five minutes"
        ),
        names.PRODUCER_ID_COUNT: MetricDef("Producers with state on this broker's replicas"),
        names.PURGATORY_SIZE: MetricDef(
            "Partitions that delayed requests wait for, counted once per request", ("delayedOperation",)
        ),
        names.DELAYED_OPERATIONS: MetricDef("Requests that wait for data or for replicas", ("delayedOperation",)),
        names.FETCH_SESSIONS: MetricDef("Incremental fetch sessions"),
        names.FETCH_SESSION_PARTITIONS: MetricDef("Partitions in incremental fetch sessions"),
        names.FETCH_SESSION_EVICTIONS: MetricDef("Fetch sessions evicted for new ones"),
        names.LOG_SIZE: MetricDef("Size of the partition's log on this broker in bytes", ("topic", "partition")),
        names.LOG_START_OFFSET: MetricDef("Log start offset of the partition on this broker", ("topic", "partition")),
        names.LOG_END_OFFSET: MetricDef("Log end offset of the partition on this broker", ("topic", "partition")),
        names.LOG_SEGMENTS: MetricDef("Segments of the partition's log on this broker", ("topic", "partition")),
        names.OFFLINE_LOG_DIRECTORY_COUNT: MetricDef("Offline log directories"),
        names.LOG_DIRECTORY_OFFLINE: MetricDef("1 if the log directory is offline", ("logDirectory",)),
        names.LOG_DIRECTORY_FREE_BYTES: MetricDef(
            "Free bytes on the volume of a log directory or of a controller's metadata.log.dir", ("logDirectory",)
        ),
        names.LOG_DIRECTORY_TOTAL_BYTES: MetricDef(
            "Size in bytes of the volume of a log directory or of a controller's metadata.log.dir", ("logDirectory",)
        ),
        names.CLEANER_MAX_DIRTY_PERCENT: MetricDef("Highest dirty ratio of a compacted log in percent"),
        names.CLEANER_TIME_SINCE_LAST_RUN_MS: MetricDef(
            "Milliseconds since the cleaner last checked for a log to clean"
        ),
        names.CLEANER_UNCLEANABLE_PARTITIONS: MetricDef("Logs whose cleaning failed", ("logDirectory",)),
        names.CLEANER_UNCLEANABLE_BYTES: MetricDef(
            "Bytes to be cleaned in logs whose cleaning failed", ("logDirectory",)
        ),
        names.CLEANER_BUFFER_UTILIZATION: MetricDef(
            "Highest utilization of a cleaner's key buffer in its last run, in percent"
        ),
        names.CLEANER_RECOPY_PERCENT: MetricDef("Percent of the bytes kept in the cleaners' last runs"),
        names.CLEANER_MAX_CLEAN_SECONDS: MetricDef("Longest duration of a cleaner's last run in seconds"),
        names.CLEANER_MAX_COMPACTION_DELAY_SECONDS: MetricDef("Longest delay beyond max.compaction.lag.ms in seconds"),
        names.CLEANER_DEAD_THREADS: MetricDef("Cleaners that ended because of an error"),
        names.LOG_FLUSH_TIME: MetricDef("Time to flush a log to disk in milliseconds", in_quantiles=True),
        names.LOG_FLUSH_SECONDS: MetricDef("Time to flush a log to disk in seconds, since start"),
        names.REQUESTS: MetricDef("Requests received", ("request", "version")),
        names.REQUEST_ERRORS: MetricDef(
            "Error codes returned (NONE is success), counted once per response", ("request", "error")
        ),
        names.REQUEST_SECONDS: MetricDef(
            "Seconds from a request's last byte to the first byte of its response", ("request",)
        ),
        names.REQUEST_QUEUE_TIME: MetricDef(
            "Time in queue in milliseconds: throttled, or behind earlier requests of the connection",
            ("request",),
            in_quantiles=True,
        ),
        names.LOCAL_TIME: MetricDef("Processing time at the broker in milliseconds", ("request",), in_quantiles=True),
        names.REMOTE_TIME: MetricDef(
            "Time waiting for replicas, data, another broker or the disk in milliseconds",
            ("request",),
            in_quantiles=True,
        ),
        names.THROTTLE_TIME: MetricDef("Throttle time by a quota in milliseconds", ("request",), in_quantiles=True),
        names.RESPONSE_QUEUE_TIME: MetricDef(
            "Time a response waited for earlier ones or for a slow client in milliseconds",
            ("request",),
            in_quantiles=True,
        ),
        names.RESPONSE_SEND_TIME: MetricDef(
            "Time to write a response to the socket in milliseconds", ("request",), in_quantiles=True
        ),
        names.TOTAL_TIME: MetricDef(
            "Time from a request's last byte until its response was sent in milliseconds",
            ("request",),
            in_quantiles=True,
        ),
        names.REQUEST_BYTES: MetricDef(
            "Size of a request in bytes, without its length field", ("request",), in_quantiles=True
        ),
        names.INCOMING_BYTES: MetricDef("Bytes read from sockets", ("listener",)),
        names.OUTGOING_BYTES: MetricDef("Bytes written to sockets", ("listener",)),
        names.CONNECTION_COUNT: MetricDef("Open connections", ("listener",)),
        names.CONNECTIONS_BY_CIPHER: MetricDef(
            "Open TLS connections by cipher suite and TLS version", ("listener", "cipher", "protocol")
        ),
        names.CONNECTION_CREATION: MetricDef("Connections accepted", ("listener",)),
        names.CONNECTION_CLOSE: MetricDef("Connections closed", ("listener",)),
        names.CONNECTIONS_REFUSED: MetricDef(
            "Connections rejected because of a limit or an invalid request", ("listener", "reason")
        ),
        names.SUCCESSFUL_AUTHENTICATION: MetricDef(
            "Connections authenticated: by SASL, or by TLS on an SSL listener", ("listener",)
        ),
        names.FAILED_AUTHENTICATION: MetricDef("Connections that failed to authenticate", ("listener",)),
        names.SUCCESSFUL_REAUTHENTICATION: MetricDef("Sessions renewed on an open connection", ("listener",)),
        names.FAILED_REAUTHENTICATION: MetricDef("Connections that failed to renew their session", ("listener",)),
        names.SUCCESSFUL_AUTHENTICATION_NO_REAUTH: MetricDef(
            "Connections authenticated by SASL whose client cannot renew its session", ("listener",)
        ),
        names.REAUTHENTICATION_LATENCY_AVG: MetricDef(
            "Average time from SaslHandshake to the renewed session (ms), of the last minute", ("listener",)
        ),
        names.REAUTHENTICATION_LATENCY_MAX: MetricDef(
            "Maximum time from SaslHandshake to the renewed session (ms), of the last minute", ("listener",)
        ),
        names.CERTIFICATE_EXPIRY: MetricDef(
            "Seconds until the first certificate of the key store expires, negative afterwards", ("listener",)
        ),
        names.EXPIRED_CONNECTIONS_KILLED: MetricDef(
            "Connections closed because a request came after the end of their session", ("listener",)
        ),
        names.QUEUED_REQUESTS: MetricDef("Requests in progress or in queue"),
        names.QUEUED_REQUEST_BYTES: MetricDef("Bytes of requests in progress or in queue"),
        names.NETWORK_PROCESSOR_AVG_IDLE: MetricDef("Idle share of the event loop in the last ten seconds, 0 to 1"),
        names.REQUEST_HANDLER_AVG_IDLE: MetricDef(
            "Idle share of the event loop in the last ten seconds, 0 to 1 (one loop serves network and requests)"
        ),
        names.EVENT_LOOP_LAG: MetricDef("Delay of the event loop in seconds, sampled ten times per second"),
        names.EVENT_LOOP_LAG_MAX: MetricDef("Longest delay of the event loop in the last minute in seconds"),
        names.VERIFICATION_FAILURES: MetricDef("Partitions that a transaction coordinator did not verify"),
        names.VERIFICATION_MS: MetricDef(
            "Time to verify a transaction with its coordinator in milliseconds", in_quantiles=True
        ),
        names.MARKERS_WITHOUT_LEADER: MetricDef("Transaction markers whose partition has no leader"),
        names.MARKERS_RETRIED: MetricDef("Rejected transaction markers that wait for a retry"),
        names.GROUP_OFFSETS: MetricDef("Committed offsets stored for the groups coordinated by this broker"),
        names.GROUPS: MetricDef("Classic groups coordinated by this broker"),
        names.GROUPS_PREPARING_REBALANCE: MetricDef("Classic groups that wait for their members to join"),
        names.GROUPS_COMPLETING_REBALANCE: MetricDef("Classic groups that wait for their leader's assignment"),
        names.GROUPS_STABLE: MetricDef("Classic groups in state Stable"),
        names.GROUPS_DEAD: MetricDef("Classic groups in state Dead"),
        names.GROUPS_EMPTY: MetricDef("Classic groups without members"),
        names.GROUPS_BY_PROTOCOL: MetricDef("Groups coordinated by this broker, per protocol", ("protocol",)),
        names.CONSUMER_GROUPS_BY_STATE: MetricDef(
            "Consumer groups (KIP-848) coordinated by this broker, per state", ("state",)
        ),
        names.OFFSET_COMMITS: MetricDef("Offsets committed"),
        names.OFFSET_EXPIRATIONS: MetricDef("Expired offsets"),
        names.OFFSET_DELETIONS: MetricDef("Offsets deleted by request"),
        names.GROUP_COMPLETED_REBALANCES: MetricDef("Completed rebalances of classic groups"),
        names.CONSUMER_GROUP_REBALANCES: MetricDef("Rebalances of consumer groups (KIP-848)"),
        names.ACTIVE_CONTROLLER_COUNT: MetricDef("1 on the active controller, 0 on the others"),
        names.ACTIVE_BROKER_COUNT: MetricDef("Brokers that are registered and not fenced"),
        names.FENCED_BROKER_COUNT: MetricDef("Brokers that are registered and fenced"),
        names.GLOBAL_TOPIC_COUNT: MetricDef("Topics of the cluster"),
        names.GLOBAL_PARTITION_COUNT: MetricDef("Partitions of the cluster"),
        names.OFFLINE_PARTITIONS_COUNT: MetricDef("Partitions without a leader"),
        names.PREFERRED_REPLICA_IMBALANCE_COUNT: MetricDef("Partitions not led by their preferred replica"),
        names.LAST_APPLIED_RECORD_OFFSET: MetricDef("Offset of the last metadata record applied by this controller"),
        names.LAST_COMMITTED_RECORD_OFFSET: MetricDef(
            "Offset of the last committed metadata record known to this controller"
        ),
        names.UNCLEAN_LEADER_ELECTIONS: MetricDef(
            "Unclean leader elections: from outside the ISR and the eligible leader replicas"
        ),
        names.ELIGIBLE_LEADER_ELECTIONS: MetricDef("Leaders elected from the eligible leader replicas (KIP-966)"),
        names.LEADER_ELECTIONS: MetricDef("Leaders elected"),
        names.DECOMMISSION_PARTITIONS_LEFT: MetricDef(
            "Partitions left on a broker in decommission, exposed by the active controller", ("broker",)
        ),
        names.MAINTENANCE_LEADERS_LEFT: MetricDef(
            "Partitions still led by a broker in maintenance, exposed by the active controller", ("broker",)
        ),
        names.FAST_FENCINGS: MetricDef("Brokers fenced because their address refused connections"),
        names.LAST_APPLIED_RECORD_TIMESTAMP: MetricDef("Timestamp of the last metadata record applied, ms since 1970"),
        names.LAST_APPLIED_RECORD_LAG_MS: MetricDef(
            "Milliseconds since the last metadata record applied was written; 0 on the active controller"
        ),
        names.TIMED_OUT_HEARTBEATS: MetricDef("Brokers that this controller fenced because their session expired"),
        names.NEW_ACTIVE_CONTROLLERS: MetricDef("Number of times this controller observed a new active controller"),
        names.EVENT_QUEUE_TIME: MetricDef(
            "Time a metadata change waited in the active controller's queue in milliseconds", in_quantiles=True
        ),
        names.EVENT_PROCESSING_TIME: MetricDef(
            "Time the active controller took to process a metadata change in milliseconds", in_quantiles=True
        ),
        names.CONTROLLER_AVG_IDLE: MetricDef("Idle share of the controller's event loop, 0 to 1"),
        names.RAFT_CURRENT_STATE: MetricDef("1 for the Raft state of this voter or observer", ("state",)),
        names.RAFT_STATE: MetricDef(
            "1 for the Raft state of this voter or observer (label of Strimzi's dashboards)", ("current_state",)
        ),
        names.RAFT_CURRENT_LEADER: MetricDef("Node id of the leader, -1 when unknown"),
        names.RAFT_CURRENT_EPOCH: MetricDef("Epoch (term) of the quorum"),
        names.RAFT_CURRENT_VOTE: MetricDef("Node id voted for in this epoch, -1 when none"),
        names.RAFT_HIGH_WATERMARK: MetricDef("High watermark of the metadata log, -1 when unknown"),
        names.RAFT_LOG_END_OFFSET: MetricDef("Log end offset of the metadata log on this node"),
        names.RAFT_LOG_END_EPOCH: MetricDef("Epoch of the last metadata record on this node"),
        names.RAFT_UNKNOWN_VOTERS: MetricDef("Voters whose endpoints this controller does not know"),
        names.RAFT_VOTERS: MetricDef("Voters of the quorum"),
        names.RAFT_OBSERVERS: MetricDef("Brokers that fetch the metadata log; exposed by the leader"),
        names.RAFT_APPEND_RECORDS_RATE: MetricDef("Metadata records appended per second by this leader, last minute"),
        names.RAFT_FETCH_RECORDS_RATE: MetricDef("Metadata records replicated per second from the leader, last minute"),
        names.RAFT_COMMIT_LATENCY_AVG: MetricDef("Milliseconds from append to commit, mean of the last minute"),
        names.RAFT_COMMIT_LATENCY_MAX: MetricDef("Milliseconds from append to commit, maximum of the last minute"),
        names.RAFT_ELECTION_LATENCY_AVG: MetricDef("Milliseconds from candidate to leader, mean of the last minute"),
        names.RAFT_ELECTION_LATENCY_MAX: MetricDef("Milliseconds from candidate to leader, maximum of the last minute"),
        names.RAFT_POLL_IDLE: MetricDef(
            "Idle share of the controller's event loop, 0 to 1 (one loop serves Raft and the controller)"
        ),
        names.RAFT_ELECTIONS: MetricDef("Number of times this voter became a candidate"),
        names.RAFT_INCOMING_BYTES: MetricDef(
            "Bytes received from other voters; on a broker: responses to metadata fetches"
        ),
        names.RAFT_OUTGOING_BYTES: MetricDef("Bytes sent to other voters; on a broker: metadata fetches"),
        names.RAFT_REQUESTS: MetricDef("Raft messages sent; on a broker: metadata fetches"),
        names.RAFT_RESPONSES: MetricDef("Raft messages received; on a broker: responses to metadata fetches"),
        names.JOURNAL_SYNC_SECONDS: MetricDef("Time to sync the Raft journal to disk in seconds"),
        names.CURRENT_METADATA_VERSION: MetricDef("Level of the feature metadata.version known to this process"),
        names.CURRENT_CONTROLLER_ID: MetricDef(
            "Node id of the active controller, -1 when unknown (Kafka's MetadataLoader)"
        ),
        names.BROKER_METADATA_OFFSET: MetricDef("Offset of the last metadata record this broker applied"),
        names.BROKER_METADATA_APPLY_ERRORS: MetricDef(
            "Metadata changes (mostly configs) that this broker could not apply since its start"
        ),
        names.CONFIGS_LEFT_OUT: MetricDef(
            "1 per dynamic broker config that is stored but ignored because its value is invalid",
            ("key", "layer"),
        ),
        names.BROKER_METADATA_LAG: MetricDef("Lag of this broker's metadata in milliseconds"),
        names.SNAPSHOT_BYTES: MetricDef(
            "Size of the last metadata snapshot of this process in bytes, 0 before the first"
        ),
        names.SNAPSHOT_AGE_MS: MetricDef("Milliseconds since the last metadata snapshot, or since start"),
        names.BROKERS: MetricDef("Brokers of the cluster that are not fenced; exposed by the active controller"),
        names.BROKER_INFO: MetricDef("1 for this broker, with its advertised address", ("id", "address")),
        names.TOPIC_PARTITIONS: MetricDef("Partitions of the topic", ("topic",)),
        names.TOPIC_PARTITION_CURRENT_OFFSET: MetricDef("High watermark of the partition", ("topic", "partition")),
        names.TOPIC_PARTITION_OLDEST_OFFSET: MetricDef("First offset of the partition", ("topic", "partition")),
        names.TOPIC_PARTITION_LEADER: MetricDef("Node id of the partition's leader", ("topic", "partition")),
        names.TOPIC_PARTITION_REPLICAS: MetricDef("Replicas of the partition", ("topic", "partition")),
        names.TOPIC_PARTITION_IN_SYNC_REPLICA: MetricDef("In-sync replicas of the partition", ("topic", "partition")),
        names.TOPIC_PARTITION_LEADER_IS_PREFERRED: MetricDef(
            "1 if the preferred replica leads the partition", ("topic", "partition")
        ),
        names.TOPIC_PARTITION_UNDER_REPLICATED: MetricDef(
            "1 if replicas of the partition are out of sync", ("topic", "partition")
        ),
        names.CONSUMERGROUP_CURRENT_OFFSET: MetricDef(
            "Committed offset of the group", ("consumergroup", "topic", "partition")
        ),
        names.CONSUMERGROUP_LAG: MetricDef(
            "Records between the group's committed offset and the high watermark",
            ("consumergroup", "topic", "partition"),
        ),
        names.CONSUMERGROUP_CURRENT_OFFSET_SUM: MetricDef(
            "Sum of the group's committed offsets in a topic", ("consumergroup", "topic")
        ),
        names.CONSUMERGROUP_LAG_SUM: MetricDef(
            "Sum of the group's lags in a topic, once all are known", ("consumergroup", "topic")
        ),
        names.CONSUMERGROUP_MEMBERS: MetricDef("Members of the group", ("consumergroup",)),
        names.BROKER_STATE: MetricDef(
            "1 starting, 2 caught up but fenced, 3 running, 6 controlled shutdown, 7 shutting down (Kafka BrokerState)"
        ),
        names.DISK_READ_BYTES: MetricDef("Bytes the process read from disk, page cache excluded"),
        names.DISK_WRITE_BYTES: MetricDef("Bytes the process wrote to disk"),
        names.CLIENT_METRIC: MetricDef(
            "Last value of a client's pushed metric; deltas are summed",
            ("client_id", "client_instance_id", "metric", "attributes"),
        ),
        names.CLIENT_METRICS_INSTANCES: MetricDef("Client instances that push metrics to this broker"),
        names.CLIENT_METRICS_UNKNOWN_SUBSCRIPTIONS: MetricDef("Pushes with an unknown subscription id"),
        names.CLIENT_METRICS_THROTTLED: MetricDef(
            "Telemetry requests that arrived before the push interval had elapsed"
        ),
        names.CLIENT_METRICS_EXPORTS: MetricDef("Pushes accepted"),
        names.CLIENT_METRICS_EXPORT_ERRORS: MetricDef("Pushes that could not be read"),
        names.CLIENT_METRICS_BYTES: MetricDef("Bytes of accepted pushes, compressed"),
        names.CLIENT_METRICS_DROPPED: MetricDef("Values dropped from pushes because of a limit"),
        names.BUILD_INFO: MetricDef("1, with version, role and node id as labels", ("version", "role", "node_id")),
        names.METRICS_OVERFLOWED: MetricDef("Metrics that exceeded the limit of label values"),
    }
)

OF_A_NODE: Mapping[str, str] = MappingProxyType(
    {
        names.NETWORK_PROCESSOR_AVG_IDLE: "broker",
        names.REQUEST_HANDLER_AVG_IDLE: "broker",
        names.RAFT_POLL_IDLE: "controller",
        names.RAFT_STATE: "controller",
        names.RAFT_CURRENT_STATE: "controller",
        names.RAFT_CURRENT_LEADER: "controller",
        names.RAFT_CURRENT_EPOCH: "controller",
        names.RAFT_CURRENT_VOTE: "controller",
        names.RAFT_HIGH_WATERMARK: "controller",
        names.RAFT_LOG_END_OFFSET: "controller",
        names.RAFT_LOG_END_EPOCH: "controller",
        names.RAFT_APPEND_RECORDS_RATE: "controller",
        names.RAFT_FETCH_RECORDS_RATE: "controller",
        names.RAFT_INCOMING_BYTES: "controller",
        names.RAFT_OUTGOING_BYTES: "controller",
        names.RAFT_REQUESTS: "controller",
        names.RAFT_RESPONSES: "controller",
    }
)
"""{metric that Kafka exposes once per node: the process of a combined node that exposes it}."""
