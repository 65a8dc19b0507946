"""A broker's channel to the active controller: finds it, connects, and retries after a change.

Requests go to the last known active controller, else to each in turn; others answer NOT_CONTROLLER, or
NOT_LEADER_OR_FOLLOWER with the leader in a Fetch response. `ControllerNodes` holds this knowledge and is shared by all
channels of a process: a change found by the metadata Fetch redirects the other requests at once, including those in
flight to the old leader. Each connection's peer is checked first: a controller of another cluster gets no requests, and
its answers are ignored. A broker that registers does not fetch yet: it sends a Fetch to find the leader once all known
controllers have answered that they do not lead, because the leader may be a voter that is in no file of the broker.
Source: Kafka's NodeToControllerChannelManager, RaftControllerNodeProvider.
"""

import asyncio
from collections.abc import Mapping
from random import Random
from typing import Final, TypeVar

from kvorum.network.addresses import Address, AddressBook
from kvorum.network.channel import Channel
from kvorum.network.cluster_check import ClusterCheck, EndpointType, missing_peers, peer_name, wrong_cluster
from kvorum.network.dial import Backoff, ChannelError
from kvorum.network.traffic import Traffic
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from kvorum.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from kvorum.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from kvorum.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kvorum.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from kvorum.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kvorum.protocol.schema import Message
from kvorum.protocol.uuids import METADATA_TOPIC_ID
from kvorum.quorum.batches import METADATA_PARTITION, METADATA_TOPIC
from kvorum.quorum.forwarding import has_error
from kvorum.runtime.config import Settings
from kvorum.runtime.listeners import split_address, voters
from kvorum.runtime.logs import get_logger
from kvorum.runtime.ordered_set import OrderedSet
from kvorum.security.client import PLAINTEXT, ClientSecurity

log = get_logger("quorum")

FIRST_BOOTSTRAP_ID: Final = -2
"""Bootstrap servers have no ids: they count down from here, as in Kafka."""
RETRY_BACKOFF_MS_MAX: Final = 500
"""Between two tries, doubled from controller.quorum.retry.backoff.ms: an election takes that long."""

OLD_LEADER_ANSWER_MS: Final = 1_000
"""A forwarded request in flight waits this much longer when another controller becomes active.

The old one answers at once if it lives: with the result of the request, or NOT_CONTROLLER. A second copy sent before
that could execute it twice: the client would get an error that the voter it removed does not exist. Kafka waits until
the connection breaks; a stopped process would delay the client until its request times out.
"""
SEARCH_BACKOFF_MS_MAX: Final = 100
"""Retry delay of the tasks that find the leader for a whole broker: metadata Fetch and registration."""
RECONNECT_BACKOFF_MS: Final = 20
RECONNECT_BACKOFF_MS_MAX: Final = 200
"""Retry delay for a restarting controller; few tasks wait for it."""

M = TypeVar("M", bound=Message)


