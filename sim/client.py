"""A Kafka client in the simulator: production's channels to the brokers, metadata kept fresh, requests to leaders.

Answers are values: `Answer` has the response, or whether the request may have had an effect. The caller retries,
because it knows the consequences of a repetition.
"""

import asyncio
from collections.abc import Iterable
from random import Random
from typing import Final, NamedTuple, TypeVar

from kvorum.network.channel import Channel, common_version
from kvorum.network.dial import ChannelError
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kvorum.protocol.schema import Message
from kvorum.protocol.uuids import Uuid
from sim.racks import ReadReplicas, ReadWatch
from sim.throttles import ThrottleWatch

REQUEST_TIMEOUT_MS: Final = 2_500
SETUP_TIMEOUT_MS: Final = 1_000
METADATA_AGE_MAX_S: Final = 3.0
RETRY_S: Final = 0.05
PORT: Final = 9092

M = TypeVar("M", bound=Message)


class Leader(NamedTuple):
    """A partition's leader in the client's metadata."""

    broker_id: int
    epoch: int
    topic_id: Uuid


class NoAnswer(Exception):
    """A request without a response; `maybe_sent`: it may have had an effect."""

    def __init__(self, reason: str, *, maybe_sent: bool) -> None:
        """Hold both."""
        super().__init__(reason)
        self.maybe_sent = maybe_sent


class SimClient:
    """One client process."""

    def __init__(
        self,
        client_id: str,
        brokers: Iterable[str],
        rng: Random,
        throttles: ThrottleWatch | None = None,
        reads: ReadWatch | None = None,
    ) -> None:
        """Know the brokers' addresses for a start. Made in the client's process."""
        self.rng = rng
        rack_id = f"rack-{rng.randint(1, reads.racks)}" if reads is not None and reads.racks else ""
        self.places = ReadReplicas(client_id, rack_id, reads, lambda: asyncio.get_running_loop().time())
        self._throttles = throttles
        self._client_id = client_id
        self._bootstrap = list(brokers)
        self._addresses: dict[int, tuple[str, int]] = {}
        self._channels: dict[tuple[str, int], Channel] = {}
        self._leaders: dict[tuple[str, int], Leader] = {}
        self._newest: dict[tuple[str, int], Leader] = {}
        """The newest known leader epoch: a broker that is behind must not take a client back (KIP-320)."""
        self._refreshed_at = -METADATA_AGE_MAX_S

    def channel(self, address: tuple[str, int]) -> Channel:
        """Return the connection to a broker's address."""
        channel = self._channels.get(address)
        if channel is None:
            channel = self._channels[address] = Channel(
                *address, client_id=self._client_id, chance=self.rng, setup_timeout_ms=SETUP_TIMEOUT_MS
            )
        return channel

    async def ask(
        self, address: tuple[str, int], request: Message, response: type[M], *, newest: int | None = None
    ) -> M:
        """Send to one broker once, in a version up to `newest` if given. Raises NoAnswer."""
        channel, version = self.channel(address), None
        requested_s, before = asyncio.get_running_loop().time(), channel.connection
        try:
            if newest is not None:
                version = min(newest, common_version(type(request), (await channel.connect()).versions))
            answer = await channel.ask(request, response, timeout_ms=REQUEST_TIMEOUT_MS, version=version)
        except ChannelError as error:
            raise NoAnswer(f"{type(error).__name__}: {error}", maybe_sent=error.maybe_sent) from error
        except KafkaError as error:
            raise NoAnswer(str(error), maybe_sent=False) from error
        if self._throttles is not None:
            self._throttles.check_response(self._client_id, (before, channel.connection), requested_s, answer)
        return answer

    async def send_unanswered(self, address: tuple[str, int], request: Message) -> None:
        """Send a request without a response (acks=0). Raises NoAnswer."""
        try:
            connection = await self.channel(address).connect()
            future = connection.send(request, common_version(type(request), connection.versions))
        except ChannelError as error:
            raise NoAnswer(str(error), maybe_sent=False) from error
        future.add_done_callback(lambda done: None if done.cancelled() else done.exception())

    async def ask_any(self, request: Message, response: type[M], *, newest: int | None = None) -> M:
        """Send to some broker once, see `ask`. Raises NoAnswer."""
        return await self.ask(self.any_address(), request, response, newest=newest)

    def any_address(self) -> tuple[str, int]:
        """Return where some broker listens."""
        return self.rng.choice([*self._addresses.values()] or [(host, PORT) for host in self._bootstrap])

    async def refresh(self, topics: Iterable[str]) -> None:
        """Query some broker for the leaders of these topics' partitions. Raises NoAnswer."""
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=topic) for topic in topics], allow_auto_topic_creation=False
        )
        known = [(host, PORT) for host in self._bootstrap]
        response = await self.ask(self.rng.choice(known), request, MetadataResponse)
        self._refreshed_at = asyncio.get_running_loop().time()
        self._addresses = {each.node_id: (each.host, each.port) for each in response.brokers}
        for topic in response.topics:
            if topic.error_code or topic.name is None:
                continue
            for row in topic.partitions:
                key = (topic.name, row.partition_index)
                newest = self._newest.get(key)
                if newest is None or newest.topic_id != topic.topic_id or row.leader_epoch >= newest.epoch:
                    self._leaders[key] = Leader(row.leader_id, row.leader_epoch, topic.topic_id)
                    self._newest[key] = self._leaders[key]

    async def leader(self, topic: str, partition: int) -> Leader | None:
        """Return the leader, None if it cannot be determined now."""
        now = asyncio.get_running_loop().time()
        found = self._leaders.get((topic, partition))
        if found is None or found.broker_id not in self._addresses or now - self._refreshed_at > METADATA_AGE_MAX_S:
            try:
                await self.refresh([topic])
            except NoAnswer:
                if found is None or found.broker_id not in self._addresses:
                    return None
            found = self._leaders.get((topic, partition))
        return found if found is not None and found.broker_id in self._addresses else None

    def address(self, broker_id: int) -> tuple[str, int]:
        """Return where a broker that `leader` named listens."""
        return self._addresses[broker_id]

    def reads_from(self, topic: str, partition: int, leader: Leader) -> int:
        """Return the broker to fetch from: the leader, or an existing follower that it named."""
        broker_id = self.places.choose(topic, partition, leader.broker_id)
        return broker_id if broker_id in self._addresses else leader.broker_id

    def forget(self, topic: str, partition: int) -> None:
        """Look up the leader again next time."""
        self._leaders.pop((topic, partition), None)
        self._refreshed_at = -METADATA_AGE_MAX_S

    async def close(self) -> None:
        """Close all connections."""
        for channel in self._channels.values():
            await channel.close()


def is_retriable(code: ErrorCode) -> bool:
    """Return whether another try may bring another answer."""
    return code in RETRIABLE


RETRIABLE: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    }
)
DEFINITE: Final = frozenset(
    {
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.UNKNOWN_PRODUCER_ID,
    }
)
"""A produce that was refused so was certainly not appended by this very request. Everything else may have been."""
