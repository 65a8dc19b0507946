"""Types of the coordinator runtime: decisions, states, shards, and the log.

A coordinator's *state* is the replay of its partition's records: immutable, so that each append can keep the state
after it, and uncommitted changes are dropped by a return to an older reference. Its *shard* lives as long as this
broker leads the partition in one epoch: the decisions, and volatile data beside the state (requests that wait for a
rebalance, session timers).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from kvorum.protocol.batch_header import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.quorum.image import MetadataDelta, MetadataImage
from kvorum.runtime.timers import Timer
from kvorum.storage.verification import VerificationGuard

S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class CoordinatorRecord(NamedTuple):
    """One record as stored in the log: Kafka's key and value; a value of None is a tombstone.

    `content` is the decoded value, if the creator of the record knows it: it equals the result of decoding, so that
    replay need not decode. A record read from the log has none.
    """

    key: bytes
    value: bytes | None
    content: object = None


class Producer(NamedTuple):
    """Writer of a transaction."""

    producer_id: int
    producer_epoch: int


NO_PRODUCER = Producer(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)

Outcome: TypeAlias = Callable[[KafkaError | None], None]
"""Called once with the result of a decision's records: None when they are committed, else the error."""


class Decision(NamedTuple, Generic[R_co]):
    """Result of a decision. Without records it is answered when the state it rests on is committed."""

    response: R_co
    records: Sequence[CoordinatorRecord] = ()
    outcome: Outcome | None = None


Decide: TypeAlias = Callable[[S, int], Decision[R]]
"""Decides on the newest state, committed or not, at a monotonic time (ms). Raises KafkaError; nothing changes then."""


class Turn(Protocol[S_co]):
    """A shard's interface to its partition, while it is active."""

    @property
    def epoch(self) -> int:
        """The leader epoch, which is the coordinator's."""
        ...

    @property
    def state(self) -> S_co:
        """The newest state, committed or not."""
        ...

    @property
    def committed_state(self) -> S_co:
        """The state below the high watermark: what reads answer from."""
        ...

    @property
    def image(self) -> MetadataImage:
        """The cluster's newest metadata."""
        ...

    def now_ms(self) -> int:
        """Return the monotonic time."""
        ...

    def wall_ms(self) -> int:
        """Return the wall clock's time, for timestamps in records."""
        ...

    def at(self, deadline_ms: int, callback: Callable[[], None]) -> Timer:
        """Call back at a monotonic time, unless the turn is over by then."""
        ...

    def write_nowait(self, name: str, decide: Decide[S_co, None]) -> None:
        """Decide and append without a waiter; an error goes to the decision's outcome and the log."""
        ...


class Shard(Protocol[S]):
    """A coordinator on one partition, for one leadership."""

    def initial(self) -> S:
        """Return the state of an empty log."""
        ...

    def replay(self, state: S, offset: int, record: CoordinatorRecord, producer: Producer) -> S:
        """Return the state after a record. The same on every broker, now and after a restart; never raises."""
        ...

    def replay_marker(self, state: S, offset: int, producer: Producer, is_commit: bool) -> S:
        """Return the state behind the end of a transaction."""
        ...

    def activated(self, turn: Turn[S]) -> None:
        """Begin: the log has been replayed. Timers may be set."""
        ...

    def deactivated(self, error: KafkaError) -> None:
        """End: fail all waiters. Timers have already ended."""
        ...

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Take note of a change of the cluster's metadata."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Verification of a transactional batch (`guard`), or version of a marker (`transaction_version`) (KIP-890)."""

    guard: VerificationGuard | None = None
    transaction_version: int = 0


PLAIN: Final = Terms()


class CoordinatorLog(Protocol):
    """The log of one partition led here, as far as its coordinator needs it. All methods raise KafkaError."""

    def start_offset(self) -> int:
        """Return the first offset there is."""
        ...

    def end_offset(self) -> int:
        """Return the offset of the next record."""
        ...

    def high_watermark(self) -> int:
        """Return one past the last committed offset."""
        ...

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Return whole batches from `offset` on, at least one if there is one."""
        ...

    def append(self, batch: bytearray, epoch: int, terms: "Terms") -> int:
        """Append one batch in this leader epoch and return its first offset; followers are woken."""
        ...

    def batch_bytes_max(self) -> int:
        """Return the size that a batch must not pass (max.message.bytes)."""
        ...


def refusal_of(error: KafkaError) -> KafkaError:
    """Return the client's error after a failed write of a coordinator.

    Source: CoordinatorOperationExceptionHelper. A client retries after COORDINATOR_NOT_AVAILABLE and NOT_COORDINATOR
    (there it looks up the coordinator first).
    """
    match error.code:
        case ErrorCode.UNKNOWN_TOPIC_OR_PARTITION | ErrorCode.NOT_ENOUGH_REPLICAS | ErrorCode.REQUEST_TIMED_OUT:
            return KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message or "")
        case ErrorCode.NOT_LEADER_OR_FOLLOWER | ErrorCode.KAFKA_STORAGE_ERROR | ErrorCode.FENCED_LEADER_EPOCH:
            return KafkaError(ErrorCode.NOT_COORDINATOR, error.message or "")
        case ErrorCode.MESSAGE_TOO_LARGE | ErrorCode.RECORD_LIST_TOO_LARGE | ErrorCode.INVALID_FETCH_SIZE:
            return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, error.message or "")
    return error
