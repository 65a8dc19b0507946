"""The next free producer id (org.apache.kafka.image.ProducerIdsImage). Sans-IO, immutable."""

from collections.abc import Iterator
from dataclasses import dataclass

from kvorum.quorum.records import MetadataRecord, ProducerIds


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdsImage:
    """The next free producer id, and the owner of the last block (-1: none)."""

    next_producer_id: int = 0
    broker_id: int = -1
    broker_epoch: int = -1

    def to_records(self) -> Iterator[MetadataRecord]:
        """Write it as a record; none if no id was assigned."""
        if self.next_producer_id > 0:
            yield ProducerIds(
                broker_id=self.broker_id, broker_epoch=self.broker_epoch, next_producer_id=self.next_producer_id
            )


class ProducerIdsDelta:
    """The latest block given out since `image`."""

    __slots__ = ("_latest", "image")

    def __init__(self, image: ProducerIdsImage) -> None:
        """Start from the former state."""
        self.image = image
        self._latest = image

    @property
    def is_empty(self) -> bool:
        """Return whether nothing changed."""
        return self._latest is self.image

    def replay(self, record: ProducerIds) -> None:
        """Apply the allocation of a block."""
        assert record.next_producer_id > self._latest.next_producer_id, "producer ids are given out once"
        self._latest = ProducerIdsImage(
            next_producer_id=record.next_producer_id, broker_id=record.broker_id, broker_epoch=record.broker_epoch
        )

    def apply(self) -> ProducerIdsImage:
        """Return the new state."""
        return self._latest
