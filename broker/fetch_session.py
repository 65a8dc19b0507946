"""Incremental fetch sessions, the server's side (KIP-227). Sans-IO.

A client that fetches many partitions sends only changes, and receives only changes; the broker stores the rest under a
session id. `FetchSessionCache.context` turns a request into the partitions to read, the context turns rows into the
answer.

    session epoch  0, any id     full request, a new session (the old one is closed) if the cache has room
    session epoch -1, any id     full request without a session (the old one is closed)
    session epoch  n, an id      incremental; it must be the session's next epoch

A fetched partition is either *active* or *resting*. Active partitions are read with each request. A resting one, whose
state was returned completely, is skipped until it changes (broker.replica.resting) or the client changes its request:
the cost of a request depends on the changes, not on the number of partitions.

Invariants: the cache holds at most `slots_max` sessions; a session's epoch is that of the next expected request; each
partition is in it once, by topic id (v13+) or by name, never both, and active or resting, never both; a partition with
records moves to the end of the active ones, so that none starves another in a bounded answer; nothing rests for another
requester (principal, rights, incarnation) than the one it was read for. Source: Kafka's FetchSession.
"""

from collections.abc import Callable, Hashable, Iterable
from random import Random
from typing import Protocol, TypeAlias

from kvorum.broker.fetch_session_state import INITIAL_EPOCH, CachedPartition, Key, Session, TryRest
from kvorum.broker.replica.fetches import ParkedFetch
from kvorum.broker.replica.types import FetchTarget
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from kvorum.protocol.uuids import ZERO_UUID, Uuid

NO_SESSION = 0
FINAL_EPOCH = -1
INT32_MAX = 2**31 - 1
TOPIC_ID_VERSION_MIN = 13

Rows: TypeAlias = Iterable[tuple[FetchTarget, PartitionData]]
TopicName: TypeAlias = Callable[[Uuid], str | None]
"""Returns a topic id's name, None while unknown."""


class FetchContext(Protocol):
    """One request's part in its session."""

    targets: list[CachedPartition]
    """All partitions to read, in this order; `topic` is empty if the id is unknown (UNKNOWN_TOPIC_ID)."""

    @property
    def has_resting(self) -> bool:
        """Whether the session has more partitions than that."""
        ...

    def wake_all(self) -> None:
        """Add all partitions to `targets`, resting or not."""
        ...

    def waits(self, parked: ParkedFetch) -> None:
        """Register the waiting fetch, which is informed of targets that wake meanwhile."""
        ...

    def respond(self, rows: Rows, now_ms: int, try_rest: TryRest | None = None) -> FetchResponse:
        """Return the answer. `rows` has one for each target, and for each that woke meanwhile, in any order."""
        ...

    def throttled(self) -> FetchResponse:
        """Return the empty response of a throttled client; no partition counts as returned (KIP-219)."""
        ...


