"""The batch that the decisions of one turn of the event loop go into together. Sans-IO.

Many small commits that arrive at once are one append, one fetch of each follower, one wake-up. Records of a transaction
are in their own batch, as the log requires.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from kvorum.broker.coordinator.runtime.history import Answer
from kvorum.broker.coordinator.runtime.words import NO_PRODUCER, PLAIN, CoordinatorRecord, Producer, Terms
from kvorum.protocol.batch_header import HEADER_SIZE
from kvorum.protocol.compression import Codec
from kvorum.protocol.records import Record, build_batch

S = TypeVar("S")

RECORD_OVERHEAD: Final = 40
"""Maximum overhead of a record besides key and value: varints of length, timestamp, offset, sizes and headers."""


@dataclass(slots=True)
class OpenBatch(Generic[S]):
    """Decided and not appended yet; `state` is the one behind it, `size_max` the topic's limit when it was opened."""

    base_offset: int
    state: S
    size_max: int
    producer: Producer = NO_PRODUCER
    terms: Terms = PLAIN
    records: list[CoordinatorRecord] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    size: int = HEADER_SIZE

    @property
    def end_offset(self) -> int:
        """The offset behind its last record, once it is appended."""
        return self.base_offset + len(self.records)

    def add(self, records: Sequence[CoordinatorRecord], size: int, state: S, answers: Sequence[Answer]) -> None:
        """Add a decision's records, of total `record_size`, with the state after them and the waiter."""
        self.records += records
        self.size += size
        self.state = state
        self.answers += answers

    def encode(self, timestamp: int, codec: Codec) -> bytearray:
        """Return its bytes; offset and leader epoch are the log's to write."""
        return build_batch(
            [Record(record.value, record.key, timestamp) for record in self.records],
            codec=codec,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.producer_epoch,
            is_transactional=self.producer != NO_PRODUCER,
        )


def record_size(record: CoordinatorRecord) -> int:
    """Return the maximum size of a record in bytes, uncompressed."""
    return RECORD_OVERHEAD + len(record.key) + len(record.value or b"")
