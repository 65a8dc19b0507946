"""The states of one coordinator's partition: the committed one, and one behind each append that is not. Sans-IO.

    committed --append--> state behind it --append--> ... --append--> newest
        ^------- the high watermark passes an append's end ------'

Invariants, asserted: ends grow; the committed state never goes back within one leadership.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from kvorum.protocol.errors import KafkaError

S = TypeVar("S")

Answer = Callable[[KafkaError | None], None]


@dataclass(slots=True)
class Appended(Generic[S]):
    """One append: its end offset, the state after it, and its waiters."""

    end_offset: int
    state: S
    answers: list[Answer] = field(default_factory=list)


class History(Generic[S]):
    """Uncommitted states of a coordinator partition by end offset."""

    __slots__ = ("_appended", "_committed", "end_offset")

    def __init__(self, state: S, end_offset: int) -> None:
        """Start with a committed state, of a log that ends here."""
        self._committed = state
        self.end_offset = end_offset
        """The expected log end if there is no other writer."""
        self._appended: deque[Appended[S]] = deque()

    @property
    def committed(self) -> S:
        """The state below the high watermark."""
        return self._committed

    @property
    def newest(self) -> S:
        """The state behind everything that was appended."""
        return self._appended[-1].state if self._appended else self._committed

    @property
    def is_settled(self) -> bool:
        """Whether everything appended is committed."""
        return not self._appended

    def has_committed(self, end_offset: int) -> bool:
        """Return whether everything below this offset is committed."""
        return not self._appended or self._appended[0].end_offset > end_offset

    @property
    def open_count(self) -> int:
        """Number of uncommitted appends."""
        return len(self._appended)

    def push(self, end_offset: int, state: S) -> Appended[S]:
        """Record an append before it is made: the high watermark may pass it within the call."""
        assert end_offset > self.end_offset, f"an append ends at {end_offset}, not behind {self.end_offset}"
        appended = Appended(end_offset, state)
        self._appended.append(appended)
        self.end_offset = end_offset
        return appended

    def drop(self, appended: Appended[S], end_offset: int) -> None:
        """Take back the newest append: it was refused, the log ends where it did before."""
        assert self._appended and self._appended[-1] is appended, "only the newest append can be refused"
        self._appended.pop()
        self.end_offset = end_offset

    def wait_for_newest(self, answer: Answer) -> bool:
        """Complete `answer` with the newest append; False if everything is committed already."""
        if not self._appended:
            return False
        self._appended[-1].answers.append(answer)
        return True

    def advance(self, high_watermark: int) -> list[Answer]:
        """Commit all appends below the offset; return their waiters, in order."""
        answers: list[Answer] = []
        while self._appended and self._appended[0].end_offset <= high_watermark:
            appended = self._appended.popleft()
            self._committed = appended.state
            answers.extend(appended.answers)
        return answers

    def abandon(self) -> list[Answer]:
        """Drop uncommitted state; return its waiters."""
        answers = [answer for appended in self._appended for answer in appended.answers]
        self._appended.clear()
        return answers
