"""The metadata of a simulated cluster on all nodes: committed once, equal everywhere, and well formed.

Each batch that a controller applies must be the one that every other applied at that offset; each image of a controller
or broker must be equal to the first one at its offset. The newest image is authoritative; its brokers and partitions
are checked at every change.
"""

from collections.abc import Callable
from hashlib import blake2b
from typing import Final

import msgspec

from kvorum.chaos.history import HistoryWriter, Metadata
from kvorum.cluster.process.controller_node import ControllerNode
from kvorum.protocol.batch_header import parse_header
from kvorum.protocol.uuids import Uuid
from kvorum.quorum import records
from kvorum.quorum.batches import decode_batch
from kvorum.quorum.image import MetadataImage
from kvorum.quorum.image.configs import CLUSTER_DEFAULT, ResourceType
from kvorum.quorum.image.features import ELIGIBLE_LEADER_REPLICAS_VERSION
from kvorum.quorum.image.partition import PartitionRegistration
from kvorum.quorum.raft.log import SnapshotView
from kvorum.runtime.config import Settings
from sim.admin_states import check_admin_states
from sim.ledger import Violation
from sim.reassignment_throttles import check_departing, check_throttles

OnChange = Callable[[tuple[Uuid, int], str, PartitionRegistration | None, PartitionRegistration], None]
MIN_ISR: Final = "min.insync.replicas"


