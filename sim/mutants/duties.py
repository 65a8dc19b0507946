"""Mistakes in maintenance and decommission: elections, new replicas, and the controller's triggers."""

from collections.abc import Sequence
from dataclasses import replace

from kvorum.quorum.broker_admin_states import BrokerAdminStates
from kvorum.quorum.controller import departure
from kvorum.quorum.controller.broker_admin_state import cleared
from kvorum.quorum.controller.context import Context
from kvorum.quorum.controller.departure_throttle import throttle_consequences
from kvorum.quorum.controller.partition_change import Election, PartitionChangeBuilder
from kvorum.quorum.image import MetadataImage
from kvorum.quorum.records import Config, MetadataRecord
from kvorum.quorum.steps import Steps
from kvorum.runtime.config_defs import DECOMMISSION_THROTTLE
from sim.mutants.patches import Patches


def elect_who_rests(patches: Patches) -> None:
    """A broker in maintenance is relieved, and then elected like any other."""
    elect = PartitionChangeBuilder.elect

    def anybody(
        self: PartitionChangeBuilder, isr: tuple[int, ...], replicas: tuple[int, ...], elr: tuple[int, ...] = ()
    ) -> tuple[int, bool]:
        relief = self.election is Election.RELIEF
        return elect(self if relief else replace(self, is_resting=lambda broker_id: False), isr, replicas, elr)

    patches.replace(PartitionChangeBuilder, "elect", anybody)


def place_on_who_leaves(patches: Patches) -> None:
    """A broker that is decommissioned gets replicas of new partitions, and those that leave others."""
    patches.replace(Context, "is_leaving", lambda self, broker_id: False)


def look_once(patches: Patches) -> None:
    """The controller checks the admin state only when it changes, and not when other replicas have come into sync."""
    applied = BrokerAdminStates.on_batch_applied

    def only_configs(self: BrokerAdminStates, base_offset: int, epoch: int, timestamp_ms: int, batch: bytes) -> None:
        seen = self._seen
        if seen is None or seen.configs is not self._services.store.image.configs:
            applied(self, base_offset, epoch, timestamp_ms, batch)

    patches.replace(BrokerAdminStates, "on_batch_applied", only_configs)


def end_every_throttle(patches: Patches) -> None:
    """When one decommission is over, throttles that were set ahead for others go with its own."""

    def of_all(image: MetadataImage, changes: Sequence[MetadataRecord]) -> Steps[list[Config]]:
        found = yield from throttle_consequences(image, changes)
        return [*found, *(cleared(each, DECOMMISSION_THROTTLE) for each in sorted(image.cluster.brokers))]

    patches.replace(departure, "throttle_consequences", of_all)