class ControllerNodes:
    """Addresses of the controllers, and the known active one."""

    __slots__ = (
        "_answered",
        "_changed",
        "_failures",
        "_is_proven",
        "_turn",
        "addresses",
        "check",
        "epoch",
        "leader_id",
        "security",
    )

    def __init__(
        self,
        known: Mapping[int, Address],
        cluster_id: str,
        overrides: Mapping[int, Address] | None = None,
        security: ClientSecurity = PLAINTEXT,
    ) -> None:
        """Start with these controllers of a cluster and no leader.

        `overrides` replaces addresses by a test's proxies; `security` is that of connections to controllers.
        """
        self.security = security
        assert known, "a broker knows at least one controller"
        self.check = ClusterCheck(cluster_id, EndpointType.CONTROLLER)
        self._failures: dict[str, ChannelError] = {}
        """Why the last request to a controller got no response, by `peer_name`."""
        self._is_proven = False
        """One of them belongs to this cluster: it answered."""
        self.addresses = AddressBook(known, overrides)
        self.leader_id: int | None = None
        self.epoch = -1
        self._turn = 0
        self._answered: int | None = None
        """The bootstrap server that last answered as the leader; its node id is not known yet."""
        self._changed: OrderedSet[asyncio.Future[None]] = OrderedSet()

    @classmethod
    def of(
        cls,
        settings: Settings,
        cluster_id: str,
        overrides: Mapping[int, Address] | None = None,
        security: ClientSecurity = PLAINTEXT,
    ) -> "ControllerNodes":
        """Read the addresses from controller.quorum.voters, else from controller.quorum.bootstrap.servers."""
        known: dict[int, Address] = dict(voters(settings))
        if not known:
            for index, text in enumerate(settings.list("controller.quorum.bootstrap.servers")):
                address = split_address(text)
                assert address is not None, "its rule checked the form"
                known[FIRST_BOOTSTRAP_ID - index] = address
        return cls(known, cluster_id, overrides, security)

    def pick(self) -> int:
        """Return the node to contact: the leader, else the next one in turn."""
        if self.leader_id is not None and self.addresses.get(self.leader_id) is not None:
            return self.leader_id
        if self._answered is not None:
            return self._answered
        ids = self.addresses.ids()
        self._turn += 1
        return ids[self._turn % len(ids)]

    def learn(self, leader_id: int | None, epoch: int, address: Address | None = None) -> None:
        """Process a report about the leader; an epoch older than the known one is ignored.

        A leader with an unknown address is ignored.
        """
        if epoch < self.epoch:
            return
        if leader_id is not None and address is not None:
            self.addresses.put(leader_id, address)
        if leader_id is not None and self.addresses.get(leader_id) is None:
            leader_id = None
        changed = (leader_id, epoch) != (self.leader_id, self.epoch)
        self.leader_id, self.epoch = leader_id, epoch
        if changed and leader_id is not None:
            log.info("active controller found", leader_id=leader_id, epoch=epoch)
            for future in tuple(self._changed):
                if not future.done():
                    future.set_result(None)

    def learn_from(self, answer: FetchResponse) -> None:
        """Process the leader and its address in a Fetch response of the metadata log (KIP-853)."""
        leader = answer.responses[0].partitions[0].current_leader
        if leader.leader_epoch < 0:
            return
        leader_id = leader.leader_id if leader.leader_id >= 0 else None
        address = next(((node.host, node.port) for node in answer.node_endpoints if node.node_id == leader_id), None)
        self.learn(leader_id, leader.leader_epoch, address)

    def leads(self, node_id: int) -> bool:
        """Return whether this is the known active controller."""
        return node_id in (self.leader_id, self._answered)

    def confirm(self, node_id: int) -> None:
        """Record that this node responded as the leader."""
        if node_id < 0:
            self._answered = node_id
        elif self.leader_id != node_id:
            self.learn(node_id, self.epoch)

    def deny(self, node_id: int) -> None:
        """Record that this node does not lead, or does not respond."""
        if self.leader_id == node_id:
            self.leader_id = None
        if self._answered == node_id:
            self._answered = None

    def failed(self, node_id: int, failure: ChannelError) -> None:
        """Note why a controller did not answer."""
        self._failures[self._name(node_id)] = failure

    def answered(self, node_id: int) -> None:
        """Record the response of a controller of this cluster."""
        self._failures.pop(self._name(node_id), None)
        self._is_proven = True

    def wrong_cluster(self) -> str | None:
        """Return why this node's cluster id must be the wrong one, None while it may be right."""
        names = [self._name(node_id) for node_id in self.addresses.ids()]
        return None if self._is_proven else wrong_cluster(self.check.cluster_id, self._failures, names)

    def missing(self) -> str:
        """Return which controllers do not answer and why."""
        return f"controllers {missing_peers(self._failures)}" if self._failures else "an active controller"

    def _name(self, node_id: int) -> str:
        return peer_name(node_id, self.addresses.get(node_id))

    def changed(self) -> "asyncio.Future[None]":
        """Return a future that completes when another leader becomes known. Cancel it when it is no longer needed."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._changed.add(future)
        future.add_done_callback(self._changed.discard)
        return future


class ControllerChannel:
    """Requests to the active controller, over one connection to each controller, made when first needed.

    Long polls have their own channel: responses are in the order of the requests.
    """

    def __init__(
        self,
        nodes: ControllerNodes,
        settings: Settings,
        *,
        client_id: str,
        chance: Random,
        traffic: Traffic | None = None,
    ) -> None:
        """Prepare; nothing is connected yet. `traffic` counts."""
        self.nodes = nodes
        self._traffic = traffic
        self._settings = settings
        self._client_id = client_id
        self._chance = chance
        self._channels: dict[int, Channel] = {}
        self._closed = False

    async def register_broker(self, request: BrokerRegistrationRequest) -> BrokerRegistrationResponse:
        """Send to the active controller. Raises KafkaError if none answered in half a session, as in Kafka."""
        backoff = self.search_backoff()
        answer = await self.request(request, timeout_ms=self._half_session_ms(), backoff=backoff, asks_who_leads=True)
        assert isinstance(answer, BrokerRegistrationResponse)
        return answer

    async def heartbeat(self, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
        """Send to the active controller. Raises KafkaError if none answered in half a session."""
        return await self.ask(request, BrokerHeartbeatResponse, timeout_ms=self._half_session_ms())

    async def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """Send to the active controller.

        Raises KafkaError if none responded in time, or if a copy may still be in flight: the sender must interpret the
        error of a later copy.
        """
        timeout_ms = self._settings.int("request.timeout.ms")
        answer = await self.request(request, timeout_ms=timeout_ms, repeat_sent=False)
        assert isinstance(answer, AlterPartitionResponse)
        return answer

    async def assign_replicas_to_dirs(self, request: AssignReplicasToDirsRequest) -> AssignReplicasToDirsResponse:
        """Send to the active controller. Raises KafkaError if none answered in time."""
        timeout_ms = self._settings.int("request.timeout.ms")
        return await self.ask(request, AssignReplicasToDirsResponse, timeout_ms=timeout_ms)

    async def allocate_producer_ids(self, request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
        """Send to the active controller. Raises KafkaError if none answered in half a session."""
        return await self.ask(request, AllocateProducerIdsResponse, timeout_ms=self._half_session_ms())

    def _half_session_ms(self) -> int:
        return max(1, self._settings.int("broker.session.timeout.ms") // 2)

    async def ask(self, message: Message, response: type[M], *, timeout_ms: int) -> M:
        """As `request`; the answer is an instance of `response`."""
        answer = await self.request(message, timeout_ms=timeout_ms)
        assert isinstance(answer, response)
        return answer

    async def request(
        self,
        message: Message,
        *,
        timeout_ms: int,
        backoff: Backoff | None = None,
        repeat_sent: bool = True,
        asks_who_leads: bool = False,
        old_leader_ms: int = 0,
    ) -> Message:
        """Send a request until the active controller responds; `backoff` is the delay between attempts.

        It may be executed more than once: after a lost answer that is unknown (without `repeat_sent` it ends the
        attempts). When another controller becomes active, the answer of the one before is waited for `old_leader_ms`
        longer.
        Raises KafkaError: REQUEST_TIMED_OUT after `timeout_ms`, UNSUPPORTED_VERSION if the active controller does not
        know the request, INCONSISTENT_CLUSTER_ID if this node must belong to another cluster.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        backoff = backoff or self.backoff()
        reason, denied = "no known controller", 0
        while (left_ms := int((deadline - loop.time()) * 1000)) > 0:
            node_id = self.nodes.pick()
            try:
                answer = await self._attempt(node_id, message, left_ms, old_leader_ms)
                if not has_error(answer, ErrorCode.NOT_CONTROLLER):
                    self.nodes.confirm(node_id)
                    return answer
                reason, denied = f"node {node_id} is not the active controller", denied + 1
                if asks_who_leads and denied % len(self.nodes.addresses.ids()) == 0:
                    await self._ask_who_leads(node_id, left_ms)
            except ChannelError as error:
                reason = str(error)
                if error.maybe_sent and not repeat_sent:
                    self.nodes.deny(node_id)
                    break
                wrong_cluster = self.nodes.wrong_cluster()
                if wrong_cluster is not None:
                    raise KafkaError(ErrorCode.INCONSISTENT_CLUSTER_ID, wrong_cluster) from error
            except KafkaError as error:
                if error.code is not ErrorCode.UNSUPPORTED_VERSION or self.nodes.leads(node_id):
                    raise
                reason = str(error)
            self.nodes.deny(node_id)
            await self._pause(backoff, deadline)
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"{type(message).__name__}: {reason}")

    def backoff(self) -> Backoff:
        """Return the delays between tries."""
        first_ms = max(1, self._settings.int("controller.quorum.retry.backoff.ms"))
        return Backoff(first_ms, max(first_ms, RETRY_BACKOFF_MS_MAX), self._chance)

    def search_backoff(self) -> Backoff:
        """Return the delays between attempts to find the leader."""
        first_ms = max(1, self._settings.int("controller.quorum.retry.backoff.ms"))
        return Backoff(first_ms, max(first_ms, SEARCH_BACKOFF_MS_MAX), self._chance)

    async def send_to(self, node_id: int, message: Message, *, timeout_ms: int) -> Message:
        """Send a request to one controller. Raises ChannelError, KafkaError (UNSUPPORTED_VERSION; closed)."""
        if self._closed:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "the channel is closed")
        channel = self._channels.get(node_id)
        if channel is None:
            channel = self._channels[node_id] = Channel(
                lambda: self.nodes.addresses.get(node_id),
                client_id=self._client_id,
                chance=self._chance,
                backoff_ms=RECONNECT_BACKOFF_MS,
                backoff_max_ms=RECONNECT_BACKOFF_MS_MAX,
                traffic=self._traffic,
                check=self.nodes.check,
                security=self.nodes.security,
            )
        try:
            answer = await channel.request(message, timeout_ms=timeout_ms)
        except ChannelError as error:
            self.nodes.failed(node_id, error)
            raise
        self.nodes.answered(node_id)
        return answer

    async def close(self) -> None:
        """Close every connection; what waits for an answer gets an error. Idempotent."""
        self._closed = True
        channels, self._channels = self._channels, {}
        for channel in channels.values():
            await channel.close()

    async def _attempt(self, node_id: int, message: Message, timeout_ms: int, old_leader_ms: int) -> Message:
        """Send a request to one node, and wait until `old_leader_ms` after another turned out to lead.

        Raises ChannelError, KafkaError.
        """
        moved = self.nodes.changed()
        sending = asyncio.ensure_future(self.send_to(node_id, message, timeout_ms=timeout_ms))
        try:
            while not sending.done():
                await asyncio.wait((sending, moved), return_when=asyncio.FIRST_COMPLETED)
                if moved.done() and not sending.done():
                    if self.nodes.leader_id not in (None, node_id):
                        await asyncio.wait((sending,), timeout=old_leader_ms / 1000)
                        if sending.done():
                            break
                        raise ChannelError(f"node {self.nodes.leader_id} is the active controller")
                    moved = self.nodes.changed()
            return sending.result()
        finally:
            moved.cancel()
            sending.cancel()

    async def _ask_who_leads(self, node_id: int, timeout_ms: int) -> None:
        """Get the leader from a controller, if it knows it: its rejection of a Fetch contains it.

        Raises ChannelError.
        """
        partition = FetchPartition(partition=METADATA_PARTITION, current_leader_epoch=-1, last_fetched_epoch=-1)
        topic = FetchTopic(topic_id=METADATA_TOPIC_ID, topic=METADATA_TOPIC, partitions=[partition])
        answer = await self.send_to(node_id, FetchRequest(max_bytes=1, topics=[topic]), timeout_ms=timeout_ms)
        assert isinstance(answer, FetchResponse)
        if answer.responses:
            self.nodes.learn_from(answer)

    async def _pause(self, backoff: Backoff, deadline: float) -> None:
        """Wait before the next try, less if a leader becomes known meanwhile."""
        left = deadline - asyncio.get_running_loop().time()
        if self.nodes.leader_id is not None or left <= 0:
            await asyncio.sleep(0)
            return
        moved = self.nodes.changed()
        await asyncio.wait((moved,), timeout=min(left, backoff.next_ms() / 1000))
        moved.cancel()
