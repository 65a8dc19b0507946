"""What the active controller makes of a decision: a change of the image, appended and then waited for."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeAlias, TypeVar

from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.quorum.image import MetadataDelta, MetadataImage
from kvorum.quorum.records import MetadataRecord
from kvorum.quorum.steps import Steps

T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True)


class Decision(Protocol[R_co]):
    """What a decide function returns: the records that change something (none: nothing does) and the answer."""

    @property
    def records(self) -> Sequence[MetadataRecord]:
        """The change."""
        ...

    @property
    def response(self) -> R_co:
        """The answer, valid once the records are committed."""
        ...


Decide: TypeAlias = Callable[[MetadataImage], Decision[T] | Steps[Decision[T]]]
"""Decides at once, or in steps, between which nobody else decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made(Generic[T]):
    """A decision worked out and not appended yet: its batches, and the image and the log's end behind it."""

    response: T
    batches: Sequence[bytes]
    """None: it changes nothing."""
    delta: MetadataDelta
    """From the image that was decided on to `image`."""
    image: MetadataImage
    end_offset: int


@dataclass(slots=True)
class Change(Generic[T]):
    """Appended and not yet committed: who waits, and how many of its batches are still open."""

    turn: int
    name: str
    response: T
    waiter: "asyncio.Future[T]"
    batches_left: int

    def complete(self) -> None:
        """Answer."""
        if not self.waiter.done():
            self.waiter.set_result(self.response)

    def fail(self, reason: str) -> None:
        """Tell whoever waits to ask the active controller again."""
        if not self.waiter.done():
            self.waiter.set_exception(not_controller(reason))
            self.waiter.exception()  # marked as seen: a periodic duty's change has nobody waiting


def not_controller(reason: str) -> KafkaError:
    """Return the refusal of a node that is not the active controller."""
    return KafkaError(ErrorCode.NOT_CONTROLLER, reason)
