"""Failpoints: named places where a test may kill, fail or delay the process, before and after each persistence step.

`KVORUM_FAILPOINTS="log.roll.before=kill;journal.sync.after=raise@3"` arms them at process start, `arm` at any time: the
action (`kill` = SIGKILL to itself, `raise` = OSError(EIO)) happens on the Nth hit (first when not given), counted from
then. `delay:MS` delays the caller for this time, like a slow disk: on every hit, or only on the Nth. Unarmed, `hit` is
an empty function, so a failpoint costs one call and nothing else. Code calls it through its module
(`failpoints.hit("...")`): `arm` replaces the function.
"""

import errno
import os
import signal
import time
from collections.abc import Callable
from typing import NamedTuple

VARIABLE = "KVORUM_FAILPOINTS"
KILL, RAISE, DELAY = "kill", "raise", "delay"
EVERY = 0
"""Instead of a hit's number: all of them."""
DELAY_MS_MAX = 60_000


class Armed(NamedTuple):
    """Action at a failpoint."""

    action: str
    number: int = 1
    """The hit; EVERY: each."""
    delay_ms: int = 0


def _unarmed(name: str) -> None:
    """No failpoint is armed in this process."""


def parse(text: str) -> dict[str, Armed]:
    """Return {name: action}. Raises ValueError with the error."""
    found: dict[str, Armed] = {}
    for item in filter(None, (part.strip() for part in text.split(";"))):
        name, _, what = item.partition("=")
        said, at, count = what.partition("@")
        action, colon, amount = said.partition(":")
        number = int(count) if count.isdecimal() else -1 if at else EVERY if action == DELAY else 1
        delay_ms = (
            int(amount) if amount.isascii() and amount.isdecimal() and len(amount) <= len(str(DELAY_MS_MAX)) else 0
        )
        known = 0 < delay_ms <= DELAY_MS_MAX if action == DELAY else action in (KILL, RAISE) and not colon
        if not name or not known or number < (0 if not at else 1):
            raise ValueError(
                f"{VARIABLE}: {item!r} is not NAME=kill|raise[@N], NAME=delay:MS[@N] of up to {DELAY_MS_MAX}"
            )
        found[name] = Armed(action, number, delay_ms)
    return found


def armed(text: str, owner: int | None = None) -> Callable[[str], None]:
    """Return the function behind `hit` for this setting; `kill` ends the process `owner` with this one."""
    if not text:
        return _unarmed
    points = parse(text)
    hits: dict[str, int] = {}

    def fire(name: str) -> None:
        if name not in points:
            return
        hits[name] = hits.get(name, 0) + 1
        point = points[name]
        if point.number not in (EVERY, hits[name]):
            return
        if point.action == DELAY:
            time.sleep(point.delay_ms / 1000)
            return
        if point.action == KILL:
            if owner is not None:
                os.kill(owner, signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError(errno.EIO, f"failpoint {name}")

    return fire


def chained(first: Callable[[str], None], then: Callable[[str], None]) -> Callable[[str], None]:
    """Return a function that calls both, or only the one that exists."""
    if first is _unarmed or then is _unarmed:
        return then if first is _unarmed else first

    def both(name: str) -> None:
        first(name)
        then(name)

    return both


hit = armed(os.environ.get(VARIABLE, ""))
"""Called at each failpoint with its name. Raises OSError if armed so."""
setting = os.environ.get(VARIABLE, "")
"""Armed actions, to arm a worker process in the same way."""
_armed: tuple[Callable[[str], None], str] = hit, setting
_slowed: tuple[Callable[[str], None], str] = _unarmed, ""


def arm(text: str, owner: int | None = None) -> None:
    """Arm these failpoints, replacing all armed ones; empty: none. Raises ValueError with the error.

    `owner`: the process that uses this one as a worker, and is killed by a `kill` here.
    """
    global _armed
    _armed = armed(text, owner), text
    _put_together()


def slow(text: str) -> None:
    """Set delays at failpoints (NAME=delay:MS), replacing earlier delays, besides armed actions; empty: none.

    Armed actions continue to count their hits. Raises ValueError with the error.
    """
    global _slowed
    if any(each.action != DELAY for each in parse(text).values()):
        raise ValueError(f"{text!r} contains actions other than delays")
    _slowed = armed(text), text
    _put_together()


def _put_together() -> None:
    global hit, setting
    hit = chained(_slowed[0], _armed[0])
    setting = ";".join(filter(None, (_armed[1], _slowed[1])))
