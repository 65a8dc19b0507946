"""A follower's side of an incremental fetch session with one leader (KIP-227): requested and acknowledged partitions.

    NONE --full request--> OPEN (if the answer names a session) --incremental requests--> OPEN
    OPEN --session error, lost connection--> NONE (the next request is full, and closes the old session)

The leader stores each partition's last request; a request contains only changes. `requested` is the same state on this
side: a row of the answer refers to the offset in it. Sans-IO. Source: Kafka's FetchSessionHandler.
"""

from collections.abc import Iterable
from typing import NamedTuple

from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.protocol.uuids import Uuid

NO_SESSION = 0
INITIAL_EPOCH = 0
INT32_MAX = 2**31 - 1


class FollowerFetch(NamedTuple):
    """Fetch parameters of one partition."""

    topic_id: Uuid
    fetch_offset: int
    current_leader_epoch: int
    last_fetched_epoch: int
    log_start_offset: int
    partition_max_bytes: int


class SessionLimits(NamedTuple):
    """Limits in every request: long poll and sizes (replica.fetch.*)."""

    replica_id: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int


class FetchSessionClient:
    """The session with one leader. One request at a time."""

    __slots__ = ("_changed", "_epoch", "_forgotten", "_limits", "_names", "_session_id", "_topics", "requested")

    def __init__(self, limits: SessionLimits) -> None:
        """Start without a session."""
        self._limits = limits
        self._session_id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._names: dict[Uuid, str] = {}
        self._topics: dict[Uuid, int] = {}
        """Number of requested partitions per topic."""
        self._changed: dict[TopicPartition, None] = {}
        self._forgotten: dict[tuple[TopicPartition, Uuid], None] = {}
        self.requested: dict[TopicPartition, FollowerFetch] = {}
        """Partitions of the last request, explicit or in the session; and those of the next one."""

    @property
    def is_open(self) -> bool:
        """Return whether the leader has the session."""
        return self._epoch != INITIAL_EPOCH

    def reset(self) -> None:
        """List all partitions in the next request, with the old session id for the leader to close."""
        self._epoch = INITIAL_EPOCH

    def ask(self, key: TopicPartition, requested: FollowerFetch | None) -> None:
        """Request a partition like this from the next request on (None: not at all).

        Not while a request is in flight.

        A new partition goes to the end: in a full request, whose answer is bounded, the others come first.
        """
        before = self.requested.get(key)
        if before == requested:
            return
        if before is not None:
            del self.requested[key]
            if requested is None or requested.topic_id != before.topic_id:
                self._changed.pop(key, None)
                self._forgotten[(key, before.topic_id)] = None
                self._count(key, before.topic_id, -1)
        if requested is not None:
            if before is None or requested.topic_id != before.topic_id:
                self._count(key, requested.topic_id, 1)
            self.requested[key] = requested
            self._changed[key] = None
            self._forgotten.pop((key, requested.topic_id), None)

    def _count(self, key: TopicPartition, topic_id: Uuid, more: int) -> None:
        count = self._topics.get(topic_id, 0) + more
        if count:
            self._topics[topic_id], self._names[topic_id] = count, key.topic
        else:
            del self._topics[topic_id], self._names[topic_id]

    def request(self, replica_epoch: int) -> FetchRequest:
        """Return the next request, for exactly the partitions in `requested`."""
        topics: dict[tuple[str, Uuid], FetchTopic] = {}
        forgotten: dict[tuple[str, Uuid], ForgottenTopic] = {}
        for key in self._changed if self.is_open else self.requested:
            requested = self.requested[key]
            _topic(topics, key.topic, requested.topic_id).partitions.append(_partition(key.partition, requested))
        if self.is_open:
            for key, topic_id in self._forgotten:
                slot = forgotten.setdefault((key.topic, topic_id), ForgottenTopic(topic=key.topic, topic_id=topic_id))
                slot.partitions.append(key.partition)
        self._changed, self._forgotten = {}, {}
        return FetchRequest(
            replica_id=self._limits.replica_id,
            replica_state=ReplicaState(replica_id=self._limits.replica_id, replica_epoch=replica_epoch),
            max_wait=self._limits.max_wait_ms,
            min_bytes=self._limits.min_bytes,
            max_bytes=self._limits.max_bytes,
            session_id=self._session_id,
            session_epoch=self._epoch,
            topics=list(topics.values()),
            forgotten_topics_data=list(forgotten.values()),
        )

    def response(self, response: FetchResponse) -> Iterable[tuple[TopicPartition, PartitionData]] | ErrorCode:
        """Process a response; return its rows for requested partitions, or the error that ended the session."""
        if response.error_code != ErrorCode.NONE:
            if response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self._session_id = NO_SESSION
            self.reset()
            return ErrorCode(response.error_code)
        rows = [
            (key, row)
            for topic in response.responses
            for row in topic.partitions
            if (key := TopicPartition(self._names.get(topic.topic_id, topic.topic), row.partition_index))
            in self.requested
        ]
        if response.session_id == NO_SESSION:
            # The leader's cache is full: every request is a full one, and `requested` still explains these rows.
            self._session_id, self._epoch = NO_SESSION, INITIAL_EPOCH
        else:
            self._session_id = response.session_id
            self._epoch = 1 if self._epoch == INT32_MAX else self._epoch + 1
        return rows


def _topic(topics: dict[tuple[str, Uuid], FetchTopic], name: str, topic_id: Uuid) -> FetchTopic:
    key = (name, topic_id)
    topic = topics.get(key)
    if topic is None:
        topic = topics[key] = FetchTopic(topic=name, topic_id=topic_id)
    return topic


def _partition(index: int, requested: FollowerFetch) -> FetchPartition:
    return FetchPartition(
        partition=index,
        current_leader_epoch=requested.current_leader_epoch,
        fetch_offset=requested.fetch_offset,
        last_fetched_epoch=requested.last_fetched_epoch,
        log_start_offset=requested.log_start_offset,
        partition_max_bytes=requested.partition_max_bytes,
    )
