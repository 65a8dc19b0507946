"""The whole of the metadata at one offset, and what leads from one to the next (MetadataImage, MetadataDelta).

Sans-IO. An image is immutable and shared freely; a delta has one owner, takes records in, and makes the next image at
the cost of what changed. Records of an open transaction never come here: `transactions.TransactionBuffer` is before it.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import assert_never

from kvorum.quorum import records
from kvorum.quorum.image.client_quotas import ClientQuotasDelta, ClientQuotasImage
from kvorum.quorum.image.cluster import ClusterDelta, ClusterImage
from kvorum.quorum.image.configs import ConfigsDelta, ConfigsImage
from kvorum.quorum.image.delegation_tokens import DelegationTokensDelta, DelegationTokensImage
from kvorum.quorum.image.features import FeaturesDelta, FeaturesImage
from kvorum.quorum.image.producer_ids import ProducerIdsDelta, ProducerIdsImage
from kvorum.quorum.image.scram import ScramDelta, ScramImage
from kvorum.quorum.image.topics import TopicsImage
from kvorum.quorum.image.topics_delta import TopicsDelta
from kvorum.quorum.records import MetadataRecord
from kvorum.quorum.steps import STEP_COUNT, Steps, finish, pieces

DIGEST_SIZE = 16
"""Bytes: 128 bits distinguish the images of nodes that should be equal; there is no adversary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataImage:
    """The metadata after the record at `offset` of the log; -1 and epoch -1 before the first."""

    offset: int = -1
    epoch: int = -1
    features: FeaturesImage = field(default_factory=FeaturesImage)
    cluster: ClusterImage = field(default_factory=ClusterImage)
    topics: TopicsImage = field(default_factory=TopicsImage)
    configs: ConfigsImage = field(default_factory=ConfigsImage)
    producer_ids: ProducerIdsImage = field(default_factory=ProducerIdsImage)
    client_quotas: ClientQuotasImage = field(default_factory=ClientQuotasImage)
    scram: ScramImage = field(default_factory=ScramImage)
    delegation_tokens: DelegationTokensImage = field(default_factory=DelegationTokensImage)

    def to_records(self) -> Iterator[MetadataRecord]:
        """Write it as records, for a snapshot: replayed on the empty image they make an equal one.

        The order is the same on every node: features, brokers, topics, configs, producer ids, client quotas, SCRAM
        credentials, delegation tokens, each sorted. Lazily, so a snapshot of any size can be written in slices: the
        image does not change under it.
        """
        yield from self.features.to_records()
        yield from self.cluster.to_records()
        yield from self.topics.to_records()
        yield from self.configs.to_records()
        yield from self.producer_ids.to_records()
        yield from self.client_quotas.to_records()
        yield from self.scram.to_records()
        yield from self.delegation_tokens.to_records()

    def digest(self) -> str:
        """Return a hash of the content (not of offset and epoch): equal on all nodes with equal metadata.

        Cost: the whole image; for tests, checks and snapshots.
        """
        digest = hashlib.blake2b(digest_size=DIGEST_SIZE)
        for record in self.to_records():
            digest.update(records.encode(record))
            digest.update(b"\n")
        return digest.hexdigest()

    def same_content(self, other: "MetadataImage") -> bool:
        """Return whether the metadata is equal, whatever the offsets."""
        return all(
            mine is theirs or mine == theirs
            for mine, theirs in (
                (self.features, other.features),
                (self.cluster, other.cluster),
                (self.topics, other.topics),
                (self.configs, other.configs),
                (self.producer_ids, other.producer_ids),
                (self.client_quotas, other.client_quotas),
                (self.scram, other.scram),
                (self.delegation_tokens, other.delegation_tokens),
            )
        )


