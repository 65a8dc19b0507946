"""State of the cluster, queried at the processes' own addresses, so that faults on links do not affect the lab.

Brokers that are cut off return old metadata, so all are queried and the highest epoch counts.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from kvorum.network.addresses import Address
from kvorum.network.channel import Channel
from kvorum.network.dial import ChannelError
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
)
from kvorum.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kvorum.protocol.schema import Message
from kvorum.protocol.uuids import Uuid
from kvorum.quorum.batches import METADATA_PARTITION, METADATA_TOPIC
from kvorum.runtime.chance import new_random
from kvorum.runtime.listeners import split_address
from kvorum.security.client import PLAINTEXT, ClientSecurity

ASK_MS: Final = 2_000
"""A process that is stopped does not answer at all."""
AT_ONCE_MS: Final = 300
"""For queries that only add to a story: they must not delay the events."""
TLS_TIMES: Final = 3
"""On a busy machine a TLS handshake takes as long as several answers."""
VOTER_LAG_MAX: Final = 10
"""A voter may lag by this number of records and be healthy: the log grows during the observation."""
NO_LEADER: Final = -1

T = TypeVar("T")
M = TypeVar("M", bound=Message)


@dataclass(frozen=True, slots=True)
class PartitionView:
    """A partition as the best informed broker has it."""

    leader: int
    """The broker's id, -1 without one."""
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    """Only DescribeTopicPartitions returns both (KIP-966)."""


@dataclass(slots=True)
class Observer:
    """Queries the processes of one cluster. `brokers` and `controllers` are {node id: address}. Thread safe."""

    brokers: Mapping[int, Address]
    controllers: Mapping[int, Address]
    run: Callable[[Callable[[], Coroutine[Any, Any, Any]]], Any]
    """Runs a coroutine to its end in its own event loop, in the right namespace."""
    broker_security: ClientSecurity = PLAINTEXT
    controller_security: ClientSecurity = PLAINTEXT

    def topics(self) -> dict[str, int] | None:
        """Return {topic: partitions} by all brokers that answer, None where none does."""
        answers = self._metadata().values()
        found = {topic.name: len(topic.partitions) for answer in answers for topic in answer.topics if topic.name}
        return found if answers else None

    def partitions(self, timeout_ms: int = ASK_MS) -> dict[str, PartitionView]:
        """Return {"topic-0": its state} from all brokers that respond in time."""
        found: dict[str, PartitionView] = {}
        for answer in self._metadata(timeout_ms).values():
            for name, view in views(answer).items():
                if name not in found or view.leader_epoch > found[name].leader_epoch:
                    found[name] = view
        return found

    def active_controller(self, timeout_ms: int = ASK_MS) -> int | None:
        """Return the node id of the active controller with the highest epoch among those that answer in time."""
        serving = self._quorum(timeout_ms).values()
        return max(serving, key=lambda row: row.leader_epoch).leader_id if serving else None

    def active_controllers(self, timeout_ms: int = ASK_MS) -> list[int]:
        """Return the node ids of all controllers that respond as the active one, including deposed ones."""
        return sorted(self._quorum(timeout_ms))

    def voters(self) -> dict[int, Uuid]:
        """Return {node id: directory} of the voters, from the active controller with the highest epoch."""
        rows = self._quorum().values()
        newest = max(rows, key=lambda row: row.leader_epoch, default=None)
        return {} if newest is None else {each.replica_id: each.replica_directory_id for each in newest.current_voters}

    def ailments(self) -> list[str]:
        """Return all problems; empty if every broker and controller is healthy and their metadata are equal."""
        found: list[str] = []
        answers = self._metadata()
        for broker_id in self.brokers:
            answer = answers.get(broker_id)
            if answer is None:
                found.append(f"broker {broker_id} does not respond")
                continue
            known = {broker.node_id for broker in answer.brokers}
            found += [f"broker {each} is fenced at broker {broker_id}" for each in sorted(self.brokers.keys() - known)]
            found += [f"{wrong} at broker {broker_id}" for wrong in replica_problems(views(answer))]
        return found + self._quorum_ailments()

    def _quorum_ailments(self) -> list[str]:
        rows = self._quorum()
        if len(rows) != 1:
            return [f"{len(rows)} controllers claim to be active"]
        (row,) = rows.values()
        behind = {voter.replica_id: row.high_watermark - voter.log_end_offset for voter in row.current_voters}
        found = [f"controller {each} is not a voter" for each in sorted(self.controllers.keys() - behind.keys())]
        return found + [f"controller {each} lags by {lag}" for each, lag in behind.items() if lag > VOTER_LAG_MAX]

    def _metadata(self, timeout_ms: int = ASK_MS) -> dict[int, MetadataResponse]:
        """Return the metadata of all topics from each broker that answers in time."""
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        found: dict[int, MetadataResponse] = self.run(
            lambda: ask_all(self.brokers, request, MetadataResponse, timeout_ms, self.broker_security)
        )
        return found

    def _quorum(self, timeout_ms: int = ASK_MS) -> dict[int, ResponsePartitionData]:
        """Return the quorum state from each active controller."""
        wanted = RequestTopicData(
            topic_name=METADATA_TOPIC, partitions=[RequestPartitionData(partition_index=METADATA_PARTITION)]
        )
        request = DescribeQuorumRequest(topics=[wanted])
        answers: dict[int, DescribeQuorumResponse] = self.run(
            lambda: ask_all(self.controllers, request, DescribeQuorumResponse, timeout_ms, self.controller_security)
        )
        rows = {
            node_id: answer.topics[0].partitions[0]
            for node_id, answer in answers.items()
            if answer.error_code == ErrorCode.NONE and answer.topics and answer.topics[0].partitions
        }
        return {node_id: row for node_id, row in rows.items() if row.error_code == ErrorCode.NONE}


