"""Failures: the reason in one line, and whether another attempt may succeed.

What is not known to be either is tried again as well: a limited number of tries does less harm than a pipeline that
stands still because a broker's message was one we had not seen.
"""

import re
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError
from pyspark.errors import AnalysisException, ParseException

from kvorum.pipelines.plugins import PluginError
from kvorum.pipelines.session.connector import ConnectorError
from kvorum.pipelines.session.machine import MachineError
from kvorum.pipelines.spec import Pipeline, SpecError
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


LINE_CHARACTERS_MAX: Final = 500
TRACE_CHARACTERS_MAX: Final = 20_000
"""Spark's traces repeat themselves; a status is read by people."""
DEPTH_MAX: Final = 20
"""Of causes within causes; none was seen beyond five."""

TRACEBACK: Final = "Traceback (most recent call last):"
END: Final = re.compile(r"\n(=== Streaming Query ===|JVM stacktrace:|Driver stacktrace:)")
AFTERWARDS: Final = re.compile(
    r"\s*\n(\s*at [\w.$/]+\(|\s*SQLSTATE: |\s*\.\.\. \d+ more|Caused by: |Suppressed: |During handling of |"
    r"The above exception )"
)
SQLSTATE: Final = re.compile(r"\s*SQLSTATE: \w{5}( \(line \d+, pos \d+\))?\s*$")
WRAPPINGS: Final = (
    re.compile(r"An error occurred while calling [^\n]*\n: "),
    re.compile(r"An exception was raised by the Python Proxy\. Return Message: "),
    re.compile(r"Query \S* ?\[id = [^]]*\] terminated with exception: "),
    re.compile(r"An error occurred in the user provided function in foreach ?batch sink\. Reason: ", re.IGNORECASE),
    re.compile(r"Failed when Python streaming data source perform \w+: "),
    re.compile(r"Failed to create Python data source instance: "),
    re.compile(r"An exception was thrown from the Python worker: "),
    re.compile(r"Job aborted due to stage failure: .*?most recent failure: .*?executor [^)]*\): ", re.DOTALL),
    re.compile(r"Writing job aborted\.?\s+(?=\S)"),
    re.compile(r"(org\.apache\.(spark|hadoop)|pyspark|py4j|kvorum)(\.[\w$]+)+: "),
    re.compile(r"\[[A-Z][A-Z0-9_.]+\] "),
)
"""Prefixes of a cause that add no information."""
CLASS: Final = re.compile(r"(?:\w+\.)+([A-Z]\w*): ")
"""A class of others', whose last name is kept: an OSError's text says little without it."""
KAFKA: Final = re.compile(r'(?:KafkaException: )?KafkaError\{code=(\w+),val=-?\d+,str="(.*?)"\}', re.DOTALL)
FRAME: Final = re.compile(r'File "[^"]*/pipelines/(\w+)/(\w+)\.py"')
PLACES: Final = {"sources": "source", "cdc": "source", "sinks": "sink"}
OF_BRIDGE: Final = {"source": "source"} | dict.fromkeys(("sink", "exactly_once", "transaction", "ledger"), "sink")


def reason(error: BaseException, pipeline: Pipeline | None = None) -> str:
    """Return what was wrong, in one line: `source jdbc: shop.db: no such table: x`."""
    text = str(error)
    what = cause(text)
    ours = type(error).__module__.startswith(("kvorum.", "pyspark.", "py4j."))
    if not ours and what == one_line(text):
        what = f"{type(error).__name__}: {what}" if what else type(error).__name__
    where = place(error)
    if pipeline is None or where is None or BAD_RECORD in text:  # a record's own message says enough
        return what or type(error).__name__
    end = pipeline.source if where == "source" else pipeline.sink
    return f"{where} {end.type}: {what}"


def trace(error: BaseException, line: str) -> str:
    """Return a failure as a status keeps it: its one line, then the whole, if that is more."""
    text = f"{type(error).__name__}: {error}"
    if line in (text, str(error)):
        return line
    whole = f"{line}\n\n{text}"
    return whole if len(whole) <= TRACE_CHARACTERS_MAX else whole[:TRACE_CHARACTERS_MAX] + "..."


def cause(text: str) -> str:
    """Return the innermost cause in a text, in one line."""
    text = END.split(text, maxsplit=1)[0]
    for _ in range(DEPTH_MAX):
        inner = unwrapped(text)
        if inner == text:
            break
        text = inner
    return one_line(KAFKA.sub(r"\2 (\1)", text))


def unwrapped(text: str) -> str:
    """Return a text without the outermost thing that wraps its cause; the text itself if nothing does."""
    text = text.strip()
    at = text.rfind(TRACEBACK)
    if at >= 0:
        return raised(text[at:]) or text
    at = text.rfind("\nCaused by: ")
    if at >= 0:
        return text[at:].removeprefix("\nCaused by: ")
    ended = AFTERWARDS.search(text)
    if ended is not None:
        return text[: ended.start()]
    shorter = SQLSTATE.sub("", text)
    for wrapping in WRAPPINGS:
        if matched := wrapping.match(shorter):
            return shorter[matched.end() :]
    if matched := CLASS.match(shorter):
        rest = shorter[matched.end() :]
        return f"{matched[1]}: {rest}" if unwrapped(rest) == rest.strip() else rest
    return shorter


def raised(trace: str) -> str:
    """Return what a traceback of Python's ends in: the exception's line, and what follows of its message."""
    lines = trace.splitlines()[1:]
    # Frames are indented; carets and source lines, too.
    first = next((index for index, line in enumerate(lines) if line and not line[0].isspace()), len(lines))
    return "\n".join(lines[first:])


def one_line(text: str) -> str:
    """Return a text in one line, not too long."""
    line = " ".join(text.split())
    return line if len(line) <= LINE_CHARACTERS_MAX else line[:LINE_CHARACTERS_MAX] + "..."


def place(error: BaseException) -> str | None:
    """Return at which end of the pipeline it happened, by the frames of ours: source, sink, or None."""
    text = END.split(str(error), maxsplit=1)[0]
    own = "".join(traceback.format_tb(error.__traceback__))
    for frames in (text[max(text.rfind(TRACEBACK), 0) :], text, own):
        found = list(ends(frames))
        if found:
            return found[-1]
    return None


def ends(frames: str) -> Iterator[str]:
    """Yield source or sink for each frame that is of either."""
    for room, module in FRAME.findall(frames):
        found = OF_BRIDGE.get(module) if room == "bridge" else PLACES.get(room)
        if found is not None:
            yield found
