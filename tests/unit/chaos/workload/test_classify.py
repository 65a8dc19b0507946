"""Which answer makes an operation `fail`, and which leaves it `info`: a table."""

import pytest

from kvorum.chaos.history import Fail, Info
from kvorum.chaos.workload.classify import Attempts, classify_change_error, classify_send_error, kafka_name
from kvorum.chaos.workload.recorder import Completion


@pytest.mark.parametrize(
    ("error", "attempts", "expected"),
    [
        # Never known: it may be written now, or later.
        ("_MSG_TIMED_OUT", "many", Info),
        ("_MSG_TIMED_OUT", "none", Info),
        ("REQUEST_TIMED_OUT", "one", Info),
        ("KafkaTimeoutError", "none", Info),
        ("_TRANSPORT", "many", Info),
        ("NETWORK_EXCEPTION", "one", Info),
        ("NOT_LEADER_OR_FOLLOWER", "one", Info),
        ("NOT_LEADER_FOR_PARTITION", "many", Info),
        ("NOT_ENOUGH_REPLICAS_AFTER_APPEND", "one", Info),
        ("NotEnoughReplicasAfterAppendError", "many", Info),
        ("UNKNOWN_TOPIC_OR_PARTITION", "one", Info),
        ("KAFKA_STORAGE_ERROR", "one", Info),
        ("UNKNOWN_SERVER_ERROR", "one", Info),
        ("_PURGE_INFLIGHT", "many", Info),
        ("_PURGE_QUEUE", "many", Info),
        ("_FATAL", "many", Info),
        # A broker that refused before it wrote, and a client that asked once.
        ("NOT_ENOUGH_REPLICAS", "one", Fail),
        ("MESSAGE_TOO_LARGE", "one", Fail),
        ("MSG_SIZE_TOO_LARGE", "one", Fail),
        ("OUT_OF_ORDER_SEQUENCE_NUMBER", "one", Fail),
        # The same from a client that may have tried before, and been written then.
        ("NOT_ENOUGH_REPLICAS", "many", Info),
        ("NotEnoughReplicasError", "many", Info),
        ("MSG_SIZE_TOO_LARGE", "many", Info),
        # What the client never took.
        ("_QUEUE_FULL", "none", Fail),
        ("MSG_SIZE_TOO_LARGE", "none", Fail),
        ("MessageSizeTooLargeError", "none", Fail),
        ("LEADER_NOT_AVAILABLE", "none", Fail),
        ("NETWORK_EXCEPTION", "none", Fail),
    ],
)
def test_a_failed_send_is_definite_only_where_nothing_can_have_been_written(
    error: str, attempts: Attempts, expected: Completion
) -> None:
    assert classify_send_error(error, attempts) is expected


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("_TIMED_OUT", Info),
        ("_TRANSPORT", Info),
        ("NOT_CONTROLLER", Info),
        ("TOPIC_ALREADY_EXISTS", Info),  # an earlier attempt may have created it
        ("UNKNOWN_TOPIC_OR_PARTITION", Info),  # an earlier attempt may have deleted it
        ("INVALID_REPLICATION_FACTOR", Fail),
        ("INVALID_PARTITIONS", Fail),
        ("POLICY_VIOLATION", Fail),
    ],
)
def test_a_failed_change_is_definite_only_where_no_attempt_can_have_made_it(error: str, expected: Completion) -> None:
    assert classify_change_error(error) is expected


def test_errors_of_all_clients_go_by_kafkas_names() -> None:
    assert kafka_name("MessageSizeTooLargeError") == kafka_name("MSG_SIZE_TOO_LARGE") == "MESSAGE_TOO_LARGE"
    assert kafka_name("NotLeaderForPartitionError") == kafka_name("NOT_LEADER_FOR_PARTITION")
    assert kafka_name("SOMETHING_NEW") == "SOMETHING_NEW"