class MetadataDelta:
    """Changes since `image`, by subject: `topics_delta`, `cluster_delta`, and so on, each with `is_empty`."""

    __slots__ = (
        *("client_quotas_delta", "cluster_delta", "configs_delta", "delegation_tokens_delta", "features_delta"),
        *("image", "producer_ids_delta", "scram_delta", "topics_delta"),
    )

    def __init__(self, image: MetadataImage) -> None:
        """Start from an image, which is not changed."""
        self.image = image
        self.features_delta = FeaturesDelta(image.features)
        self.cluster_delta = ClusterDelta(image.cluster)
        self.topics_delta = TopicsDelta(image.topics)
        self.configs_delta = ConfigsDelta(image.configs)
        self.producer_ids_delta = ProducerIdsDelta(image.producer_ids)
        self.client_quotas_delta = ClientQuotasDelta(image.client_quotas)
        self.scram_delta = ScramDelta(image.scram)
        self.delegation_tokens_delta = DelegationTokensDelta(image.delegation_tokens)

    @property
    def is_empty(self) -> bool:
        """Return whether nothing changed."""
        return (
            self.features_delta.is_empty
            and self.cluster_delta.is_empty
            and self.topics_delta.is_empty
            and self.configs_delta.is_empty
            and self.producer_ids_delta.is_empty
            and self.client_quotas_delta.is_empty
            and self.scram_delta.is_empty
            and self.delegation_tokens_delta.is_empty
        )

    def replay(self, record: MetadataRecord, offset: int | None = None) -> None:
        """Apply one record; `offset` is its offset in the log, None for one of a snapshot.

        A record that does not match the state is an internal error (it was decided on this state): an assertion.
        """
        match record:
            case records.PartitionChange() | records.Partition():
                self.topics_delta.replay_partition(record)
            case records.Topic():
                self.topics_delta.replay_topic(record)
            case records.RemoveTopic():
                self.configs_delta.replay_remove_topic(self.topics_delta.replay_remove(record))
            case records.Config():
                self.configs_delta.replay(record)
            case records.RegisterBroker():
                assert offset is None or record.broker_epoch <= offset, "a broker epoch is the offset of its batch"
                self.cluster_delta.replay_register(record)
            case records.UnregisterBroker():
                self.cluster_delta.replay_unregister(record)
            case records.BrokerRegistrationChange():
                self.cluster_delta.replay_change(record)
            case records.Feature():
                self.features_delta.replay(record)
            case records.ProducerIds():
                self.producer_ids_delta.replay(record)
            case records.ClientQuota():
                self.client_quotas_delta.replay(record)
            case records.UserScramCredential() | records.RemoveUserScramCredential():
                self.scram_delta.replay(record)
            case records.DelegationToken() | records.RemoveDelegationToken():
                self.delegation_tokens_delta.replay(record)
            case records.NoOp():
                pass
            case records.BeginTransaction() | records.EndTransaction() | records.AbortTransaction():
                raise AssertionError("transaction markers are for the TransactionBuffer, they change nothing")
            case _:
                assert_never(record)

    def replay_all(self, found: Iterable[tuple[int | None, MetadataRecord]]) -> Steps[None]:
        """Apply records, each as (offset, record), in order."""
        for piece in pieces(found):
            for offset, record in piece:
                self.replay(record, offset)
            yield

    def let_go(self) -> Steps[None]:
        """Drop the former image and the changes; the delta cannot be used after this.

        Freeing a large change takes nearly as long as creating it, so it is done in steps.
        """
        topics, changed, deleted = self.image.topics, self.topics_delta.changed_topics, self.topics_delta.deleted_topics
        self.image = MetadataImage()
        self.topics_delta = TopicsDelta(self.image.topics)
        parts = topics.parts() if len(changed) + len(deleted) > STEP_COUNT else []
        del topics
        while parts:
            parts.pop()
            yield
        for gone in (changed, deleted):
            while gone:
                gone.popitem()
                yield

    def apply(self, offset: int, epoch: int) -> MetadataImage:
        """Return the image at `offset`, which shares unchanged parts with the old one. Cost: the changes."""
        return finish(self.applied(offset, epoch))

    def applied(self, offset: int, epoch: int) -> Steps[MetadataImage]:
        """As `apply`, in steps: nothing may be replayed before the last of them."""
        before, topics, configs = self.image, self.image.topics, self.image.configs
        if not self.topics_delta.is_empty:
            topics = yield from self.topics_delta.applied()
        if not self.configs_delta.is_empty:
            configs = yield from self.configs_delta.applied()
        return MetadataImage(
            offset=offset,
            epoch=epoch,
            features=before.features if self.features_delta.is_empty else self.features_delta.apply(),
            cluster=before.cluster if self.cluster_delta.is_empty else self.cluster_delta.apply(),
            topics=topics,
            configs=configs,
            producer_ids=before.producer_ids if self.producer_ids_delta.is_empty else self.producer_ids_delta.apply(),
            client_quotas=(
                before.client_quotas if self.client_quotas_delta.is_empty else self.client_quotas_delta.apply()
            ),
            scram=before.scram if self.scram_delta.is_empty else self.scram_delta.apply(),
            delegation_tokens=(
                before.delegation_tokens
                if self.delegation_tokens_delta.is_empty
                else self.delegation_tokens_delta.apply()
            ),
        )
