"""Mistakes in quotas: throttled clients, throttle times, and restarts."""

from kvorum.broker.metadata.quota_publisher import QuotaPublisher
from kvorum.network.muting import Muting
from kvorum.quorum.image import MetadataDelta, MetadataImage
from kvorum.quorum.publisher import LoaderManifest
from sim.mutants.patches import Patches


def tell_without_holding(patches: Patches) -> None:
    """A client gets a throttle time, and is served nevertheless."""
    patches.replace(Muting, "answered", lambda self, throttle_ms: None)


def hold_for_ever(patches: Patches) -> None:
    """After a throttle the requests that its client has sent meanwhile are ignored."""

    def forgotten(self: Muting) -> None:
        self._timer = None
        self.is_muted = False
        self.is_on = self._turns > 0

    patches.replace(Muting, "_end", forgotten)


def keep_new_quotas_alone(patches: Patches) -> None:
    """A broker that starts keeps its clients to the quotas that are set from then on, not to those there are."""
    update = QuotaPublisher.on_metadata_update

    def behind_the_start(
        self: QuotaPublisher, delta: MetadataDelta, image: MetadataImage, manifest: LoaderManifest
    ) -> None:
        if delta.image.offset >= 0:
            update(self, delta, image, manifest)

    patches.replace(QuotaPublisher, "on_metadata_update", behind_the_start)
