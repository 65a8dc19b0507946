"""Assigns markers to brokers, until every partition of an ended transaction has its own.

Sans-IO.

    new --route--> queued for the leader --take--> in flight --settle--> done | refused --retry--> new
                   no leader: refused; no such partition: done

A rejected marker is retried without limit: the decision behind it is final. Two errors end it earlier.
TRANSACTION_COORDINATOR_FENCED: a later coordinator has taken over, and this one will receive the change.
INVALID_PRODUCER_EPOCH: the partition has a later epoch, so this transaction is over there. Kafka stops the whole
transaction then, and its id hangs until the coordinator changes; here the partition counts as done, with a log line.

Invariants, asserted: a partition is in one of these states; a transaction is done once, with no partition left. Source:
TransactionMarkerChannelManager, TransactionMarkerRequestCompletionHandler.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.runtime.logs import first_names, get_logger

log = get_logger("coordinator")

NO_LEADER: Final = -1
DONE: Final = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
"""The last two: the producer could not have written there, either."""
RETRIED: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Expected errors of a leader; others are retried as well, and logged as errors."""

LeaderOf: TypeAlias = Callable[[TopicPartition], int | None]
"""The leader of a partition, NO_LEADER if it has none, None if the partition does not exist."""


class Marker(NamedTuple):
    """Marker that ends a transaction in each of its partitions."""

    producer_id: int
    producer_epoch: int
    is_commit: bool
    coordinator_epoch: int
    transaction_version: int


class EndingKey(NamedTuple):
    """A transactional id with its partition of __transaction_state."""

    home: TopicPartition
    transactional_id: str


@dataclass(slots=True, eq=False)
class Ending:
    """A transaction that is being ended; `on_done` is called once, when no partition is left."""

    key: EndingKey
    marker: Marker
    unfinished: set[TopicPartition]
    on_done: Callable[[], None]


class Entry(NamedTuple):
    """The part of a request that is about one transaction."""

    ending: Ending
    partitions: frozenset[TopicPartition]


class Settled(NamedTuple):
    """Result of a request."""

    done: list[Ending]
    is_refused: bool
    """Whether something has to be tried again."""


Places: TypeAlias = dict[Ending, set[TopicPartition]]
Codes: TypeAlias = Mapping[int, Mapping[TopicPartition, ErrorCode]]
"""By producer id, which has one transaction at a time."""


