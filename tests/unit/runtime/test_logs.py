"""Logs: one line an event, whatever is in it."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvorum.runtime.logs import (
    VALUE_CHARS_MAX,
    Level,
    Logger,
    Output,
    format_named,
    json_line_of,
    level_of,
    line_of,
)


def logged(level: Level, tmp_path: Path) -> str:
    """Return what a logger at this level writes of four events."""
    path = tmp_path / "log"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT)
    log = Logger("broker", Output(fd, level))
    log.debug("one")
    log.info("two", topic="orders", partition=3)
    log.warning("three")
    log.error("four")
    os.close(fd)
    return path.read_text()


def test_an_event_is_time_level_room_message_and_facts() -> None:
    facts: dict[str, object] = {"topic": "orders", "partition": 3, "isr": [1, 2], "leader": None}
    line = line_of(1_772_360_130.1239, "INFO", "broker", "leader elected", facts)
    assert line == (
        '2026-03-01T10:15:30.123Z INFO broker leader elected topic=orders partition=3 isr="[1, 2]" leader=None\n'
    )


@pytest.mark.parametrize(
    ("level", "words"),
    [
        (Level.TRACE, ["one", "two", "three", "four"]),
        (Level.DEBUG, ["one", "two", "three", "four"]),
        (Level.INFO, ["two", "three", "four"]),
        (Level.WARNING, ["three", "four"]),
        (Level.ERROR, ["four"]),
        (Level.FATAL, []),
        (Level.OFF, []),
    ],
)
def test_only_messages_of_the_level_are_written(level: Level, words: list[str], tmp_path: Path) -> None:
    assert [line.split()[3] for line in logged(level, tmp_path).splitlines()] == words


def test_a_logger_may_have_a_level_of_its_own(tmp_path: Path) -> None:
    """It keeps it whatever becomes of the root's, until it is taken away."""
    path = tmp_path / "log"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT)
    output = Output(fd, Level.INFO)
    one, other = output.logger("one"), output.logger("other")
    assert output.logger("one") is one
    output.set_level(Level.DEBUG, "one")
    output.set_level(Level.ERROR)
    assert output.levels() == {"one": Level.DEBUG, "other": Level.ERROR}
    assert output.logger("late").level is Level.ERROR
    one.debug("heard")
    other.info("unheard")
    output.set_level(None, "one")
    assert output.levels() == dict.fromkeys(("late", "one", "other"), Level.ERROR)
    one.debug("unheard")
    one.error("heard")
    os.close(fd)
    assert [line.split()[2:] for line in path.read_text().splitlines()] == [["one", "heard"]] * 2


def test_facts_that_are_not_wanted_are_not_even_written_out(tmp_path: Path) -> None:
    class Dear:
        def __str__(self) -> str:
            raise AssertionError("asked for its text")

    fd = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)
    log = Logger("broker", Output(fd, Level.INFO))
    log.debug("event", fact=Dear())
    assert not log.is_debug()
    os.close(fd)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("", '""'),
        ("a b", '"a b"'),
        ('say "hi"', '"say \\"hi\\""'),
        ("a=b", '"a=b"'),
        ("line\nbreak", '"line\\nbreak"'),
        ("\x1b[31mred", '"\\x1b[31mred"'),
        ("127.0.0.1:9092", "127.0.0.1:9092"),
        (OSError(5, "no"), '"OSError: [Errno 5] no"'),
        (0.5, "0.5"),
    ],
)
def test_a_fact_is_plain_or_quoted(value: object, text: str) -> None:
    assert line_of(0, "INFO", "room", "event", {"fact": value}).rstrip("\n").partition("fact=")[2] == text


def test_a_long_fact_is_cut() -> None:
    assert len(line_of(0, "INFO", "room", "event", {"fact": "x" * 1_000_000})) < VALUE_CHARS_MAX + 100


@given(st.text(max_size=50), st.text(max_size=50))
def test_every_message_stays_one_line_without_control_characters(message: str, fact: str) -> None:
    line = line_of(0, "INFO", "room", message, {"fact": fact})
    assert line.endswith("\n")
    assert line[:-1].isprintable()


@pytest.mark.parametrize(("text", "level"), [("debug", Level.DEBUG), (" WARNING ", Level.WARNING), ("off", Level.OFF)])
def test_levels_are_read(text: str, level: Level) -> None:
    assert level_of(text) is level


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(ValueError, match="'loud' is not one of trace, debug, info, warning, error, fatal, off"):
        level_of("loud")


