"""Errors over HTTP: problem details (RFC 9457) with Kafka's error name and a matching status."""

from http import HTTPStatus

from aiohttp import web

from kvorum.admin.v1.models import Problem
from kvorum.protocol.errors import RETRIABLE, ErrorCode

PROBLEM = "application/problem+json"
NOT_FOUND = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.BROKER_ID_NOT_REGISTERED,
    ErrorCode.RESOURCE_NOT_FOUND,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    ErrorCode.VOTER_NOT_FOUND,
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
RETRY_AFTER = {429: "1", 503: "1"}
"""Seconds after which the same may go well, by status."""


def status_of(code: ErrorCode) -> int:
    """Return the HTTP status of a Kafka code."""
    for codes, status in TABLE:
        if code in codes:
            return status
    return 500 if code is ErrorCode.UNKNOWN_SERVER_ERROR else 422


class Refusal(web.Response):
    """An error answer; another API on this server has another format of it."""

    def __init__(self, said: Problem, headers: dict[str, str] | None = None) -> None:
        """Answer with problem details."""
        all_headers = {"Retry-After": RETRY_AFTER[said.status]} if said.status in RETRY_AFTER else {}
        all_headers |= headers or {}
        super().__init__(status=said.status, text=said.model_dump_json(), content_type=PROBLEM, headers=all_headers)
        self.said = said


def problem(
    status: int, error: str, message: str, field: str | None = None, headers: dict[str, str] | None = None
) -> Refusal:
    """Return an error answer."""
    said = Problem(
        title=HTTPStatus(status).phrase, status=status, detail=message, error=error, message=message, field=field
    )
    return Refusal(said, headers)
