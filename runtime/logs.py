"""Logs for operators: one line per event, `time level room message key=value ...`.

    2026-03-01T10:15:30.123Z INFO broker leader elected topic=orders partition=3 epoch=7

or, with KVORUM_LOG_FORMAT=json, one JSON object per line, with the facts beside `time`, `level`, `room`, `message`:

    {"time":"2026-03-01T10:15:30.123Z","level":"INFO","room":"broker","message":"leader elected","topic":"orders",...}

These names, and those of the fields, are stable, for programs. Each module gets its logger once: `log =
get_logger("broker")`. The level comes from KVORUM_LOG_LEVEL (trace, debug, info, warning, error, fatal, off; info when
unset); single loggers may have others (KIP-412). A line below the level costs one comparison: fields are passed
unchanged, and rendered only if written. Lines are written to standard error, or to the file that the process opened
with `log_to`. Contents of records and secrets are never fields.
"""

import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum

from kvorum.runtime.log_ring import LogLine, LogRing

ROOT = "root"
VARIABLE = "KVORUM_LOG_LEVEL"
FORMAT_VARIABLE = "KVORUM_LOG_FORMAT"
UNEXPECTED = "unexpected exception"
"""The message of Logger.unexpected. Tests of running clusters search the nodes' logs for it."""
STACK_FRAMES_MAX = 12
FIRST_NAMES_MAX = 3
VALUE_CHARS_MAX = 1_000  # a fact is a name or a number; values from peers may be anything
PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/@,+%*<>()[]")


class Level(IntEnum):
    """Severity: ERROR requires action, WARNING attention, INFO records events, DEBUG is for developers.

    TRACE and FATAL exist because Kafka's loggers have them; no line has these levels.
    """

    TRACE = 5
    DEBUG = 10
    INFO = 20
    WARNING = 30
    ERROR = 40
    FATAL = 50
    OFF = 100


def level_of(text: str) -> Level:
    """Read a level's name. Raises ValueError with the valid ones."""
    name = text.strip().upper()
    if name not in Level.__members__:
        raise ValueError(f"{VARIABLE}: {text!r} is not one of {', '.join(Level.__members__).lower()}")
    return Level[name]


Format = Callable[[float, str, str, str, dict[str, object]], str]
"""Writes a line: seconds since 1970, level, room, message, facts."""


class Output:
    """Destination and format of this process's lines, its loggers by name, and the level of each.

    A logger without a level has that of the whole output, the root's.
    """

    __slots__ = ("_loggers", "_own", "fd", "format", "level", "on_unexpected", "ring")

    def __init__(self, fd: int, level: Level, format_: "Format | None" = None) -> None:
        """Write to an open descriptor, as text by default."""
        self.fd = fd
        self.level = level
        self.format = format_ or line_of
        self._loggers: dict[str, Logger] = {}
        self._own: dict[str, Level] = {}
        self.ring: LogRing | None = None
        """Buffer of the latest lines."""
        self.on_unexpected: Callable[[str, BaseException], None] = lambda where, error: None
        """Called by Logger.unexpected, whatever the level. See `observe_unexpected`."""

    def logger(self, room: str) -> "Logger":
        """Return the logger of a room, the same one each time."""
        found = self._loggers.get(room)
        if found is None:
            found = self._loggers[room] = Logger(room, self)
        return found

    def levels(self) -> dict[str, Level]:
        """Return the level of each logger there is, without the root's."""
        return {room: logger.level for room, logger in sorted(self._loggers.items())}

    def set_level(self, level: Level | None, room: str | None = None) -> None:
        """Set the level of one logger that is there (None: the root's again), or without a room the root's."""
        if room is None:
            assert level is not None, "the root always has a level"
            self.level = level
        elif level is None:
            self._own.pop(room, None)
        else:
            self._own[room] = level
        for name, logger in self._loggers.items():
            logger.level = self._own.get(name, self.level)

    def event(self, level: str, room: str, message: str, facts: dict[str, object]) -> None:
        """Write an event, and keep it where lines are kept."""
        seconds = time.time()
        line = self.format(seconds, level, room, message, facts)
        if self.ring is not None:
            self.ring.add(LogLine(seconds, Level[level], room, message, plain(facts)), len(line))
        self.write(line)

    def write(self, line: str) -> None:
        """Write one line in one system call, so that processes that share a file do not mix theirs.

        A full disk or a closed terminal must not stop a node: the line is lost, and nothing can report it.
        """
        try:
            os.write(self.fd, line.encode(errors="backslashreplace"))
        except OSError:
            return


class Logger:
    """Writes one room's events, from `level` on."""

    __slots__ = ("_output", "level", "room")

    def __init__(self, room: str, output: Output) -> None:
        """Write under the room's name."""
        self.room = room
        self.level = output.level
        self._output = output

    def debug(self, message: str, **facts: object) -> None:
        """Log a line for developers."""
        if self.level <= Level.DEBUG:
            self._write("DEBUG", message, facts)

    def info(self, message: str, **facts: object) -> None:
        """Write an event of the node's life."""
        if self.level <= Level.INFO:
            self._write("INFO", message, facts)

    def warning(self, message: str, **facts: object) -> None:
        """Write an event that deserves attention."""
        if self.level <= Level.WARNING:
            self._write("WARNING", message, facts)

    def error(self, message: str, **facts: object) -> None:
        """Write an event that requires action."""
        if self.level <= Level.ERROR:
            self._write("ERROR", message, facts)

    def unexpected(self, where: str, error: BaseException, **facts: object) -> None:
        """Write an exception that no handler expected, with its stack. It is a bug, and fails tests and simulations."""
        self._output.on_unexpected(where, error)
        if self.level <= Level.ERROR:
            self._write("ERROR", UNEXPECTED, {"where": where, **facts, "error": error, "stack": stack_of(error)})

    def is_debug(self) -> bool:
        """Return whether DEBUG is written, for facts that are expensive to collect."""
        return self.level <= Level.DEBUG

    def _write(self, level: str, message: str, facts: dict[str, object]) -> None:
        self._output.event(level, self.room, message, facts)


