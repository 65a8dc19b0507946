"""Errors of requests: HTTP status, Kafka's error name, and position in the request."""

from pydantic import BaseModel, ValidationError

from kvorum.admin.http.fields import field_of
from kvorum.admin.http.operations import NotInBody, Operation
from kvorum.admin.http.parameters import BadInput
from kvorum.admin.http.problems import Refusal, problem
from kvorum.admin.http.request_input import NotJson, TooManyBodies, TooSlow, Unreadable
from kvorum.admin.http.statuses import status_of
from kvorum.client.wire.cluster_client import Unreachable
from kvorum.protocol.errors import ErrorCode, KafkaError

EXPECTED_ERRORS = (ValidationError, NotJson, TooSlow, TooManyBodies, Unreadable, BadInput, KafkaError, Unreachable)
"""Exceptions that operations raise; any other is a bug."""


def refusal_of(error: Exception, operation: Operation, body: BaseModel) -> Refusal:
    """Return the answer for one of EXPECTED_ERRORS."""
    match error:
        case ValidationError():
            first = error.errors(include_url=False, include_input=False)[0]
            field = ".".join(str(part) for part in first["loc"]) or None
            return problem(400, ErrorCode.INVALID_REQUEST.name, str(first["msg"]), field)
        case NotJson():
            return problem(415, "UNSUPPORTED_MEDIA_TYPE", str(error))
        case TooSlow():
            return close_after(problem(408, "REQUEST_TIMEOUT", str(error)))
        case TooManyBodies():
            return close_after(problem(503, "TOO_MANY_BODIES", str(error)))
        case Unreadable():
            return close_after(problem(400, ErrorCode.INVALID_REQUEST.name, str(error), "body"))
        case BadInput():
            return problem(400, ErrorCode.INVALID_REQUEST.name, error.message, error.field)
        case KafkaError():
            return refuse_kafka_error(error, operation, body)
        case _:
            assert isinstance(error, Unreachable), error
            return problem(503, "CLUSTER_UNREACHABLE", str(error))


def refuse_kafka_error(error: KafkaError, operation: Operation, body: BaseModel) -> Refusal:
    """Return the error of the cluster; for names in the body it is never 404, nor temporary."""
    field = error.field if isinstance(error, NotInBody) else field_of(error, operation, body)
    status = status_of(error.code)
    if status in (404, 503) and field is not None and field not in operation.names_in_path:
        status = 422
    return problem(status, error.code.name, error.message or error.code.name, field)


def close_after(refusal: Refusal) -> Refusal:
    """Return it as the last answer over its connection."""
    refusal.force_close()
    return refusal
