"""The other controllers of a dynamic quorum (KIP-853): discovery, and report of this controller's address.

    start -- a leader is known -->                 known: a voter whose address in the set differs sends UpdateRaftVoter
                                                   until a committed set has its address
    known -- the voters or the leader change -->   checked again: the entry that made an observer a voter may have its
                                                   earlier address

An observer knows no others at first: any controller of controller.quorum.bootstrap.servers returns the voters
(DescribeCluster), and the leader among them sends the log to each connected node. A voter knows the others from its
log; bootstrap servers help it if all of them have moved.
"""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Final

from kvorum.network.addresses import Address
from kvorum.network.channel import Channel
from kvorum.network.cluster_check import ClusterCheck, EndpointType, WrongCluster, peer_name, wrong_cluster
from kvorum.network.dial import Backoff, ChannelError
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kvorum.protocol.messages.update_raft_voter import (
    KRaftVersionFeature,
    Listener,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)
from kvorum.protocol.uuids import Uuid
from kvorum.quorum.raft.log import SnapshotView
from kvorum.quorum.raft.replicated import RaftMetadataLog
from kvorum.quorum.raft.transport import RaftTransport
from kvorum.quorum.raft.voters import Endpoint, dial_address
from kvorum.runtime.logs import get_logger
from kvorum.security.client import PLAINTEXT, ClientSecurity

BOOTSTRAP_ID: Final = -1
"""A node that is contacted by address has no id yet."""
BACKOFF_MS: Final = 50
BACKOFF_MAX_MS: Final = 2_000
"""Between two rounds over the bootstrap servers."""
REQUEST_TIMEOUT_MS: Final = 2_000
"""For one of them to answer."""

log = get_logger("quorum")


