"""Hands what groups and transactions did to the rules about them, and collects what these find."""

from collections.abc import Iterator

from kvorum.chaos.checker.commits import Commits, offsets_in
from kvorum.chaos.checker.copies import CopyChecker
from kvorum.chaos.checker.derive import Derivation
from kvorum.chaos.checker.facts import Fact
from kvorum.chaos.checker.ownership import Ownership
from kvorum.chaos.checker.transactions import find_hanging_transactions
from kvorum.chaos.history import Fail, Info, Invoke, Ok, Stable

OPERATIONS = frozenset({"commit", "offsets", "txn"})


class Coordinators:
    """Takes events in the history's order; `facts` at the end."""

    def __init__(self) -> None:
        """Create an empty history."""
        self.ownership = Ownership()
        self.commits = Commits()
        self.copies = CopyChecker()
        self.stable: dict[str, Stable] = {}
        """The last word on each partition."""

    def invoke(self, event: Invoke) -> None:
        """An operation begins."""
        if event.f in OPERATIONS:
            self.commits.invoke(event)
        elif event.f == "crash":
            self.ownership.crash(event.process)

    def complete(self, event: Ok | Fail | Info) -> None:
        """An operation ends."""
        if event.f not in OPERATIONS:
            return
        begun = self.commits.complete(event)
        if event.f == "txn":
            self.copies.take(event)
        if isinstance(event, Ok) and begun is not None and event.f != "offsets" and event.committed is not False:
            for group in dict.fromkeys(group for (group, _), _ in offsets_in(event)):
                self.ownership.take_commit(event, begun, group)

    def facts(self, derivation: Derivation) -> Iterator[Fact]:
        """Yield all that was found."""
        yield from self.ownership.facts
        yield from self.commits.judge()
        yield from self.copies.judge(derivation, self.commits.registers)
        yield from find_hanging_transactions(self.stable)
