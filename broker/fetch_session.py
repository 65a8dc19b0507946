"""Incremental fetch sessions, the server's side (KIP-227). Sans-IO.

A client that fetches many partitions says each time only what changed, and is told only what changed; the broker
remembers the rest under a session id. `FetchSessionCache.context` turns a request into what is to be fetched now, the
context turns rows into the answer.

    session epoch  0, any id     full request, a new session (the old one is closed) if the cache has room
    session epoch -1, any id     full request without a session (the old one is closed)
    session epoch  n, an id      incremental; it must be the session's next epoch

Invariants: the cache holds at most `slots_max` sessions; a session's epoch is that of the request it expects next; each
partition is in it once, by topic id (v13+) or by name, never both; who got records goes to the end of the order, so
that no partition starves another where the answer is bounded. Source: Kafka's FetchSession.
"""

from collections.abc import Callable, Iterable
from random import Random
from typing import Protocol, TypeAlias

from kvorum.broker.replica.types import FetchTarget
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from kvorum.protocol.uuids import ZERO_UUID, Uuid

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
INT32_MAX = 2**31 - 1
TOPIC_ID_VERSION_MIN = 13
UNKNOWN = -1

Rows: TypeAlias = Iterable[tuple[FetchTarget, PartitionData]]
Key: TypeAlias = tuple[str | Uuid, int]
TopicName: TypeAlias = Callable[[Uuid], str | None]
"""Answers a topic id's name, None while it is not known."""


class CachedPartition:
    """One partition of a session, or of a request without one: a FetchTarget, and what was answered last."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "high_watermark",
        "last_fetched_epoch",
        "local_log_start_offset",
        "log_start_offset",
        "partition",
        "partition_max_bytes",
        "topic",
        "topic_id",
    )

    def __init__(self, topic: str, topic_id: Uuid, asked: FetchPartition) -> None:
        """Take what was asked; `topic` is empty while the id is not known, `topic_id` zero where names are used."""
        self.topic = topic
        self.topic_id = topic_id
        self.partition = asked.partition
        self.high_watermark = UNKNOWN
        self.local_log_start_offset = UNKNOWN
        self.update(asked)

    def update(self, asked: FetchPartition) -> None:
        """Take what is asked now."""
        self.partition_max_bytes = asked.partition_max_bytes
        self.fetch_offset = asked.fetch_offset
        self.log_start_offset = asked.log_start_offset
        self.current_leader_epoch = asked.current_leader_epoch
        self.last_fetched_epoch = asked.last_fetched_epoch

    def note(self, row: PartitionData) -> None:
        """Remember what is answered.

        Beside an error, or where the follower's log parts from ours, the watermark is no news to whoever asks: it
        truncates first, and takes neither from an answer about offsets it has no more.
        """
        is_heeded = not row.error_code and row.diverging_epoch.epoch < 0
        self.high_watermark = row.high_watermark if is_heeded else UNKNOWN
        self.local_log_start_offset = row.log_start_offset

    def must_be_told(self, row: PartitionData) -> bool:
        """Tell whether a row says anything the client does not know."""
        return bool(
            row.error_code
            or row.records
            or row.high_watermark != self.high_watermark
            or row.log_start_offset != self.local_log_start_offset
            or row.diverging_epoch.epoch >= 0
            or row.preferred_read_replica >= 0
        )


class FetchContext(Protocol):
    """One request's part in its session."""

    targets: list[CachedPartition]
    """All that is to be fetched, in this order; `topic` is empty where the id is not known (UNKNOWN_TOPIC_ID)."""

    def respond(self, rows: Rows, now_ms: int) -> FetchResponse:
        """Return the answer. `rows` has one for each target, in any order."""
        ...


class Session:
    """What one client fetches."""

    __slots__ = ("created_ms", "epoch", "is_privileged", "last_used_ms", "partitions", "session_id", "uses_topic_ids")

    def __init__(
        self,
        session_id: int,
        is_privileged: bool,
        uses_topic_ids: bool,
        partitions: dict[Key, CachedPartition],
        now_ms: int,
    ) -> None:
        """Begin; `is_privileged` is a follower's, which a consumer's never displaces."""
        self.session_id = session_id
        self.is_privileged = is_privileged
        self.uses_topic_ids = uses_topic_ids
        self.partitions = partitions
        self.created_ms = now_ms
        self.last_used_ms = now_ms
        self.epoch = INITIAL_EPOCH + 1

    @property
    def evictable_key(self) -> tuple[bool, int, int]:
        """What has the least goes first: a consumer's before a follower's, then fewer partitions."""
        return (self.is_privileged, len(self.partitions), self.session_id)


