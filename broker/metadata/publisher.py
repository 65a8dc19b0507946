"""The order in which a broker applies new metadata: each step may rely on the earlier ones.

    logs of new replicas -> metadata cache -> replicas -> coordinators -> configs -> quotas, SCRAM, ACLs
    -> waiters for metadata changes

The cache comes before the replicas, so that clients are sent to leaders that lead; new logs and the sync of their topic
ids, which take long, come first, so that a client finds a leader. Replicas come before coordinators, which need them.
But a larger min.insync.replicas is applied before the replicas change: with the ISR of the same update and the old
minimum a leader could commit records that an eligible replica lacks (KIP-966); a smaller one after them, since until
then this broker may consider itself a leader that has been replaced. The subscribers for coordinators (`followers`),
and for quotas, throttles and client metrics (`behind_configs`) are called in order. A failure of a subscriber after the
configs is logged and counted, and the broker continues; any other failure ends it. Source: Kafka's
BrokerMetadataPublisher.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Protocol, TypeAlias

from kvorum.broker.metadata.cache import MetadataCache
from kvorum.broker.metadata.dynamic_config import DynamicConfig
from kvorum.quorum.image import MetadataDelta, MetadataImage
from kvorum.quorum.image.configs import ConfigsDelta, ResourceType
from kvorum.quorum.publisher import LoaderManifest, MetadataPublisher
from kvorum.runtime.logs import get_logger

log = get_logger("broker")

Changed: TypeAlias = Callable[[MetadataDelta], None]
Moved: TypeAlias = Callable[[], None]


class Replicas(Protocol):
    """The replica manager, as far as this module needs it."""

    def prepare_delta(self, delta: MetadataDelta) -> Awaitable[None] | None:
        """Create the logs of new replicas, before the change is published."""
        ...

    def apply_delta(self, delta: MetadataDelta, image: MetadataImage) -> Awaitable[None] | None:
        """Create, lead, follow and delete replicas according to the delta."""
        ...

    def raise_min_isr(self, topics: Iterable[str] | None = None) -> None:
        """Apply a larger min.insync.replicas of these topics (None: of all) before anything else."""
        ...

    def configs_changed(self, topics: Iterable[str] | None = None) -> None:
        """Apply the present configuration to the logs of these topics (None: of all)."""
        ...


class BrokerMetadataPublisher:
    """Takes over each image in the fixed order above."""

    __slots__ = ("_behind_configs", "_cache", "_changed", "_configs", "_followers", "_moved", "_replicas")

    def __init__(
        self,
        *,
        cache: MetadataCache,
        replicas: Replicas,
        configs: DynamicConfig,
        followers: Sequence[MetadataPublisher] = (),
        behind_configs: Sequence[MetadataPublisher] = (),
        changed: Sequence[Changed] = (),
        moved: Sequence[Moved] = (),
    ) -> None:
        """`changed` is called at the same time as the cache is updated, `moved` at the end of an update."""
        self._cache = cache
        self._replicas = replicas
        self._configs = configs
        self._followers = tuple(followers)
        self._behind_configs = tuple(behind_configs)
        self._changed = tuple(changed)
        self._moved = tuple(moved)

    async def on_metadata_update(self, delta: MetadataDelta, image: MetadataImage, manifest: LoaderManifest) -> None:
        """Publish a metadata change to the broker's parts, in the order of the module docstring."""
        self._configs.set_image(image.configs)
        if not delta.topics_delta.is_empty:
            await finished(self._replicas.prepare_delta(delta))
        self._cache.image = image
        for changed in self._changed:
            changed(delta)
        reached = frozenset() if delta.configs_delta.is_empty else self._reached(delta.configs_delta)
        if reached is None or reached:
            self._replicas.raise_min_isr(reached)
        if not delta.topics_delta.is_empty:
            await finished(self._replicas.apply_delta(delta, image))
        for follower in self._followers:
            await finished(follower.on_metadata_update(delta, image, manifest))
        if reached is None or reached:
            await self._attempt("logs", partial(self._replicas.configs_changed, reached))
        for publisher in self._behind_configs:
            name = type(publisher).__name__
            await self._attempt(name, partial(publisher.on_metadata_update, delta, image, manifest))
        for moved in self._moved:
            moved()

    async def _attempt(self, part: str, take_over: Callable[[], Awaitable[None] | None]) -> None:
        """Apply configs in one part. A failure is logged and counted, and never ends the broker."""
        try:
            await finished(take_over())
        except Exception as error:
            self._configs.failed(part, error)

    def _reached(self, delta: ConfigsDelta) -> frozenset[str] | None:
        """Apply the broker's own configs; return the topics whose logs have changed configs, None for all."""
        if self._configs.apply():
            return None
        topics = {resource.name for resource in delta.changes if resource.resource_type == ResourceType.TOPIC}
        if topics:
            log.info("topic configs changed", topics=",".join(sorted(topics)))
        return frozenset(topics)


async def finished(work: Awaitable[None] | None) -> None:
    """Wait for asynchronous parts; the others are done already."""
    if work is not None:
        await work