def views(answer: MetadataResponse) -> dict[str, PartitionView]:
    """Return one broker's view of all partitions."""
    return {
        f"{topic.name}-{each.partition_index}": PartitionView(
            each.leader_id, each.leader_epoch, tuple(sorted(each.replica_nodes)), tuple(sorted(each.isr_nodes))
        )
        for topic in answer.topics
        for each in topic.partitions
    }


def replica_problems(partitions: Mapping[str, PartitionView]) -> list[str]:
    """Return problems of partitions: no leader, or a replica out of sync."""
    found = []
    for name, each in sorted(partitions.items()):
        if each.leader == NO_LEADER:
            found.append(f"{name} has no leader")
        elif each.isr != each.replicas:
            found.append(f"{name} has ISR {list(each.isr)} of {list(each.replicas)}")
    return found


def addresses_of(direct: Mapping[str, str], ids: Mapping[str, int], role: str) -> dict[int, Address]:
    """Return {node id: address} of the processes of a role, from {"node-1/broker": "HOST:PORT"}."""
    found = {}
    for party, text in direct.items():
        node, _, own = party.partition("/")
        address = split_address(text)
        assert address is not None, "the lab chose it"
        if own == role:
            found[ids[node]] = address
    return found


async def ask_all(
    addresses: Mapping[int, Address],
    request: Message,
    response: type[M],
    timeout_ms: int = ASK_MS,
    security: ClientSecurity = PLAINTEXT,
) -> dict[int, M]:
    """Query all at the same time; return the answers that arrive in time."""
    answers = await asyncio.gather(
        *(ask(address, request, response, timeout_ms, security) for address in addresses.values())
    )
    return {node: answer for node, answer in zip(addresses, answers, strict=True) if answer is not None}


async def ask(
    address: Address,
    request: Message,
    response: type[M],
    timeout_ms: int = ASK_MS,
    security: ClientSecurity = PLAINTEXT,
) -> M | None:
    """Query one, over its own connection; None without an answer, or without support."""
    channel = Channel(*address, client_id="kvorum-chaos-observer", chance=new_random(), security=security)
    try:
        return await channel.ask(request, response, timeout_ms=ask_ms(timeout_ms, security))
    except (ChannelError, KafkaError):
        return None
    finally:
        await channel.close()


def ask_ms(timeout_ms: int, security: ClientSecurity) -> int:
    """Return the limit of a query that may begin with a handshake."""
    return timeout_ms if security is PLAINTEXT else timeout_ms * TLS_TIMES


def in_a_thread(coroutine: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine in a new event loop; the caller may run in one."""
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="chaos-observer") as pool:
        return pool.submit(lambda: asyncio.run(coroutine())).result()
