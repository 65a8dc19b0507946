"""Logs for operators: one line an event, `time level room message key=value ...`.

    2026-03-01T10:15:30.123Z INFO broker leader elected topic=orders partition=3 epoch=7

A logger is got once a module: `log = get_logger("broker")`. The level comes from KVORUM_LOG_LEVEL (debug, info,
warning, error, off; info when unset). What is below it costs one comparison: facts are handed over as they are, and
written only if wanted. Lines go to standard error, or to the file that the process opened with `log_to`. Nothing of a
record's content and no secret is ever a fact.
"""

import os
import sys
import time
from enum import IntEnum

VARIABLE = "KVORUM_LOG_LEVEL"
VALUE_CHARS_MAX = 1_000  # a fact is a name or a number; what a peer sent may be anything
PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/@,+%*<>()[]")


class Level(IntEnum):
    """How much it matters: ERROR wants somebody to act, WARNING to look, INFO is the node's diary, DEBUG is for us."""

    DEBUG = 10
    INFO = 20
    WARNING = 30
    ERROR = 40
    OFF = 100


def level_of(text: str) -> Level:
    """Read a level's name. Raises ValueError with the valid ones."""
    name = text.strip().upper()
    if name not in Level.__members__:
        raise ValueError(f"{VARIABLE}: {text!r} is none of {', '.join(Level.__members__).lower()}")
    return Level[name]


class Output:
    """Where this process's lines go and from which level; one for all its loggers."""

    __slots__ = ("fd", "level")

    def __init__(self, fd: int, level: Level) -> None:
        """Write to an open descriptor."""
        self.fd = fd
        self.level = level

    def write(self, line: str) -> None:
        """Write one line in one system call, so that processes that share a file do not mix theirs.

        A full disk or a closed terminal must not stop a node: the line is then lost, there is nowhere to say so.
        """
        try:
            os.write(self.fd, line.encode(errors="backslashreplace"))
        except OSError:
            return


class Logger:
    """Writes one room's events."""

    __slots__ = ("_output", "room")

    def __init__(self, room: str, output: Output) -> None:
        """Write under the room's name."""
        self.room = room
        self._output = output

    def debug(self, message: str, **facts: object) -> None:
        """Write what only a developer wants to know."""
        if self._output.level <= Level.DEBUG:
            self._write("DEBUG", message, facts)

    def info(self, message: str, **facts: object) -> None:
        """Write an event of the node's life."""
        if self._output.level <= Level.INFO:
            self._write("INFO", message, facts)

    def warning(self, message: str, **facts: object) -> None:
        """Write what somebody should look at."""
        if self._output.level <= Level.WARNING:
            self._write("WARNING", message, facts)

    def error(self, message: str, **facts: object) -> None:
        """Write what somebody must act on."""
        if self._output.level <= Level.ERROR:
            self._write("ERROR", message, facts)

    def is_debug(self) -> bool:
        """Tell whether DEBUG is written, for facts that are dear to gather."""
        return self._output.level <= Level.DEBUG

    def _write(self, level: str, message: str, facts: dict[str, object]) -> None:
        self._output.write(line_of(time.time(), level, self.room, message, facts))


def line_of(seconds: float, level: str, room: str, message: str, facts: dict[str, object]) -> str:
    """Write an event as a line that ends in a newline; line breaks in a message or a fact are escaped."""
    milliseconds = int(seconds * 1000)
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(milliseconds // 1000))
    head = f"{stamp}.{milliseconds % 1000:03d}Z {level} {room} {single_line(message)}"
    return " ".join((head, *(f"{name}={fact_of(value)}" for name, value in facts.items()))) + "\n"


def single_line(text: str) -> str:
    """Escape what would end the line or steer a terminal."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def fact_of(value: object) -> str:
    """Write a fact: plain when it is one word, else quoted; cut at VALUE_CHARS_MAX."""
    text = f"{type(value).__name__}: {value}" if isinstance(value, BaseException) else str(value)
    if len(text) > VALUE_CHARS_MAX:
        text = text[:VALUE_CHARS_MAX] + "..."
    if text and PLAIN.issuperset(text):
        return text
    return '"' + single_line(text.replace("\\", "\\\\").replace('"', '\\"')) + '"'


# The one output of the process: the only thing here that is not handed around, as standard error is not either.
_OUTPUT = Output(2, level_of(os.environ.get(VARIABLE) or "info"))


def get_logger(room: str) -> Logger:
    """Return the logger of a room; cheap, but meant to be kept."""
    return Logger(room, _OUTPUT)


def get_level() -> Level:
    """Return the level from which on is written."""
    return _OUTPUT.level


def set_level(level: Level) -> None:
    """Write from this level on."""
    _OUTPUT.level = level


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
