"""A consumer in the simulator: assigned partitions, own positions, KIP-320's truncation check.

Its operations are in the history; the record at an offset must never change after a read.
"""

import asyncio
import json
from collections.abc import Callable
from typing import Final

from kvorum.chaos.history import Fail, MicroOp, Ok, PolledRecord
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from kvorum.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kvorum.protocol.records import batches, decode_records
from sim.client import Leader, NoAnswer, SimClient
from sim.ledger import Violation
from sim.workload import RETRY_S, Recorder

FETCH_WAIT_MS: Final = 200
FETCH_BYTES: Final = 20_000
EARLIEST_TIMESTAMP: Final = -2
"""ListOffsets' word for where the log begins."""


class ConsistentReads:
    """All values read by consumers: (topic, partition) -> offset -> value (ConsistentRead)."""

    def __init__(self, may_differ: Callable[[str], bool], begins_at: Callable[[str], int]) -> None:
        """`may_differ`: partitions with a legal loss; `begins_at`: the offset up to which deletion is legal."""
        self.may_differ = may_differ
        self.begins_at = begins_at
        self._values: dict[str, dict[int, int]] = {}

    def note(self, partition: str, offset: int, value: int) -> None:
        """Store the records that were read."""
        known = self._values.setdefault(partition, {}).setdefault(offset, value)
        if known != value and not self.may_differ(partition):
            raise Violation("ConsistentRead", f"offset {offset} of {partition} was {known}, and is {value} now")


class Consumer:
    """Polls assigned partitions, one after another's turn."""

    def __init__(
        self,
        name: str,
        client: SimClient,
        recorder: Recorder,
        reads: ConsistentReads,
        topic: str,
        partitions: list[int],
    ) -> None:
        """Begin at the beginning."""
        self._name = name
        self._client = client
        self._recorder = recorder
        self._reads = reads
        self._topic = topic
        self._partitions = partitions
        self._positions: dict[int, tuple[int, int]] = {}
        self._process = 0

    def position(self, partition: int) -> int:
        """Return the next offset it will read."""
        return self._positions.get(partition, (0, -1))[0]

    def assign(self) -> None:
        """Restart, as a new process at the beginning."""
        self._process = self._recorder.process(self._name, 0, idempotent=False)
        self._positions = {partition: (0, -1) for partition in self._partitions}
        self._seek()

    def _seek(self) -> None:
        names: list[str | int | MicroOp | None] = [f"{self._topic}-{partition}" for partition in self._partitions]
        op = self._recorder.invoke(self._process, "assign", names, seek_to_beginning=True)
        self._recorder.complete(Ok, op, self._process, names, seek_to_beginning=True)

    async def run(self, every_s: float, until: Callable[[], bool]) -> None:
        """Poll until stopped."""
        self.assign()
        while not until():
            if self._client.rng.random() < 0.01:
                self.assign()
            await self.poll(self._client.rng.choice(self._partitions))
            await asyncio.sleep(every_s * (0.5 + self._client.rng.random()))

    async def poll(self, partition: int) -> None:
        """Fetch once from a partition's leader, or from the follower that it names."""
        recorder = self._recorder
        op = recorder.invoke(self._process, "poll", [["poll"]])
        leader = await self._client.leader(self._topic, partition)
        if leader is None or leader.broker_id < 0:
            self._client.forget(self._topic, partition)
            recorder.complete(Fail, op, self._process, [["poll"]], "no leader is known")
            await asyncio.sleep(RETRY_S)
            return
        places = self._client.places
        broker_id = self._client.reads_from(self._topic, partition, leader)
        try:
            row = await self._fetch(leader, broker_id, partition)
        except NoAnswer as error:
            self._client.forget(self._topic, partition)
            places.forget(self._topic, partition)
            recorder.complete(Fail, op, self._process, [["poll"]], str(error))
            return
        code = ErrorCode(row.error_code)
        if code is ErrorCode.NONE and places.is_elsewhere(self._topic, partition, leader.broker_id, row):
            recorder.complete(Ok, op, self._process, [["poll", {}]])
            return
        if code is ErrorCode.NONE and row.diverging_epoch.end_offset < 0:
            name = f"{self._topic}-{partition}"
            found = self._take(partition, row)
            if found:
                places.took(self._topic, partition, broker_id, leader.broker_id, found[-1][0] + 1)
            for offset, value in found:
                self._reads.note(name, offset, value)
            recorder.complete(Ok, op, self._process, [["poll", {name: found}]] if found else [["poll", {}]])
            return
        recorder.complete(Fail, op, self._process, [["poll"]], code.name)
        if places.forget(self._topic, partition) and broker_id != leader.broker_id:
            pass  # a follower may be behind or have no such offset: the leader knows
        elif code is ErrorCode.NONE or code is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._judge_cut(partition, code)
            self._positions = {each: (0, -1) for each in self._partitions}
            self._positions[partition] = (await self._earliest(leader, partition), -1)
            self._seek()
        self._client.forget(self._topic, partition)
        await asyncio.sleep(RETRY_S)

    def _judge_cut(self, partition: int, code: ErrorCode) -> None:
        """The log was truncated below the position, which only a legal loss explains, or deleted from its start."""
        name = f"{self._topic}-{partition}"
        deleted = code is ErrorCode.OFFSET_OUT_OF_RANGE and self.position(partition) < self._reads.begins_at(name)
        if not deleted and not self._reads.may_differ(name):
            raise Violation(
                "ConsumerCutOff", f"{self._name} has read {name} up to {self.position(partition)}: out of range now"
            )

    async def _earliest(self, leader: Leader, partition: int) -> int:
        """Return the start of the leader's log, 0 without an answer."""
        row = ListOffsetsPartition(
            partition_index=partition, current_leader_epoch=leader.epoch, timestamp=EARLIEST_TIMESTAMP
        )
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=self._topic, partitions=[row])])
        try:
            response = await self._client.ask(self._client.address(leader.broker_id), request, ListOffsetsResponse)
        except NoAnswer:
            return 0
        return max(0, response.topics[0].partitions[0].offset)

    async def _fetch(self, leader: Leader, broker_id: int, partition: int) -> PartitionData:
        offset, epoch = self._positions[partition]
        row = FetchPartition(
            partition=partition,
            current_leader_epoch=leader.epoch,
            fetch_offset=offset,
            last_fetched_epoch=epoch,
            partition_max_bytes=FETCH_BYTES,
        )
        request = FetchRequest(
            max_wait=FETCH_WAIT_MS,
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            rack_id=self._client.places.rack_id,
            topics=[FetchTopic(topic_id=leader.topic_id, topic=self._topic, partitions=[row])],
        )
        response = await self._client.ask(self._client.address(broker_id), request, FetchResponse)
        if response.error_code or not response.responses:
            raise NoAnswer(ErrorCode(response.error_code).name, maybe_sent=False)
        return response.responses[0].partitions[0]

    def _take(self, partition: int, row: PartitionData) -> list[PolledRecord]:
        found: list[PolledRecord] = []
        position, epoch = self._positions[partition]
        assert row.records is None or isinstance(row.records, memoryview), "an answer's records are one view"
        view = row.records if row.records is not None else memoryview(b"")
        for place, header in batches(view):
            for record in decode_records(view, place):
                if record.offset >= position:
                    assert record.value is not None
                    found.append([record.offset, json.loads(record.value)["v"]])
            position, epoch = header.next_offset, header.partition_leader_epoch
        if found:
            self._positions[partition] = (position, epoch)
        return found
