"""A producer with one attempt per send, by Kvorum's own channel: only here a rejection is definite.

It sends to the leader once and records the response unchanged. It is not idempotent and repeats nothing.
"""

import asyncio
import time
from random import Random
from typing import Final

from kvorum.chaos.client_access import ClientAccess
from kvorum.chaos.history import Ok
from kvorum.chaos.workload.classify import Attempts, classify_send_error
from kvorum.chaos.workload.libraries import CHANNEL
from kvorum.chaos.workload.plan import SendClients
from kvorum.chaos.workload.recorder import Recorder, encode_value, split_partition
from kvorum.chaos.workload.senders import GIVE_UP_SECONDS, IDLE_SECONDS, KEYS, Pace, PartitionChooser
from kvorum.chaos.workload.threads import LoopThread
from kvorum.network.addresses import Address, parse_bootstrap
from kvorum.network.channel import Channel
from kvorum.network.dial import ChannelError, RequestTimedOut
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kvorum.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from kvorum.protocol.records import Record, build_batch
from kvorum.protocol.uuids import Uuid
from kvorum.runtime.chance import new_random

METADATA_MS: Final = 2_000
METADATA_AGE_SECONDS: Final = 2.0
ANSWER_SECONDS: Final = 10.0
"""Timeout of a request, independent of the plan's timeout."""
ACKS: Final = {"all": -1, "1": 1, "0": 0}


class RawSender(LoopThread):
    """One such producer."""

    def __init__(
        self, plan: SendClients, topics: dict[str, int], access: ClientAccess, recorder: Recorder, rng: Random
    ) -> None:
        """Create it; `start` starts it."""
        super().__init__("chaos-raw-send", recorder)
        self._plan = plan
        self._recorder = recorder
        self._rng = rng
        self._chooser = PartitionChooser(topics, plan.hot_share, rng)
        self._topics = list(topics)
        self._security = access.security()
        self._bootstrap = parse_bootstrap(access.bootstrap)
        self._channels: dict[tuple[Address, bool], Channel] = {}
        """{(address, whether for records): channel}. A request that times out ends all that wait on its connection."""
        self._addresses: dict[int, Address] = {}
        self._leaders: dict[str, tuple[int, Uuid]] = {}
        self._refreshed = -METADATA_AGE_SECONDS
        self._refreshing = asyncio.Lock()

    async def live(self) -> None:
        """Send at the plan's rate, then wait for the answers."""
        plan, recorder = self._plan, self._recorder
        process = recorder.process(CHANNEL, acks=plan.acks, idempotent=False)
        pace = Pace(plan.rate)
        pending: set[asyncio.Task[None]] = set()
        while not self.stopping:
            wait = IDLE_SECONDS if len(pending) >= plan.in_flight else pace.due()
            if wait:
                await asyncio.sleep(min(wait, IDLE_SECONDS))
                continue
            partition, value = self._chooser.draw(), recorder.next_value()
            op = recorder.invoke(process, "send", [["send", partition, value]])
            task = asyncio.create_task(self._send(op, partition, value))
            pending.add(task)
            task.add_done_callback(pending.discard)
        if pending:
            await asyncio.wait(pending, timeout=plan.timeout + GIVE_UP_SECONDS)
        for channel in self._channels.values():
            await channel.close()
        recorder.abandon(process)

    async def _send(self, op: int, partition: str, value: int) -> None:
        recorder = self._recorder
        try:
            leader = await self._leader(partition)
            if leader is None:
                recorder.complete(op, classify_send_error("LEADER_NOT_AVAILABLE", "none"), error="LEADER_NOT_AVAILABLE")
                await asyncio.sleep(IDLE_SECONDS)
                return
            code, offset = await self._produce(leader, partition, value)
        except RequestTimedOut:
            self._refreshed = -METADATA_AGE_SECONDS
            recorder.complete(op, classify_send_error("REQUEST_TIMED_OUT", "one"), error="REQUEST_TIMED_OUT")
        except ChannelError as error:
            self._refreshed = -METADATA_AGE_SECONDS
            attempts: Attempts = "one" if error.maybe_sent else "none"
            recorder.complete(op, classify_send_error("NETWORK_EXCEPTION", attempts), error="NETWORK_EXCEPTION")
        except KafkaError as error:
            recorder.complete(op, classify_send_error(error.code.name, "one"), error=error.code.name)
        else:
            if code is ErrorCode.NONE:
                recorder.complete(op, Ok, [["send", partition, value, offset]])
            else:
                self._refreshed = -METADATA_AGE_SECONDS
                recorder.complete(op, classify_send_error(code.name, "one"), error=code.name)

    async def _produce(self, leader: tuple[Address, Uuid], partition: str, value: int) -> tuple[ErrorCode, int | None]:
        """Send to the leader once. Raises ChannelError, KafkaError."""
        address, topic_id = leader
        topic, number = split_partition(partition)
        record = Record(
            key=b"key-%d" % (value % KEYS),
            value=encode_value(value, self._plan.bytes),
            timestamp=round(time.time() * 1000),
        )
        data = PartitionProduceData(index=number, records=memoryview(build_batch([record])))
        request = ProduceRequest(
            acks=ACKS[self._plan.acks],
            timeout=round(min(self._plan.timeout, ANSWER_SECONDS) * 500),
            topic_data=[TopicProduceData(name=topic, topic_id=topic_id, partition_data=[data])],
        )
        answer = await self._channel(address, for_records=True).ask(
            request, ProduceResponse, timeout_ms=round(min(self._plan.timeout, ANSWER_SECONDS) * 1000)
        )
        row = answer.responses[0].partition_responses[0]
        return ErrorCode(row.error_code), row.base_offset if row.base_offset >= 0 else None

    def _channel(self, address: Address, *, for_records: bool) -> Channel:
        found = self._channels.get((address, for_records))
        if found is None:
            found = self._channels[address, for_records] = Channel(
                *address,
                client_id="kvorum-chaos-raw",
                chance=new_random(),
                setup_timeout_ms=METADATA_MS,
                security=self._security,
            )
        return found

    async def _leader(self, partition: str) -> tuple[Address, Uuid] | None:
        """Return the leader's address and the topic's id; None if unknown."""
        async with self._refreshing:
            if time.monotonic() - self._refreshed > METADATA_AGE_SECONDS:
                await self._refresh()
        leader, topic_id = self._leaders.get(partition, (-1, None))
        address = self._addresses.get(leader)
        return None if address is None or topic_id is None else (address, topic_id)

    async def _refresh(self) -> None:
        """Query one broker after the other for the leaders, until one answers."""
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=topic) for topic in self._topics], allow_auto_topic_creation=False
        )
        for address in self._rng.sample(self._bootstrap, len(self._bootstrap)):
            try:
                channel = self._channel(address, for_records=False)
                answer = await channel.ask(request, MetadataResponse, timeout_ms=METADATA_MS)
            except (ChannelError, KafkaError):
                continue
            self._addresses = {each.node_id: (each.host, each.port) for each in answer.brokers}
            for topic in answer.topics:
                for row in topic.partitions:
                    self._leaders[f"{topic.name}-{row.partition_index}"] = (row.leader_id, topic.topic_id)
            self._refreshed = time.monotonic()
            return
