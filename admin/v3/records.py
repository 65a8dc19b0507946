"""Record writes: one record, several concatenated ones, or a body of unlimited length.

Each record has a separate response, in request order, with its own status; the status of the whole response is 200.
Records that arrive together are written together, one batch per partition.
"""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from aiohttp.http_exceptions import PayloadEncodingError
from pydantic import ValidationError

from kvorum.admin.http.access import Refused
from kvorum.admin.http.operations import JSON, BadInput, Call, Content, Operation, Reply, Role, Stream, Text
from kvorum.admin.v1.records.message_models import Written
from kvorum.admin.v1.records.producing import as_json, produce
from kvorum.admin.v3.errors import BATCH, CODES, PARTITION, PAYLOAD, code_of
from kvorum.admin.v3.json_stream import Broken, Splitter
from kvorum.admin.v3.links import TOPIC, cluster_of
from kvorum.admin.v3.record_models import (
    ENTRIES_MAX,
    PLAIN,
    ProduceBatchRequest,
    ProduceBatchResponse,
    ProduceBatchResponseFailureEntry,
    ProduceBatchResponseSuccessEntry,
    ProduceRequest,
    ProduceRequestData,
    ProduceResponse,
    ProduceResponseData,
)
from kvorum.client.records.partitioner import partition_of
from kvorum.client.wire.cluster_client import ClusterClient, Unreachable
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.metadata import MetadataResponseTopic
from kvorum.protocol.records import Record
from kvorum.runtime.clock import Clock

RECORD_BYTES_MAX: Final = 1 << 20
"""Limit of one record as JSON: about a topic's default limit."""
AT_ONCE: Final = 1_000
"""Number of records that are buffered at a time; more have a chunked response."""
IDLE_SECONDS: Final = 600
"""A body without new bytes for this time has ended."""
SEPARATOR: Final = b"\r\n"
SHOWN_MAX: Final = 100
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
TIMESTAMP_MAX: Final = (datetime.max.replace(tzinfo=UTC) - EPOCH) // timedelta(milliseconds=1)
"""The last one that can be written as a date in the answer. With a zone behind UTC a request can have a later one."""
NO_REGISTRY: Final = "Payload error. Schema Registry must be configured when using schemas."


class Unwritable(Exception):
    """A record that is rejected before it is sent, with error code and reason."""

    def __init__(self, error_code: int, message: str) -> None:
        """Hold both."""
        super().__init__(message)
        self.error_code = error_code
        self.message = message


@dataclass(slots=True)
class Pending:
    """A record to write, with its result once there is one."""

    request: ProduceRequest
    record: Record | None = None
    answer: ProduceResponse | None = None

    def refuse(self, error_code: int, message: str) -> None:
        """Answer that it was not written."""
        self.answer = ProduceResponse(error_code=error_code, message=message)


@dataclass(slots=True)
class Writer:
    """Writes records to one topic."""

    cluster: ClusterClient
    cluster_id: str
    topic: str
    clock: Clock
    pending: list[Pending] = field(default_factory=list)

    def add(self, text: bytes) -> None:
        """Add a record in JSON."""
        try:
            request = ProduceRequest.model_validate_json(text)
        except ValidationError as error:
            failed = Pending(ProduceRequest())
            failed.refuse(400, f"Bad Request: Error processing JSON: {first_of(error)}")
            self.pending.append(failed)
        else:
            self.add_request(request)

    def add_request(self, request: ProduceRequest) -> None:
        """Add a record."""
        row = Pending(request)
        try:
            row.record = record_of(request, self.clock.wall_ms())
        except Unwritable as error:
            row.refuse(error.error_code, error.message)
        self.pending.append(row)

    async def flush(self) -> list[ProduceResponse]:
        """Write the added records; returns a result for each, in order."""
        rows, self.pending = self.pending, []
        if any(row.answer is None for row in rows):
            try:
                topic = await self.cluster.topic(self.topic)
                await self._write(topic, self._placed(topic, rows))
            except KafkaError as error:
                refuse_rest(rows, error.code.name, error.message or error.code.name, self.topic)
            except Unreachable as error:
                refuse_rest(rows, "CLUSTER_UNREACHABLE", str(error), self.topic)
        return [row.answer for row in rows if row.answer is not None]

    def _placed(self, topic: MetadataResponseTopic, rows: Sequence[Pending]) -> list[tuple[int, Pending]]:
        """Return the partitions of records: explicit ones, by key, or one for all at random."""
        count, anywhere = len(topic.partitions), self.cluster.chance.randrange(max(1, len(topic.partitions)))
        found = []
        for row in rows:
            if row.record is None:
                continue
            if row.request.partition_id is None:
                partition = anywhere if row.record.key is None else partition_of(row.record.key, count)
            else:
                partition = row.request.partition_id
            if partition >= count:
                row.refuse(CODES[PARTITION].error_code, "Partition not found.")
            else:
                found.append((partition, row))
        return found

    async def _write(self, topic: MetadataResponseTopic, placed: Sequence[tuple[int, Pending]]) -> None:
        """Write records. Records that were too large together are repeated separately. Raises Unreachable."""
        results = await produce(self.cluster, topic, [(partition, needed(row)) for partition, row in placed])
        alone = len({partition for partition, _ in placed}) == len(placed)
        for (partition, row), written in zip(placed, results, strict=True):
            if written.error == ErrorCode.MESSAGE_TOO_LARGE.name and not alone:
                (written,) = await produce(self.cluster, topic, [(partition, needed(row))])
            row.answer = self._answer(row, written)

    def _answer(self, row: Pending, written: Written) -> ProduceResponse:
        if written.error is not None or written.offset is None:
            error = written.error or ErrorCode.UNKNOWN_SERVER_ERROR.name
            return ProduceResponse(error_code=code_of(error, 422).error_code, message=written.message or error)
        record = needed(row)
        return ProduceResponse(
            error_code=200,
            cluster_id=self.cluster_id,
            topic_name=self.topic,
            partition_id=written.partition,
            offset=written.offset,
            timestamp=instant(written.timestamp_ms),
            key=response_data(row.request.key, record.key),
            value=response_data(row.request.value, record.value),
        )