class MetadataWatch:
    """One per run."""

    def __init__(self, history: HistoryWriter, now: Callable[[], float], settings: Settings) -> None:
        """Create it with the empty image."""
        self.newest = MetadataImage()
        self.images: dict[int, MetadataImage] = {}
        self.digests: dict[int, bytes] = {}
        self.on_change: OnChange = lambda key, name, before, after: None
        self.on_configs: Callable[[MetadataImage], None] = lambda image: None
        """Called with an image that has other configs than the one before."""
        self.on_brokers: Callable[[], None] = lambda: None
        """Called when the newest image has other brokers."""
        self.active: dict[int, int] = {}
        """The active controller of each epoch."""
        self.departures_alone = False
        """Only decommissions reassign partitions."""
        self.unthrottled: set[int] = set()
        """Brokers whose throttle an operator took away."""
        self._seen: dict[str, MetadataImage] = {}
        self._broker_epochs: dict[int, int] = {}
        self._history = history
        self._now = now
        self._settings = settings
        self._written = -1

    def watcher(self, who: str, controller: ControllerNode) -> "Watcher":
        """Return the listener for a controller's metadata log."""
        return Watcher(self, who, controller)

    @property
    def is_elr_enabled(self) -> bool:
        """Whether eligible.leader.replicas.version is in use."""
        return self.newest.features.level(ELIGIBLE_LEADER_REPLICAS_VERSION) > 0

    def partition(self, key: tuple[Uuid, int]) -> PartitionRegistration | None:
        """Return a partition as the controllers last committed it."""
        return self.newest.topics.partition(*key)

    def batch(self, who: str, base_offset: int, epoch: int, batch: bytes) -> None:
        """Compare a batch with those that other controllers applied at its offset; write the first to the history."""
        digest = blake2b(batch, digest_size=16).digest()
        known = self.digests.setdefault(base_offset, digest)
        if known != digest:
            raise Violation("MetadataLogMatching", f"{who} applied another batch at {base_offset} than others did")
        if base_offset <= self._written:
            return
        view = memoryview(batch)
        for place, record in enumerate(decode_batch(view, 0, parse_header(view))):
            self._written = base_offset + place
            fields = dict(records.without_credential_keys(msgspec.json.decode(records.encode(record))))
            if fields.get("type") != "NoOp":
                self._history.write(Metadata(t=self._now(), offset=self._written, epoch=epoch, record=fields))

    def became_active(self, node_id: int, epoch: int) -> None:
        """Compare a new active controller with that of its epoch."""
        other = self.active.setdefault(epoch, node_id)
        if other != node_id:
            raise Violation("SingleController", f"controllers {other} and {node_id} are active in epoch {epoch}")

    def check_node(self, who: str, image: MetadataImage) -> None:
        """Process a node's image, if it has changed."""
        if image is not self._seen.get(who):
            self._seen[who] = image
            self.check_image(who, image)

    def check_image(self, who: str, image: MetadataImage) -> None:
        """Compare an image with the first one of its offset; store it if it is newer than all others."""
        if image.offset < 0:
            return
        known = self.images.get(image.offset)
        if known is None:
            self.images[image.offset] = image
            if image.offset > self.newest.offset:
                before, self.newest = self.newest, image
                if not before.same_content(image):
                    self._check_change(before, image)
        elif known is not image and not known.same_content(image):
            raise Violation("MetadataImages", f"{who} has other metadata at offset {image.offset} than others had")

    def _check_change(self, before: MetadataImage, after: MetadataImage) -> None:
        if before.cluster != after.cluster:
            self._check_brokers(after)
        if before.configs is not after.configs:
            self.on_configs(after)
            check_throttles(before, after, frozenset(self.unthrottled))
        for name, topic in after.topics.by_name.items():
            old = before.topics.by_name.get(name)
            for number, partition in topic.partitions.items():
                was = None if old is None or old.topic_id != topic.topic_id else old.partition(number)
                if was is not partition and was != partition:
                    self._check_partition(after, f"{name}-{number}", was, partition)
                    check_admin_states(f"{name}-{number}", (before, after), was, partition)
                    if self.departures_alone:
                        check_departing(f"{name}-{number}", before, after)
                    self.on_change((topic.topic_id, number), name, was, partition)
        if before.cluster != after.cluster:
            self._check_members(after)
            check_directories(before, after)
            self.on_brokers()

    def _check_brokers(self, image: MetadataImage) -> None:
        for broker in image.cluster.brokers.values():
            epoch = self._broker_epochs.get(broker.broker_id, -1)
            if broker.broker_epoch < epoch:
                raise Violation("MonotonicBrokerEpoch", f"broker {broker.broker_id}: {epoch} to {broker.broker_epoch}")
            self._broker_epochs[broker.broker_id] = broker.broker_epoch

    def _check_partition(
        self, image: MetadataImage, name: str, before: PartitionRegistration | None, after: PartitionRegistration
    ) -> None:
        if before is not None and (
            after.leader_epoch < before.leader_epoch or after.partition_epoch <= before.partition_epoch
        ):
            raise Violation("MonotonicEpoch", f"{name} changes from {before} to {after}")
        same_epoch = before is not None and after.leader_epoch == before.leader_epoch
        if before is not None and same_epoch and after.has_leader and after.leader != before.leader:
            raise Violation("SingleLeader", f"{name} changes its leader within a leader epoch: {before} to {after}")
        if after.has_leader and after.leader not in after.isr:
            raise Violation("LeaderInIsr", f"{name}: {after}")
        if after.has_leader and (before is None or after.leader != before.leader):
            directory = after.directory(after.leader)
            if not image.cluster.has_online_directory(after.leader, directory):
                raise Violation("LeaderInOnlineDirectory", f"{name} is led from {directory}: {before} to {after}")
        if set(after.isr) & set(after.elr):
            raise Violation("IsrElrDisjoint", f"{name}: {after}")
        if not {*after.isr, *after.elr} <= set(after.replicas):
            raise Violation("IsrWithinReplicas", f"{name}: {after}")
        if before is not None:
            check_reassignment(name, before, after)
        least = min(self._min_isr(image, name.rpartition("-")[0]), len(after.replicas))
        if after.elr and len(after.isr) >= least and (before is None or before.isr != after.isr):
            raise Violation("ElrEmptyWithFullIsr", f"{name} with min ISR {least}: {after}")

    def _min_isr(self, image: MetadataImage, topic: str) -> int:
        configs = image.configs
        cluster_wide = configs.of(ResourceType.BROKER, CLUSTER_DEFAULT).get(MIN_ISR)
        return int(configs.topic(topic).get(MIN_ISR) or cluster_wide or self._settings.int(MIN_ISR))

    def min_isr_of(self, key: tuple[Uuid, int]) -> int:
        """Return min.insync.replicas of a partition's topic, as last committed."""
        return self.min_isr_in(self.newest, key)

    def min_isr_in(self, image: MetadataImage, key: tuple[Uuid, int]) -> int:
        """Return the same as an image has it."""
        topic = image.topics.topic_by_id(key[0])
        return 1 if topic is None else self._min_isr(image, topic.name)

    def _check_members(self, image: MetadataImage) -> None:
        """No fenced broker is in an ISR, except as the last one of a partition without leader."""
        for topic in image.topics.by_name.values():
            for number, partition in topic.partitions.items():
                fenced = [broker for broker in partition.isr if not image.cluster.is_unfenced(broker)]
                if fenced and (len(partition.isr) > 1 or partition.has_leader):
                    raise Violation("NoFencedInIsr", f"{topic.name}-{number} has fenced {fenced}: {partition}")


