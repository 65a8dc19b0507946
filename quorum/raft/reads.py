"""ReadIndex: a read point that is linearizable, for the price of one round of heartbeats. Sans-IO.

A read may be served once (1) this leader has applied its term's first entry, so it has all earlier commits; (2) a
majority has answered, in this term, a message that was sent after the read began, so no later leader can have committed
anything before; (3) everything committed at that time is applied. Leases would save the round; they are not possible,
since the refusal hint makes voters disloyal.
"""

import asyncio
from collections import deque
from dataclasses import dataclass, field

from kvorum.quorum.raft.log import MetadataLogError


@dataclass(slots=True)
class Round:
    """Reads requested at one moment. `sequence`: last number sent before; `index`: committed by then."""

    sequence: int
    index: int
    answered: set[int] = field(default_factory=set)
    futures: list[asyncio.Future[int]] = field(default_factory=list)
    confirmed: bool = False


class ReadRounds:
    """The rounds in flight at a leader, oldest first."""

    __slots__ = ("_rounds", "_waiting")

    def __init__(self) -> None:
        """Start with none."""
        self._waiting: list[asyncio.Future[int]] = []
        self._rounds: deque[Round] = deque()

    def ask(self, future: asyncio.Future[int]) -> None:
        """Queue a read for the next round."""
        self._waiting.append(future)

    @property
    def wanted(self) -> bool:
        """Whether a round should start: reads wait for one."""
        return bool(self._waiting)

    def start(self, *, sequence: int, commit_index: int, alone: bool) -> None:
        """Begin a round; heartbeats numbered above `sequence` are sent next. `alone`: one voter is a majority."""
        waiting, self._waiting = self._waiting, []
        self._rounds.append(Round(sequence, commit_index, futures=waiting, confirmed=alone))

    def answered(self, peer: int, sequence: int, *, others_needed: int) -> None:
        """Record the response of a counting voter to the message numbered `sequence`."""
        for one in self._rounds:
            if sequence <= one.sequence:
                break
            one.answered.add(peer)
            one.confirmed = one.confirmed or len(one.answered) >= others_needed

    def finish(self, *, applied_index: int, high_watermark: int) -> None:
        """Resolve confirmed and applied reads."""
        rounds = self._rounds
        while rounds and rounds[0].confirmed and rounds[0].index <= applied_index:
            for future in rounds.popleft().futures:
                if not future.done():
                    future.set_result(high_watermark)

    def fail(self, error: MetadataLogError) -> None:
        """Fail all."""
        futures = self._waiting + [future for one in self._rounds for future in one.futures]
        self._waiting, self._rounds = [], deque()
        for future in futures:
            if not future.done():
                future.set_exception(error)
