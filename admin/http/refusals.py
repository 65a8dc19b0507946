"""Errors of requests: HTTP status, Kafka's error name, and position in the request."""

from pydantic import BaseModel, ValidationError

from kvorum.admin.http.fields import field_of
from kvorum.admin.http.incoming import GivenUp, NotJson, TooSlow, Unreadable
from kvorum.admin.http.operations import BadInput, NotInBody, Operation
from kvorum.admin.http.problems import Refusal, problem, status_of
from kvorum.client.wire.cluster_client import Unreachable
from kvorum.protocol.errors import ErrorCode, KafkaError

FORESEEN = (ValidationError, NotJson, TooSlow, GivenUp, Unreadable, BadInput, KafkaError, Unreachable)
"""Exceptions that operations raise; any other is a bug."""


def refusal_of(error: Exception, operation: Operation, body: BaseModel) -> Refusal:
    """Return the answer for one of FORESEEN."""
    match error:
        case ValidationError():
            first = error.errors(include_url=False, include_input=False)[0]
            field = ".".join(str(part) for part in first["loc"]) or None
            return problem(400, ErrorCode.INVALID_REQUEST.name, str(first["msg"]), field)
        case NotJson():
            return problem(415, "UNSUPPORTED_MEDIA_TYPE", str(error))
        case TooSlow():
            return last(problem(408, "REQUEST_TIMEOUT", str(error)))
        case GivenUp():
            return last(problem(503, "TOO_MANY_BODIES", str(error)))
        case Unreadable():
            return last(problem(400, ErrorCode.INVALID_REQUEST.name, str(error), "body"))
        case BadInput():
            return problem(400, ErrorCode.INVALID_REQUEST.name, error.message, error.field)
        case KafkaError():
            return of_cluster(error, operation, body)
        case _:
            assert isinstance(error, Unreachable), error
            return problem(503, "CLUSTER_UNREACHABLE", str(error))


def of_cluster(error: KafkaError, operation: Operation, body: BaseModel) -> Refusal:
    """Return the error of the cluster; for names in the body it is never 404, nor temporary."""
    field = error.field if isinstance(error, NotInBody) else field_of(error, operation, body)
    status = status_of(error.code)
    if status in (404, 503) and field is not None and field not in operation.parameters:
        status = 422
    return problem(status, error.code.name, error.message or error.code.name, field)


def last(refusal: Refusal) -> Refusal:
    """Return it as the last answer over its connection."""
    refusal.force_close()
    return refusal