def test_an_event_is_a_json_object_where_that_is_requested() -> None:
    facts: dict[str, object] = {"topic": "or\nders", "partition": 3, "isr": [1, 2], "leader": None, "ok": True}
    facts |= {"ms": 0.5, "never": float("inf"), "error": OSError(5, "no"), "long": "x" * 5_000}
    line = json_line_of(1_772_360_130.1239, "INFO", "broker", "leader elected", facts)
    assert line.endswith("}\n") and line.count("\n") == 1
    found = json.loads(line)
    assert len(found.pop("long")) == VALUE_CHARS_MAX + 3
    assert found == {
        "time": "2026-03-01T10:15:30.123Z",
        "level": "INFO",
        "room": "broker",
        "message": "leader elected",
        "topic": "or\nders",
        "partition": 3,
        "isr": "[1, 2]",
        "leader": None,
        "ok": True,
        "ms": 0.5,
        "never": "inf",
        "error": "OSError: [Errno 5] no",
    }


def test_no_fact_anywhere_has_a_name_that_every_line_has() -> None:
    """In JSON they would be one key; looked for in all code, since it would come out when the line is written."""
    root = Path(__file__).parent.parent.parent.parent
    rooms = ("admin", "broker", "chaos", "cli", "cluster", "network", "pipelines", "quorum", "runtime", "storage")
    calls = 0
    for path in (path for room in rooms for path in (root / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and is_log(node.func):
                calls += 1
                assert not {word.arg for word in node.keywords} & {"time", "level", "room"}, f"{path}:{node.lineno}"
    assert calls > 100


def is_log(function: ast.Attribute) -> bool:
    return (
        isinstance(function.value, ast.Name)
        and function.value.id == "log"
        and function.attr
        in (
            "debug",
            "info",
            "warning",
            "error",
        )
    )


def test_formats_are_read() -> None:
    assert format_named(" JSON ") is json_line_of
    assert format_named("text") is line_of
    with pytest.raises(ValueError, match="'xml' is not one of text, json"):
        format_named("xml")


def test_a_process_logs_json_by_its_environment() -> None:
    script = "from kvorum.runtime.logs import get_logger; get_logger('test').warning('odd', count=3)"
    environment = {**os.environ, "KVORUM_LOG_FORMAT": "json"}
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True)
    reported = json.loads(found.stderr)
    assert (reported["room"], reported["message"], reported["count"]) == ("test", "odd", 3)


def test_a_closed_output_does_not_stop_the_node(tmp_path: Path) -> None:
    fd = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)
    os.close(fd)
    Logger("broker", Output(fd, Level.INFO)).info("event")


def test_a_process_logs_by_its_environment_into_its_file(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from kvorum.runtime import logs\n"
        "log = logs.get_logger('broker')\n"
        "log.debug('before')\n"
        "logs.log_to(sys.argv[1])\n"
        "log.debug('after', n=1)\n"
        "print('printed', flush=True)\n"
        "logs.set_level(logs.Level.ERROR)\n"
        "log.warning('too quiet')\n"
        "raise SystemExit('the end')\n"
    )
    path = tmp_path / "node.log"
    path.write_text("old\n")
    environment = {**os.environ, "KVORUM_LOG_LEVEL": "debug"}
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], env=environment, capture_output=True, text=True, timeout=30
    )
    assert done.stderr.endswith("DEBUG broker before\n") and done.stderr.count("\n") == 1
    old, after, printed, end = path.read_text().splitlines()
    assert (old, printed, end) == ("old", "printed", "the end")
    assert after.endswith("DEBUG broker after n=1")


@pytest.mark.parametrize("level", [Level.ERROR, Level.OFF])
def test_an_unexpected_exception_is_one_line_with_its_stack_and_is_observed_at_any_level(
    tmp_path: Path, level: Level
) -> None:
    observed: list[tuple[str, BaseException]] = []
    fd = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)
    output = Output(fd, level)
    output.on_unexpected = lambda where, error: observed.append((where, error))
    try:
        {}["absent"]
    except KeyError as error:
        Logger("network", output).unexpected("request", error, api="Fetch")
        assert observed == [("request", error)]
    os.close(fd)
    lines = (tmp_path / "log").read_text().splitlines()
    assert len(lines) == (0 if level is Level.OFF else 1)
    for line in lines:
        assert " ERROR network unexpected exception where=request api=Fetch error=\"KeyError: 'absent'\"" in line
        assert "test_logs.py" in line