def needed(row: Pending) -> Record:
    """Return the record of a row that was not refused."""
    assert row.record is not None, "a refused one is answered already"
    return row.record


def refuse_rest(rows: Sequence[Pending], error: str, message: str, topic: str) -> None:
    """Answer those that have no answer yet that they were not written."""
    code = code_of(error, 422).error_code
    if error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.name:
        code, message = 40401, f"Topic {topic} not present in metadata."
    for row in rows:
        if row.answer is None:
            row.refuse(code, message)


def first_of(error: ValidationError) -> str:
    """Return the first error with its field."""
    first = error.errors(include_url=False, include_input=False)[0]
    return ": ".join(filter(None, (".".join(map(str, first["loc"])), str(first["msg"]))))


def record_of(request: ProduceRequest, now_ms: int) -> Record:
    """Return a record as batches have it. Raises Unwritable."""
    if request.partition_id is not None and request.partition_id < 0:
        raise Unwritable(CODES[PARTITION].error_code, "Partition not found.")
    timestamp = now_ms if request.timestamp is None else (request.timestamp - EPOCH) // timedelta(milliseconds=1)
    if timestamp < 0:
        raise Unwritable(400, f"Bad Request: Invalid timestamp: {timestamp}. Timestamp should always be non-negative.")
    if timestamp > TIMESTAMP_MAX:
        raise Unwritable(400, f"Bad Request: Invalid timestamp: {timestamp}. It is behind the year 9999.")
    return Record(
        key=None if request.key is None else bytes_of(request.key),
        value=None if request.value is None else bytes_of(request.value),
        timestamp=timestamp,
        headers=tuple((each.name, header_bytes(each.value)) for each in request.headers or ()),
    )


def bytes_of(said: ProduceRequestData) -> bytes | None:
    """Return the records to write. Raises Unwritable."""
    by_schema = (said.subject, said.subject_name_strategy, said.schema_id, said.schema_version, said.raw_schema)
    if said.type not in PLAIN:
        raise Unwritable(CODES[PAYLOAD].error_code, NO_REGISTRY)
    if any(each is not None for each in by_schema):
        raise Unwritable(400, f"Bad Request: type={said.type} cannot be used with a subject or a schema.")
    data: Any = said.data
    if data is None:
        return None
    if said.type == "JSON":
        try:
            return as_json(data, "data")
        except BadInput as error:
            raise Unwritable(400, f"Bad Request: {error.message}") from error
    kind = "string" if said.type == "STRING" else "base64 string"
    if not isinstance(data, str):
        raise Unwritable(400, f"Bad Request: data={shown(data)} is not a {kind}.")
    return data.encode() if said.type == "STRING" else from_base64(data, f"data={shown(data)}")


def shown(data: Any) -> str:
    """Return the beginning of a value for a message."""
    return json.dumps(data, ensure_ascii=False)[:SHOWN_MAX]


def from_base64(text: str, what: str) -> bytes:
    """Return the bytes of a base64 text; padding is optional. Raises Unwritable."""
    bare = text.rstrip("=")
    try:
        return base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)
    except ValueError as error:
        raise Unwritable(400, f"Bad Request: {what} is not a valid base64 string.") from error


def header_bytes(value: str | None) -> bytes | None:
    """Return a header's value. Raises Unwritable."""
    return None if value is None else from_base64(value, f"header value={shown(value)}")


