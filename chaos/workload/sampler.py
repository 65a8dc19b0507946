"""Samples in the history: the active controller, and leaders, ISRs and ELRs of an external cluster.

Their metadata log cannot be followed: brokers do not serve it to clients. So every broker is queried repeatedly with
DescribeTopicPartitions (KIP-966), or Metadata if it does not support that, and each observed change becomes a complete
`Partition` record, marked as sampled. Events between two samples are unknown.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Final

from kvorum.chaos.faults.observer import PartitionView, ask_ms, views
from kvorum.chaos.history import Metadata
from kvorum.chaos.workload.recorder import Recorder, split_partition
from kvorum.chaos.workload.samples import Samples
from kvorum.chaos.workload.threads import client_thread
from kvorum.network.addresses import Address
from kvorum.network.channel import Channel
from kvorum.network.dial import ChannelError
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    RequestCursor,
    TopicRequest,
)
from kvorum.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kvorum.runtime.chance import new_random
from kvorum.security.client import PLAINTEXT, ClientSecurity

SAMPLE_SECONDS: Final = 0.1
"""Time between a broker's response and the next request to it: well below the checker's tolerance (FOLLOW_LAG_MAX)."""
ASK_MS: Final = 1_000
"""A broker without an answer for this time does not count until its next answer."""
PAGES_MAX: Final = 100
"""Timeout of one response; a page has some 2000 partitions."""
CONTROLLER_SECONDS: Final = 1.0


class MetadataSampler:
    """One per run, in a thread with its own event loop. `brokers`: {node id: address}; `topics`: those that count."""

    def __init__(
        self,
        brokers: Mapping[int, Address],
        topics: Collection[str],
        recorder: Recorder,
        security: ClientSecurity = PLAINTEXT,
    ) -> None:
        """Create it without observations."""
        self._brokers = brokers
        self._topics = sorted(topics)
        self._recorder = recorder
        self._security = security
        self._ask_ms = ask_ms(ASK_MS, security)
        self._samples = Samples()
        self._names: set[str] = set()
        self._offset = -1
        self._last = 0.0
        self._apart = 0.0
        self._stop = threading.Event()
        self._thread = client_thread("chaos-sample", lambda: asyncio.run(self._run()), recorder)

    def start(self) -> None:
        """Start sampling."""
        self._recorder.note("the metadata log cannot be followed: leaders, ISRs and ELRs are sampled")
        self._last = time.monotonic()
        self._thread.start()

    def stop(self) -> None:
        """Stop sampling, and report the largest interval between samples. Idempotent."""
        first = not self._stop.is_set()
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        if first:
            elr = "with" if self._samples.with_elr else "without"
            self._recorder.note(
                f"leaders and ISRs were sampled {self._samples.count} times, {elr} eligible leader replicas; "
                f"the longest time without a response of any broker was {self._apart:.2f} s"
            )

    async def _run(self) -> None:
        tasks = [asyncio.create_task(self._read(node, address)) for node, address in self._brokers.items()]
        await asyncio.to_thread(self._stop.wait)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _read(self, node: int, address: Address) -> None:
        """Query one broker for ever."""
        while True:
            channel = Channel(*address, client_id="kvorum-chaos-sample", chance=new_random(), security=self._security)
            try:
                while True:
                    self._take(node, await self._read_views(channel))
                    await asyncio.sleep(SAMPLE_SECONDS)
            except (ChannelError, KafkaError):
                self._samples.silent(node)
                await asyncio.sleep(SAMPLE_SECONDS)
            finally:
                await channel.close()

    async def _read_views(self, channel: Channel) -> dict[str, PartitionView]:
        """Return one broker's present state. Raises ChannelError, KafkaError."""
        try:
            found = await self._describe_partitions(channel)
        except KafkaError as error:
            if error.code is not ErrorCode.UNSUPPORTED_VERSION:
                raise
            wanted = [MetadataRequestTopic(name=name) for name in self._topics]
            request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
            return views(await channel.ask(request, MetadataResponse, timeout_ms=self._ask_ms))
        self._samples.with_elr = True
        return found

    async def _describe_partitions(self, channel: Channel) -> dict[str, PartitionView]:
        """Return the partitions of DescribeTopicPartitions, page by page."""
        found: dict[str, PartitionView] = {}
        cursor: RequestCursor | None = None
        for _ in range(PAGES_MAX):
            request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=n) for n in self._topics], cursor=cursor)
            answer = await channel.ask(request, DescribeTopicPartitionsResponse, timeout_ms=self._ask_ms)
            for topic in answer.topics:
                found |= {f"{topic.name}-{each.partition_index}": partition_view(each) for each in topic.partitions}
            if answer.next_cursor is None:
                break
            cursor = RequestCursor(
                topic_name=answer.next_cursor.topic_name, partition_index=answer.next_cursor.partition_index
            )
        return found

    def _take(self, node: int, found: Mapping[str, PartitionView]) -> None:
        now = time.monotonic()
        self._apart, self._last = max(self._apart, now - self._last), now
        for name, view in self._samples.take(node, found):
            topic, number = split_partition(name)
            self._record_view(topic, number, view)

    def _record_view(self, topic: str, number: int, view: PartitionView) -> None:
        if topic not in self._names:
            self._names.add(topic)
            self._write({"type": "Topic", "name": topic, "topic_id": topic})
        record: dict[str, object] = {
            "type": "Partition",
            "sampled": True,
            "topic_id": topic,
            "partition_id": number,
            "leader": view.leader,
            "leader_epoch": view.leader_epoch,
            "replicas": list(view.replicas),
            "isr": list(view.isr),
        }
        if self._samples.with_elr:
            record |= {"elr": list(view.elr), "last_known_elr": list(view.last_known_elr)}
        self._write(record)

    def _write(self, record: dict[str, object]) -> None:
        self._offset += 1
        offset = self._offset
        self._recorder.write(lambda t: Metadata(t=t, offset=offset, record=record))


def partition_view(found: DescribeTopicPartitionsResponsePartition) -> PartitionView:
    """Return one partition with its eligible leader replicas."""
    view = PartitionView(
        found.leader_id, found.leader_epoch, tuple(sorted(found.replica_nodes)), tuple(sorted(found.isr_nodes))
    )
    elr = tuple(sorted(found.eligible_leader_replicas or ()))
    return replace(view, elr=elr, last_known_elr=tuple(sorted(found.last_known_elr or ())))


class ControllerWatch:
    """Records changes of the active controller. `look` returns its name, None without one."""

    def __init__(self, look: Callable[[], str | None], recorder: Recorder) -> None:
        """Start without a known controller."""
        self._look = look
        self._recorder = recorder
        self._controller: str | None = None
        self._stop = threading.Event()
        self._thread = client_thread("chaos-controller", self._run, recorder)

    def start(self) -> None:
        """Start sampling."""
        self._thread.start()

    def stop(self) -> None:
        """Stop sampling. Idempotent."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            found = self._look()
            if found is not None and found != self._controller:
                self._controller = found
                self._recorder.note(f"active controller: {found}")
            self._stop.wait(CONTROLLER_SECONDS)
