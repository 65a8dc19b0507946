"""Metadata publishers, called sequentially in a fixed order with every change of the image.

A publisher is handed what changed (the delta), what now is (the image) and where it came from (the manifest), on the
event loop, and never keeps the delta. The order in which publishers were installed is the order in which they are
called, so that one may rely on those before it (metadata cache, then replicas, then coordinators, and so on). Source:
Kafka's MetadataPublisher and LoaderManifest.
"""

from collections.abc import Awaitable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from kvorum.quorum.image import MetadataDelta, MetadataImage


class ManifestKind(Enum):
    """Origin of an update."""

    LOG_DELTA = "log-delta"
    """Batches of the metadata log, each once and in order."""
    SNAPSHOT = "snapshot"
    """A whole image: objects that are not in it were deleted.

    The delta is the difference to the last published image.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderManifest:
    """The facts of one update."""

    kind: ManifestKind
    offset: int
    """The last offset the image contains."""
    epoch: int
    """The controller epoch of that offset."""
    batches_count: int
    bytes_count: int
    leader_id: int
    """The active controller it was read from, -1 where that is not known."""


class MetadataPublisher(Protocol):
    """A subscriber of the metadata."""

    def on_metadata_update(
        self, delta: MetadataDelta, image: MetadataImage, manifest: LoaderManifest
    ) -> Awaitable[None] | None:
        """Take over a change. A plain method, or a coroutine where a large delta is applied in slices under 10 ms.

        The next publisher, and the next update, wait until it is done. Raising anything is a fault of the node: the
        loader stops it, since it no longer follows the metadata.
        """
        ...
