"""A set that is iterated in insertion order.

The order of a set of futures or tasks is that of their addresses: the order of wake-ups would differ from run to run,
also between simulations of the same seed.
"""

from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class OrderedSet(Generic[T]):
    """The part of a set's interface that waiters need."""

    __slots__ = ("_members",)

    def __init__(self) -> None:
        """Start empty."""
        self._members: dict[T, None] = {}

    def add(self, member: T) -> None:
        """Add it at the end, unless it is a member."""
        self._members[member] = None

    def discard(self, member: T) -> None:
        """Remove it, if it is a member."""
        self._members.pop(member, None)

    def __iter__(self) -> Iterator[T]:
        """Go over the members, the oldest first."""
        return iter(self._members)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._members)
