"""State of a fetch session: its partitions, the values last returned for each, and idle ones. Sans-IO.

    active --returned completely, may rest--> resting --partition, request or requester changes--> active
    either --removed, session closed--> removed

The partition wakes the session of a resting one once (broker.replica.watchers). Source: Kafka's FetchSession; resting
is Kvorum's.
"""

from collections.abc import Callable, Hashable
from typing import TypeAlias

from kvorum.broker.replica.fetches import ParkedFetch
from kvorum.broker.replica.resting import Rest
from kvorum.protocol.messages.fetch import FetchPartition, PartitionData
from kvorum.protocol.uuids import Uuid

INITIAL_EPOCH = 0
UNKNOWN = -1

Key: TypeAlias = tuple[str | Uuid, int]


class CachedPartition:
    """One partition of a session, or of a request without one: a RestingTarget, with the values last returned."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "high_watermark",
        "last_fetched_epoch",
        "local_log_start_offset",
        "log_start_offset",
        "partition",
        "partition_max_bytes",
        "rest",
        "session",
        "topic",
        "topic_id",
    )

    def __init__(self, topic: str, topic_id: Uuid, requested: FetchPartition) -> None:
        """Store a requested partition; `topic` is empty for an unknown id, `topic_id` zero if names are used."""
        self.topic = topic
        self.topic_id = topic_id
        self.partition = requested.partition
        self.high_watermark = UNKNOWN
        self.local_log_start_offset = UNKNOWN
        self.session: Session | None = None
        self.rest: Rest | None = None
        self.update(requested)

    def update(self, requested: FetchPartition) -> None:
        """Store the new request values."""
        self.partition_max_bytes = requested.partition_max_bytes
        self.fetch_offset = requested.fetch_offset
        self.log_start_offset = requested.log_start_offset
        self.current_leader_epoch = requested.current_leader_epoch
        self.last_fetched_epoch = requested.last_fetched_epoch

    def note(self, row: PartitionData) -> None:
        """Store the returned values.

        With an error, or if the follower's log diverges, the watermark is not stored: the client truncates first, and
        ignores the watermark in an answer about offsets that it does not have afterwards.
        """
        is_heeded = not row.error_code and row.diverging_epoch.epoch < 0
        self.high_watermark = row.high_watermark if is_heeded else UNKNOWN
        self.local_log_start_offset = row.log_start_offset

    def wake(self) -> None:
        """See Watcher: be active again."""
        if self.session is not None:
            self.session.wake(self)

    def must_be_sent(self, row: PartitionData) -> bool:
        """Return whether a row has values that the client does not have."""
        return bool(
            row.error_code
            or row.records
            or row.high_watermark != self.high_watermark
            or row.log_start_offset != self.local_log_start_offset
            or row.diverging_epoch.epoch >= 0
            or row.preferred_read_replica >= 0
        )


TryRest: TypeAlias = Callable[[CachedPartition], Rest | None]
"""Begins a target's rest, if it may rest (ReplicaManager.rest)."""


class Session:
    """A client's fetch session."""

    __slots__ = (
        "active",
        "asker",
        "created_ms",
        "epoch",
        "fetched_ms",
        "is_privileged",
        "last_used_ms",
        "parked",
        "partitions",
        "session_id",
        "uses_topic_ids",
    )

    def __init__(
        self,
        session_id: int,
        is_privileged: bool,
        uses_topic_ids: bool,
        partitions: dict[Key, CachedPartition],
        asker: Hashable,
        fetched_ms: int,
        now_ms: int,
    ) -> None:
        """Begin; `is_privileged` is a follower's, which a consumer's never displaces. `fetched_ms`: see below."""
        self.session_id = session_id
        self.is_privileged = is_privileged
        self.uses_topic_ids = uses_topic_ids
        self.partitions = partitions
        self.active: dict[CachedPartition, None] = dict.fromkeys(partitions.values())
        for target in self.active:
            target.session = self
        self.asker = asker
        self.parked: ParkedFetch | None = None
        """The request that waits, if one does."""
        self.fetched_ms = fetched_ms
        """Time of the last request, which is the last fetch of all idle partitions of a follower."""
        self.created_ms = now_ms
        self.last_used_ms = now_ms
        self.epoch = INITIAL_EPOCH + 1

    @property
    def evictable_key(self) -> tuple[bool, int, int]:
        """Order of eviction: consumers before followers, then fewer partitions first."""
        return (self.is_privileged, len(self.partitions), self.session_id)

    def wake(self, target: CachedPartition) -> None:
        """Look at a target again; nothing to one that is active."""
        if target.rest is None:
            return
        target.rest.end(self.fetched_ms)
        target.rest = None
        self.active[target] = None
        if self.parked is not None:
            self.parked.add(target)

    def wake_all(self) -> None:
        """Look at everything again."""
        if len(self.active) < len(self.partitions):
            for target in self.partitions.values():
                self.wake(target)

    def answered(self, target: CachedPartition, row: PartitionData, try_rest: TryRest | None) -> None:
        """Make a fully answered target idle if possible; move partitions that returned records to the end."""
        if target.session is not self:
            return  # forgotten meanwhile
        if row.records:
            del self.active[target]
            self.active[target] = None
        elif try_rest is not None and not row.error_code and row.diverging_epoch.epoch < 0:
            target.rest = try_rest(target)
            if target.rest is not None:
                del self.active[target]

    def update(self, key: Key, requested: FetchPartition, topic: str, topic_id: Uuid) -> None:
        """Store the new request values."""
        known = self.partitions.get(key)
        if known is not None:
            self.wake(known)
            known.update(requested)
            return
        target = self.partitions[key] = CachedPartition(topic, topic_id, requested)
        target.session = self
        self.active[target] = None

    def forget(self, key: Key) -> None:
        """Remove this partition. Idempotent."""
        target = self.partitions.pop(key, None)
        if target is not None:
            self.wake(target)
            del self.active[target]
            target.session = None

    def close(self) -> None:
        """End all notifications for this session."""
        self.parked = None
        self.wake_all()
        for target in self.active:
            target.session = None