class QuorumPresence:
    """See the module. Construct before the metadata log starts; `start` once, `close` once."""

    def __init__(
        self,
        metadata_log: RaftMetadataLog,
        transport: RaftTransport,
        *,
        cluster_id: str,
        bootstrap: list[Address],
        endpoints: list[Endpoint],
        chance: Random,
        on_fault: Callable[[BaseException], None],
        security: ClientSecurity = PLAINTEXT,
    ) -> None:
        """Prepare; `endpoints` are this node's own, the default listener first."""
        self._log = metadata_log
        self._transport = transport
        self._cluster_id = cluster_id
        self._bootstrap = bootstrap
        self._endpoints = endpoints
        self._listener = endpoints[0][0] if endpoints else ""
        """The listener of other controllers to which this node connects."""
        self._chance = chance
        self._security = security
        self._on_fault = on_fault
        self._check = ClusterCheck(cluster_id, EndpointType.CONTROLLER)
        self.failures: dict[str, ChannelError] = {}
        """Why the last request to a controller got no response, by `peer_name`."""
        self._is_proven = False
        """A controller of this cluster has answered since the start."""
        self._changed = asyncio.Event()
        metadata_log.add_listener(self)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._task.add_done_callback(self._on_task_done)

    async def close(self) -> None:
        """Stop. Idempotent."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    def on_voters_changed(self) -> None:
        """Check again: another set is in this node's log, or the newest one was committed or removed."""
        self._changed.set()

    # MetadataLogListener.

    def on_leader_changed(self, leader_id: int | None, epoch: int) -> None:
        """See MetadataLogListener: look again."""
        self._changed.set()

    def on_active(self, epoch: int) -> None:
        """See MetadataLogListener: now this node may change the voters itself."""
        self._changed.set()

    def on_inactive(self) -> None:
        """See MetadataLogListener."""

    def on_batch_applied(self, base_offset: int, epoch: int, timestamp_ms: int, batch: bytes) -> None:
        """See MetadataLogListener."""

    def on_snapshot_loaded(self, snapshot: SnapshotView) -> None:
        """See MetadataLogListener."""

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self._on_fault(task.exception() or AssertionError())

    async def _run(self) -> None:
        backoff = Backoff(BACKOFF_MS, BACKOFF_MAX_MS, self._chance)
        while True:
            self._changed.clear()
            if await self._is_known():
                await self._changed.wait()
                backoff = Backoff(BACKOFF_MS, BACKOFF_MAX_MS, self._chance)
                continue
            if self._log.leader_id is None:
                for address in self._others():
                    await self._request_voters(address)
                self._check_own_cluster()
            try:
                async with asyncio.timeout(backoff.next_ms() / 1000):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def _request_voters(self, address: Address) -> None:
        """Request the voters from a controller, and connect to them."""
        request = DescribeClusterRequest(endpoint_type=EndpointType.CONTROLLER, include_fenced_brokers=False)
        answer = await self._request(address, request)
        if isinstance(answer, DescribeClusterResponse) and answer.cluster_id == self._cluster_id:
            for each in answer.brokers:
                self._transport.introduce(each.broker_id, (each.host, each.port))

    def _others(self) -> list[Address]:
        """Return the bootstrap servers but this node."""
        own = [(host, port) for _, host, port in self._endpoints]
        return [address for address in self._bootstrap if address not in own]

    def _check_own_cluster(self) -> None:
        """Raise WrongCluster where all bootstrap servers belong to another cluster and this node never had a leader."""
        names = [peer_name(BOOTSTRAP_ID, address) for address in self._others()]
        reason = wrong_cluster(self._cluster_id, self.failures, names)
        if reason is not None and not self._is_proven and self._log.epoch == 0:
            raise WrongCluster(reason)

    async def _is_known(self) -> bool:
        """Return whether a leader is known and, for a voter, whether the set has its present address."""
        node_id, leader_id = self._log.node_id, self._log.leader_id
        voters = self._log.node.replica.voters
        own = voters.state.directory_id
        if leader_id is None or not voters.dynamic:  # the upgrade in this log was lost with its leader: until the next
            return False
        if voters.in_force.get(node_id) != own:
            return True
        if voters.endpoints.get(node_id) == self._endpoints:
            return not voters.pending  # a set that is not committed may be lost with its leader
        if leader_id == node_id:
            self._update_itself(own)
            return False
        where = dial_address(voters.endpoints.get(leader_id, ()), self._listener)
        if where is None:
            return False
        request = UpdateRaftVoterRequest(
            cluster_id=self._cluster_id,
            current_leader_epoch=self._log.epoch,
            voter_id=node_id,
            voter_directory_id=Uuid(own),
            listeners=[Listener(name=name, host=host, port=port) for name, host, port in self._endpoints],
            k_raft_version_feature=KRaftVersionFeature(min_supported_version=0, max_supported_version=1),
        )
        answer = await self._request(where, request)
        if isinstance(answer, UpdateRaftVoterResponse) and answer.error_code:
            log.warning("UpdateRaftVoter rejected by leader", error=ErrorCode(answer.error_code).name)
        return False

    def _update_itself(self, directory_id: bytes) -> None:
        try:
            self._log.membership.update(self._log.node_id, directory_id, self._endpoints)
        except KafkaError as error:
            log.info("controller endpoints not updated yet", reason=error)

    async def _request(self, address: Address, request: DescribeClusterRequest | UpdateRaftVoterRequest) -> object:
        """Query one controller; None if it does not answer."""
        client_id, name = f"controller-{self._log.node_id}", peer_name(BOOTSTRAP_ID, address)
        channel = Channel(
            lambda: address,
            client_id=client_id,
            chance=self._chance,
            check=self._check,
            security=self._security,
        )
        try:
            answer = await channel.request(request, timeout_ms=REQUEST_TIMEOUT_MS)
        except (ChannelError, KafkaError) as error:
            if name not in self.failures:
                log.info("controller does not respond", address=name, reason=error)
            self.failures[name] = error if isinstance(error, ChannelError) else ChannelError(str(error))
            return None
        else:
            self.failures.pop(name, None)
            self._is_proven = True
            return answer
        finally:
            await channel.close()
