"""Writes `__cluster_metadata` to the history live, from all brokers' copies: each record from the first that has it.

The copies are equal, so the first one that serves an offset is sufficient, also if other brokers are down or cut
off. If every copy begins after the wanted offset, the gap is recorded.
"""

import asyncio
import threading
from collections.abc import Mapping
from typing import Final

import msgspec

from kvorum.chaos.faults.observer import ask_ms
from kvorum.chaos.history import Metadata
from kvorum.chaos.workload.recorder import Recorder
from kvorum.chaos.workload.threads import client_thread
from kvorum.network.addresses import Address
from kvorum.network.channel import Channel
from kvorum.network.dial import ChannelError
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from kvorum.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kvorum.protocol.records import batches, decode_records
from kvorum.protocol.uuids import Uuid
from kvorum.quorum.batches import METADATA_PARTITION, METADATA_TOPIC
from kvorum.quorum.records import without_credential_keys
from kvorum.runtime.chance import new_random
from kvorum.security.client import PLAINTEXT, ClientSecurity

WAIT_MS: Final = 300
ASK_MS: Final = 2_000
RETRY_SECONDS: Final = 0.1
FETCH_BYTES: Final = 4 << 20


class MetadataFollower:
    """One per run, in a thread with its own event loop. `brokers`: {node id: address} without link faults."""

    def __init__(
        self, brokers: Mapping[int, Address], recorder: Recorder, security: ClientSecurity = PLAINTEXT
    ) -> None:
        """Begin at the log's start."""
        self._brokers = brokers
        self._recorder = recorder
        self._security = security
        self._ask_ms = ask_ms(ASK_MS, security)
        self.next_offset = 0
        """Offset of the next record that the history lacks."""
        self._starts: dict[int, int] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._done = threading.Event()
        self._stopping: asyncio.Event
        self._thread = client_thread("chaos-metadata", lambda: asyncio.run(self._follow()), recorder)

    def start(self) -> None:
        """Start following."""
        self._thread.start()

    def stop(self) -> None:
        """Stop following; wait for the thread's end. Idempotent."""
        first = not self._done.is_set()
        self._done.set()
        if first and self._loop is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    async def _follow(self) -> None:
        self._stopping = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        tasks = [asyncio.create_task(self._read(node, address)) for node, address in self._brokers.items()]
        if not self._done.is_set():
            await self._stopping.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _read(self, node: int, address: Address) -> None:
        """Read one broker's copy for ever, always from the shared place on."""
        while True:
            channel = Channel(*address, client_id="kvorum-chaos-metadata", chance=new_random(), security=self._security)
            try:
                topic_id = await self._topic_id(channel)
                while True:
                    self._take(node, await self._fetch(channel, topic_id))
            except (ChannelError, KafkaError):
                await asyncio.sleep(RETRY_SECONDS)
            finally:
                await channel.close()

    async def _topic_id(self, channel: Channel) -> Uuid:
        """Return the log's topic id. Raises KafkaError if the broker does not serve it yet."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=METADATA_TOPIC)], allow_auto_topic_creation=False)
        answer = await channel.ask(request, MetadataResponse, timeout_ms=self._ask_ms)
        if not answer.topics or answer.topics[0].error_code:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{METADATA_TOPIC} cannot be read yet")
        return answer.topics[0].topic_id

    async def _fetch(self, channel: Channel, topic_id: Uuid) -> PartitionData:
        """Return the records from the shared offset on. Raises ChannelError, KafkaError."""
        row = FetchPartition(
            partition=METADATA_PARTITION, fetch_offset=self.next_offset, partition_max_bytes=FETCH_BYTES
        )
        request = FetchRequest(
            max_wait=WAIT_MS,
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            topics=[FetchTopic(topic=METADATA_TOPIC, topic_id=topic_id, partitions=[row])],
        )
        answer = await channel.ask(request, FetchResponse, timeout_ms=self._ask_ms)
        if answer.error_code or not answer.responses:
            raise KafkaError(ErrorCode(answer.error_code or ErrorCode.UNKNOWN_SERVER_ERROR), "no response to a fetch")
        return answer.responses[0].partitions[0]

    def _take(self, node: int, row: PartitionData) -> None:
        """Write new records. Raises KafkaError if this broker cannot continue from the shared offset."""
        if row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._out_of_range(node, row.log_start_offset)
        if row.error_code:
            raise KafkaError(ErrorCode(row.error_code), f"broker {node} cannot serve offset {self.next_offset}")
        records = b"" if row.records is None else row.records
        assert not isinstance(records, tuple), "fetched records are one buffer"
        view = memoryview(records)
        for place, header in batches(view):
            if header.next_offset <= self.next_offset:
                continue
            if not header.is_control:
                self._write(view, place, header.partition_leader_epoch)
            self.next_offset = header.next_offset

    def _write(self, view: memoryview, place: int, epoch: int) -> None:
        for record in decode_records(view, place):
            if record.offset < self.next_offset or record.value is None:
                continue
            fields = msgspec.json.decode(record.value, type=dict[str, object])
            if fields.get("type") != "NoOp":
                offset, fields = record.offset, dict(without_credential_keys(fields))
                self._recorder.write(
                    lambda t, offset=offset, fields=fields: Metadata(t=t, offset=offset, epoch=epoch, record=fields)  # type: ignore[misc]
                )

    def _out_of_range(self, node: int, start: int) -> None:
        """Continue after a gap when every broker's copy begins after the wanted offset."""
        self._starts[node] = start
        if len(self._starts) == len(self._brokers) and min(self._starts.values()) > self.next_offset:
            self._recorder.note(
                f"metadata records {self.next_offset} to {min(self._starts.values()) - 1} were missed: "
                "every broker's copy starts after them"
            )
            self.next_offset = min(self._starts.values())
