"""Dynamic configs of a controller: those that are in force for its node id, laid over its own file.

A controller has few dynamic configs in Kafka. These belong to the process that has the listeners: kvorum.request.trace,
so that a forwarded request can be traced to its decision, and the key and trust stores of listeners (KIP-919).
"""

from collections.abc import Callable

from kvorum.quorum.configs.layers import ConfigLayers, dynamic_layers
from kvorum.quorum.image import MetadataImage
from kvorum.quorum.image.configs import ConfigsImage
from kvorum.quorum.raft.log import SnapshotView
from kvorum.runtime.config import Settings
from kvorum.runtime.logs import get_logger

log = get_logger("quorum")

Subscriber = Callable[[Settings, frozenset[str]], None]
"""Called with the settings now in force and the keys whose value changed."""


class ControllerConfigs:
    """A MetadataLogListener, registered behind the store: looks whether the configs are others than before."""

    def __init__(self, settings: Settings, image: Callable[[], MetadataImage], subscriber: Subscriber) -> None:
        """Start with the node's own file. `image` returns the committed one."""
        self._node_id = settings.int("node.id")
        self._image = image
        self._subscriber = subscriber
        self._seen = ConfigsImage()
        self._layers = ConfigLayers.of(settings, self._seen, self._node_id)

    def on_batch_applied(self, base_offset: int, epoch: int, timestamp_ms: int, batch: bytes) -> None:
        """Look."""
        self._look()

    def on_snapshot_loaded(self, snapshot: SnapshotView) -> None:
        """Look."""
        self._look()

    def on_leader_changed(self, leader_id: int | None, epoch: int) -> None:
        """See MetadataLogListener."""

    def on_active(self, epoch: int) -> None:
        """See MetadataLogListener."""

    def on_inactive(self) -> None:
        """See MetadataLogListener."""

    def _look(self) -> None:
        configs, before = self._image().configs, self._layers
        if configs is self._seen:
            return
        self._seen = configs
        if (before.cluster, before.own) == dynamic_layers(configs, self._node_id):
            return
        self._layers = after = ConfigLayers.of(before.static, configs, self._node_id, before=before)
        for left_out in after.left_out:
            if left_out not in before.left_out:
                log.error("dynamic config ignored", **left_out._asdict())
        changed = after.changed(before)
        if not changed:
            return
        try:
            self._subscriber(after.settings, changed)
        except Exception as error:  # an applier never ends the controller
            log.error("dynamic configs not applied", keys=",".join(sorted(changed)), reason=error)
