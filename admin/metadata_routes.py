"""The metadata over HTTP: as a tree at any offset, what changed between two, the records of the log, the epochs.

It is the tree of `kvorum metadata` and of Kafka's metadata shell. All of it comes over the wire (metadata_fetch).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec

from kvorum.admin.access import Refused
from kvorum.admin.metadata_image import MetadataProblem, TooLarge
from kvorum.admin.metadata_models import (
    MetadataChange,
    MetadataDifference,
    MetadataEntry,
    MetadataNode,
    MetadataRecord,
    MetadataRecords,
    QuorumEpoch,
)
from kvorum.admin.metadata_reader import MetadataReader, from_offset
from kvorum.admin.metadata_tree import NoSuchPath, Tree, at_path, difference, ordered
from kvorum.admin.operations import INT64_MAX, BadInput, Call, NoBody, Operation, Result
from kvorum.admin.parameters import Count
from kvorum.protocol.batch_header import BatchHeader
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.records import check_crc, decode_records

ENTRIES = Count(what="names of a page", default=500, most=5_000)
CHANGES = Count(what="changes told of", default=500, most=5_000)
RECORDS = Count(what="records", default=100, most=1_000)
PATH_CHARS_MAX = 1_000
NO_OP = "NoOp"


class MetadataRoutes:
    """The paths of one server; what they share is the log that one of them fetched."""

    def __init__(self) -> None:
        """Begin with nothing fetched."""
        self._reader = MetadataReader()

    async def get_metadata(self, call: Call[NoBody]) -> MetadataNode:
        """Show a folder or a value of the metadata's tree, as it was behind the record at an offset; now if left out.

        The tree is that of Kafka's metadata shell: /image/topics/byName/orders/0/isr.
        """
        limit = ENTRIES.of(call)
        path = path_of(call)
        with refusing():
            first, last = await self._reader.span(call.cluster)
            at = offset_in(call, "at", last, first, last)
            tree = await self._reader.tree(call.cluster, at)
        try:
            node = at_path(tree, path)
        except NoSuchPath as error:
            raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, f"there is nothing at {path} at offset {at}") from error
        entries, following = page_of(node, call.query.get("after"), limit)
        value = node if isinstance(node, str) else None
        return MetadataNode(path=path, at=at, first=first, last=last, value=value, entries=entries, next=following)

    async def get_metadata_diff(self, call: Call[NoBody]) -> MetadataDifference:
        """Show what is other behind the record at one offset than it was behind that at an earlier one."""
        limit = CHANGES.of(call)
        path = path_of(call)
        with refusing():
            first, last = await self._reader.span(call.cluster)
            at = offset_in(call, "at", last, first, last)
            since = offset_in(call, "since", first, first, last)
            trees = [await self._reader.tree(call.cluster, each) for each in (since, at)]
        changes: list[MetadataChange] = []
        for where, before, after in difference(*({"image": tree["image"]} for tree in trees)):
            if path != "/" and where != path and not where.startswith(f"{path}/"):
                continue
            if len(changes) == limit:
                return MetadataDifference(since=since, at=at, changes=changes, more=True)
            changes.append(MetadataChange(path=where, before=before, after=after))
        return MetadataDifference(since=since, at=at, changes=changes, more=False)

    async def list_metadata_records(self, call: Call[NoBody]) -> MetadataRecords:
        """List records of the metadata log, from an offset on; the last ones if none is given. Without signs of life.

        A sign of life is a NoOp, which the active controller writes twice a second when nothing else happens.
        """
        limit = RECORDS.of(call)
        with refusing():
            log = await self._reader.batches(call.cluster)
        if not log:
            return MetadataRecords(first=0, last=-1, records=[], next=None)
        first, last = log[0][1].base_offset, log[-1][1].next_offset - 1
        if "offset" not in call.query:
            newest: list[MetadataRecord] = []
            for raw in reversed(log):
                newest = records_of(*raw) + newest
                if len(newest) >= limit:
                    break
            return MetadataRecords(first=first, last=last, records=newest[-limit:], next=None)
        offset = call.number("offset", first, 0, INT64_MAX)
        found: list[MetadataRecord] = []
        for raw in log[from_offset(log, offset) :]:
            found += [each for each in records_of(*raw) if each.offset >= offset]
            if len(found) > limit:
                return MetadataRecords(first=first, last=last, records=found[:limit], next=found[limit].offset)
        return MetadataRecords(first=first, last=last, records=found, next=None)

    async def list_quorum_epochs(self, call: Call[NoBody]) -> Result:
        """List the controllers' epochs that the metadata log knows of, oldest first: who became active, and when.

        The log tells epochs, not who led them: GET /v1/quorum/stream tells that of those one lives through.
        """
        with refusing():
            found = await self._reader.epochs(call.cluster)
        return [QuorumEpoch(epoch=each.epoch, start_offset=each.start_offset, began_ms=each.began_ms) for each in found]

    def operations(self) -> Sequence[Operation]:
        """Return the paths."""
        at = "behind the record at this offset; the last one if left out"
        path = "of the tree, / if left out: /image/topics/byName/orders"
        return [
            Operation.get(
                "/v1/metadata/tree",
                "The metadata as a tree, at any offset",
                self.get_metadata,
                MetadataNode,
                query={
                    "path": path,
                    "at": at,
                    "after": "the name that the page begins behind",
                    **ENTRIES.told,
                },
            ),
            Operation.get(
                "/v1/metadata/diff",
                "What changed in the metadata between two offsets",
                self.get_metadata_diff,
                MetadataDifference,
                query={
                    "since": "the earlier offset; the first that is known if left out",
                    "at": at,
                    "path": path,
                    **CHANGES.told,
                },
            ),
            Operation.get(
                "/v1/metadata/records",
                "Records of the metadata log",
                self.list_metadata_records,
                MetadataRecords,
                query={"offset": "of the first one; the last ones are told of if left out", **RECORDS.told},
            ),
            Operation.get(
                "/v1/quorum/epochs",
                "The epochs of the quorum's leaders",
                self.list_quorum_epochs,
                QuorumEpoch,
                many=True,
            ),
        ]


def path_of(call: Call[NoBody]) -> str:
    """Return the path that was asked for, without a slash behind it. Raises BadInput."""
    text = call.query.get("path", "/")
    if len(text) > PATH_CHARS_MAX:
        raise BadInput("path", f"a path has at most {PATH_CHARS_MAX} characters")
    return "/" + "/".join(filter(None, text.split("/")))


def offset_in(call: Call[NoBody], name: str, default: int, first: int, last: int) -> int:
    """Return an offset at which the metadata are known. Raises BadInput."""
    offset = call.number(name, default, 0, INT64_MAX) if name in call.query else default
    if not first <= offset <= last:
        raise BadInput(name, f"the metadata are known behind the records at {first} to {last}, not at {offset}")
    return offset


@contextmanager
def refusing() -> Iterator[None]:
    """Have metadata that cannot be had refused as HTTP has it. Raises Refused."""
    try:
        yield
    except TooLarge as error:
        raise Refused(422, "METADATA_TOO_LARGE", str(error)) from error
    except MetadataProblem as error:
        raise Refused(503, "METADATA_UNAVAILABLE", str(error)) from error


def page_of(node: "Tree | str", after: str | None, limit: int) -> tuple[list[MetadataEntry], str | None]:
    """Return a page of what lies in a folder, and the name that the next one begins behind. Raises BadInput."""
    if isinstance(node, str):
        return [], None
    names = ordered(node)
    begin = 0
    if after is not None:
        if after not in node:
            raise BadInput("after", "there is no such name here")
        begin = [name for name, _ in names].index(after) + 1
    found = [
        MetadataEntry(name=name, value=child, entries=None)
        if isinstance(child, str)
        else MetadataEntry(name=name, value=None, entries=len(child))
        for name, child in names[begin : begin + limit]
    ]
    return found, found[-1].name if begin + limit < len(names) else None


def records_of(view: memoryview, header: BatchHeader) -> list[MetadataRecord]:
    """Return a batch's records but for signs of life. Raises KafkaError CORRUPT_MESSAGE."""
    check_crc(view, 0, header)
    if header.is_control:
        return []
    found = []
    for each in decode_records(view, 0):
        try:
            fields = msgspec.json.decode(each.value or b"", type=dict[str, object])
        except (msgspec.DecodeError, ValueError) as error:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"metadata at offset {each.offset}: {error}") from error
        kind = str(fields.pop("type", ""))
        if kind != NO_OP:
            epoch = header.partition_leader_epoch
            found.append(
                MetadataRecord(offset=each.offset, timestamp_ms=each.timestamp, epoch=epoch, type=kind, record=fields)
            )
    return found