class FetchSessionCache:
    """The sessions of one broker. Session ids are by chance, so that one of before a restart is hardly met again."""

    def __init__(self, slots_max: int, eviction_ms: int, chance: Random) -> None:
        """max.incremental.fetch.session.cache.slots, and how long an unused session is safe from others."""
        self._slots_max = slots_max
        self._eviction_ms = eviction_ms
        self._chance = chance
        self._sessions: dict[int, Session] = {}
        self.evictions = 0
        """How many sessions made room for others so far."""

    def __len__(self) -> int:
        """Return how many sessions there are."""
        return len(self._sessions)

    @property
    def cached_partitions(self) -> int:
        """How many partitions all sessions remember."""
        return sum(len(session.partitions) for session in self._sessions.values())

    def context(
        self, request: FetchRequest, version: int, *, is_from_follower: bool, topic_name: TopicName, now_ms: int
    ) -> FetchContext:
        """Return what is to be fetched for a request.

        Raises:
            KafkaError: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR (ids and
                names do not mix in a session): the answer's top-level error; the client starts over.
        """
        by_id = version >= TOPIC_ID_VERSION_MIN
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._sessions.pop(request.session_id, None)
            asked = _asked(request, by_id, topic_name)
            if request.session_epoch == FINAL_EPOCH:
                return SessionlessContext(asked)
            return FullContext(self, asked, by_id, is_from_follower)
        session = self._sessions.get(request.session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"there is no session {request.session_id}")
        if session.epoch != request.session_epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH, f"the session expects epoch {session.epoch}")
        if session.uses_topic_ids != by_id:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, "the session was opened the other way")
        _update(session, request, topic_name)
        if not session.partitions:
            del self._sessions[session.session_id]
            return SessionlessContext(_asked(request, by_id, topic_name))
        self._touch(session, now_ms)
        session.epoch = next_epoch(session.epoch)
        return IncrementalContext(session, request.session_epoch, topic_name)

    def open(
        self, partitions: dict[Key, CachedPartition], uses_topic_ids: bool, is_privileged: bool, now_ms: int
    ) -> int:
        """Open a session and return its id, NO_SESSION if there is no room. Cost when full: the number of sessions."""
        if len(self._sessions) >= self._slots_max and not self._evict_for(is_privileged, len(partitions), now_ms):
            return NO_SESSION
        session_id = self._chance.randint(1, INT32_MAX)
        while session_id in self._sessions:
            session_id = self._chance.randint(1, INT32_MAX)
        self._sessions[session_id] = Session(session_id, is_privileged, uses_topic_ids, partitions, now_ms)
        return session_id

    def _touch(self, session: Session, now_ms: int) -> None:
        """Move it to the end: the order of the sessions is that of their last use."""
        session.last_used_ms = now_ms
        self._sessions[session.session_id] = self._sessions.pop(session.session_id)

    def _evict_for(self, is_privileged: bool, size: int, now_ms: int) -> bool:
        """Make room: a session long unused; else the least that may be displaced, if it is less than the new one.

        A consumer's session is safe while it is young, but for a follower's that wants its place.
        """
        stalest = next(iter(self._sessions.values()), None)
        if stalest is None:
            return False
        if now_ms - stalest.last_used_ms > self._eviction_ms:
            victim = stalest
        else:
            displaceable = [
                session
                for session in self._sessions.values()
                if now_ms - session.created_ms > self._eviction_ms or (is_privileged and not session.is_privileged)
            ]
            if not displaceable:
                return False
            victim = min(displaceable, key=lambda session: session.evictable_key)
            if (is_privileged, size, NO_SESSION) < victim.evictable_key:
                return False
        del self._sessions[victim.session_id]
        self.evictions += 1
        return True


class SessionlessContext:
    """A request that stands for itself."""

    __slots__ = ("targets",)

    def __init__(self, asked: dict[Key, CachedPartition]) -> None:
        """Fetch what it says."""
        self.targets = list(asked.values())

    def respond(self, rows: Rows, now_ms: int) -> FetchResponse:
        """See FetchContext: everything is told."""
        return FetchResponse(session_id=NO_SESSION, responses=_by_topic(rows))


