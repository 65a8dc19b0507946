"""Changes of the active controller: a new image, appended records, and their waiter."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeAlias, TypeVar

from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.quorum.image import MetadataDelta, MetadataImage
from kvorum.quorum.records import MetadataRecord
from kvorum.quorum.steps import Steps
from kvorum.runtime.quantiles import Quantiles

T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True)


class Decision(Protocol[R_co]):
    """Result of a decide function: the records (none: no change) and the response."""

    @property
    def records(self) -> Sequence[MetadataRecord]:
        """The change."""
        ...

    @property
    def response(self) -> R_co:
        """The answer, valid once the records are committed."""
        ...


Decide: TypeAlias = Callable[[MetadataImage], Decision[T] | Steps[Decision[T]]]
"""Decides at once, or in steps without other decisions in between."""


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
    """Appended and not yet committed: the waiter, and the number of open batches."""

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
        """Answer the waiter with NOT_CONTROLLER."""
        if not self.waiter.done():
            self.waiter.set_exception(not_controller(reason))
            self.waiter.exception()  # retrieved: a periodic task's change has no waiter


class ActivationListener(Protocol):
    """Listener of this node's activations as controller (heartbeat sessions, periodic tasks)."""

    def on_activated(self, image: MetadataImage) -> None:
        """Start."""
        ...

    def on_deactivated(self) -> None:
        """Stop."""
        ...


class DecisionTimes:
    """Time that decisions waited behind a large one, and their duration (Kafka's EventQueue...TimeMs)."""

    __slots__ = ("processing_ms", "queue_ms")

    def __init__(self) -> None:
        """Start with none."""
        self.queue_ms = Quantiles()
        self.processing_ms = Quantiles()

    def decided(self, requested_s: float, begun_s: float, done_s: float) -> None:
        """Add a decision, by the loop's time."""
        self.queue_ms.add((begun_s - requested_s) * 1000, done_s * 1000)
        self.processing_ms.add((done_s - begun_s) * 1000, done_s * 1000)


def not_controller(reason: str) -> KafkaError:
    """Return the refusal of a node that is not the active controller."""
    return KafkaError(ErrorCode.NOT_CONTROLLER, reason)
