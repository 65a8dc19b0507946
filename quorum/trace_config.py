"""Applies kvorum.request.trace on a controller: the cluster-wide value, and that of its own node id.

A controller has no dynamic configs of its own in Kafka; this one belongs to the process that answers requests, so that
a forwarded request can be traced to its decision.
"""

from collections.abc import Callable

from kvorum.network.tracing import Tracing
from kvorum.quorum.image import MetadataImage
from kvorum.quorum.image.configs import ConfigsImage
from kvorum.quorum.raft.log import SnapshotView
from kvorum.runtime.config import Settings
from kvorum.runtime.logs import get_logger
from kvorum.runtime.trace_wish import KEY

log = get_logger("quorum")


class TraceConfig:
    """A MetadataLogListener, registered behind the store: looks whether the configs are others than before."""

    def __init__(self, settings: Settings, image: Callable[[], MetadataImage], tracing: Tracing) -> None:
        """Start with the value of the node's own file. `image` returns the committed one."""
        self._static = settings.str(KEY)
        self._node_id = settings.int("node.id")
        self._image = image
        self._tracing = tracing
        self._seen = ConfigsImage()
        tracing.configure(self._static)

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
        configs = self._image().configs
        if configs is self._seen:
            return
        self._seen = configs
        found = configs.broker_value([KEY], self._node_id)
        try:
            self._tracing.configure(self._static if found is None else found.value)
        except Exception as error:  # an applier never ends the controller
            value = "" if found is None else found.value
            log.error("dynamic config ignored", key=KEY, value=value, reason=error)