def check_reassignment(name: str, before: PartitionRegistration, after: PartitionRegistration) -> None:
    """Check a change of the replicas against KIP-455: no replica leaves before its replacement is in sync.

    If more leave than join, all that stay are in sync (KAFKA-19975). Raises Violation.
    """
    if unheard := {*after.isr, *after.elr} - {*before.replicas}:
        raise Violation("JoinsAsReplica", f"{name}: {unheard} had nothing, and may lead: {before} to {after}")
    dropped = {*before.replicas} - {*after.replicas}
    if not dropped or after.is_reassigning:
        return
    settled = {*before.replicas} - {*before.adding_replicas}
    came, left = {*after.replicas} - settled, settled - {*after.replicas}
    if not came <= {*after.isr} or not (after.isr or after.elr or not (before.isr or before.elr)):
        raise Violation("ReassignedInSync", f"{name}: {dropped} left before others were in sync: {before} to {after}")
    behind = {*after.replicas} - {*after.isr}
    if len(came) < len(left) and behind and not after.recovering:  # after an unclean election in the same change
        raise Violation("ReassignedInSync", f"{name}: {left} left while {behind} were behind: {before} to {after}")


def check_directories(before: MetadataImage, after: MetadataImage) -> None:
    """A replica in a failed directory leaves ISR and leadership by the same change (KIP-858).

    Without ELR the last member of an ISR stays in it. Raises Violation.
    """
    failed = {
        broker.broker_id: {*known.log_dirs} - {*broker.log_dirs}
        for broker in after.cluster.brokers.values()
        if (known := before.cluster.broker(broker.broker_id)) and known.broker_epoch == broker.broker_epoch
    }
    for topic in after.topics.by_name.values() if any(failed.values()) else ():
        for number, partition in topic.partitions.items():
            hit = [each for each in partition.isr if partition.directory(each) in failed.get(each, ())]
            if hit and (len(partition.isr) > 1 or partition.has_leader):
                raise Violation("InIsrWithoutDirectory", f"{topic.name}-{number}: {hit} in {partition}")


class Watcher:
    """A MetadataLogListener in front of the others: it sees every image between two batches."""

    def __init__(self, watch: MetadataWatch, who: str, controller: ControllerNode) -> None:
        """Listen for one controller's life."""
        self._watch = watch
        self._who = who
        self._controller = controller
        self._began = False

    def look(self) -> None:
        """Look at the present committed image."""
        if self._began:
            self._watch.check_node(self._who, self._controller.server.store.image)

    def on_batch_applied(self, base_offset: int, epoch: int, timestamp_ms: int, batch: bytes) -> None:
        """See MetadataLogListener."""
        self._began = True
        self.look()
        self._watch.batch(self._who, base_offset, epoch, batch)

    def on_snapshot_loaded(self, snapshot: SnapshotView) -> None:
        """See MetadataLogListener."""

    def on_leader_changed(self, leader_id: int | None, epoch: int) -> None:
        """See MetadataLogListener."""

    def on_active(self, epoch: int) -> None:
        """See MetadataLogListener."""
        self._watch.became_active(self._controller.metadata_log.node_id, epoch)

    def on_inactive(self) -> None:
        """See MetadataLogListener."""