def response_data(said: ProduceRequestData | None, written: bytes | None) -> ProduceResponseData | None:
    """Return the response part for a key or value."""
    if said is None or said.type is None:
        return None
    return ProduceResponseData(type=said.type, size=0 if written is None else len(written))


def instant(time_ms: int) -> str:
    """Return a time as Java writes it, without trailing zeros."""
    moment = EPOCH + timedelta(milliseconds=time_ms)
    return moment.isoformat(timespec="milliseconds" if time_ms % 1000 else "seconds").replace("+00:00", "Z")


def line(answer: ProduceResponse) -> bytes:
    """Return an answer as JSON."""
    return answer.model_dump_json(exclude_none=True).encode() + SEPARATOR


async def pieces(content: Content) -> AsyncIterator[bytes]:
    """Return the parts of a body as they arrive. Raises Unwritable if it is too slow or malformed."""
    while True:
        try:
            async with asyncio.timeout(IDLE_SECONDS):
                data = await content.readany()
        except TimeoutError as error:
            raise Unwritable(408, f"No data was received for {IDLE_SECONDS} s. The connection is closed.") from error
        except PayloadEncodingError as error:
            raise Unwritable(400, f"Bad Request: Error processing message: {error.message}") from error
        if not data:
            return
        yield data


async def answers(writer: Writer, body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Write records as they arrive, with a result for each. An unreadable rest gets an error and ends the stream."""
    splitter = Splitter(RECORD_BYTES_MAX)
    try:
        async for data in body:
            splitter.feed(data)
            while (text := splitter.next()) is not None:
                writer.add(text)
                if len(writer.pending) >= AT_ONCE:
                    yield b"".join(map(line, await writer.flush()))
            if writer.pending:
                yield b"".join(map(line, await writer.flush()))
        splitter.finish()
    except (Broken, Unwritable) as error:
        responses = await writer.flush()
        broken = f"Bad Request: Error processing message: {error}"
        code, why = (error.error_code, error.message) if isinstance(error, Unwritable) else (400, broken)
        yield b"".join(map(line, [*responses, ProduceResponse(error_code=code, message=why)]))


async def whole(data: bytes) -> AsyncIterator[bytes]:
    """Return an available body."""
    yield data


async def produce_record(call: Call[Text]) -> Reply | Stream:
    """Write records: one, or several concatenated in the body. One response per record, in order.

    The body may be chunked; the response of a record is sent when it is written, while others arrive.
    """
    cluster_id, topic = (await cluster_of(call)).cluster_id, call.path["topic_name"]
    writer = Writer(call.cluster, cluster_id, topic, call.clock)
    if call.content is not None:
        return Stream(media=JSON, chunks=answers(writer, pieces(call.content)))
    if not call.body.text.strip():
        raise Refused(422, PAYLOAD, "Payload error. Request body is empty. Data is required.")
    if call.body.text.count(b"{") > AT_ONCE:  # perhaps more records than should wait for one another
        return Stream(media=JSON, chunks=answers(writer, whole(call.body.text)))
    found = [part async for part in answers(writer, whole(call.body.text))]
    return Reply(status=200, text=b"".join(found).decode())


async def produce_batch(call: Call[ProduceBatchRequest]) -> Reply:
    """Write several records independently. The results have the ids of the entries."""
    cluster_id, entries = (await cluster_of(call)).cluster_id, call.body.entries
    if not entries:
        raise Refused(422, BATCH, "Empty batch.")
    if len(entries) > ENTRIES_MAX:
        raise Refused(422, BATCH, "Too many entries in batch.")
    if len({entry.id for entry in entries}) < len(entries):
        raise Refused(422, BATCH, "Batch entry IDs are not distinct.")
    writer = Writer(call.cluster, cluster_id, call.path["topic_name"], call.clock)
    for entry in entries:
        writer.add_request(entry)
    body = ProduceBatchResponse(successes=[], failures=[])
    for entry, response in zip(entries, await writer.flush(), strict=True):
        fields = {"id": entry.id, **response.model_dump()}
        if response.error_code == 200:
            body.successes.append(ProduceBatchResponseSuccessEntry.model_validate(fields))
        else:
            body.failures.append(ProduceBatchResponseFailureEntry.model_validate(fields))
    return Reply(status=207, text=body.model_dump_json(exclude_none=True))


OPERATIONS = [
    Operation(
        method="POST",
        path=f"{TOPIC}/records",
        summary="Write records",
        handle=produce_record,
        noted=False,
        body=ProduceRequest,
        streamed=True,
        answer=ProduceResponse,
        role=Role.OPERATE,
    ),
    Operation(
        method="POST",
        path=f"{TOPIC}/records:batch",
        summary="Write a batch of records",
        handle=produce_batch,
        noted=False,
        body=ProduceBatchRequest,
        answer=ProduceBatchResponse,
        status=207,
        role=Role.OPERATE,
    ),
]