class FetchSessionCache:
    """The sessions of one broker. Session ids are by chance, so that one of before a restart is hardly met again."""

    def __init__(self, slots_max: int, eviction_ms: int, chance: Random) -> None:
        """max.incremental.fetch.session.cache.slots, and how long an unused session is safe from others."""
        self._slots_max = slots_max
        self._eviction_ms = eviction_ms
        self._chance = chance
        self._sessions: dict[int, Session] = {}
        self.evictions = 0
        """Number of sessions evicted for others so far."""

    def __len__(self) -> int:
        """Return how many sessions there are."""
        return len(self._sessions)

    @property
    def cached_partitions(self) -> int:
        """Number of partitions in all sessions."""
        return sum(len(session.partitions) for session in self._sessions.values())

    def context(
        self,
        request: FetchRequest,
        version: int,
        *,
        is_from_follower: bool,
        topic_name: TopicName,
        now_ms: int,
        asker: Hashable = None,
    ) -> FetchContext:
        """Return the partitions to read for a request. `asker`: client attributes on which the response depends.

        Raises:
            KafkaError: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR (ids and
                names do not mix in a session): the response's top-level error; the client starts over.
        """
        by_id = version >= TOPIC_ID_VERSION_MIN
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._close(request.session_id)
            requested = _requested(request, by_id, topic_name)
            if request.session_epoch == FINAL_EPOCH:
                return SessionlessContext(requested)
            return FullContext(self, requested, by_id, is_from_follower, asker, now_ms)
        session = self._sessions.get(request.session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"fetch session {request.session_id} does not exist")
        if session.epoch != request.session_epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH, f"the fetch session expects epoch {session.epoch}")
        if session.uses_topic_ids != by_id:
            raise KafkaError(
                ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
                "the fetch session was opened with topic names instead of topic ids, or the reverse",
            )
        if session.asker != asker:
            session.wake_all()
            session.asker = asker
        _update(session, request)
        if not session.partitions:
            self._close(session.session_id)
            return SessionlessContext(_requested(request, by_id, topic_name))
        self._touch(session, now_ms)
        session.epoch = next_epoch(session.epoch)
        return IncrementalContext(session, request.session_epoch, topic_name)

    def open(
        self,
        partitions: dict[Key, CachedPartition],
        uses_topic_ids: bool,
        is_privileged: bool,
        asker: Hashable,
        fetched_ms: int,
        now_ms: int,
    ) -> Session | None:
        """Open a session and return it, None if the cache is full. Cost when full: the number of sessions."""
        if len(self._sessions) >= self._slots_max and not self._evict_for(is_privileged, len(partitions), now_ms):
            return None
        session_id = self._chance.randint(1, INT32_MAX)
        while session_id in self._sessions:
            session_id = self._chance.randint(1, INT32_MAX)
        session = Session(session_id, is_privileged, uses_topic_ids, partitions, asker, fetched_ms, now_ms)
        self._sessions[session_id] = session
        return session

    def _close(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.close()

    def _touch(self, session: Session, now_ms: int) -> None:
        """Move it to the end: the order of the sessions is that of their last use."""
        session.last_used_ms = session.fetched_ms = now_ms
        self._sessions[session.session_id] = self._sessions.pop(session.session_id)

    def _evict_for(self, is_privileged: bool, size: int, now_ms: int) -> bool:
        """Evict a session that was unused for long; else the smallest evictable one, if it is smaller than the new one.

        A consumer's young session is evicted only for a follower's.
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
        self._close(victim.session_id)
        self.evictions += 1
        return True


class SessionlessContext:
    """A request without a session."""

    __slots__ = ("targets",)

    def __init__(self, requested: dict[Key, CachedPartition]) -> None:
        """Fetch the requested partitions."""
        self.targets = list(requested.values())

    @property
    def has_resting(self) -> bool:
        """See FetchContext."""
        return False

    def wake_all(self) -> None:
        """See FetchContext: nothing rests."""

    def waits(self, parked: ParkedFetch) -> None:
        """See FetchContext: nothing wakes."""

    def respond(self, rows: Rows, now_ms: int, try_rest: TryRest | None = None) -> FetchResponse:
        """See FetchContext: all rows are returned."""
        return FetchResponse(session_id=NO_SESSION, responses=_by_topic(rows))

    def throttled(self) -> FetchResponse:
        """See FetchContext."""
        return FetchResponse(session_id=NO_SESSION)


class FullContext:
    """A request that names all it wants, and wants a session."""

    __slots__ = ("_asker", "_cache", "_fetched_ms", "_is_from_follower", "_requested", "_uses_topic_ids", "targets")

    def __init__(
        self,
        cache: FetchSessionCache,
        requested: dict[Key, CachedPartition],
        uses_topic_ids: bool,
        is_from_follower: bool,
        asker: Hashable,
        now_ms: int,
    ) -> None:
        """Fetch the requested partitions; the session begins with the answer."""
        self._cache = cache
        self._requested = requested
        self._uses_topic_ids = uses_topic_ids
        self._is_from_follower = is_from_follower
        self._asker = asker
        self._fetched_ms = now_ms
        self.targets = list(requested.values())

    @property
    def has_resting(self) -> bool:
        """See FetchContext."""
        return False

    def wake_all(self) -> None:
        """See FetchContext: nothing rests yet."""

    def waits(self, parked: ParkedFetch) -> None:
        """See FetchContext: nothing wakes."""

    def respond(self, rows: Rows, now_ms: int, try_rest: TryRest | None = None) -> FetchResponse:
        """See FetchContext: all rows are returned, with the id of the new session if the cache has room."""
        sent = list(rows)
        for target, row in sent:
            assert isinstance(target, CachedPartition), "rows are of this context's targets"
            target.note(row)
        session = self._cache.open(
            self._requested, self._uses_topic_ids, self._is_from_follower, self._asker, self._fetched_ms, now_ms
        )
        if session is not None:
            for target, row in sent:
                assert isinstance(target, CachedPartition), "as before"
                session.answered(target, row, try_rest)
        session_id = NO_SESSION if session is None else session.session_id
        return FetchResponse(session_id=session_id, responses=_by_topic(sent))

    def throttled(self) -> FetchResponse:
        """See FetchContext: the session is left to the client's next try."""
        return FetchResponse(session_id=NO_SESSION)


class IncrementalContext:
    """A request of an open session."""

    __slots__ = ("_parked", "_request_epoch", "_session", "_topic_name", "targets")

    def __init__(self, session: Session, request_epoch: int, topic_name: TopicName) -> None:
        """Read the active partitions of the session; unknown names are looked up again."""
        self._session = session
        self._request_epoch = request_epoch
        self._topic_name = topic_name
        self._parked: ParkedFetch | None = None
        self.targets: list[CachedPartition] = []
        self._take_active()

    def _take_active(self) -> None:
        self.targets = list(self._session.active)
        for target in self.targets:
            if not target.topic:
                target.topic = self._topic_name(target.topic_id) or ""

    @property
    def has_resting(self) -> bool:
        """See FetchContext."""
        return len(self.targets) < len(self._session.partitions)

    def wake_all(self) -> None:
        """See FetchContext."""
        self._session.wake_all()
        self._take_active()

    def waits(self, parked: ParkedFetch) -> None:
        """See FetchContext."""
        self._parked = self._session.parked = parked

    def respond(self, rows: Rows, now_ms: int, try_rest: TryRest | None = None) -> FetchResponse:
        """See FetchContext: only changed rows are returned. Of two simultaneous requests the earlier one is stray."""
        response, session = self._begun(), self._session
        if response.error_code:
            return response
        sent = []
        for target, row in rows:
            assert isinstance(target, CachedPartition), "rows are of this context's targets"
            if target.must_be_sent(row):
                sent.append((target, row))
                target.note(row)
            session.answered(target, row, try_rest)
        response.responses = _by_topic(sent)
        return response

    def throttled(self) -> FetchResponse:
        """See FetchContext: partitions that were read stay active, and are read again."""
        return self._begun()

    def _begun(self) -> FetchResponse:
        """Return the answer without any rows, and wait no longer."""
        session = self._session
        if session.parked is self._parked:
            session.parked = None
        code = ErrorCode.NONE
        if session.epoch != next_epoch(self._request_epoch):
            code = ErrorCode.INVALID_FETCH_SESSION_EPOCH
        return FetchResponse(error_code=code, session_id=session.session_id)


def next_epoch(epoch: int) -> int:
    """Return the epoch of a session's next request: after the greatest comes 1."""
    return 1 if epoch == INT32_MAX else epoch + 1


def _key(target: CachedPartition, uses_topic_ids: bool) -> Key:
    return (target.topic_id if uses_topic_ids else target.topic, target.partition)


def _requested(request: FetchRequest, by_id: bool, topic_name: TopicName) -> dict[Key, CachedPartition]:
    """Return the partitions a request names; of one named twice the last word counts."""
    found: dict[Key, CachedPartition] = {}
    for topic in request.topics:
        topic_id = topic.topic_id if by_id else ZERO_UUID
        name = (topic_name(topic_id) or "") if by_id else topic.topic
        for partition in topic.partitions:
            target = CachedPartition(name, topic_id, partition)
            found[_key(target, by_id)] = target
    return found


def _update(session: Session, request: FetchRequest) -> None:
    """Apply the request's changes to the session. Names of new topic ids are looked up when they are read."""
    by_id = session.uses_topic_ids
    for topic in request.topics:
        name = topic.topic_id if by_id else topic.topic
        title, topic_id = ("", topic.topic_id) if by_id else (topic.topic, ZERO_UUID)
        for requested in topic.partitions:
            session.update((name, requested.partition), requested, title, topic_id)
    for forgotten in request.forgotten_topics_data:
        for index in forgotten.partitions:
            session.forget((forgotten.topic_id if by_id else forgotten.topic, index))


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
