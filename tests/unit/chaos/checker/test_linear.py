"""The work for a history full of violations grows with its length, not with its square."""

import sys
from collections.abc import Callable

import pytest

from kvorum.chaos.checker import check
from tests.unit.chaos.checker.history_kit import History, P

N = 150
FACTOR_MAX = 4.8
"""Times the work for four times the history: n log n with some room, far from 16."""


def overwritten(n: int) -> History:
    """Two producers are told the same offsets; the ISR flaps; a follower is wiped now and then."""
    history = History().created()
    for at in range(n):
        history.send(2 * at, at).send(2 * at + 1, at, process=2)
        if at % 5 == 0:
            history.change(isr=[1, 2]).change(isr=[1, 2, 3])
        if at % 50 == 0:
            history.fault("wipe", "node-3", lossy=True)
    return history.final(*((at, 2 * at) for at in range(n)))


def all_at_one_offset(n: int) -> History:
    """Every send is told offset 0, and every poll returns that offset with another value."""
    history = History().created()
    for at in range(n):
        history.send(at, 0).poll((0, at))
    return history


def deposed(n: int) -> History:
    """With acks=1, each leader takes its last record with it."""
    history = History().created().process(1, acks="1", idempotent=False)
    for at in range(n):
        history.send(at, at).fault("kill", f"node-{at % 3 + 1}").change(leader=(at + 1) % 3 + 1)
    return history.final((n, -1))


def unclean(n: int) -> History:
    """One unclean election after the other, each of which loses a record."""
    history = History(unclean=True, min_isr=1).created()
    for at in range(n):
        history.send(at, at).change(leader=at % 3 + 1, isr=[at % 3 + 1], leader_recovery_state=1)
        history.change(leader_recovery_state=0)
    return history.final((n, -1))


def waiting(n: int) -> History:
    """Sends whose outcome nobody knows until the end, while ISRs change and nodes lose their data; all are gone."""
    history = History().created()
    for value in range(n):
        history.send_info(value)
        history.change(isr=[1, 2]).fault("wipe", f"node-{value % 3 + 1}", lossy=True).change(isr=[1, 2, 3])
    return history.poll(*((value, value) for value in range(n))).final((n, -1))


def strangers(n: int) -> History:
    """Half of what is polled nobody sent, and it lies where something else is."""
    history = History().created()
    for at in range(n):
        history.send(at, at).poll((at, at), (at, -at - 1))
    return history


def back_and_forth(n: int) -> History:
    """A reader that goes to the end and back to the start again and again."""
    history = History().created()
    for at in range(n):
        history.send(at, at)
    for at in range(n):
        history.poll((n - 1 if at % 2 else 0, n - 1 if at % 2 else 0))
    return history


def torn(n: int) -> History:
    """Transactions of which one half is missing."""
    history = History().created()
    for at in range(n):
        history.txn([["send", P, 2 * at, 3 * at], ["send", P, 2 * at + 1, 3 * at + 1]])
    return history.final(*((3 * at, 2 * at) for at in range(n)))


def work(history: History) -> int:
    """Return how many calls a verdict takes, of Python's functions and of C's."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        verdict = check(history.events)
    finally:
        sys.setprofile(None)
    assert verdict.violations or verdict.explained
    return calls


@pytest.mark.parametrize(
    "make", [overwritten, all_at_one_offset, deposed, unclean, waiting, strangers, back_and_forth, torn]
)
def test_a_bad_history_of_four_times_the_length_takes_four_times_the_work(make: Callable[[int], History]) -> None:
    assert work(make(4 * N)) <= FACTOR_MAX * work(make(N))
