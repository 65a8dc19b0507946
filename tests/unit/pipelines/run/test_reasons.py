"""Of a failure that Spark tells in a hundred lines, people see one; the texts are as Spark 4.2 gave them."""

import json
import logging
from pathlib import Path

import pytest

from kvorum.pipelines.plugins import PluginError
from kvorum.pipelines.run import failures
from kvorum.pipelines.spec import from_data

FAILURES = json.loads((Path(__file__).parent / "failures.json").read_text(encoding="utf-8"))
PIPELINE = from_data({"name": "p", "source": {"type": "jdbc"}, "sink": {"type": "topics"}})

LINES = {
    "notopic": "source jdbc: topic nosuch is not there",
    "notable": "source jdbc: shop.db: no such table: x",
    "nodb": "source jdbc: none.db: unable to open database file",
    "nocolumn": 'source jdbc: there is no column nope in "t": id, a',
    "badrecord": "VALUE_CONVERTER: org.apache.kafka.connect.errors.DataException: json: not of the schema, or no JSON "
    "(record bad-0 at offset 0)",
    "sinktable": "sink topics: OperationalError: no such table: nothere",
    "nobroker-in": "source jdbc: Failed while waiting for controller: Local: Timed out (_TIMED_OUT)",
    "nobroker-out": "sink topics: Failed while waiting for controller: Local: Timed out (_TIMED_OUT)",
    "nofolder": "Path does not exist: file:/run/none.",
    "nofolder2": "Path does not exist: /run/none.",
    "filescol": "Partition column nope not found in existing columns (id, timestamp, text).",
    "unwritable": "IOException: mkdir of file:/proc/nope/out/_spark_metadata failed",
    "nopg": 'source jdbc: OperationalError: connection failed: connection to server at "127.0.0.1", port 1 failed: '
    "Connection refused Is the server running on that host and accepting TCP/IP connections?",
}


def failure(name: str) -> Exception:
    kind = type(FAILURES[name]["type"], (Exception,), {"__module__": "pyspark.errors.exceptions.captured"})
    made: Exception = kind(FAILURES[name]["text"])
    return made


def test_every_recorded_failure_has_its_line() -> None:
    assert FAILURES.keys() == LINES.keys()


@pytest.mark.parametrize(("name", "line"), LINES.items())
def test_a_failure_is_told_in_one_line(name: str, line: str) -> None:
    error = failure(name)
    assert failures.reason(error, PIPELINE) == line
    trace = failures.trace(error, line)
    assert trace.partition("\n")[0] == line and FAILURES[name]["text"].strip() in trace


STREAM = "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: "


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("plain", "plain"),
        ("two\n  lines", "two lines"),
        ("", ""),
        (f"{STREAM}Connection reset SQLSTATE: XXKST", "Connection reset"),
        (
            f"{STREAM}Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times, most recent failure: Lost "
            "task 0.3 in stage 3.0 (TID 5) (10.0.0.7 executor 2): java.net.ConnectException: refused\n"
            "\tat java.base/sun.nio.ch.Net.poll(Native Method)\n\tat a.B.c(B.java:1)\n"
            "\nDriver stacktrace:\n\tat x.Y.z(Y)",
            "ConnectException: refused",
        ),
        (
            "An error occurred while calling o1.start.\n: org.apache.spark.SparkException: outer\n"
            "\tat a.B.c(B.java:1)\nCaused by: java.lang.RuntimeException: middle\n\tat a.B.c(B.java:2)\n"
            "Caused by: java.io.FileNotFoundException: /x (Permission denied)\n\tat a.B.c(B.java:3)\n\t... 5 more\n",
            "FileNotFoundException: /x (Permission denied)",
        ),
        ("[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column `a` cannot be resolved. SQLSTATE: 42703", "A column `a` "
         "cannot be resolved."),
        ("java.lang.RuntimeException: org.apache.spark.SparkException: inner", "inner"),
        ('cimpl.KafkaException: KafkaError{code=_TRANSPORT,val=-195,str="Broker down"}', "Broker down (_TRANSPORT)"),
        ('t-0: KafkaError{code=_TRANSPORT,val=-195,str="Broker down"} (x)', "t-0: Broker down (_TRANSPORT) (x)"),
        ("java.lang.OutOfMemoryError: Java heap space", "OutOfMemoryError: Java heap space"),
        ('Traceback (most recent call last):\n  File "a.py", line 1, in f\n    x\nKeyError: \'a\'', "KeyError: 'a'"),
        ("Traceback (most recent call last):\n  File cut off", "Traceback (most recent call last): File cut off"),
        ("x" * 9_000, "x" * failures.LINE_CHARACTERS_MAX + "..."),
    ],
)  # fmt: skip
def test_causes_are_looked_for_within_causes(text: str, line: str) -> None:
    assert failures.cause(text) == line


def raised_in(room: str, error: Exception) -> Exception:
    """Return an error with a trace through a module of a room."""
    code = compile("raise error", f"/site-packages/kvorum/pipelines/{room}.py", "exec")
    try:
        exec(code, {"error": error})
    except Exception as caught:
        return caught
    raise AssertionError


def test_where_it_happened_is_told_by_the_frames_of_ours() -> None:
    """Also of what Java's part of Spark refused, when source and sink were made."""
    assert failures.reason(raised_in("sources/files", failure("nofolder")), PIPELINE) == (
        "source jdbc: Path does not exist: file:/run/none."
    )
    found = failures.reason(raised_in("bridge/transaction", failure("filescol")), PIPELINE)
    assert found.startswith("sink topics: Part")
    assert failures.reason(raised_in("transforms/build", failure("filescol")), PIPELINE).startswith("Partition")
    assert failures.reason(raised_in("sources/files", failure("nofolder"))) == "Path does not exist: file:/run/none."


def test_errors_of_pythons_own_keep_their_name() -> None:
    assert failures.reason(ValueError("pk.fields")) == "ValueError: pk.fields"
    assert failures.reason(KeyError()) == "KeyError"
    assert failures.reason(PluginError("there is no 'x'")) == "there is no 'x'"


def test_a_trace_is_one_line_where_there_is_no_more_to_say_and_has_an_end() -> None:
    assert failures.trace(ValueError("x"), failures.reason(ValueError("x"))) == "ValueError: x"
    assert failures.trace(PluginError("x"), "x") == "x"
    assert len(failures.trace(ValueError("x" * 100_000), "x")) < 21_000


def test_a_trace_is_logged_beside_the_line() -> None:
    from kvorum.pipelines.run.terminal import OneLine

    record = logging.LogRecord("kvorum.x", logging.ERROR, "x.py", 1, "failed: %s", ("why",), None)
    try:
        raise ValueError("all of it")
    except ValueError as error:
        record.exc_info = (ValueError, error, error.__traceback__)
    assert OneLine("%(message)s").format(record) == "failed: why"
    whole = logging.Formatter("%(message)s").format(record)
    assert whole.startswith("failed: why\nTraceback") and whole.endswith("ValueError: all of it")
    assert OneLine("%(message)s").format(record) == "failed: why", "whoever formats it first"
