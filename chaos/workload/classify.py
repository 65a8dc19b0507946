"""Classification of an operation's error: certainly without effect (`fail`), or unknown (`info`). Pure.

A send that the client never accepted (its queue was full, the record too large) certainly did not happen. All else
depends on the client's possible attempts: librdkafka and aiokafka retry internally and report only the last response,
and neither reports whether an earlier attempt may have been written (confluent-kafka omits librdkafka's message status;
with retries=0 librdkafka still repeats a request rejected with NOT_LEADER_OR_FOLLOWER). So a rejection is definite only
from a client of one attempt, and only if the error guarantees that the broker appended nothing. A timeout or a lost
connection is never definite.
"""

from typing import Final, Literal

from kvorum.chaos.history import Fail, Info
from kvorum.chaos.workload.recorder import Completion

Attempts = Literal["none", "one", "many"]
"""Number of possible attempts of a failed send: none (rejected before it was queued), one, many."""

REFUSED_SENDS: Final = frozenset(
    {
        *("NOT_ENOUGH_REPLICAS", "MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE", "CORRUPT_MESSAGE", "INVALID_RECORD"),
        *("INVALID_TIMESTAMP", "INVALID_REQUIRED_ACKS", "UNSUPPORTED_COMPRESSION_TYPE", "INVALID_TOPIC_EXCEPTION"),
        *("TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED", "UNSUPPORTED_FOR_MESSAGE_FORMAT"),
        *("POLICY_VIOLATION", "UNSUPPORTED_VERSION", "INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED"),
        *("OUT_OF_ORDER_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID"),
    }
)
"""Errors with which a broker guarantees that it appended nothing of this request."""

REFUSED_CHANGES: Final = frozenset(
    {
        *("INVALID_TOPIC_EXCEPTION", "INVALID_PARTITIONS", "INVALID_REPLICATION_FACTOR", "INVALID_REPLICA_ASSIGNMENT"),
        *("INVALID_CONFIG", "INVALID_REQUEST", "POLICY_VIOLATION", "UNSUPPORTED_VERSION"),
        *("TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED", "TOPIC_DELETION_DISABLED"),
    }
)
"""Errors that no earlier attempt of the same change can have brought about."""

SPELLINGS: Final = {
    "MSG_SIZE_TOO_LARGE": "MESSAGE_TOO_LARGE",
    "INVALID_MSG": "CORRUPT_MESSAGE",
    "TOPIC_EXCEPTION": "INVALID_TOPIC_EXCEPTION",
    "NOT_LEADER_FOR_PARTITION": "NOT_LEADER_OR_FOLLOWER",
    "MessageSizeTooLargeError": "MESSAGE_TOO_LARGE",
    "NotEnoughReplicasError": "NOT_ENOUGH_REPLICAS",
    "NotEnoughReplicasAfterAppendError": "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    "NotLeaderForPartitionError": "NOT_LEADER_OR_FOLLOWER",
    "UnknownTopicOrPartitionError": "UNKNOWN_TOPIC_OR_PARTITION",
    "RequestTimedOutError": "REQUEST_TIMED_OUT",
    "KafkaTimeoutError": "TIMED_OUT",
    "KafkaConnectionError": "NETWORK_EXCEPTION",
    "_MSG_TIMED_OUT": "TIMED_OUT",
    "_TIMED_OUT": "TIMED_OUT",
    "_TRANSPORT": "NETWORK_EXCEPTION",
}
"""Clients' names of Kafka's errors, and Kafka's."""

TIMEOUTS: Final = frozenset({"TIMED_OUT", "REQUEST_TIMED_OUT"})


def kafka_name(error: str) -> str:
    """Return Kafka's name of an error that a client spells its own way; other names stay."""
    return SPELLINGS.get(error, error)


def classify_send_error(error: str, attempts: Attempts) -> Completion:
    """Return the completion for a send's error."""
    name = kafka_name(error)
    if name in TIMEOUTS:
        return Info
    if attempts == "none":
        return Fail
    return Fail if attempts == "one" and name in REFUSED_SENDS else Info


def classify_change_error(error: str) -> Completion:
    """Return the completion for the error of a metadata operation."""
    return Fail if kafka_name(error) in REFUSED_CHANGES else Info