def first_names(names: Sequence[object]) -> str:
    """Return the first names of a batch, for a line that has their number too. The others are at DEBUG."""
    return ",".join(map(str, names[:FIRST_NAMES_MAX]))


def stack_of(error: BaseException) -> str:
    """Return the stack of an exception on one line, the innermost frame first."""
    frames = traceback.extract_tb(error.__traceback__)[-STACK_FRAMES_MAX:]
    return " < ".join(f"{frame.name} {frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in reversed(frames))


def stamp_of(seconds: float) -> str:
    """Write a time as 2026-03-01T10:15:30.123Z."""
    milliseconds = int(seconds * 1000)
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(milliseconds // 1000))
    return f"{stamp}.{milliseconds % 1000:03d}Z"


def json_line_of(seconds: float, level: str, room: str, message: str, facts: dict[str, object]) -> str:
    """Write an event as a JSON object on a line. Numbers, true, false and null are kept, everything else is text."""
    head = {"time": stamp_of(seconds), "level": level, "room": room, "message": message}
    assert not head.keys() & facts.keys(), "a fact has a name of its own"
    return json.dumps(head | plain(facts), separators=(",", ":")) + "\n"


def plain(facts: dict[str, object]) -> dict[str, object]:
    """Return facts as JSON values; their sources may change later."""
    return {name: value if is_plain(value) else text_of(value) for name, value in facts.items()}


def is_plain(value: object) -> bool:
    """Return whether JSON has such a value: infinity and NaN have none."""
    return value is None or type(value) in (bool, int) or (type(value) is float and abs(value) < float("inf"))


def line_of(seconds: float, level: str, room: str, message: str, facts: dict[str, object]) -> str:
    """Write an event as a line that ends in a newline; line breaks in a message or a fact are escaped."""
    head = f"{stamp_of(seconds)} {level} {room} {single_line(message)}"
    return " ".join((head, *(f"{name}={fact_of(value)}" for name, value in facts.items()))) + "\n"


def single_line(text: str) -> str:
    """Escape characters that would end the line or control a terminal."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def text_of(value: object) -> str:
    """Write a fact as text, cut at VALUE_CHARS_MAX."""
    text = f"{type(value).__name__}: {value}" if isinstance(value, BaseException) else str(value)
    return text[:VALUE_CHARS_MAX] + "..." if len(text) > VALUE_CHARS_MAX else text


def fact_of(value: object) -> str:
    """Write a fact: plain when it is one word, else quoted."""
    text = text_of(value)
    if text and PLAIN.issuperset(text):
        return text
    return '"' + single_line(text.replace("\\", "\\\\").replace('"', '\\"')) + '"'


FORMATS: dict[str, Format] = {"text": line_of, "json": json_line_of}


def format_named(text: str) -> Format:
    """Return what writes lines in a format. Raises ValueError with the valid ones."""
    found = FORMATS.get(text.strip().lower())
    if found is None:
        raise ValueError(f"{FORMAT_VARIABLE}: {text!r} is not one of {', '.join(FORMATS)}")
    return found


# The one output of the process: the only thing here that is not handed around, as standard error is not either.
_OUTPUT = Output(
    2, level_of(os.environ.get(VARIABLE) or "info"), format_named(os.environ.get(FORMAT_VARIABLE) or "text")
)


def get_logger(room: str) -> Logger:
    """Return the logger of a room; cheap, but meant to be kept."""
    return _OUTPUT.logger(room)


log = get_logger("runtime")


def get_level() -> Level:
    """Return the root's level."""
    return _OUTPUT.level


def get_levels() -> dict[str, Level]:
    """Return the level of each of this process's loggers, by name, without the root's."""
    return _OUTPUT.levels()


def set_level(level: Level | None, room: str | None = None) -> None:
    """Set the level of all loggers without their own, or of one logger. See Output.set_level."""
    _OUTPUT.set_level(level, room)


def change_levels(changes: Iterable[tuple[str, Level | None]]) -> None:
    """Set the levels of loggers by name (`root` is the root's; None: the root's again), with a log line."""
    for name, level in changes:
        set_level(level, None if name == ROOT else name)
        log.warning("log level changed", of=name, to="" if level is None else level.name)


@contextmanager
def observe_unexpected(observer: Callable[[str, BaseException], None]) -> Iterator[None]:
    """Call `observer(where, error)` for every unexpected exception of this process, instead of any other observer."""
    before, _OUTPUT.on_unexpected = _OUTPUT.on_unexpected, observer
    try:
        yield
    finally:
        _OUTPUT.on_unexpected = before


def keep_latest() -> None:
    """Keep the last lines of this process in memory from now on, without those of its parent."""
    _OUTPUT.ring = LogRing()


def latest(count: int, level: Level) -> tuple[list[LogLine], int]:
    """Return the last lines from a level on, newest last, and the number of older ones that were dropped."""
    return ([], 0) if _OUTPUT.ring is None else _OUTPUT.ring.newest(count, level)


def log_to(path: str) -> None:
    """Send this process's lines, and what Python itself writes to its standard streams, to the end of a file.

    Raises OSError. Called once at process start, before any child or thread.
    """
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(fd, 1)
    os.dup2(fd, 2)
    os.close(fd)
