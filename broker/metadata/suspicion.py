"""Brokers that may have died: a connection to them closed, and the metadata still has them alive.

Sans-IO.

    trusted --a connection to it closed, or was refused--> suspected
    suspected --it answers; the metadata fences, replaces or removes it--> trusted
    suspected --neither within the hold time--> given up
    given up --it answers; the metadata fences, replaces or removes it--> trusted

Invariants: one incarnation is suspected at most once until it has answered, so that waits are bounded however often a
connection fails; suspected are unfenced brokers only, at most SUSPECTED_MAX.
"""

from collections.abc import Callable, Iterable
from typing import Final

SUSPECTED_MAX: Final = 100
"""More closed doors at once are this node's own trouble, not theirs."""


class Suspicions:
    """The table above for all brokers. An incarnation is a broker's epoch."""

    __slots__ = ("_given_up", "suspected")

    def __init__(self) -> None:
        """Start without suspected brokers."""
        self.suspected: dict[int, int] = {}
        """{broker id: broker epoch}. Nearly always empty. For others to read."""
        self._given_up: dict[int, int] = {}

    def closed(self, broker_id: int, broker_epoch: int | None) -> bool:
        """Record a closed or refused connection; `broker_epoch` is the metadata's, None if fenced or missing.

        True if it is suspected from now on.
        """
        if broker_epoch is None or broker_id in self.suspected or len(self.suspected) >= SUSPECTED_MAX:
            return False
        if self._given_up.get(broker_id) == broker_epoch:
            return False
        self._given_up.pop(broker_id, None)
        self.suspected[broker_id] = broker_epoch
        return True

    def answered(self, broker_id: int, broker_epoch: int) -> None:
        """Take note that this incarnation lives: it has answered."""
        for known in (self.suspected, self._given_up):
            if known.get(broker_id) == broker_epoch:
                del known[broker_id]

    def give_up(self, broker_id: int, broker_epoch: int) -> bool:
        """Stop suspecting this incarnation, because the wait has ended; False if it is not suspected."""
        if self.suspected.get(broker_id) != broker_epoch:
            return False
        del self.suspected[broker_id]
        self._given_up[broker_id] = broker_epoch
        return True

    def knows(self, broker_id: int, broker_epoch: int) -> bool:
        """Return whether this incarnation is suspected or considered dead: it has not responded so far."""
        return broker_epoch in (self.suspected.get(broker_id), self._given_up.get(broker_id))

    def metadata_moved(self, broker_epoch: Callable[[int], int | None]) -> None:
        """Drop brokers that the metadata no longer lists as alive; `broker_epoch` as in `closed`."""
        for known in (self.suspected, self._given_up):
            for broker_id in [each for each, epoch in known.items() if broker_epoch(each) != epoch]:
                del known[broker_id]

    def among(self, leaders: Iterable[int]) -> frozenset[int]:
        """Return the suspected ones of these."""
        return frozenset(leaders) & self.suspected.keys()
