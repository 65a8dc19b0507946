"""Named places where a test may kill, fail or delay the process: before and after each persistence step.

`KVORUM_FAILPOINTS="log.roll.before=kill;journal.sync.after=raise@3"` arms them at process start, `arm` at any time: the
action (`kill` = SIGKILL to itself, `raise` = OSError(EIO)) happens on the Nth hit (first when not given), counted from
then. Unarmed, `hit` is an empty function, so a place costs one call and nothing else. Places call it by its module
(`failpoints.hit("...")`): `arm` puts another function into its place.
"""

import errno
import os
import signal
from collections.abc import Callable

VARIABLE = "KVORUM_FAILPOINTS"
ACTIONS = ("kill", "raise")


def _unarmed(name: str) -> None:
    """Do nothing: no failpoint is armed in this process."""


def parse(text: str) -> dict[str, tuple[str, int]]:
    """Return {name: (action, hit number)}. Raises ValueError with what is wrong."""
    armed: dict[str, tuple[str, int]] = {}
    for item in filter(None, (part.strip() for part in text.split(";"))):
        name, equals, what = item.partition("=")
        action, at, count = what.partition("@")
        number = int(count) if count.isdecimal() else 0 if at else 1
        if not name or not equals or action not in ACTIONS or number < 1:
            raise ValueError(f"{VARIABLE}: {item!r} is not NAME=kill|raise[@N]")
        armed[name] = (action, number)
    return armed


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
        action, count = points[name]
        if hits[name] != count:
            return
        if action == "kill":
            if owner is not None:
                os.kill(owner, signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError(errno.EIO, f"failpoint {name}")

    return fire


hit = armed(os.environ.get(VARIABLE, ""))
"""Called at each place with its name. Raises OSError where that was asked for."""
setting = os.environ.get(VARIABLE, "")
"""What is armed, for a worker process to be armed alike."""


def arm(text: str, owner: int | None = None) -> None:
    """Arm these failpoints in place of all that were armed; empty: none. Raises ValueError with what is wrong.

    `owner`: the process that works through this one, and dies of a `kill` here.
    """
    global hit, setting
    hit, setting = armed(text, owner), text
