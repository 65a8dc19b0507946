"""The segments of a log during a cleaning, and their grouping into new ones (Kafka's Cleaner.groupSegmentsBySize).

Sans-IO. Segments below the active one change only by removal, which aborts the cleaning.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kvorum.storage.index import RELATIVE_OFFSET_MAX
from kvorum.storage.log_config import LogConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A segment to be read. `path` is that of its `.log`, `size` its bytes."""

    base_offset: int
    next_base: int
    """Base offset of the next segment."""
    path: str
    size: int
    has_txn_file: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSizes:
    """Size of a source's indexes, in bytes."""

    offset_index: int
    time_index: int


def group_sources(
    sources: Sequence[Source], sizes: Sequence[IndexSizes], config: LogConfig
) -> list[tuple[Source, ...]]:
    """Return the sources in runs, each of which fits into one segment by the sizes of before."""
    groups: list[tuple[Source, ...]] = []
    group: list[Source] = []
    size = offset_size = time_size = 0
    for source, indexes in zip(sources, sizes, strict=True):
        fits = (
            group
            and size + source.size <= config.segment_bytes
            and offset_size + indexes.offset_index <= config.segment_index_bytes
            and time_size + indexes.time_index <= config.segment_index_bytes
            and source.next_base - 1 - group[0].base_offset <= RELATIVE_OFFSET_MAX
        )
        if group and not fits:
            groups.append(tuple(group))
            group, size, offset_size, time_size = [], 0, 0, 0
        group.append(source)
        size += source.size
        offset_size += indexes.offset_index
        time_size += indexes.time_index
    return [*groups, tuple(group)] if group else groups
