"""The storage log of `__cluster_metadata-0`: how it is opened, and how it is read back. Used off the event loop."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from kvorum.protocol.parts import FileSlice, Part
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.protocol.uuids import METADATA_TOPIC_ID
from kvorum.quorum.batches import METADATA_FOLDER, METADATA_PARTITION, METADATA_TOPIC
from kvorum.quorum.raft.log import COMMAND_BYTES_MAX
from kvorum.runtime.clock import Clock
from kvorum.runtime.config import Settings
from kvorum.runtime.disk import Disk
from kvorum.storage.log import Log
from kvorum.storage.log_config import LogConfig
from kvorum.storage.recovery import OpenOptions, open_log

NO_LIMIT: Final = -1
"""No retention by age or size: only records covered by a snapshot are removed."""


def open_metadata_log(disk: Disk, directory: str, settings: Settings, clock: Clock) -> Log:
    """Open (or begin) the metadata log below a directory, recovering its end. Raises LogDirectoryError, OSError."""
    folder = f"{directory}/{METADATA_FOLDER}"
    disk.mkdir(folder)
    config = replace(
        LogConfig(),
        segment_bytes=settings.int("metadata.log.segment.bytes"),
        segment_ms=settings.int("metadata.log.segment.ms"),
        retention_ms=NO_LIMIT,
        retention_bytes=NO_LIMIT,
        max_message_bytes=COMMAND_BYTES_MAX,
    )
    partition = TopicPartition(METADATA_TOPIC, METADATA_PARTITION)
    return open_log(disk, folder, partition, config, clock, options=OpenOptions(topic_id=METADATA_TOPIC_ID))


def joined(parts: Iterable[Part]) -> bytes:
    """Return the concatenation of these parts: for reading back, never for sending."""
    return b"".join(
        part.file.pread(part.size, part.position) if isinstance(part, FileSlice) else bytes(part) for part in parts
    )
