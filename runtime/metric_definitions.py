"""What each metric counts, and its labels: the help texts of a scrape, and the table of docs/monitoring.md."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from kvorum.runtime import metric_names as names


@dataclass(frozen=True, slots=True)
class MetricDef:
    """One metric's help text and label names, in order; told `in_quantiles` it has that label, too, and a count."""

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
        names.LEADER_REPLICATION_RATE: MetricDef("Bytes a second served lately of throttled replicas"),
        names.FOLLOWER_REPLICATION_RATE: MetricDef("Bytes a second fetched lately for throttled replicas"),
        names.TOTAL_PRODUCE_REQUESTS: MetricDef("Produce requests, counted once a topic", ("topic",)),
        names.TOTAL_FETCH_REQUESTS: MetricDef("Fetch requests, counted once a topic", ("topic",)),
        names.FAILED_PRODUCE_REQUESTS: MetricDef(
            "Produce requests that were refused, counted once a topic", ("topic",)
        ),
        names.FAILED_FETCH_REQUESTS: MetricDef("Fetch requests that were refused, counted once a topic", ("topic",)),
        names.BYTES_REJECTED: MetricDef("Bytes of record batches larger than allowed", ("topic",)),
        names.QUOTA_PRODUCE_BYTE_RATE: MetricDef("Bytes a second produced by who has a quota", ("user", "client_id")),
        names.QUOTA_PRODUCE_THROTTLE_TIME: MetricDef(
            "Milliseconds producers were held back, mean of the last minute", ("user", "client_id")
        ),
        names.QUOTA_FETCH_BYTE_RATE: MetricDef("Bytes a second fetched by who has a quota", ("user", "client_id")),
        names.QUOTA_FETCH_THROTTLE_TIME: MetricDef(
            "Milliseconds consumers were held back, mean of the last minute", ("user", "client_id")
        ),
        names.QUOTA_REQUEST_TIME: MetricDef("Percent of the event loop used by who has a quota", ("user", "client_id")),
        names.QUOTA_REQUEST_THROTTLE_TIME: MetricDef(
            "Milliseconds clients were held back for it, mean of the last minute", ("user", "client_id")
        ),
        names.QUOTA_MUTATION_TOKENS: MetricDef(
            "Partitions that may be made or removed now by who has a quota", ("user", "client_id")
        ),
        names.QUOTA_MUTATION_THROTTLE_TIME: MetricDef(
            "Milliseconds clients were held back for it, mean of the last minute", ("user", "client_id")
        ),
        names.LEADER_COUNT: MetricDef("Partitions this broker leads"),
        names.PARTITION_COUNT: MetricDef("Partitions this broker has a replica of"),
        names.OFFLINE_REPLICA_COUNT: MetricDef("Replicas here whose log directory is offline"),
        names.UNDER_REPLICATED_PARTITIONS: MetricDef("Partitions led here with replicas out of sync"),
        names.REASSIGNING_PARTITIONS: MetricDef("Partitions led here whose replicas are being added or removed"),
        names.UNDER_MIN_ISR_PARTITION_COUNT: MetricDef(
            "Partitions led here with fewer in-sync replicas than min.insync.replicas"
        ),
        names.AT_MIN_ISR_PARTITION_COUNT: MetricDef(
            "Partitions led here with just min.insync.replicas in-sync replicas"
        ),
        names.ISR_SHRINKS: MetricDef("Times an in-sync set lost a replica"),
        names.ISR_EXPANDS: MetricDef("Times an in-sync set gained a replica"),
        names.FAILED_ISR_UPDATES: MetricDef("Changes of an in-sync set that the controller refused"),
        names.MOVES_MAX_LAG: MetricDef(
            "Committed records that the copy furthest behind lacks, of replicas that move to another log directory",
            ("clientId",),
        ),
        names.MOVES_FAILED_PARTITIONS: MetricDef(
            "Replicas whose move to another log directory met an error; asked for again it begins anew", ("clientId",)
        ),
        names.MOVES_DEAD_THREADS: MetricDef(
            "0: a fault of our own in such a move ends the broker, and no thread is left dead", ("clientId",)
        ),
        names.FOLLOWERS_MAX_LAG: MetricDef(
            "Committed records that the follower here which is furthest behind lacks, as its leader last said",
            ("clientId",),
        ),
        names.FOLLOWERS_FAILED_PARTITIONS: MetricDef(
            "Followers here that fetch no more until metadata name a newer leader: theirs said that there is one",
            ("clientId",),
        ),
        names.FOLLOWERS_DEAD_THREADS: MetricDef(
            "0: a fault of our own in a fetcher ends the broker, and no thread is left dead", ("clientId",)
        ),
        names.FOLLOWER_LAG: MetricDef(
            "Committed records that the follower here lacks, as its leader last said",
            ("clientId", "topic", "partition"),
        ),
        names.PARTITION_UNDER_MIN_ISR: MetricDef(
            "1 if the partition led here has fewer in-sync replicas than min.insync.replicas", ("topic", "partition")
        ),
        names.PARTITION_AT_MIN_ISR: MetricDef(
            "1 if the partition led here has just min.insync.replicas in-sync replicas", ("topic", "partition")
        ),
        names.PARTITION_REPLICAS_COUNT: MetricDef("Replicas of the partition led here", ("topic", "partition")),
        names.PARTITION_IN_SYNC_REPLICAS_COUNT: MetricDef(
            "In-sync replicas of the partition led here", ("topic", "partition")
        ),
        names.PARTITIONS_WITH_LATE_TRANSACTIONS: MetricDef(
            "Partitions led here with a transaction open for longer than transaction.max.timeout.ms and five minutes"
        ),
        names.PRODUCER_ID_COUNT: MetricDef("Producers with state on the replicas here"),
        names.PURGATORY_SIZE: MetricDef(
            "Partitions on which parked requests wait, counted once a request", ("delayedOperation",)
        ),
        names.DELAYED_OPERATIONS: MetricDef(
            "Requests parked until more data, or more replicas, are there", ("delayedOperation",)
        ),
        names.FETCH_SESSIONS: MetricDef("Incremental fetch sessions kept"),
        names.FETCH_SESSION_PARTITIONS: MetricDef("Partitions that these sessions remember"),
        names.FETCH_SESSION_EVICTIONS: MetricDef("Sessions that made room for others"),
        names.LOG_SIZE: MetricDef("Bytes of a partition's log here", ("topic", "partition")),
        names.LOG_START_OFFSET: MetricDef("First offset of a partition's log here", ("topic", "partition")),
        names.LOG_END_OFFSET: MetricDef(
            "Offset the next record of a partition's log here will have", ("topic", "partition")
        ),
        names.LOG_SEGMENTS: MetricDef("Segments of a partition's log here", ("topic", "partition")),
        names.OFFLINE_LOG_DIRECTORY_COUNT: MetricDef("Log directories taken out of service"),
        names.LOG_DIRECTORY_OFFLINE: MetricDef("1 if the log directory was taken out of service", ("logDirectory",)),
        names.LOG_DIRECTORY_FREE_BYTES: MetricDef(
            "Bytes free on the volume of a log directory, or of a controller's metadata.log.dir", ("logDirectory",)
        ),
        names.LOG_DIRECTORY_TOTAL_BYTES: MetricDef("Bytes that volume has", ("logDirectory",)),
        names.CLEANER_MAX_DIRTY_PERCENT: MetricDef("Dirty share of the dirtiest compacted log, in percent"),
        names.CLEANER_TIME_SINCE_LAST_RUN_MS: MetricDef("Milliseconds since a cleaner last looked for a log to clean"),
        names.CLEANER_UNCLEANABLE_PARTITIONS: MetricDef("Logs whose cleaning failed", ("logDirectory",)),
        names.CLEANER_UNCLEANABLE_BYTES: MetricDef(
            "Bytes of such logs that wait for their cleaning", ("logDirectory",)
        ),
        names.CLEANER_BUFFER_UTILIZATION: MetricDef(
            "Percent of a cleaner's key slots taken by its last cleaning, the greatest"
        ),
        names.CLEANER_RECOPY_PERCENT: MetricDef("Percent of the bytes read that the last cleanings kept"),
        names.CLEANER_MAX_CLEAN_SECONDS: MetricDef("Seconds a cleaner's last cleaning took, the longest"),
        names.CLEANER_MAX_COMPACTION_DELAY_SECONDS: MetricDef(
            "Seconds by which max.compaction.lag.ms is overdue, at most"
        ),
        names.CLEANER_DEAD_THREADS: MetricDef("Cleaners that ended with a fault"),
        names.LOG_FLUSH_TIME: MetricDef("Milliseconds it took to force a log to disk", in_quantiles=True),
        names.LOG_FLUSH_SECONDS: MetricDef("The same in seconds, of all times since the start"),
        names.REQUESTS: MetricDef("Requests received", ("request", "version")),
        names.REQUEST_ERRORS: MetricDef(
            "Error codes answered (NONE is success), counted once an answer", ("request", "error")
        ),
        names.REQUEST_SECONDS: MetricDef("Seconds from a request's last byte to its answer's first", ("request",)),
        names.REQUEST_QUEUE_TIME: MetricDef(
            "Milliseconds a request waited for its turn: held back, or behind others of its connection",
            ("request",),
            in_quantiles=True,
        ),
        names.LOCAL_TIME: MetricDef(
            "Milliseconds the broker itself spent on a request", ("request",), in_quantiles=True
        ),
        names.REMOTE_TIME: MetricDef(
            "Milliseconds a request waited for replicas, data, another broker or the disk",
            ("request",),
            in_quantiles=True,
        ),
        names.THROTTLE_TIME: MetricDef(
            "Milliseconds its client was held back for, by a quota", ("request",), in_quantiles=True
        ),
        names.RESPONSE_QUEUE_TIME: MetricDef(
            "Milliseconds an answer waited for those before it, and for a client that does not keep up",
            ("request",),
            in_quantiles=True,
        ),
        names.RESPONSE_SEND_TIME: MetricDef(
            "Milliseconds it took to give an answer to the kernel", ("request",), in_quantiles=True
        ),
        names.TOTAL_TIME: MetricDef(
            "Milliseconds from a request's last byte until its answer was sent", ("request",), in_quantiles=True
        ),
        names.REQUEST_BYTES: MetricDef("Bytes of a request, its length not counted", ("request",), in_quantiles=True),
        names.INCOMING_BYTES: MetricDef("Bytes read from sockets", ("listener",)),
        names.OUTGOING_BYTES: MetricDef("Bytes given to sockets", ("listener",)),
        names.CONNECTION_COUNT: MetricDef("Open connections", ("listener",)),
        names.CONNECTION_CREATION: MetricDef("Connections accepted", ("listener",)),
        names.CONNECTION_CLOSE: MetricDef("Connections closed", ("listener",)),
        names.CONNECTIONS_REFUSED: MetricDef(
            "Connections closed at once: a limit was reached, or the bytes were no request", ("listener", "reason")
        ),
        names.QUEUED_REQUESTS: MetricDef("Requests received and not answered yet"),
        names.QUEUED_REQUEST_BYTES: MetricDef("Bytes of requests received and not answered yet"),
        names.NETWORK_PROCESSOR_AVG_IDLE: MetricDef(
            "Share of the last ten seconds in which the event loop used no processor, 0 to 1"
        ),
        names.REQUEST_HANDLER_AVG_IDLE: MetricDef("The same: one event loop does both"),
        names.EVENT_LOOP_LAG: MetricDef(
            "Seconds by which the event loop was late with what came due, looked at ten times a second"
        ),
        names.EVENT_LOOP_LAG_MAX: MetricDef("Seconds by which it was late at most, in the last minute"),
        names.VERIFICATION_FAILURES: MetricDef("Partitions that a transaction's coordinator did not vouch for"),
        names.VERIFICATION_MS: MetricDef(
            "Milliseconds until a transaction's coordinator had answered", in_quantiles=True
        ),
        names.MARKERS_WITHOUT_LEADER: MetricDef("Transaction markers whose partition has no leader"),
        names.MARKERS_RETRIED: MetricDef("Transaction markers that were refused, and wait for another try"),
        names.GROUP_OFFSETS: MetricDef("Offsets committed by the groups coordinated here"),
        names.GROUPS: MetricDef("Classic groups coordinated here"),
        names.GROUPS_PREPARING_REBALANCE: MetricDef("Classic groups that wait for their members to join"),
        names.GROUPS_COMPLETING_REBALANCE: MetricDef("Classic groups that wait for their leader's assignment"),
        names.GROUPS_STABLE: MetricDef("Classic groups whose members have their assignments"),
        names.GROUPS_DEAD: MetricDef("Classic groups that are being let go of"),
        names.GROUPS_EMPTY: MetricDef("Classic groups without members"),
        names.GROUPS_BY_PROTOCOL: MetricDef(
            "Groups coordinated here: classic ones, and consumer groups", ("protocol",)
        ),
        names.CONSUMER_GROUPS_BY_STATE: MetricDef("Consumer groups (KIP-848) coordinated here", ("state",)),
        names.OFFSET_COMMITS: MetricDef("Offsets committed"),
        names.OFFSET_EXPIRATIONS: MetricDef("Offsets forgotten because they were old"),
        names.OFFSET_DELETIONS: MetricDef("Offsets deleted by an admin"),
        names.GROUP_COMPLETED_REBALANCES: MetricDef("Rebalances of classic groups that came to an assignment"),
        names.CONSUMER_GROUP_REBALANCES: MetricDef(
            "Times that the epoch of a consumer group rose for what its members read"
        ),
        names.ACTIVE_CONTROLLER_COUNT: MetricDef("1 on the active controller, 0 on the others"),
        names.ACTIVE_BROKER_COUNT: MetricDef("Brokers that are registered and not fenced"),
        names.FENCED_BROKER_COUNT: MetricDef("Brokers that are registered and fenced"),
        names.GLOBAL_TOPIC_COUNT: MetricDef("Topics of the cluster"),
        names.GLOBAL_PARTITION_COUNT: MetricDef("Partitions of the cluster"),
        names.OFFLINE_PARTITIONS_COUNT: MetricDef("Partitions without a leader"),
        names.PREFERRED_REPLICA_IMBALANCE_COUNT: MetricDef("Partitions not led by their preferred replica"),
        names.LAST_APPLIED_RECORD_OFFSET: MetricDef("Offset of the last metadata record applied by this controller"),
        names.LAST_COMMITTED_RECORD_OFFSET: MetricDef(
            "Offset of the last metadata record committed, as this controller knows"
        ),
        names.UNCLEAN_LEADER_ELECTIONS: MetricDef("Leaders elected from outside the in-sync set and the eligible ones"),
        names.ELIGIBLE_LEADER_ELECTIONS: MetricDef("Leaders elected from the eligible leader replicas (KIP-966)"),
        names.LEADER_ELECTIONS: MetricDef("Leaders elected"),
        names.DECOMMISSION_PARTITIONS_LEFT: MetricDef(
            "Partitions that a broker which is decommissioned still has, as the active controller knows", ("broker",)
        ),
        names.MAINTENANCE_LEADERS_LEFT: MetricDef(
            "Partitions that a broker in maintenance still leads, as the active controller knows", ("broker",)
        ),
        names.FAST_FENCINGS: MetricDef("Brokers fenced because their address refused connections"),
        names.LAST_APPLIED_RECORD_TIMESTAMP: MetricDef(
            "When the last metadata record applied here was written, ms since 1970"
        ),
        names.LAST_APPLIED_RECORD_LAG_MS: MetricDef("Milliseconds since then; 0 on the active controller"),
        names.TIMED_OUT_HEARTBEATS: MetricDef("Brokers that this controller fenced because their session was over"),
        names.NEW_ACTIVE_CONTROLLERS: MetricDef("Times this controller saw one become the active controller"),
        names.EVENT_QUEUE_TIME: MetricDef(
            "Milliseconds a change of the metadata waited until the active controller decided on it", in_quantiles=True
        ),
        names.EVENT_PROCESSING_TIME: MetricDef(
            "Milliseconds the active controller took to decide on one", in_quantiles=True
        ),
        names.CONTROLLER_AVG_IDLE: MetricDef(
            "Share of time in which the controller's event loop used no processor, 0 to 1"
        ),
        names.RAFT_CURRENT_STATE: MetricDef("1 under the state this voter or observer is in", ("state",)),
        names.RAFT_STATE: MetricDef("The same, with the label that Strimzi's dashboards ask for", ("current_state",)),
        names.RAFT_CURRENT_LEADER: MetricDef("Node id of the leader, -1 when unknown"),
        names.RAFT_CURRENT_EPOCH: MetricDef("Epoch (term) of the quorum"),
        names.RAFT_CURRENT_VOTE: MetricDef("Node id voted for in this epoch, -1 when none"),
        names.RAFT_HIGH_WATERMARK: MetricDef("High watermark of the metadata log, -1 when unknown"),
        names.RAFT_LOG_END_OFFSET: MetricDef("End offset of the metadata log here"),
        names.RAFT_LOG_END_EPOCH: MetricDef("Epoch of the last metadata record here"),
        names.RAFT_UNKNOWN_VOTERS: MetricDef("Voters of whom this controller does not know where they listen"),
        names.RAFT_VOTERS: MetricDef("Voters of the quorum"),
        names.RAFT_OBSERVERS: MetricDef("Brokers that fetch the metadata log, told by the leader alone"),
        names.RAFT_APPEND_RECORDS_RATE: MetricDef("Metadata records this leader appended, a second of the last minute"),
        names.RAFT_FETCH_RECORDS_RATE: MetricDef(
            "Metadata records replicated from the leader, a second of the last minute"
        ),
        names.RAFT_COMMIT_LATENCY_AVG: MetricDef("Milliseconds from append to commit, mean of the last minute"),
        names.RAFT_COMMIT_LATENCY_MAX: MetricDef("Milliseconds from append to commit, longest of the last minute"),
        names.RAFT_ELECTION_LATENCY_AVG: MetricDef("Milliseconds from candidate to leader, mean of the last minute"),
        names.RAFT_ELECTION_LATENCY_MAX: MetricDef("Milliseconds from candidate to leader, longest of the last minute"),
        names.RAFT_POLL_IDLE: MetricDef("The same as the controller's idle ratio: one event loop does both"),
        names.RAFT_ELECTIONS: MetricDef("Times this voter became a candidate"),
        names.RAFT_INCOMING_BYTES: MetricDef("Bytes received from other voters; of a broker, answers to these"),
        names.RAFT_OUTGOING_BYTES: MetricDef("Bytes sent to other voters; of a broker, to fetch the metadata log"),
        names.RAFT_REQUESTS: MetricDef("Raft messages sent; of a broker, requests for the metadata log"),
        names.RAFT_RESPONSES: MetricDef("Raft messages received; of a broker, answers to these"),
        names.JOURNAL_SYNC_SECONDS: MetricDef("Seconds it took to force the Raft journal to disk"),
        names.CURRENT_METADATA_VERSION: MetricDef("Level of the feature metadata.version, as this process knows"),
        names.CURRENT_CONTROLLER_ID: MetricDef(
            "Node id of the active controller, -1 when unknown (Kafka's MetadataLoader)"
        ),
        names.BROKER_METADATA_OFFSET: MetricDef("Offset of the last metadata record this broker applied"),
        names.BROKER_METADATA_APPLY_ERRORS: MetricDef(
            "Changes of the metadata, configs above all, that this broker could not take over since its start"
        ),
        names.CONFIGS_LEFT_OUT: MetricDef(
            "1 for each dynamic broker config that is stored and not in force, because it is no valid value here",
            ("key", "layer"),
        ),
        names.BROKER_METADATA_LAG: MetricDef("Milliseconds this broker's metadata is behind"),
        names.SNAPSHOT_BYTES: MetricDef("Bytes of the last snapshot of the metadata written here, 0 before the first"),
        names.SNAPSHOT_AGE_MS: MetricDef("Milliseconds since then, or since the start"),
        names.BROKERS: MetricDef("Brokers of the cluster that are not fenced, told by the active controller alone"),
        names.BROKER_INFO: MetricDef("1, of the broker itself: where clients are told to connect", ("id", "address")),
        names.TOPIC_PARTITIONS: MetricDef("Partitions of the topic", ("topic",)),
        names.TOPIC_PARTITION_CURRENT_OFFSET: MetricDef(
            "High watermark: the end of the partition to consumers", ("topic", "partition")
        ),
        names.TOPIC_PARTITION_OLDEST_OFFSET: MetricDef("First offset of the partition", ("topic", "partition")),
        names.TOPIC_PARTITION_LEADER: MetricDef("Node id of the partition's leader", ("topic", "partition")),
        names.TOPIC_PARTITION_REPLICAS: MetricDef("Replicas of the partition", ("topic", "partition")),
        names.TOPIC_PARTITION_IN_SYNC_REPLICA: MetricDef("In-sync replicas of the partition", ("topic", "partition")),
        names.TOPIC_PARTITION_LEADER_IS_PREFERRED: MetricDef(
            "1 if the partition's first replica leads it", ("topic", "partition")
        ),
        names.TOPIC_PARTITION_UNDER_REPLICATED: MetricDef(
            "1 if replicas of the partition are out of sync", ("topic", "partition")
        ),
        names.CONSUMERGROUP_CURRENT_OFFSET: MetricDef(
            "Offset the group committed", ("consumergroup", "topic", "partition")
        ),
        names.CONSUMERGROUP_LAG: MetricDef(
            "Records between the group's committed offset and the end", ("consumergroup", "topic", "partition")
        ),
        names.CONSUMERGROUP_CURRENT_OFFSET_SUM: MetricDef(
            "The same of a topic's partitions", ("consumergroup", "topic")
        ),
        names.CONSUMERGROUP_LAG_SUM: MetricDef(
            "The lags of a topic's partitions together, once all are known", ("consumergroup", "topic")
        ),
        names.CONSUMERGROUP_MEMBERS: MetricDef("Members of the group", ("consumergroup",)),
        names.BROKER_STATE: MetricDef(
            "1 starting, 2 caught up and fenced, 3 running, 6 asked to be let go, 7 shutting down (Kafka's BrokerState)"
        ),
        names.DISK_READ_BYTES: MetricDef("Bytes that the process had read from disks, the page cache not counted"),
        names.DISK_WRITE_BYTES: MetricDef("Bytes that the process gave to be written to disks"),
        names.CLIENT_METRIC: MetricDef(
            "What a client's metric was when it pushed last; what it counts by increments is summed up",
            ("client_id", "client_instance_id", "metric", "attributes"),
        ),
        names.CLIENT_METRICS_INSTANCES: MetricDef("Client instances that are asked for metrics here"),
        names.CLIENT_METRICS_UNKNOWN_SUBSCRIPTIONS: MetricDef(
            "Pushes under a subscription id that is not the client's"
        ),
        names.CLIENT_METRICS_THROTTLED: MetricDef("Requests of clients before their push interval was over"),
        names.CLIENT_METRICS_EXPORTS: MetricDef("Pushes taken"),
        names.CLIENT_METRICS_EXPORT_ERRORS: MetricDef("Pushes that could not be read"),
        names.CLIENT_METRICS_BYTES: MetricDef("Bytes of pushes taken, as they came"),
        names.CLIENT_METRICS_DROPPED: MetricDef("Numbers left out of pushes, for a limit"),
        names.BUILD_INFO: MetricDef("1, with what runs here as labels", ("version", "role", "node_id")),
        names.METRICS_OVERFLOWED: MetricDef("Metrics that have more label values than are kept"),
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
"""What Kafka tells once a node, and dashboards add up by node: of a node that is both, this process tells it."""