class MarkerPlan:
    """Markers to write, by transaction and by partition leader."""

    __slots__ = ("_endings", "_leaderless", "_new", "_queued", "_refused")

    def __init__(self) -> None:
        """Start without transactions."""
        self._endings: dict[EndingKey, Ending] = {}
        self._new: Places = {}
        self._queued: dict[int, Places] = {}
        self._refused: Places = {}
        self._leaderless: set[tuple[Ending, TopicPartition]] = set()

    def begin(self, ending: Ending) -> bool:
        """Add a transaction; False if it is being ended already."""
        if ending.key in self._endings:
            return False
        self._endings[ending.key] = ending
        self._new[ending] = set(ending.unfinished)
        return True

    def cancel(self, home: TopicPartition) -> None:
        """Forget the transactions of one home: another broker coordinates them now. Their answers will be ignored."""
        for key in [key for key in self._endings if key.home == home]:
            self._forget(self._endings[key])

    def unfinished(self, key: EndingKey) -> frozenset[TopicPartition] | None:
        """Return the partitions that have no marker yet, None if the transaction is not being ended here."""
        ending = self._endings.get(key)
        return None if ending is None else frozenset(ending.unfinished)

    @property
    def brokers(self) -> list[int]:
        """Those for which something is queued."""
        return [broker for broker, places in self._queued.items() if places]

    def route(self, leader_of: LeaderOf) -> Settled:
        """Queue new markers by leader. Partitions without a leader are retried, missing ones are done.

        In the order of the partitions, and so of the brokers: the order of a set differs between processes, and
        simulations would not be reproducible.
        """
        new, self._new = self._new, {}
        done: list[Ending] = []
        deleted: list[TopicPartition] = []
        is_refused = False
        for ending, keys in new.items():
            for key in sorted(keys):
                leader = leader_of(key)
                if leader is None:
                    deleted.append(key)
                    log.debug("transaction marker skipped, partition deleted", partition=key, ending=ending.key)
                    ending.unfinished.discard(key)
                elif leader == NO_LEADER:
                    self._refused.setdefault(ending, set()).add(key)
                    self._leaderless.add((ending, key))
                    is_refused = True
                else:
                    self._queued.setdefault(leader, {}).setdefault(ending, set()).add(key)
            if self._is_done(ending):
                done.append(ending)
        if deleted:
            first = first_names(deleted)
            log.info("transaction markers skipped, partitions deleted", partitions=len(deleted), first=first)
        return Settled(done, is_refused)

    def take(self, broker_id: int, count: int) -> list[Entry]:
        """Return the content of one request to a broker, about at most `count` transactions."""
        places = self._queued.get(broker_id, {})
        taken = [Entry(ending, frozenset(places.pop(ending))) for ending in list(places)[:count]]
        if not places:
            self._queued.pop(broker_id, None)
        return taken

    def settle(self, sent: Iterable[Entry], codes: Codes) -> Settled:
        """Process the results of a request. A partition without a result is retried."""
        done: list[Ending] = []
        is_refused = False
        for ending, partitions in sent:
            if self._endings.get(ending.key) is not ending:
                continue
            answers = codes.get(ending.marker.producer_id, {})
            refused = {key for key in partitions if not self._take_answer(ending, key, answers.get(key))}
            if self._endings.get(ending.key) is not ending:
                continue
            if refused:
                self._refused.setdefault(ending, set()).update(refused)
                is_refused = True
            if self._is_done(ending):
                done.append(ending)
        return Settled(done, is_refused)

    def _take_answer(self, ending: Ending, key: TopicPartition, code: ErrorCode | None) -> bool:
        """Process one result; False if the partition has to be retried."""
        if code is ErrorCode.TRANSACTION_COORDINATOR_FENCED:
            log.error(
                "transaction marker rejected: a newer coordinator ends the transaction",
                partition=key,
                ending=ending.key,
                marker=ending.marker,
            )
            self._forget(ending)
            return True
        if code in DONE:
            if code is not ErrorCode.NONE:
                log.error(
                    "transaction marker not accepted, partition skipped", partition=key, ending=ending.key, code=code
                )
            ending.unfinished.discard(key)
            return True
        if code is not None and code not in RETRIED:
            log.error("transaction marker rejected", partition=key, ending=ending.key, code=code)
        return False

    def give_back(self, sent: Iterable[Entry]) -> None:
        """Schedule all markers of a request without a response again, because it may have failed in part."""
        for ending, partitions in sent:
            if self._endings.get(ending.key) is ending:
                self._refused.setdefault(ending, set()).update(partitions)

    def retry(self) -> None:
        """Route the refused markers again."""
        refused, self._refused = self._refused, {}
        self._leaderless.clear()
        for ending, keys in refused.items():
            self._new.setdefault(ending, set()).update(keys)

    @property
    def leaderless_count(self) -> int:
        """Number of markers whose partition has no leader."""
        return len(self._leaderless)

    @property
    def refused_count(self) -> int:
        """Number of markers that wait for routing, without those that have no leader."""
        return sum(map(len, self._refused.values())) - len(self._leaderless)

    def _is_done(self, ending: Ending) -> bool:
        """Return whether no partition is left; then the transaction is removed."""
        if ending.unfinished:
            return False
        self._forget(ending)
        return True

    def _forget(self, ending: Ending) -> None:
        self._endings.pop(ending.key, None)
        for places in (self._new, self._refused, *self._queued.values()):
            places.pop(ending, None)
        self._leaderless = {each for each in self._leaderless if each[0] is not ending}


def request_of(entries: Iterable[Entry]) -> WriteTxnMarkersRequest:
    """Return the request with these markers."""
    return WriteTxnMarkersRequest(markers=[_row_of(ending.marker, partitions) for ending, partitions in entries])


def _row_of(marker: Marker, partitions: Iterable[TopicPartition]) -> WritableTxnMarker:
    topics: dict[str, WritableTxnMarkerTopic] = {}
    for key in sorted(partitions):
        topics.setdefault(key.topic, WritableTxnMarkerTopic(name=key.topic)).partition_indexes.append(key.partition)
    return WritableTxnMarker(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        transaction_result=marker.is_commit,
        topics=list(topics.values()),
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=marker.transaction_version,
    )


def codes_of(response: WriteTxnMarkersResponse) -> Codes:
    """Return the results of a broker."""
    codes: dict[int, dict[TopicPartition, ErrorCode]] = {}
    for row in response.markers:
        of_producer = codes.setdefault(row.producer_id, {})
        for topic in row.topics:
            for result in topic.partitions:
                of_producer[TopicPartition(topic.name, result.partition_index)] = ErrorCode(result.error_code)
    return codes
