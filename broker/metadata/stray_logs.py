"""Logs on this broker's disks that are not in its metadata: renamed once, with the first image.

A topic that was deleted or recreated while the broker was down is in no delta. Its folder is renamed `-stray` and kept,
because the metadata may be wrong. Runs before the replicas apply the image, so that a new topic of the same name finds
its folder name free. Source: Kafka's LogManager.isStrayReplica.
"""

from kvorum.protocol.uuids import ZERO_UUID
from kvorum.quorum.image import MetadataDelta, MetadataImage
from kvorum.quorum.publisher import LoaderManifest
from kvorum.runtime.logs import get_logger
from kvorum.storage.log import Log
from kvorum.storage.log_dir import LogDir
from kvorum.storage.log_manager import LogManager

log = get_logger("broker")


class StrayLogs:
    """A publisher that acts on the first image only."""

    __slots__ = ("_broker_id", "_done", "_logs")

    def __init__(self, broker_id: int, logs: LogManager) -> None:
        """Look at these logs."""
        self._broker_id = broker_id
        self._logs = logs
        self._done = False

    async def on_metadata_update(self, delta: MetadataDelta, image: MetadataImage, manifest: LoaderManifest) -> None:
        """See MetadataPublisher."""
        if self._done:
            return
        self._done = True

        def is_stray(each: Log) -> bool:
            return self._is_stray(each, image)

        def is_assigned(each: Log, place: LogDir) -> bool:
            return self._is_assigned(each, place, image)

        await self._logs.settle_rivals(is_stray, is_assigned)
        await self._logs.futures.settle(is_stray, is_assigned, lambda each: self._is_counted_on(each, image))
        strays = self._logs.stray_logs(is_stray)
        for partition in strays:
            log.warning("stray log set aside", partition=partition)
        await self._logs.set_aside_stray(*strays)

    def _is_assigned(self, each: Log, place: LogDir, image: MetadataImage) -> bool:
        topic = image.topics.topic(each.partition.topic)
        registered = None if topic is None else topic.partition(each.partition.partition)
        if registered is None or place.directory_id == ZERO_UUID or self._broker_id not in registered.replicas:
            return False
        return registered.directory(self._broker_id) == place.directory_id

    def _is_counted_on(self, each: Log, image: MetadataImage) -> bool:
        topic = image.topics.topic(each.partition.topic)
        registered = None if topic is None else topic.partition(each.partition.partition)
        return registered is not None and self._broker_id in registered.eligible

    def _is_stray(self, each: Log, image: MetadataImage) -> bool:
        topic = image.topics.topic(each.partition.topic)
        # A log whose partition.metadata was torn has no id: it is treated as the topic's of that name, as in Kafka.
        if topic is None or each.topic_id not in (topic.topic_id, ZERO_UUID):
            return True
        registered = topic.partition(each.partition.partition)
        return registered is None or self._broker_id not in registered.replicas
