"""Events of a voter for metrics; they influence no decision."""

from typing import Protocol


class RaftObserver(Protocol):
    """Called on the event loop; must not raise."""

    def role_changed(self, old: int, new: int) -> None:
        """The role is another: core.FOLLOWER, CANDIDATE or LEADER."""
        ...

    def synced(self, seconds: float) -> None:
        """A group commit of the journal is durable; with its duration."""
        ...

    def committed(self, seconds: float) -> None:
        """An append made here is committed and applied here, with its duration."""
        ...


class Unobserved:
    """No observer."""

    __slots__ = ()

    def role_changed(self, old: int, new: int) -> None:
        """See RaftObserver."""

    def synced(self, seconds: float) -> None:
        """See RaftObserver."""

    def committed(self, seconds: float) -> None:
        """See RaftObserver."""
