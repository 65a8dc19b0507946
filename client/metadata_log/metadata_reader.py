"""The metadata log of a cluster for the HTTP API: fetched once, continued with each request.

Trees are built off the loop, and the last few are kept: a reader requests each folder separately.
"""

import asyncio
from bisect import bisect_right
from collections import OrderedDict
from functools import partial
from typing import Final, NamedTuple

from kvorum.client.metadata_log.metadata_fetch import FetchResult, fetch_log, log_from, offset_of_log
from kvorum.client.metadata_log.metadata_image import LogSizeError, Raw, Source, image_at
from kvorum.client.metadata_log.metadata_tree import Tree, tree_of
from kvorum.client.metadata_log.registrations import Registrations
from kvorum.client.metadata_log.secret_configs import is_secret
from kvorum.client.wire.cluster_client import EARLIEST, ClusterClient
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.quorum.image import MetadataImage
from kvorum.quorum.image.cluster import BrokerRegistration
from kvorum.runtime import blocking

LOG_BYTES_MAX: Final = 64 * 1024 * 1024
"""Limit per cluster: about 500,000 records. The command line reads the files of a larger log."""
TREES_KEPT: Final = 2
"""A difference needs two; one of 100,000 partitions is some 100 MB."""


class Epoch(NamedTuple):
    """A controller's time as the active one: its epoch and the first record of it that is known here."""

    epoch: int
    start_offset: int
    began_ms: int


class MetadataReader:
    """Reads the metadata log of one cluster on one event loop; concurrent callers wait in turn."""

    def __init__(self) -> None:
        """Start without records."""
        self._lock = asyncio.Lock()
        self._log_cache: FetchResult | None = None
        self._trees: OrderedDict[int, Tree] = OrderedDict()
        self._too_large: tuple[int, LogSizeError] | None = None
        """Start of the log that was too large, and its error."""
        self._registrations: tuple[FetchResult, Registrations] | None = None
        """The brokers of a log."""

    async def span(self, cluster: ClusterClient) -> tuple[int, int]:
        """Return (first, last) offset behind whose record the metadata are known, as of now. Raises as `tree`."""
        async with self._lock:
            log = await self._log(cluster)
            return log.first, log.end - 1

    async def tree(self, cluster: ClusterClient, at: int) -> Tree:
        """Return the tree behind the record at an offset within the span; -1: of an empty log. Do not change it.

        Raises MetadataProblem, LogSizeError, KafkaError, Unreachable.
        """
        async with self._lock:
            found = self._trees.get(at)
            if found is None:
                source = (await self._log(cluster)).source()
                loop = asyncio.get_running_loop()
                found = await blocking.run(loop, partial(tree_at, source, at))
                self._trees[at] = found
                while len(self._trees) > TREES_KEPT:
                    self._trees.popitem(last=False)
            self._trees.move_to_end(at)
            return found

    async def batches(self, cluster: ClusterClient) -> list[Raw]:
        """Return the log behind the snapshot, as of now. Raises LogSizeError, KafkaError, Unreachable."""
        async with self._lock:
            return list((await self._log(cluster)).log)

    async def source(self, cluster: ClusterClient) -> Source:
        """Return all there is: the log, and the snapshot that it begins behind, if any. Raises as `batches`."""
        async with self._lock:
            return (await self._log(cluster)).source()

    async def epochs(self, cluster: ClusterClient) -> list[Epoch]:
        """Return the epochs in the log after the snapshot, oldest first. Raises the errors of `batches`."""
        found: list[Epoch] = []
        for _, header in await self.batches(cluster):
            if not found or header.partition_leader_epoch != found[-1].epoch:
                found.append(Epoch(header.partition_leader_epoch, header.base_offset, header.max_timestamp))
        return found

    async def brokers(self, cluster: ClusterClient) -> dict[int, BrokerRegistration]:
        """Return the registered brokers by id, as of now. Raises as `tree`."""
        async with self._lock:
            log = await self._log(cluster)
            known, self._registrations = self._registrations, None  # a failed update is not continued
            before = known[1] if known is not None and known[0] is log else None
            read = await blocking.run(asyncio.get_running_loop(), read_registrations, log, before)
            self._registrations = log, read[0]
            return read[1]

    async def _log(self, cluster: ClusterClient) -> FetchResult:
        """Return the whole log up to now; fetched from its beginning if unknown, or if it does not continue there."""
        if self._log_cache is not None:
            try:
                room = LOG_BYTES_MAX - self._log_cache.size
                self._log_cache.log += await log_from(cluster, self._log_cache.end, None, room)
            except KafkaError as error:
                if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                    raise
                self._log_cache = None
            except LogSizeError:
                self._log_cache = None  # there may be a snapshot by now that takes its place
        if self._log_cache is None:
            self._trees.clear()
            begin = await offset_of_log(cluster, EARLIEST)
            if self._too_large is not None and self._too_large[0] == begin:
                raise LogSizeError(
                    str(self._too_large[1])
                )  # it has only grown since, and need not be fetched to know that
            try:
                self._log_cache = await fetch_log(cluster, LOG_BYTES_MAX)
            except LogSizeError as error:
                self._too_large = begin, error
                raise
        return self._log_cache


def tree_at(source: Source, at: int) -> Tree:
    """Return the tree behind the record at an offset, the values of secrets hidden; -1: of an empty log."""
    return tree_of(image_at(source, at) if at >= 0 else MetadataImage(), is_secret)


def read_registrations(
    log: FetchResult, before: Registrations | None
) -> tuple[Registrations, dict[int, BrokerRegistration]]:
    """Return the brokers of a log, continued from before; and the state for the next time. Raises MetadataProblem."""
    found = before
    if found is None:
        snapshot_id = log.snapshot_id
        found = Registrations() if snapshot_id is None else Registrations.of_snapshot(snapshot_id, log.snapshot)
    return found, found.read(log.log[from_offset(log.log, found.next_offset) :])


def from_offset(log: list[Raw], offset: int) -> int:
    """Return the index of the batch that holds an offset, or of the first behind it."""
    at = bisect_right(log, offset, key=lambda raw: raw[1].base_offset) - 1
    return at if at >= 0 and log[at][1].next_offset > offset else at + 1
