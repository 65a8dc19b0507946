"""Which failures pass by themselves: for these a pipeline is tried again, for the others a person is needed.

What is not known to be either is tried again as well: a limited number of tries does less harm than a pipeline that
stands still because a broker's message was one we had not seen.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import ValidationError
from pyspark.errors import AnalysisException, ParseException

from kvorum.pipelines.plugins import PluginError
from kvorum.pipelines.session.connector import ConnectorError
from kvorum.pipelines.session.machine import MachineError
from kvorum.pipelines.spec import SpecError
from kvorum.pipelines.transforms import TransformError

PASSING = re.compile(
    r"_TRANSPORT|_TIMED_OUT|_ALL_BROKERS_DOWN|_RESOLVE\b|TimeoutException|DisconnectException|ConnectException|"
    r"NOT_ENOUGH_REPLICAS|NOT_LEADER|LEADER_NOT_AVAILABLE|COORDINATOR_|REQUEST_TIMED_OUT|CONCURRENT_TRANSACTIONS|"
    r"PRODUCER_FENCED|INVALID_PRODUCER_EPOCH|[Cc]onnection refused|[Cc]onnection reset|could not connect|"
    r"connection to server|database is locked|the database system is|Broken pipe|"
    r"Python worker (exited|failed to connect back)"
)
BAD_RECORD = "USER_RAISED_EXCEPTION"
"""Spark's class of the error that a failed record raises (frames.first_failed)."""
OF_VALUES = re.compile(
    BAD_RECORD + r"|\b(Unfit|UnreadableValue|FileChanged|OutputChanged)\b|column \S+: a value is not a|"
    r"\[(CAST_INVALID_INPUT|CAST_OVERFLOW|ARITHMETIC_OVERFLOW|BINARY_ARITHMETIC_OVERFLOW|NUMERIC_VALUE_OUT_OF_RANGE|"
    r"DIVIDE_BY_ZERO|DATETIME_OVERFLOW|CANNOT_PARSE_TIMESTAMP|INVALID_ARRAY_INDEX|INVALID_UTF8_STRING|"
    r"DUPLICATED_MAP_KEY|MALFORMED_RECORD_IN_PARSING)|CSV header does not conform to the schema"
)
"""Of a value, which is read again with the same result. Looked for first: a value may have any text in it."""
LASTING = re.compile(
    r"failOnDataLoss|TOPIC_AUTHORIZATION|SASL_AUTHENTICATION|UNKNOWN_TOPIC_OR_PART|"
    r"STREAM_FAILED\.SCHEMA|INCOMPATIBLE|password authentication failed|"
    r"PermissionError|IsADirectoryError|NotADirectoryError|Read-only file system|mkdir of \S+ failed"
)
OURS = (SpecError, PluginError, ConnectorError, MachineError, TransformError, ValidationError, ValueError, ImportError)
PAUSE_SECONDS = 1.0
PAUSE_SECONDS_MAX = 60.0
WELL_SECONDS = 120.0
"""After this time without a failure the count starts at 0."""


def passing(error: BaseException) -> bool:
    """Whether a pipeline that failed so is worth another try."""
    text = "\n".join(str(each) for each in chain(error))
    if OF_VALUES.search(text):
        return False
    if PASSING.search(text):
        return True
    return not (isinstance(error, (AnalysisException, ParseException, *OURS)) or LASTING.search(text))


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and what it came from."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


@dataclass(slots=True)
class Backoff:
    """When to try again: after 1, 2, 4... seconds, so many times; a long time without failures forgives all."""

    retries_max: int
    failed: int = 0
    last: float = 0.0

    def next(self, now: float) -> float | None:
        """Return the pause before the next try; None when there were enough. `now` is monotonic, in seconds."""
        if self.failed and now - self.last > WELL_SECONDS:
            self.failed = 0
        self.failed += 1
        self.last = now
        if self.failed > self.retries_max:
            return None
        return min(PAUSE_SECONDS * float(2 ** (self.failed - 1)), PAUSE_SECONDS_MAX)