class FullContext:
    """A request that names all it wants, and wants a session."""

    __slots__ = ("_asked", "_cache", "_is_from_follower", "_uses_topic_ids", "targets")

    def __init__(
        self, cache: FetchSessionCache, asked: dict[Key, CachedPartition], uses_topic_ids: bool, is_from_follower: bool
    ) -> None:
        """Fetch what it says; the session begins with the answer."""
        self._cache = cache
        self._asked = asked
        self._uses_topic_ids = uses_topic_ids
        self._is_from_follower = is_from_follower
        self.targets = list(asked.values())

    def respond(self, rows: Rows, now_ms: int) -> FetchResponse:
        """See FetchContext: everything is told, with the id of the new session if there is room for it."""
        told = list(rows)
        for target, row in told:
            assert isinstance(target, CachedPartition), "rows are of this context's targets"
            target.note(row)
        session_id = self._cache.open(self._asked, self._uses_topic_ids, self._is_from_follower, now_ms)
        return FetchResponse(session_id=session_id, responses=_by_topic(told))


class IncrementalContext:
    """A request of an open session."""

    __slots__ = ("_request_epoch", "_session", "targets")

    def __init__(self, session: Session, request_epoch: int, topic_name: TopicName) -> None:
        """Fetch what the session remembers; names that were not known are looked up again."""
        self._session = session
        self._request_epoch = request_epoch
        self.targets = list(session.partitions.values())
        for target in self.targets:
            if not target.topic:
                target.topic = topic_name(target.topic_id) or ""

    def respond(self, rows: Rows, now_ms: int) -> FetchResponse:
        """See FetchContext: only what changed is told. Of two requests at once the earlier one is a stray."""
        session = self._session
        if session.epoch != next_epoch(self._request_epoch):
            return FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH, session_id=session.session_id)
        told = []
        for target, row in rows:
            assert isinstance(target, CachedPartition), "rows are of this context's targets"
            if not target.must_be_told(row):
                continue
            told.append((target, row))
            target.note(row)
            if row.records:
                key = _key(target, session.uses_topic_ids)
                if key in session.partitions:
                    session.partitions[key] = session.partitions.pop(key)
        return FetchResponse(session_id=session.session_id, responses=_by_topic(told))


def next_epoch(epoch: int) -> int:
    """Return the epoch of a session's next request: after the greatest comes 1."""
    return 1 if epoch == INT32_MAX else epoch + 1


def _key(target: CachedPartition, uses_topic_ids: bool) -> Key:
    return (target.topic_id if uses_topic_ids else target.topic, target.partition)


def _asked(request: FetchRequest, by_id: bool, topic_name: TopicName) -> dict[Key, CachedPartition]:
    """Return the partitions a request names; of one named twice the last word counts."""
    found: dict[Key, CachedPartition] = {}
    for topic in request.topics:
        topic_id = topic.topic_id if by_id else ZERO_UUID
        name = (topic_name(topic_id) or "") if by_id else topic.topic
        for partition in topic.partitions:
            target = CachedPartition(name, topic_id, partition)
            found[_key(target, by_id)] = target
    return found


def _update(session: Session, request: FetchRequest, topic_name: TopicName) -> None:
    """Take the request's changes into the session."""
    by_id, partitions = session.uses_topic_ids, session.partitions
    for topic in request.topics:
        name = topic.topic_id if by_id else topic.topic
        for asked in topic.partitions:
            known = partitions.get((name, asked.partition))
            if known is not None:
                known.update(asked)
            elif by_id:
                partitions[(name, asked.partition)] = CachedPartition(
                    topic_name(topic.topic_id) or "", topic.topic_id, asked
                )
            else:
                partitions[(name, asked.partition)] = CachedPartition(topic.topic, ZERO_UUID, asked)
    for forgotten in request.forgotten_topics_data:
        for index in forgotten.partitions:
            partitions.pop((forgotten.topic_id if by_id else forgotten.topic, index), None)


def _by_topic(rows: Rows) -> list[FetchableTopicResponse]:
    """Put rows under their topics; neighbours of one topic share an entry, the order of the rows is kept."""
    topics: list[FetchableTopicResponse] = []
    last: FetchableTopicResponse | None = None
    for target, row in rows:
        if last is None or last.topic != target.topic or last.topic_id != target.topic_id:
            last = FetchableTopicResponse(topic=target.topic, topic_id=target.topic_id)
            topics.append(last)
        last.partitions.append(row)
    return topics
