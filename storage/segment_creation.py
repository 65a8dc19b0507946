"""Creates a segment: its files, empty, over existing ones of these names (Kafka's LogSegment.open)."""

from kvorum.runtime import failpoints
from kvorum.runtime.disk import Disk
from kvorum.storage.names import TXN_INDEX_SUFFIX
from kvorum.storage.segment import Segment


def create_segment(
    disk: Disk, folder: str, base_offset: int, index_interval_bytes: int, now_ms: int, init_file_size: int = 0
) -> Segment:
    """Return a new, empty segment; files of the same name are emptied. Raises OSError.

    Its `.log` has `init_file_size` zeros (preallocate): as in Kafka only the length is set, without cost; the file
    system decides whether blocks are allocated. `Segment.trim` removes the unused part.
    """
    segment = Segment(disk, folder, base_offset, size=0, index_interval_bytes=index_interval_bytes, created_ms=now_ms)
    failpoints.hit("log.create-segment.before")
    try:
        if segment.file.size():
            segment.file.truncate(0)
        if init_file_size:
            segment.file.truncate(init_file_size)
        if disk.exists(segment.path(TXN_INDEX_SUFFIX)):
            disk.remove(segment.path(TXN_INDEX_SUFFIX))
        failpoints.hit("log.create-segment.created")
        segment.begin_rebuild()
        segment.save_indexes()
    except OSError:
        segment.close()
        raise
    failpoints.hit("log.create-segment.after")
    return segment
