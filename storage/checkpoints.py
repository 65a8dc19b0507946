"""The small text files of a log directory and of a partition's folder, in Apache Kafka's formats.

recovery-point-offset-checkpoint, replication-offset-checkpoint, log-start-offset-checkpoint, cleaner-offset-checkpoint
                        version 0, count, then `topic partition offset` a line (OffsetCheckpointFile)
.kafka_cleanshutdown    {"version":0,"brokerEpoch":N}; there only between a clean shutdown and the next start
meta.properties         version=1, cluster.id, node.id, directory.id (KIP-858)
partition.metadata      version: 0, topic_id: base64
"""

import json
from collections.abc import Mapping
from typing import Final, NamedTuple

from kvorum.protocol.topic_partition import TopicPartition
from kvorum.protocol.uuids import Uuid
from kvorum.runtime import failpoints
from kvorum.runtime.disk import Disk
from kvorum.runtime.properties import PropertiesError, parse_properties
from kvorum.storage.names import PARTITION_METADATA, join, parse_number

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
LOG_START_OFFSETS: Final = "log-start-offset-checkpoint"
CLEANED_OFFSETS: Final = "cleaner-offset-checkpoint"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
META_PROPERTIES: Final = "meta.properties"
LOCK: Final = ".lock"

CHECKPOINT_VERSION: Final = 0
CLEAN_SHUTDOWN_VERSION: Final = 0
META_PROPERTIES_VERSION: Final = 1
NO_BROKER_EPOCH: Final = -1


class CheckpointError(Exception):
    """An invalid file; the message names file and fault."""


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    """Return the content of an offset checkpoint."""
    lines = [str(CHECKPOINT_VERSION), str(len(offsets))]
    lines += [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
    return ("\n".join(lines) + "\n").encode()


def decode_offsets(data: bytes) -> dict[TopicPartition, int]:
    """Return the offsets of a checkpoint. Raises ValueError."""
    lines = data.decode().split("\n")
    if len(lines) < 2 or lines[0].strip() != str(CHECKPOINT_VERSION):
        raise ValueError(f"unrecognized version {lines[0][:20]!r}")
    found: dict[TopicPartition, int] = {}
    for line in filter(None, (line.strip() for line in lines[2:])):
        topic, partition, offset = line.split()
        found[TopicPartition(topic, parse_number(partition))] = parse_number(offset)
    if len(found) != parse_number(lines[1].strip()):
        raise ValueError(f"expected {lines[1][:20]} entries, found {len(found)}")
    return found


def read_offsets(disk: Disk, folder: str, name: str) -> dict[TopicPartition, int]:
    """Return a directory's checkpoint; empty without one. Raises CheckpointError, OSError."""
    path = join(folder, name)
    if not disk.exists(path):
        return {}
    try:
        return decode_offsets(disk.read(path))
    except ValueError as error:
        raise CheckpointError(f"{path}: {error}") from error


def write_offsets(disk: Disk, folder: str, name: str, data: bytes) -> None:
    """Replace a directory's checkpoint. Raises OSError."""
    failpoints.hit("checkpoint.write.before")
    disk.write_atomic(join(folder, name), data)
    failpoints.hit("checkpoint.write.after")


def write_clean_shutdown(disk: Disk, folder: str, broker_epoch: int) -> None:
    """Mark a clean shutdown: the last thing written. Raises OSError."""
    failpoints.hit("clean-shutdown.write.before")
    content = json.dumps({"version": CLEAN_SHUTDOWN_VERSION, "brokerEpoch": broker_epoch}, separators=(",", ":"))
    disk.write_atomic(join(folder, CLEAN_SHUTDOWN), content.encode())
    failpoints.hit("clean-shutdown.write.after")


def take_clean_shutdown(disk: Disk, folder: str) -> int | None:
    """Remove the mark; return the broker epoch it holds (NO_BROKER_EPOCH if it holds none), None without a mark."""
    path = join(folder, CLEAN_SHUTDOWN)
    if not disk.exists(path):
        return None
    broker_epoch = NO_BROKER_EPOCH
    try:
        content = json.loads(disk.read(path))
        if isinstance(content, dict) and isinstance(content.get("brokerEpoch"), int):
            broker_epoch = content["brokerEpoch"]
    except ValueError:
        broker_epoch = NO_BROKER_EPOCH
    failpoints.hit("clean-shutdown.take.before")
    disk.remove(path)
    failpoints.hit("clean-shutdown.take.removed")
    disk.sync_dir(folder)
    failpoints.hit("clean-shutdown.take.after")
    return broker_epoch


class MetaProperties(NamedTuple):
    """Identity of a directory."""

    cluster_id: str
    node_id: int
    directory_id: Uuid


def write_meta_properties(disk: Disk, folder: str, properties: MetaProperties) -> None:
    """Write the identity of a directory. Raises OSError."""
    cluster_id, node_id, directory_id = properties
    text = (
        f"#\nversion={META_PROPERTIES_VERSION}\ncluster.id={cluster_id}\n"
        f"node.id={node_id}\ndirectory.id={directory_id}\n"
    )
    disk.write_atomic(join(folder, META_PROPERTIES), text.encode())


def read_meta_properties(disk: Disk, folder: str) -> MetaProperties | None:
    """Return the identity of a directory, None if it has none. Raises CheckpointError, OSError."""
    path = join(folder, META_PROPERTIES)
    if not disk.exists(path):
        return None
    try:
        values = {found.key: found.text for found in parse_properties(disk.read(path).decode())}
        if values.get("version") != str(META_PROPERTIES_VERSION):
            raise ValueError(f"version {values.get('version')} is not known")
        return MetaProperties(values["cluster.id"], int(values["node.id"]), Uuid.parse(values["directory.id"]))
    except KeyError as error:
        raise CheckpointError(f"{path}: {error} is missing") from error
    except (ValueError, PropertiesError) as error:
        raise CheckpointError(f"{path}: {error}") from error


def write_partition_metadata(disk: Disk, folder: str, topic_id: Uuid) -> None:
    """Write the topic id into a log's folder; sync_partition_metadata makes it durable. Raises OSError."""
    failpoints.hit("partition-metadata.write.before")
    file = disk.open(join(folder, PARTITION_METADATA), create=True)
    try:
        failpoints.hit("partition-metadata.write.created")
        file.pwrite(f"version: 0\ntopic_id: {topic_id}\n".encode(), 0)
    finally:
        file.close()
    failpoints.hit("partition-metadata.write.after")


def sync_partition_metadata(disk: Disk, folder: str) -> None:
    """Make the topic id in a log's folder durable. Raises OSError."""
    file = disk.open(join(folder, PARTITION_METADATA), create=False)
    try:
        file.sync()
    finally:
        file.close()
    failpoints.hit("partition-metadata.sync.file")
    disk.sync_dir(folder)
    failpoints.hit("partition-metadata.sync.after")


def read_partition_metadata(disk: Disk, folder: str) -> Uuid | None:
    """Return the topic id of a log's folder, None if the file is missing or damaged (a crash may tear it)."""
    path = join(folder, PARTITION_METADATA)
    if not disk.exists(path):
        return None
    lines = disk.read(path).decode("ascii", errors="replace").split("\n")
    if len(lines) < 2 or lines[0].strip() != "version: 0" or not lines[1].startswith("topic_id: "):
        return None
    try:
        return Uuid.parse(lines[1].removeprefix("topic_id: ").strip())
    except ValueError:
        return None
