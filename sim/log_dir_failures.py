"""Log directories that fail, are replaced by empty ones, removed from log.dirs and returned during a seed.

Sans-IO.

It has its own random generator: seeds without these stay the same, and saved plans replay unchanged. Each is an entry
of the schedule; `target` as of any fault, `detail` words. A directory is identified by its number, or by a partition
whose log is in it when the fault begins.

    dir_lost     DIRECTORY kill|terminate replaced|removed [breaks]
                 The broker ends, and restarts `length` later with an empty directory, or without it.
                 `breaks`: the directory fails first, and the broker continues for `amount` seconds.
    dir_broken   DIRECTORY kill|terminate
                 The directory fails, also over a restart `amount` seconds later; after `length`
                 it works again, and the broker is restarted.
    dir_return   kill|terminate
                 A removed directory is in log.dirs again with its old content.
"""

from random import Random
from typing import Final, NamedTuple

import msgspec

from sim.plan import FOLLOWER, LEADER, Fault, Options
from sim.schedule_entries import add_entries

LOST: Final = "dir_lost"
BROKEN: Final = "dir_broken"
RETURN: Final = "dir_return"
KINDS: Final = (LOST, LOST, LOST, BROKEN, BROKEN, RETURN)
"""The hat from which single ones are drawn."""
SHARE: Final = 0.15
"""Share of seeds with them."""
EVERY_S: Final = (2.0, 4.0, 8.0)
LAST_ONE: Final = 0.5
"""Probability that it hits the last replica in sync, which single faults hardly ever do."""
REPLACED: Final = "replaced"
REMOVED: Final = "removed"
BREAKS: Final = "breaks"
TERMINATE: Final = "terminate"
STOPS: Final = ("kill", TERMINATE)


class LossRequest(NamedTuple):
    """The words of a fault's detail."""

    directory: str
    stop: str
    how: str
    breaks: bool


def loss_request(fault: Fault) -> LossRequest:
    """Read a fault's detail."""
    words = fault.detail.split()
    if fault.kind == RETURN:
        return LossRequest("", words[0], RETURN, False)
    how = words[2] if fault.kind == LOST else BROKEN
    return LossRequest(words[0], words[1], how, BREAKS in words[3:])


def add_log_dir_failures(
    rng: Random, options: Options, faults: list[Fault], seconds: float, *, certain: bool = False
) -> tuple[Options, list[Fault]]:
    """Add them to a seed (`certain`: always), or none."""
    if not certain and rng.random() >= SHARE:
        return options, faults
    options = msgspec.structs.replace(options, log_dirs=max(options.log_dirs, rng.choice((2, 2, 3))))

    def draw_at(at: float) -> list[Fault]:
        if options.replication_factor > 1 and rng.random() < LAST_ONE:
            return last_one(rng, options, at)
        return [draw(rng, options, round(at, 3))]

    return add_entries(rng, options, faults, seconds, EVERY_S, draw_at)


def draw(rng: Random, options: Options, at: float) -> Fault:
    """Draw one: any broker, any directory."""
    partition = f"orders-{rng.randrange(options.partitions)}"
    node, leader = str(rng.randint(1, options.brokers)), f"{LEADER}:{partition}"
    follower = f"{FOLLOWER}{rng.randint(1, max(1, options.replication_factor - 1))}:{partition}"
    kind = rng.choice(KINDS)
    return _drawn(rng, kind, at, rng.choice((node, leader, follower)), partition if rng.random() < 0.7 else "1")


def last_one(rng: Random, options: Options, at: float) -> list[Fault]:
    """Draw how all followers of a partition end, one after another, and then its leader loses the log's directory.

    The followers restart after the leader.
    """
    partition = f"orders-{rng.randrange(options.partitions)}"
    gone_at = at + 0.1 * options.replication_factor
    # Silent ones are out of the ISR when their session is over; in between the directory may go with them in it.
    lost_at = gone_at + options.session_timeout_ms / 1000 * rng.choice((0.0, 1.0, 1.0)) + 0.3 + 0.5 * rng.random()
    lost = _drawn(rng, rng.choice((LOST, LOST, BROKEN)), round(lost_at, 3), f"{LEADER}:{partition}", partition)
    back_at = lost.at + lost.length + rng.choice((-0.2, 0.5, 2.0)) * rng.random()
    deaths = []
    for place in range(1, options.replication_factor):
        dies_at = at + 0.1 * place * rng.random()
        kind = rng.choice(("kill", "kill", TERMINATE))
        target = f"{FOLLOWER}{place}:{partition}"
        length = round(back_at + 0.3 * rng.random() - dies_at, 3)
        deaths.append(Fault(at=round(dies_at, 3), kind=kind, target=target, role="broker", length=length))
    return [*deaths, lost]


def _drawn(rng: Random, kind: str, at: float, target: str, directory: str) -> Fault:
    """Draw how one comes about."""
    stop = rng.choice(STOPS)
    lives_on = round(rng.choice((0.05, 0.5, 1.5)) * (0.3 + rng.random()), 3)
    down = 0.1 + rng.choice((0.2, 1.0)) * rng.random()
    if kind == RETURN:
        return Fault(at=at, kind=kind, target=target, role="broker", length=round(down, 3), detail=stop)
    words = [directory, stop]
    if kind == LOST:
        words += [rng.choice((REPLACED, REMOVED)), *([BREAKS] if rng.random() < 0.6 else [])]
    else:
        down += rng.choice((1.0, 3.0)) * (0.5 + rng.random())
    length = round(lives_on + down, 3)
    return Fault(at=at, kind=kind, target=target, role="broker", length=length, amount=lives_on, detail=" ".join(words))
