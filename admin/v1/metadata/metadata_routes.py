"""The metadata over HTTP: as a tree at any offset, what changed between two, the records of the log, the epochs.

It is the tree of `kvorum metadata` and of Kafka's metadata shell. All of it comes over the wire (metadata_fetch).
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TypeVar, TypeVarTuple

import msgspec

from kvorum.admin.http.access import HttpError
from kvorum.admin.http.operations import Call, NoBody, Operation, Result
from kvorum.admin.http.parameters import INT64_MAX, BadInput, Parameter, count, optional_number, optional_text, text
from kvorum.admin.v1.metadata.metadata_models import (
    MetadataChange,
    MetadataDifference,
    MetadataEntry,
    MetadataNode,
    MetadataRecord,
    MetadataRecords,
    QuorumEpoch,
)
from kvorum.client.metadata_log.metadata_image import LogSizeError, MetadataProblem, Raw
from kvorum.client.metadata_log.metadata_reader import MetadataReader, from_offset
from kvorum.client.metadata_log.metadata_tree import NoSuchPath, Tree, at_path, difference, sort_entries
from kvorum.client.metadata_log.secret_configs import without_secret
from kvorum.protocol.batch_header import BatchHeader
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.records import check_crc, decode_records
from kvorum.runtime import blocking

ENTRIES = count("names per page", default=500, most=5_000)
CHANGES = count("changes", default=500, most=5_000)
RECORDS = count("records", default=100, most=1_000)
PATH_CHARS_MAX = 1_000
NO_OP = "NoOp"

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")


PATH = text("path", "path in the tree (default /), for example /image/topics/byName/orders", "/")
AT = optional_number("at", "state after the record at this offset (default: the last)", 0, INT64_MAX)
AFTER = optional_text("after", "start after this name")
SINCE = optional_number("since", "the earlier offset (default: the first available)", 0, INT64_MAX)
OFFSET = optional_number("offset", "offset of the first record (default: the last records)", 0, INT64_MAX)


class MetadataRoutes:
    """The paths of one server, which share a copy of the metadata log."""

    def __init__(self, reader: MetadataReader) -> None:
        """Look through this reader, which others may share."""
        self._reader = reader

    async def get_metadata(self, call: Call[NoBody]) -> MetadataNode:
        """Return a folder or value of the metadata tree, at an offset; by default the latest.

        The tree is that of Kafka's metadata shell: /image/topics/byName/orders/0/isr.
        """
        limit = ENTRIES.of(call)
        path = path_of(call)
        with translate_errors():
            first, last = await self._reader.span(call.cluster)
            at = offset_in(call, AT, last, first, last)
            tree = await self._reader.tree(call.cluster, at)
        try:
            node = at_path(tree, path)
        except NoSuchPath as error:
            raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, f"{path} does not exist at offset {at}") from error
        entries, following = await off_loop(page_of, node, AFTER.of(call), limit)
        value = node if isinstance(node, str) else None
        return MetadataNode(path=path, at=at, first=first, last=last, value=value, entries=entries, next=following)

    async def get_metadata_diff(self, call: Call[NoBody]) -> MetadataDifference:
        """Return the differences of the metadata between two offsets."""
        limit = CHANGES.of(call)
        path = path_of(call)
        with translate_errors():
            first, last = await self._reader.span(call.cluster)
            at = offset_in(call, AT, last, first, last)
            since = offset_in(call, SINCE, first, first, last)
            trees = [await self._reader.tree(call.cluster, each) for each in (since, at)]
        changes = await off_loop(changes_below, trees[0], trees[1], path, limit + 1)
        return MetadataDifference(since=since, at=at, changes=changes[:limit], more=len(changes) > limit)

    async def list_metadata_records(self, call: Call[NoBody]) -> MetadataRecords:
        """List records of the metadata log from an offset; by default the last ones. No-op records are omitted.

        An idle active controller writes a no-op record twice per second.
        """
        limit = RECORDS.of(call)
        with translate_errors():
            log = await self._reader.batches(call.cluster)
        if not log:
            return MetadataRecords(first=0, last=-1, records=[], next=None)
        first, last = log[0][1].base_offset, log[-1][1].next_offset - 1
        offset = OFFSET.of(call)
        if offset is None:
            newest = await off_loop(newest_of, log, limit)
            return MetadataRecords(first=first, last=last, records=newest, next=None)
        found = await off_loop(records_from, log, offset, limit + 1)
        following = found[limit].offset if len(found) > limit else None
        return MetadataRecords(first=first, last=last, records=found[:limit], next=following)

    async def list_quorum_epochs(self, call: Call[NoBody]) -> Result:
        """List the controller epochs in the metadata log, oldest first, with their start.

        The log has no leaders of past epochs; GET /v1/quorum/stream reports them while it is open.
        """
        with translate_errors():
            found = await self._reader.epochs(call.cluster)
        return [QuorumEpoch(epoch=each.epoch, start_offset=each.start_offset, began_ms=each.began_ms) for each in found]

    def operations(self) -> Sequence[Operation]:
        """Return the paths."""
        return [
            Operation.get(
                "/v1/metadata/tree",
                "Get the metadata tree at an offset",
                self.get_metadata,
                MetadataNode,
                parameters=(PATH, AT, AFTER, ENTRIES),
            ),
            Operation.get(
                "/v1/metadata/diff",
                "Compare the metadata of two offsets",
                self.get_metadata_diff,
                MetadataDifference,
                parameters=(SINCE, AT, PATH, CHANGES),
            ),
            Operation.get(
                "/v1/metadata/records",
                "List records of the metadata log",
                self.list_metadata_records,
                MetadataRecords,
                parameters=(OFFSET, RECORDS),
            ),
            Operation.get(
                "/v1/quorum/epochs",
                "List the quorum's epochs",
                self.list_quorum_epochs,
                QuorumEpoch,
                many=True,
            ),
        ]


def path_of(call: Call[NoBody]) -> str:
    """Return the requested path, without a trailing slash. Raises BadInput."""
    text = PATH.of(call)
    if len(text) > PATH_CHARS_MAX:
        raise BadInput("path", f"a path has at most {PATH_CHARS_MAX} characters")
    return "/" + "/".join(filter(None, text.split("/")))


def offset_in(call: Call[NoBody], parameter: Parameter[int | None], default: int, first: int, last: int) -> int:
    """Return an offset at which the metadata are known. Raises BadInput."""
    given = parameter.of(call)
    offset = default if given is None else given
    if not first <= offset <= last:
        raise BadInput(parameter.name, f"the metadata is available at offsets {first} to {last}, not at {offset}")
    return offset


@contextmanager
def translate_errors() -> Iterator[None]:
    """Convert errors of unavailable metadata to HTTP errors. Raises HttpError."""
    try:
        yield
    except LogSizeError as error:
        raise HttpError(422, "METADATA_TOO_LARGE", str(error)) from error
    except MetadataProblem as error:
        raise HttpError(503, "METADATA_UNAVAILABLE", str(error)) from error


def page_of(node: "Tree | str", after: str | None, limit: int) -> tuple[list[MetadataEntry], str | None]:
    """Return a page of a folder, and the name after which the next page begins. Raises BadInput."""
    if isinstance(node, str):
        return [], None
    names = sort_entries(node)
    begin = 0
    if after is not None:
        if after not in node:
            raise BadInput("after", "unknown name")
        begin = [name for name, _ in names].index(after) + 1
    found = [
        MetadataEntry(name=name, value=child, entries=None)
        if isinstance(child, str)
        else MetadataEntry(name=name, value=None, entries=len(child))
        for name, child in names[begin : begin + limit]
    ]
    return found, found[-1].name if begin + limit < len(names) else None


def changes_below(before: Tree, after: Tree, path: str, enough: int) -> list[MetadataChange]:
    """Return the differences at a path and below it, up to the limit."""
    found = (
        MetadataChange(path=where, before=old, after=new)
        for where, old, new in difference({"image": before["image"]}, {"image": after["image"]})
        if path == "/" or where == path or where.startswith(f"{path}/")
    )
    return list(islice(found, enough))


def newest_of(log: Sequence[Raw], enough: int) -> list[MetadataRecord]:
    """Return the last records of a log, up to the limit. Raises KafkaError CORRUPT_MESSAGE."""
    found = islice((each for raw in reversed(log) for each in reversed(records_of(*raw))), enough)
    return [*found][::-1]


def records_from(log: list[Raw], offset: int, enough: int) -> list[MetadataRecord]:
    """Return the records from an offset on, up to the limit. Raises KafkaError CORRUPT_MESSAGE."""
    found = (each for raw in log[from_offset(log, offset) :] for each in records_of(*raw) if each.offset >= offset)
    return list(islice(found, enough))


async def off_loop(work: Callable[[*Arguments], T], *arguments: *Arguments) -> T:
    """Run a function over the whole log or a whole tree in a thread: hundreds of thousands of entries."""
    return await blocking.run(asyncio.get_running_loop(), work, *arguments)


def records_of(view: memoryview, header: BatchHeader) -> list[MetadataRecord]:
    """Return a batch's records without no-op records. Raises KafkaError CORRUPT_MESSAGE."""
    check_crc(view, 0, header)
    if header.is_control:
        return []
    found = []
    for each in decode_records(view, 0):
        try:
            fields = msgspec.json.decode(each.value or b"", type=dict[str, object])
        except (msgspec.DecodeError, ValueError) as error:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"metadata at offset {each.offset}: {error}") from error
        fields = dict(without_secret(fields))
        kind = str(fields.pop("type", ""))
        if kind != NO_OP:
            epoch = header.partition_leader_epoch
            found.append(
                MetadataRecord(offset=each.offset, timestamp_ms=each.timestamp, epoch=epoch, type=kind, record=fields)
            )
    return found
