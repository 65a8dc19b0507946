"""Contents of all nodes' disks at the end: every replica's batches, and the hash of every metadata image.

Read from the files of nodes that were stopped in order: a broker writes its leader epochs then. Each node's metadata
is its newest usable snapshot and the log after it, replayed to an offset that all of them have.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Final

from kvorum.chaos.history import Image, Replica
from kvorum.chaos.workload.metadata_copies import StoredMetadata, read_metadata
from kvorum.chaos.workload.recorder import Recorder
from kvorum.protocol.records import batches
from kvorum.storage.epoch_cache import EpochCache

EPOCHS: Final = "leader-epoch-checkpoint"
DIGEST_SIZE: Final = 8
LOOKS_MAX: Final = 3
"""At files that change while they are read."""


class Unreadable(Exception):
    """Invalid files, and the reasons."""


@dataclass(slots=True)
class StoredReplica:
    """One replica as its files have it."""

    start: int = 0
    end: int = 0
    epochs: list[list[int]] = field(default_factory=list)
    batches: list[tuple[int, int, str]] = field(default_factory=list)


def read_replica(folder: Path) -> StoredReplica:
    """Read a partition's folder. Raises OSError, KafkaError, ValueError."""
    found = StoredReplica()
    segments = sorted(folder.glob("*.log"))
    if segments:
        found.start = found.end = int(segments[0].stem)
    for path in segments:
        view = memoryview(path.read_bytes())
        for position, header in batches(view):
            digest = blake2b(view[position : position + header.size], digest_size=DIGEST_SIZE).hexdigest()
            found.batches.append((header.base_offset, header.next_offset - 1, digest))
            found.end = header.next_offset
    epochs = folder / EPOCHS
    if epochs.exists():
        found.epochs = [[entry.epoch, entry.start_offset] for entry in EpochCache.parse(epochs.read_text()).entries]
    return found


def write_replicas(
    recorder: Recorder, directories: Mapping[int, Sequence[str]], high_watermarks: Mapping[str, int]
) -> int:
    """Write every replica of these partitions into the history; `directories` are the brokers' by node id.

    Returns how many there were. Raises Unreadable.
    """
    count = 0
    for node, folders in directories.items():
        for partition, high_watermark in high_watermarks.items():
            for folder in (Path(each) / partition for each in folders):
                if not folder.is_dir():
                    continue
                stored = _read_stable_replica(folder)
                _write(recorder, node, partition, high_watermark, stored)
                count += 1
    return count


def _write(recorder: Recorder, node: int, partition: str, high_watermark: int, stored: StoredReplica) -> None:
    recorder.write(
        lambda t: Replica(
            t=t,
            node=node,
            partition=partition,
            start=stored.start,
            high_watermark=high_watermark,
            end=stored.end,
            epochs=stored.epochs,
            batches=stored.batches,
        )
    )


def _read_stable_replica(folder: Path) -> StoredReplica:
    for look in range(LOOKS_MAX):
        try:
            return read_replica(folder)
        except (FileNotFoundError, ValueError) as error:
            if look == LOOKS_MAX - 1:
                raise Unreadable(f"{folder}: {error}") from error
    raise AssertionError("the last look returns or raises")


def write_images(recorder: Recorder, directories: Mapping[str, str]) -> int:
    """Write the hash of each process's metadata image at the last offset that all of them have.

    `directories`: {"node-1/broker": its metadata directory}. Returns how many there were; one that begins behind that
    offset is left out. Raises Unreadable.
    """
    copies: dict[str, StoredMetadata] = {}
    for name, directory in directories.items():
        for look in range(LOOKS_MAX):
            try:
                copies[name] = read_metadata(Path(directory))
                break
            except (FileNotFoundError, ValueError) as error:
                if look == LOOKS_MAX - 1:
                    raise Unreadable(f"{directory}: {error}") from error
    common = min((copy.end_offset for copy in copies.values()), default=0)
    images = {name: copy.image_at(common) for name, copy in copies.items()}
    for name, image in images.items():
        if image is not None:
            _write_image(recorder, name, common, image.digest())
    return sum(1 for image in images.values() if image is not None)


def _write_image(recorder: Recorder, name: str, offset: int, digest: str) -> None:
    recorder.write(lambda t: Image(t=t, node=name, offset=offset, hash=digest))
