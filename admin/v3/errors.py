"""Errors below /v3: {"error_code": 40403, "message": ...}; the first digits of the code are the HTTP status.

Source: Confluent's KafkaExceptionMapper and Errors, with two differences. Kafka errors without a code of Confluent are
500 there; here they are 400 with the same 40002, unless a retry may help (500, 50003), because the server did not fail.
An unreachable cluster is 503 (50302), not a timeout after a minute.
"""

from collections.abc import Mapping
from typing import NamedTuple

from aiohttp import web

from kvorum.admin.http.operations import JSON
from kvorum.admin.http.problems import RETRY_AFTER, Refusal
from kvorum.admin.http.statuses import FORBIDDEN
from kvorum.admin.v3.models import ErrorResponse
from kvorum.protocol.errors import RETRIABLE, ErrorCode


class Code(NamedTuple):
    """An HTTP status and the number in the body."""

    status: int
    error_code: int


BAD_REQUEST = Code(400, 40002)
RETRY = Code(500, 50003)
UNKNOWN_TOPIC_MESSAGE = "This server does not host this topic-partition."
PAYLOAD = "PAYLOAD_ERROR"
BATCH = "BATCH_ERROR"
PARTITION = "PARTITION_NOT_FOUND"
AUTHORIZATION = {code for code in FORBIDDEN if code.name.endswith("AUTHORIZATION_FAILED")}

CODES: Mapping[str, Code] = {
    **{code.name: RETRY for code in RETRIABLE},
    **{code.name: Code(403, 40301) for code in AUTHORIZATION},
    ErrorCode.SASL_AUTHENTICATION_FAILED.name: Code(401, 40101),
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.name: Code(404, 40403),
    ErrorCode.UNKNOWN_TOPIC_ID.name: Code(404, 40403),
    ErrorCode.GROUP_ID_NOT_FOUND.name: Code(404, 404),
    ErrorCode.BROKER_ID_NOT_REGISTERED.name: Code(404, 404),
    ErrorCode.MESSAGE_TOO_LARGE.name: Code(413, 413),
    ErrorCode.RECORD_LIST_TOO_LARGE.name: Code(413, 413),
    ErrorCode.THROTTLING_QUOTA_EXCEEDED.name: Code(429, 42901),
    ErrorCode.BROKER_NOT_AVAILABLE.name: Code(503, 50302),
    "CLUSTER_UNREACHABLE": Code(503, 50302),
    "UNAUTHENTICATED": Code(401, 40101),
    "FORBIDDEN_ROLE": Code(403, 40301),
    PAYLOAD: Code(422, 42206),
    BATCH: Code(422, 42208),
    PARTITION: Code(404, 40402),
}
"""By our own API's error name; Kafka's errors that are not BAD_REQUEST."""


def code_of(error: str, status: int) -> Code:
    """Return the code of an error by its name; of one that is neither Kafka's nor in the table, the plain status."""
    if error in CODES:
        return CODES[error]
    ours = status in (400, 500) or error not in ErrorCode.__members__
    return Code(status, status) if ours else BAD_REQUEST


def respond_with_error(refusal: Refusal) -> web.Response:
    """Return an error of our own API in the format of this one."""
    said = refusal.problem
    code = code_of(said.error, said.status)
    if code.error_code == CODES[ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.name].error_code:
        message = UNKNOWN_TOPIC_MESSAGE
    elif said.status == 400 and said.field is not None:
        message = f"{said.field}: {said.message}"
    else:
        message = said.message
    kept = {name: refusal.headers[name] for name in ("Allow", "WWW-Authenticate") if name in refusal.headers}
    if code.status in RETRY_AFTER:
        kept["Retry-After"] = RETRY_AFTER[code.status]
    body = ErrorResponse(error_code=code.error_code, message=message)
    answer = web.Response(status=code.status, text=body.model_dump_json(), content_type=JSON, headers=kept)
    if refusal.keep_alive is False:
        answer.force_close()
    return answer
