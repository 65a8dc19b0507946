"""Windows in time: tumbling and hopping (TimeWindows), sessions, and how far two records of a join may be apart.

All bounds are as Kafka's: a time window is [start, end) and aligned to the epoch; a session holds records that follow
one another within the inactivity gap, that very gap included; a window closes when stream time reaches its end plus
the grace. Lengths are whole milliseconds, since record timestamps are. Lengths that cannot be raise TopologyError.
"""

from dataclasses import dataclass, replace
from datetime import timedelta

from kvorum.pipelines.streams.functions import TopologyError

NONE = timedelta()


def milliseconds(length: timedelta) -> int:
    """Return a length of time in ms. Raises TopologyError for a fraction of one."""
    count, rest = divmod(length, timedelta(milliseconds=1))
    if rest:
        raise TopologyError(f"{length} is not a whole number of milliseconds")
    return count


def interval(length: timedelta) -> str:
    """Return a length of time as Spark reads it."""
    return f"{milliseconds(length)} milliseconds"


def _check(is_right: bool, message: str, grace: timedelta) -> None:
    if not is_right:
        raise TopologyError(message)
    if milliseconds(grace) < 0:
        raise TopologyError(f"the grace period is negative: {grace}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeWindows:
    """Windows of one size. Tumbling; hopping, once they advance by less than their size."""

    size: timedelta
    advance: timedelta
    grace: timedelta = NONE

    def __post_init__(self) -> None:
        """Check the lengths."""
        if milliseconds(self.size) <= 0:
            raise TopologyError(f"a window's size is above zero, not {self.size}")
        advances = NONE < self.advance <= self.size and milliseconds(self.advance) > 0
        _check(advances, f"windows advance by more than zero and at most their size, not {self.advance}", self.grace)

    @classmethod
    def of_size_with_no_grace(cls, size: timedelta) -> "TimeWindows":
        """Return tumbling windows that take no record after their end."""
        return cls(size=size, advance=size)

    @classmethod
    def of_size_and_grace(cls, size: timedelta, grace: timedelta) -> "TimeWindows":
        """Return tumbling windows that take records until stream time is `grace` beyond their end."""
        return cls(size=size, advance=size, grace=grace)

    def advance_by(self, advance: timedelta) -> "TimeWindows":
        """Return hopping windows: one begins every `advance`, and a record is in each that covers it."""
        return replace(self, advance=advance)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionWindows:
    """Windows of activity, parted by `inactivity_gap` without a record of the key."""

    inactivity_gap: timedelta
    grace: timedelta = NONE

    def __post_init__(self) -> None:
        """Check the lengths."""
        gap = self.inactivity_gap
        _check(milliseconds(gap) > 0, f"the inactivity gap is above zero, not {gap}", self.grace)

    @classmethod
    def of_inactivity_gap_with_no_grace(cls, inactivity_gap: timedelta) -> "SessionWindows":
        """Return sessions that close as soon as the gap is over."""
        return cls(inactivity_gap=inactivity_gap)

    @classmethod
    def of_inactivity_gap_and_grace(cls, inactivity_gap: timedelta, grace: timedelta) -> "SessionWindows":
        """Return sessions that take records until stream time is `grace` beyond the gap."""
        return cls(inactivity_gap=inactivity_gap, grace=grace)


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinWindows:
    """A record of the other stream joins if it is at most `before` older and at most `after` younger."""

    before_by: timedelta
    after_by: timedelta
    grace: timedelta = NONE

    def __post_init__(self) -> None:
        """Check the lengths."""
        _check(sum(self.bounds_ms()) >= 0, "the window ends before it starts", self.grace)

    def bounds_ms(self) -> tuple[int, int]:
        """Return (before, after) in ms."""
        return milliseconds(self.before_by), milliseconds(self.after_by)

    @classmethod
    def of_time_difference_with_no_grace(cls, difference: timedelta) -> "JoinWindows":
        """Return a window of `difference` either way, for records that come in order."""
        return cls(before_by=difference, after_by=difference)

    @classmethod
    def of_time_difference_and_grace(cls, difference: timedelta, grace: timedelta) -> "JoinWindows":
        """Return a window of `difference` either way, for records that come up to `grace` late."""
        return cls(before_by=difference, after_by=difference, grace=grace)

    def before(self, length: timedelta) -> "JoinWindows":
        """Return the window with another length back in time."""
        return replace(self, before_by=length)

    def after(self, length: timedelta) -> "JoinWindows":
        """Return the window with another length forward in time."""
        return replace(self, after_by=length)


Windows = TimeWindows | SessionWindows


class Suppressed:
    """Suppression of a table's intermediate results."""

    @classmethod
    def until_window_closes(cls) -> "Suppressed":
        """Hold a window's result back until it is final: one record a window. Kafka's until_time_limit is not here."""
        return cls()
