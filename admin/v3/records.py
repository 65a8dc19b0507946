"""Record writes: one record, several concatenated ones, or a body of unlimited length.

Each record has a separate response, in request order, with its own status; the status of the whole response is 200.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from aiohttp.http_exceptions import PayloadEncodingError

from kvorum.admin.http.access import HttpError
from kvorum.admin.http.operations import JSON, Call, Content, Reply, Role, Stream, Text
from kvorum.admin.v3.errors import BATCH, PAYLOAD
from kvorum.admin.v3.json_stream import MalformedStream, Splitter
from kvorum.admin.v3.links import TOPIC, cluster_of
from kvorum.admin.v3.path_parameters import TOPIC_NAME, operation
from kvorum.admin.v3.record_encoding import RecordRejection
from kvorum.admin.v3.record_models import (
    ENTRIES_MAX,
    ProduceBatchRequest,
    ProduceBatchResponse,
    ProduceBatchResponseFailureEntry,
    ProduceBatchResponseSuccessEntry,
    ProduceRequest,
    ProduceResponse,
)
from kvorum.admin.v3.record_writer import Writer

RECORD_BYTES_MAX: Final = 1 << 20
"""Limit of one record as JSON: about a topic's default limit."""
AT_ONCE: Final = 1_000
"""Number of records that are buffered at a time; more have a chunked response."""
IDLE_SECONDS: Final = 600
"""A body without new bytes for this time has ended."""
SEPARATOR: Final = b"\r\n"


def line(answer: ProduceResponse) -> bytes:
    """Return an answer as JSON."""
    return answer.model_dump_json(exclude_none=True).encode() + SEPARATOR


async def pieces(content: Content) -> AsyncIterator[bytes]:
    """Return the parts of a body as they arrive. Raises RecordRejection if it is too slow or malformed."""
    while True:
        try:
            async with asyncio.timeout(IDLE_SECONDS):
                data = await content.readany()
        except TimeoutError as error:
            raise RecordRejection(
                408, f"No data was received for {IDLE_SECONDS} s. The connection is closed."
            ) from error
        except PayloadEncodingError as error:
            raise RecordRejection(400, f"Bad Request: Error processing message: {error.message}") from error
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
    except (MalformedStream, RecordRejection) as error:
        responses = await writer.flush()
        broken = f"Bad Request: Error processing message: {error}"
        code, why = (error.error_code, error.message) if isinstance(error, RecordRejection) else (400, broken)
        yield b"".join(map(line, [*responses, ProduceResponse(error_code=code, message=why)]))


async def whole(data: bytes) -> AsyncIterator[bytes]:
    """Return an available body."""
    yield data


async def produce_record(call: Call[Text]) -> Reply | Stream:
    """Write records: one, or several concatenated in the body. One response per record, in order.

    The body may be chunked; the response of a record is sent when it is written, while others arrive.
    """
    cluster_id, topic = (await cluster_of(call)).cluster_id, TOPIC_NAME.of(call)
    writer = Writer(call.cluster, cluster_id, topic, call.clock)
    if call.content is not None:
        return Stream(media=JSON, chunks=answers(writer, pieces(call.content)))
    if not call.body.text.strip():
        raise HttpError(422, PAYLOAD, "Payload error. Request body is empty. Data is required.")
    if call.body.text.count(b"{") > AT_ONCE:  # perhaps more records than should wait for one another
        return Stream(media=JSON, chunks=answers(writer, whole(call.body.text)))
    found = [part async for part in answers(writer, whole(call.body.text))]
    return Reply(status=200, text=b"".join(found).decode())


async def produce_batch(call: Call[ProduceBatchRequest]) -> Reply:
    """Write several records independently. The results have the ids of the entries."""
    cluster_id, entries = (await cluster_of(call)).cluster_id, call.body.entries
    if not entries:
        raise HttpError(422, BATCH, "Empty batch.")
    if len(entries) > ENTRIES_MAX:
        raise HttpError(422, BATCH, "Too many entries in batch.")
    if len({entry.id for entry in entries}) < len(entries):
        raise HttpError(422, BATCH, "Batch entry IDs are not distinct.")
    writer = Writer(call.cluster, cluster_id, TOPIC_NAME.of(call), call.clock)
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
    operation(
        method="POST",
        path=f"{TOPIC}/records",
        summary="Write records",
        handle=produce_record,
        audit=False,
        body=ProduceRequest,
        stream_body=True,
        answer=ProduceResponse,
        role=Role.OPERATE,
    ),
    operation(
        method="POST",
        path=f"{TOPIC}/records:batch",
        summary="Write a batch of records",
        handle=produce_batch,
        audit=False,
        body=ProduceBatchRequest,
        answer=ProduceBatchResponse,
        status=207,
        role=Role.OPERATE,
    ),
]
