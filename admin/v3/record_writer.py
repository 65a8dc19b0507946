"""Writes records to one topic, with a response for each.

Records that arrive together are written together, one batch per partition.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pydantic import ValidationError

from kvorum.admin.v1.records.record_encoding import UNREACHABLE
from kvorum.admin.v3.errors import CODES, PARTITION, code_of
from kvorum.admin.v3.record_encoding import RecordRejection, instant, record_of, response_data
from kvorum.admin.v3.record_models import ProduceRequest, ProduceResponse
from kvorum.client.namespaces.records import Records
from kvorum.client.values.record import NewRecord, RecordMetadata
from kvorum.client.wire.cluster_client import ClusterClient
from kvorum.protocol.errors import ErrorCode, KafkaError, KafkaException
from kvorum.runtime.clock import Clock

Row = tuple[ProduceRequest, NewRecord]


@dataclass(slots=True)
class Writer:
    """Writes records to one topic."""

    cluster: ClusterClient
    cluster_id: str
    topic: str
    clock: Clock
    pending: list[Row | ProduceResponse] = field(default_factory=list)
    """Records to write, and the responses of rejected ones, in order."""

    def add(self, text: bytes) -> None:
        """Add a record in JSON."""
        try:
            self.add_request(ProduceRequest.model_validate_json(text))
        except ValidationError as error:
            message = f"Bad Request: Error processing JSON: {first_of(error)}"
            self.pending.append(ProduceResponse(error_code=400, message=message))

    def add_request(self, request: ProduceRequest) -> None:
        """Add a record."""
        try:
            self.pending.append((request, record_of(request, self.clock.wall_ms())))
        except RecordRejection as error:
            self.pending.append(ProduceResponse(error_code=error.error_code, message=error.message))

    async def flush(self) -> list[ProduceResponse]:
        """Write the added records; returns a result for each, in order."""
        rows, self.pending = self.pending, []
        wanted = [row for row in rows if not isinstance(row, ProduceResponse)]
        written = iter(await self._write(wanted) if wanted else ())
        return [row if isinstance(row, ProduceResponse) else next(written) for row in rows]

    async def _write(self, rows: Sequence[Row]) -> list[ProduceResponse]:
        """Write records. Records that were too large together are repeated separately."""
        try:
            results = await Records(self.cluster).produce_many(self.topic, [record for _, record in rows])
        except KafkaException as error:
            code, message = problem_of(error)
            if isinstance(error, KafkaError) and error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                code, message = 40401, f"Topic {self.topic} not present in metadata."
            return [ProduceResponse(error_code=code, message=message) for _ in rows]
        alone = len({each.partition for each in results}) == len(results)
        responses = []
        for (request, record), written in zip(rows, results, strict=True):
            too_large = written.error is not None and written.error.code is ErrorCode.MESSAGE_TOO_LARGE
            final = await self._write_alone(record, written) if too_large and not alone else written
            responses.append(self._response(request, record, final))
        return responses

    async def _write_alone(self, record: NewRecord, failed: RecordMetadata) -> RecordMetadata:
        try:
            (written,) = await Records(self.cluster).produce_many(
                self.topic, [replace(record, partition=failed.partition)]
            )
        except KafkaException as error:
            return replace(failed, error=error)
        return written

    def _response(self, request: ProduceRequest, record: NewRecord, written: RecordMetadata) -> ProduceResponse:
        if written.error is not None:
            code, message = problem_of(written.error)
            if request.partition_id is not None and written.error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                code, message = CODES[PARTITION].error_code, "Partition not found."
            return ProduceResponse(error_code=code, message=message)
        return ProduceResponse(
            error_code=200,
            cluster_id=self.cluster_id,
            topic_name=self.topic,
            partition_id=written.partition,
            offset=written.offset,
            timestamp=instant(written.timestamp_ms),
            key=response_data(request.key, record.key),
            value=response_data(request.value, record.value),
        )


def problem_of(error: KafkaException) -> tuple[int, str]:
    """Return the code and the message of a record that was not written."""
    if isinstance(error, KafkaError):
        return code_of(error.code.name, 422).error_code, error.message or error.code.name
    return code_of(UNREACHABLE, 422).error_code, str(error)


def first_of(error: ValidationError) -> str:
    """Return the first error with its field."""
    first = error.errors(include_url=False, include_input=False)[0]
    return ": ".join(filter(None, (".".join(map(str, first["loc"])), str(first["msg"]))))
