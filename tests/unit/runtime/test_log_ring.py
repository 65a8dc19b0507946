"""The latest lines of a log, in memory: which are kept, which are told, and what is the limit."""

import os
from pathlib import Path

from kvorum.runtime.log_ring import BYTES_MAX, LINES_MAX, LogLine, LogRing
from kvorum.runtime.logs import VALUE_CHARS_MAX, Level, Logger, Output


def line(number: int, level: int = Level.INFO) -> LogLine:
    return LogLine(float(number), level, "broker", f"event {number}", {})


def numbers(lines: list[LogLine]) -> list[int]:
    return [int(each.seconds) for each in lines]


def test_the_newest_are_reported_last_and_those_below_the_level_are_left_out() -> None:
    ring = LogRing()
    for number in range(10):
        ring.add(line(number, Level.ERROR if number % 3 == 0 else Level.INFO), 20)
    found, dropped = ring.newest(4)
    assert (numbers(found), dropped) == ([6, 7, 8, 9], 0)
    assert numbers(ring.newest(3, Level.WARNING)[0]) == [3, 6, 9]
    assert numbers(ring.newest(100, Level.INFO)[0]) == list(range(10))
    assert ring.newest(100, Level.OFF) == ([], 0)


def test_more_lines_than_the_limit_push_the_oldest_out() -> None:
    ring = LogRing(lines_max=3)
    for number in range(5):
        ring.add(line(number), 20)
    found, dropped = ring.newest(10)
    assert (numbers(found), dropped) == ([2, 3, 4], 2)


def test_more_bytes_than_the_limit_push_the_oldest_out_but_never_the_newest() -> None:
    ring = LogRing(bytes_max=100)
    for number, size in enumerate((40, 40, 30)):
        ring.add(line(number), size)
    assert numbers(ring.newest(10)[0]) == [1, 2]
    ring.add(line(3), 1_000)
    assert (numbers(ring.newest(10)[0]), ring.newest(10)[1]) == ([3], 3)
    ring.add(line(4), 10)
    assert numbers(ring.newest(10)[0]) == [4], "the bytes of what has gone are free again"
    ring.add(line(5), 90)
    assert numbers(ring.newest(10)[0]) == [4, 5]


def test_the_shipped_limits_are_the_largest_request_and_a_mebibyte() -> None:
    ring = LogRing()
    for number in range(LINES_MAX + 7):
        ring.add(line(number), BYTES_MAX // (2 * LINES_MAX))
    found, dropped = ring.newest(LINES_MAX)
    assert (len(found), dropped) == (LINES_MAX, 7)


def test_lines_are_kept_as_logged_and_suppressed_ones_are_not(tmp_path: Path) -> None:
    fd = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)
    output = Output(fd, Level.INFO)
    log = Logger("broker", output)
    log.info("before anybody kept lines")
    ring = output.ring = LogRing()
    isr = [1, 2]
    log.debug("not wanted")
    log.warning("shrunk", isr=isr, partition=3, error=OSError(5, "no"), long="x" * 10_000, leader=None)
    isr.append(3)
    os.close(fd)
    ((seconds, level, room, message, facts),) = ring.newest(10)[0]
    assert (level, room, message) == (Level.WARNING, "broker", "shrunk") and seconds > 1_700_000_000
    assert facts == {
        "isr": "[1, 2]",
        "partition": 3,
        "error": "OSError: [Errno 5] no",
        "long": "x" * VALUE_CHARS_MAX + "...",
        "leader": None,
    }
    assert len((tmp_path / "log").read_text().splitlines()) == 2
