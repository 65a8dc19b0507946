"""HTTP statuses of Kafka's error codes."""

from kvorum.protocol.errors import RETRIABLE, ErrorCode

NOT_FOUND = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.BROKER_ID_NOT_REGISTERED,
    ErrorCode.RESOURCE_NOT_FOUND,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    ErrorCode.VOTER_NOT_FOUND,
    ErrorCode.DELEGATION_TOKEN_NOT_FOUND,
}
CONFLICT = {
    ErrorCode.TOPIC_ALREADY_EXISTS,
    ErrorCode.ELECTION_NOT_NEEDED,
    ErrorCode.NON_EMPTY_GROUP,
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.REASSIGNMENT_IN_PROGRESS,
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
    ErrorCode.DUPLICATE_VOTER,
}
DAMAGED = {ErrorCode.CORRUPT_MESSAGE}
"""Errors of stored data: a retry does not help."""
TOO_LARGE = {ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE}
TOO_MANY = {ErrorCode.THROTTLING_QUOTA_EXCEEDED}
UNAVAILABLE = RETRIABLE | {ErrorCode.BROKER_NOT_AVAILABLE}
"""Not the caller's fault: a retry may succeed in a moment."""
FORBIDDEN = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH,
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
    ErrorCode.POLICY_VIOLATION,
    ErrorCode.TOPIC_DELETION_DISABLED,
}


TABLE = (
    (NOT_FOUND, 404),
    (CONFLICT, 409),
    (FORBIDDEN, 403),
    (TOO_LARGE, 413),
    (TOO_MANY, 429),
    (DAMAGED, 500),
    (UNAVAILABLE, 503),
)
"""The first that has a code counts."""


def status_of(code: ErrorCode) -> int:
    """Return the HTTP status of a Kafka code."""
    for codes, status in TABLE:
        if code in codes:
            return status
    return 500 if code is ErrorCode.UNKNOWN_SERVER_ERROR else 422
