"""Verdict of the checker: violations, legal losses with reasons, and figures."""

from typing import Final

import msgspec

VALUES_SHOWN_MAX: Final = 1000
"""Values a violation lists; `count` has them all. A wiped partition loses every one of its values."""


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """A violation, or a finding that looked like one and was legal.

    `values` are those of the partition, up to the limit of `check`, out of `count`. `story` has sentences about the
    first of them, in time order. `reason` is the broken rule, or the reason why it is legal.
    """

    anomaly: str
    partition: str | None
    values: list[int]
    count: int
    story: list[str]
    reason: str
    t: float = 0.0
    """Time of the event, as precise as the history; for timelines."""


class FaultFigures(msgspec.Struct, kw_only=True):
    """One fault: its duration and effect, in seconds; None if the history does not contain it.

    `first_ack`: from its begin to the first acknowledgement of a send that began after it.
    `unavailable`: the longest time that overlaps the fault, counted from its begin, in which some partition had a
    send waiting and acknowledged none.
    """

    id: int
    fault: str
    targets: list[str]
    begin: float
    end: float | None = None
    lossy: bool = False
    first_ack: float | None = None
    unavailable: float = 0.0
    unavailable_partition: str | None = None
    unavailable_at: float = 0.0
    """When that time began."""


class PartitionFigures(msgspec.Struct, kw_only=True):
    """One partition: counts of values and records; gaps and lags in seconds."""

    sends: int = 0
    acked: int = 0
    read: int = 0
    lost: int = 0
    longest_gap: float = 0.0
    """Between two acknowledgements, or from the last one to the last send that began."""
    longest_gap_at: float = 0.0
    """When that gap began."""
    unavailable: float = 0.0
    """The longest time with a send waiting and none acknowledged."""
    lag_max: float = 0.0
    """Real-time lag: how long a record had been known when a consumer's poll that should see it began (Jepsen)."""


class Pace(msgspec.Struct, kw_only=True):
    """Counts of operations by result, in consecutive buckets of time from the start of the run."""

    width: float
    """Seconds of a bucket."""
    ok: list[int]
    fail: list[int]
    info: list[int]


class Figures(msgspec.Struct, kw_only=True):
    """A run in numbers. Seconds."""

    duration: float = 0.0
    events: int = 0
    operations: dict[str, dict[str, int]] = {}
    """By f, then by ok, fail, info."""
    clients: dict[str, dict[str, int]] = {}
    """By the client's name, then by ok, fail, info."""
    pace: Pace | None = None
    """The same over time; None of a history that was judged in parts."""
    errors: dict[str, int] = {}
    sends: int = 0
    acked: int = 0
    lost: int = 0
    """Number of acknowledged values that are lost, legally or not."""
    lost_legally: int = 0
    duplicated: int = 0
    reordered: int = 0
    records_read: int = 0
    longest_gap: float = 0.0
    """Between two acknowledgements anywhere in the cluster."""
    longest_gap_at: float = 0.0
    partitions: dict[str, PartitionFigures] = {}
    faults: list[FaultFigures] = []
    faults_by_kind: dict[str, int] = {}
    lag_max: float = 0.0
    lag_by_process: dict[int, float] = {}
    allowed: dict[str, int] = {}
    """Unusual findings that Kafka's design permits, by name (int-send-skip, skips of a subscriber, ...)."""
    replicas_compared: int = 0
    images_compared: int = 0
    final_reads: bool = False
    """There was a final phase of reads; without one `unseen` cannot be judged."""
    not_judged: list[str] = []
    """Rules that this history cannot check, as sentences."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome: `violations` are illegal, `explained` were legal and have their reasons."""

    violations: list[Violation]
    explained: list[Violation]
    figures: Figures

    @property
    def valid(self) -> bool:
        """Return whether no illegal anomaly was found."""
        return not self.violations
