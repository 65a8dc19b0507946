"""The registered brokers (org.apache.kafka.image.ClusterImage, ClusterDelta). Sans-IO, immutable."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import msgspec
from msgspec import UNSET
from rpds import HashTrieMap

from kvorum.protocol.uuids import Uuid
from kvorum.quorum.image.partition import LOST_DIRECTORY, UNASSIGNED_DIRECTORY
from kvorum.quorum.records import (
    BrokerRegistrationChange,
    Endpoint,
    FeatureRange,
    MetadataRecord,
    RegisterBroker,
    UnregisterBroker,
)


class BrokerRegistration(msgspec.Struct, frozen=True, kw_only=True):
    """One broker's incarnation; `log_dirs` are those online, in the broker's order.

    `cordoned_log_dirs` get no new replicas (KIP-1066); None: not reported yet, which means none. `failed_log_dirs` were
    online at its registration; replicas not yet reported as failed may be in one.
    """

    broker_id: int
    broker_epoch: int
    incarnation_id: Uuid
    endpoints: tuple[Endpoint, ...]
    features: tuple[FeatureRange, ...]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    log_dirs: tuple[Uuid, ...]
    previous_broker_epoch: int = -1
    cordoned_log_dirs: tuple[Uuid, ...] | None = None
    failed_log_dirs: tuple[Uuid, ...] = ()

    @property
    def takes_replicas(self) -> bool:
        """Return whether a directory is online and not cordoned, which is assumed for brokers without directories."""
        return not self.log_dirs or not set(self.log_dirs) <= set(self.cordoned_log_dirs or ())

    @property
    def active(self) -> bool:
        """Return whether it may lead and be in an ISR: neither fenced nor shutting down (KIP-841)."""
        return not (self.fenced or self.in_controlled_shutdown)

    def endpoint(self, listener_name: str) -> Endpoint | None:
        """Return where it listens under this listener's name."""
        return next((endpoint for endpoint in self.endpoints if endpoint.name == listener_name), None)

    def failed_in(self, log_dirs: Sequence[Uuid]) -> tuple[Uuid, ...]:
        """Return the failed directories of its registration, if these are online."""
        return tuple(each for each in (*self.failed_log_dirs, *self.log_dirs) if each not in log_dirs)

    @classmethod
    def from_record(cls, record: RegisterBroker) -> BrokerRegistration:
        """Make the registration that a record describes."""
        return cls(
            broker_id=record.broker_id,
            broker_epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            endpoints=record.endpoints,
            features=record.features,
            rack=record.rack,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            log_dirs=record.log_dirs,
            previous_broker_epoch=record.previous_broker_epoch,
            cordoned_log_dirs=record.cordoned_log_dirs,
            failed_log_dirs=() if record.failed_log_dirs is UNSET else record.failed_log_dirs,
        )

    def to_record(self) -> RegisterBroker:
        """Return the record that describes the whole of it, for a snapshot."""
        return RegisterBroker(
            broker_id=self.broker_id,
            broker_epoch=self.broker_epoch,
            incarnation_id=self.incarnation_id,
            endpoints=self.endpoints,
            features=self.features,
            rack=self.rack,
            fenced=self.fenced,
            in_controlled_shutdown=self.in_controlled_shutdown,
            log_dirs=self.log_dirs,
            previous_broker_epoch=self.previous_broker_epoch,
            cordoned_log_dirs=self.cordoned_log_dirs,
            failed_log_dirs=self.failed_log_dirs or UNSET,
        )

    def merge(self, change: BrokerRegistrationChange) -> BrokerRegistration:
        """Return the registration after the change."""
        return msgspec.structs.replace(
            self,
            fenced=self.fenced if change.fenced is None else change.fenced,
            in_controlled_shutdown=(
                self.in_controlled_shutdown if change.in_controlled_shutdown is None else change.in_controlled_shutdown
            ),
            log_dirs=self.log_dirs if change.log_dirs is None else change.log_dirs,
            failed_log_dirs=self.failed_log_dirs if change.log_dirs is None else self.failed_in(change.log_dirs),
            cordoned_log_dirs=(
                self.cordoned_log_dirs if change.cordoned_log_dirs is None else change.cordoned_log_dirs
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterImage:
    """All registered brokers by id. The map is unordered."""

    brokers: HashTrieMap[int, BrokerRegistration] = field(default_factory=lambda: HashTrieMap())

    def broker(self, broker_id: int) -> BrokerRegistration | None:
        """Return a broker's registration."""
        return self.brokers.get(broker_id)

    def is_active(self, broker_id: int) -> bool:
        """Return whether it is registered, not fenced and not shutting down."""
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.active

    def has_online_directory(self, broker_id: int, directory: Uuid) -> bool:
        """Return whether a replica in this directory of the broker works, as far as is known (Kafka's DirectoryId).

        An unassigned directory works; so does every directory of a broker that named none.
        """
        if directory in (UNASSIGNED_DIRECTORY, LOST_DIRECTORY):
            return directory == UNASSIGNED_DIRECTORY
        broker = self.brokers.get(broker_id)
        return broker is None or not broker.log_dirs or directory in broker.log_dirs

    def is_unfenced(self, broker_id: int) -> bool:
        """Return whether it is registered and not fenced."""
        broker = self.brokers.get(broker_id)
        return broker is not None and not broker.fenced

    def sorted_brokers(self) -> list[BrokerRegistration]:
        """Return the brokers by id."""
        return sorted(self.brokers.values(), key=lambda broker: broker.broker_id)

    def to_records(self) -> Iterator[MetadataRecord]:
        """Write all brokers as records, by id."""
        for broker in self.sorted_brokers():
            yield broker.to_record()


class ClusterDelta:
    """Changed brokers since `image`; None in `changed_brokers` is a removed broker."""

    __slots__ = ("changed_brokers", "image")

    def __init__(self, image: ClusterImage) -> None:
        """Start from the present brokers."""
        self.image = image
        self.changed_brokers: dict[int, BrokerRegistration | None] = {}

    @property
    def is_empty(self) -> bool:
        """Return whether nothing changed."""
        return not self.changed_brokers

    def broker(self, broker_id: int) -> BrokerRegistration | None:
        """Return a broker after the changes."""
        if broker_id in self.changed_brokers:
            return self.changed_brokers[broker_id]
        return self.image.brokers.get(broker_id)

    def replay_register(self, record: RegisterBroker) -> None:
        """Apply a new registration."""
        before = self.broker(record.broker_id)
        assert before is None or before.broker_epoch <= record.broker_epoch, "broker epochs grow"
        self.changed_brokers[record.broker_id] = BrokerRegistration.from_record(record)

    def replay_unregister(self, record: UnregisterBroker) -> None:
        """Record the removal of a broker."""
        before = self.broker(record.broker_id)
        assert before is not None and before.broker_epoch == record.broker_epoch, "another incarnation is registered"
        self.changed_brokers[record.broker_id] = None

    def replay_change(self, record: BrokerRegistrationChange) -> None:
        """Apply a change of a registration."""
        before = self.broker(record.broker_id)
        assert before is not None and before.broker_epoch == record.broker_epoch, "another incarnation is registered"
        self.changed_brokers[record.broker_id] = before.merge(record)

    def apply(self) -> ClusterImage:
        """Return the brokers after the changes. Cost: what changed."""
        brokers = self.image.brokers
        for broker_id, broker in self.changed_brokers.items():
            brokers = brokers.discard(broker_id) if broker is None else brokers.insert(broker_id, broker)
        return ClusterImage(brokers=brokers)
