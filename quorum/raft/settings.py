"""The figures of the Raft layer, and how they follow from Kafka's keys."""

from dataclasses import dataclass
from typing import Final

from kvorum.runtime.config import Settings

ELECTION_SHARE_MIN: Final = 0.4
ELECTION_SHARE_MAX: Final = 0.8
"""A follower without heartbeats becomes a candidate after a random time between these shares of election.timeout.

That is 0.4 to 0.8 s by default. Kafka waits fetch.timeout (2 s) first, since its followers poll; ours receive
heartbeats.
"""
ELECTION_SECONDS_MIN: Final = 0.05
"""Of controller.quorum.election.timeout.ms, which may be 0: with less, elections would only disturb each other."""
CHECK_QUORUM_SHARE: Final = 0.5
"""A leader that no majority answered for this share of fetch.timeout steps down (Kafka: 1.5 times the whole)."""
HEARTBEATS_PER_TIMEOUT: Final = 5
"""Number of heartbeats in the shortest election timeout; pysyncobj demands more than three."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftSettings:
    """Times in seconds, sizes in bytes. The defaults are those of Kafka's keys."""

    election_timeout_min_s: float = 0.4
    election_timeout_max_s: float = 0.8
    heartbeat_s: float = 0.08
    check_quorum_timeout_s: float = 1.0
    hint_delay_max_s: float = 0.01
    """After a refused connection to the leader, wait a random time up to this before the pre-vote."""
    retry_delay_max_s: float = 0.05
    """After a lost pre-vote or a split vote, wait a random time up to this (and at least a fifth of it)."""
    commit_notice_s: float = 0.005
    """Followers learn of a commit with the next entries, or after this time."""
    transfer_timeout_s: float = 1.0
    """A leadership transfer that has not succeeded by then is abandoned."""
    append_bytes: int = 1024 * 1024
    """An Append has at least one entry, and at most this size."""
    window_bytes: int = 16 * 1024 * 1024
    """Entries sent to a peer and not answered yet."""
    window_count: int = 64
    """Appends sent to a peer and not answered yet."""
    chunk_bytes: int = 256 * 1024
    chunk_window: int = 4
    """Snapshot chunks sent to a peer and not answered yet."""
    link_silence_s: float = 3.0
    """A connection without responses for this time is reopened; TCP alone might wait minutes."""
    apply_slice: int = 256
    """Entries applied before other work gets a turn."""
    apply_slice_s: float = 0.005
    """Maximum time, with the current step: also in the middle of one entry."""
    snapshot_bytes: int = 20 * 1024 * 1024
    """metadata.log.max.record.bytes.between.snapshots."""
    snapshot_interval_s: float = 3600.0
    """metadata.log.max.snapshot.interval.ms; only if there is anything new; 0: never by age."""
    retained_entries: int = 1000
    """Kept behind a snapshot, so that a follower a little behind needs no snapshot."""
    segment_bytes: int = 8 * 1024 * 1024

    def __post_init__(self) -> None:
        """Check what pysyncobj and the algorithm lean on."""
        assert 0 < self.heartbeat_s * 3 < self.election_timeout_min_s < self.election_timeout_max_s
        assert self.check_quorum_timeout_s > self.heartbeat_s
        assert self.retained_entries >= 0 and self.window_count > 0 and self.chunk_window > 0


def raft_settings(settings: Settings) -> RaftSettings:
    """Return the figures for a node's configuration (controller.quorum.election.timeout.ms and the like)."""
    election_s = max(settings.int("controller.quorum.election.timeout.ms") / 1000, ELECTION_SECONDS_MIN)
    fetch_s = settings.int("controller.quorum.fetch.timeout.ms") / 1000
    shortest = election_s * ELECTION_SHARE_MIN
    return RaftSettings(
        election_timeout_min_s=shortest,
        election_timeout_max_s=election_s * ELECTION_SHARE_MAX,
        heartbeat_s=shortest / HEARTBEATS_PER_TIMEOUT,
        check_quorum_timeout_s=max(fetch_s * CHECK_QUORUM_SHARE, shortest),
        snapshot_bytes=settings.int("metadata.log.max.record.bytes.between.snapshots"),
        snapshot_interval_s=settings.int("metadata.log.max.snapshot.interval.ms") / 1000,
    )


FAST: Final = RaftSettings(
    election_timeout_min_s=0.15,
    election_timeout_max_s=0.3,
    heartbeat_s=0.03,
    check_quorum_timeout_s=0.25,
)
"""For tests with real processes: too tight for a loaded machine in production."""
