"""Indexes and producer snapshots as lines of text, in the format of Kafka's DumpLogSegments, checked against their log.

Source: DumpLogSegments.dumpIndex, dumpTimeIndex, dumpTxnIndex, dumpProducerIdSnapshot; OffsetIndex.sanityCheck,
TimeIndex.sanityCheck.
"""

import os
from bisect import bisect_right
from collections.abc import Iterator
from struct import Struct

from kvorum.cli.dump.log_dump import Problems
from kvorum.cli.dump.log_files import FileProblem, batches, index_entries, time_index_entries
from kvorum.storage.names import offset_of
from kvorum.storage.producer_state import decode_snapshot

_TXN_ENTRY = Struct(">hqqqq")


def base_offset(path: str) -> int:
    """Return the offset in a file's name. Raises FileProblem."""
    offset = offset_of(os.path.basename(path))
    if offset is None:
        raise FileProblem(f"{path} is not the name of an index: 20 digits and its suffix")
    return offset


def beside(path: str, suffix: str) -> str:
    """Return the file of the same segment with another suffix."""
    return os.path.join(os.path.dirname(path), os.path.basename(path).partition(".")[0] + suffix)


def dump_index(path: str, *, sanity_only: bool, verify_only: bool, problems: Problems) -> Iterator[str]:
    """Yield the lines of an offset index; each entry has to name a batch that ends with its offset."""
    base = base_offset(path)
    entries = index_entries(path, base)
    if not entries:
        yield f"{path} is empty."
        return
    if sanity_only:
        check_index(path, entries, base)
        yield f"{path} passed sanity check."
        return
    with open(beside(path, ".log"), "rb") as log:
        for number, (offset, position) in enumerate(entries):
            if number and offset == base:  # a file made longer than it was needed
                return
            batch = next(batches(log, start=position), None)
            found = -1 if batch is None else batch.header.last_offset
            if found != offset:
                problems.note(
                    f"Mismatches in :{os.path.abspath(path)}", f"  Index offset: {offset}, log offset: {found}"
                )
            if not verify_only:
                yield f"offset: {offset} position: {position}"


def check_index(path: str, entries: list[tuple[int, int]], base: int) -> None:
    """Raise FileProblem for an index that a broker would rebuild at its start."""
    last = entries[-1][0]
    if last < base:
        text = f"has non-zero size but the last offset is {last} which is less than the base offset {base}"
        raise FileProblem(f"Corrupt index found, index file ({path}) {text}.")


def dump_time_index(path: str, *, sanity_only: bool, verify_only: bool, problems: Problems) -> Iterator[str]:
    """Yield the lines of a time index; each entry has to be the greatest timestamp of the batch it names."""
    base = base_offset(path)
    entries = time_index_entries(path, base)
    if sanity_only:
        check_time_index(path, entries, base)
        yield f"{path} passed sanity check."
        return
    where = index_entries(beside(path, ".index"), base)
    name = os.path.abspath(path)
    previous = -1
    with open(beside(path, ".log"), "rb") as log:
        for number, (timestamp, offset) in enumerate(entries):
            if number and offset == base:
                return
            place = bisect_right(where, offset, key=lambda entry: entry[0])
            start = where[place - 1][1] if place else 0
            batch = next((each for each in batches(log, start=start) if each.header.last_offset >= offset), None)
            if batch is None or batch.header.last_offset != offset:
                found = -1 if batch is None else batch.header.last_offset
                problems.note(
                    f"The following indexed offsets are not found in :{name}",
                    f"  Indexed offset: {offset}, found log offset: {found}",
                )
            else:
                greatest = max((record.timestamp for record in batch.records()), default=batch.header.max_timestamp)
                if greatest != timestamp:
                    line = f"  Index timestamp: {timestamp}, log timestamp: {greatest}"
                    problems.note(f"Found timestamp mismatch in :{name}", line)
                if previous >= timestamp:
                    line = f"  Index timestamp: {timestamp}, Previously indexed timestamp: {previous}"
                    problems.note(f"Found out of order timestamp in :{name}", line)
            if not verify_only:
                yield f"timestamp: {timestamp} offset: {offset}"
            previous = timestamp


def check_time_index(path: str, entries: list[tuple[int, int]], base: int) -> None:
    """Raise FileProblem for an index that a broker would rebuild at its start."""
    if not entries:
        return
    (first_timestamp, _), (timestamp, offset) = entries[0], entries[-1]
    if timestamp < first_timestamp:
        text = f"has non-zero size but the last timestamp is {timestamp} which is less than the first {first_timestamp}"
        raise FileProblem(f"Corrupt time index found, time index file ({path}) {text}")
    if offset < base:
        text = f"has non-zero size but the last offset is {offset} which is less than the first offset {base}"
        raise FileProblem(f"Corrupt time index found, time index file ({path}) {text}")


def dump_txn_index(path: str) -> Iterator[str]:
    """Yield the lines of a transaction index. Raises FileProblem, OSError."""
    base_offset(path)
    with open(path, "rb") as file:
        data = file.read()
    if len(data) % _TXN_ENTRY.size:
        raise FileProblem(f"{path} has {len(data)} bytes, not a multiple of {_TXN_ENTRY.size}")
    for version, producer_id, first, last, stable in _TXN_ENTRY.iter_unpack(data):
        yield (
            f"version: {version} producerId: {producer_id} firstOffset: {first} lastOffset: {last}"
            f" lastStableOffset: {stable}"
        )


def dump_producers(path: str) -> Iterator[str]:
    """Yield the lines of a producer snapshot. Raises FileProblem, OSError."""
    with open(path, "rb") as file:
        data = file.read()
    try:
        entries = list(decode_snapshot(data))
    except ValueError as error:
        raise FileProblem(f"{path}: {error}") from error
    for entry in entries:
        first_offset = entry.current_txn_first_offset
        line = (
            f"producerId: {entry.producer_id} producerEpoch: {entry.producer_epoch}"
            f" coordinatorEpoch: {entry.coordinator_epoch}"
            f" currentTxnFirstOffset: {'OptionalLong.empty' if first_offset < 0 else f'OptionalLong[{first_offset}]'}"
            f" lastTimestamp: {entry.last_timestamp}"
        )
        for batch in list(entry.batches)[:1]:
            line += (
                f" firstSequence: {batch.base_sequence} lastSequence: {batch.last_sequence}"
                f" lastOffset: {batch.last_offset} offsetDelta: {batch.offset_delta} timestamp: {batch.timestamp}"
            )
        yield line
