"""Voters of a simulated quorum that return with other addresses, and update the set (UpdateRaftVoter).

Production's QuorumPresence and the request's handler; simulated is the delivery of the request: to the present listener
of the address, late, or not at all if a link is cut or a process is down. An answer may be lost.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any, Final, Protocol, cast

from kvorum.cluster.local.quorum_presence import REQUEST_TIMEOUT_MS, QuorumPresence
from kvorum.network.addresses import Address
from kvorum.network.context import RequestContext
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.describe_cluster import DescribeClusterRequest
from kvorum.protocol.messages.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse
from kvorum.quorum.api import update_raft_voter
from kvorum.quorum.raft.replicated import RaftMetadataLog
from kvorum.quorum.raft.transport import RaftTransport
from kvorum.quorum.raft.voters import Endpoint
from kvorum.quorum.services import ControllerServices
from kvorum.security.principal import ANONYMOUS
from sim.loop import Host, SimLoop
from sim.network import FrameNetwork

CLUSTER_ID: Final = "sim"
LISTENER: Final = "CONTROLLER"


class ControllerView(Protocol):
    """One controller, as others find it."""

    node_id: int
    host: Host
    log: RaftMetadataLog | None

    @property
    def listens_at(self) -> Endpoint:
        """Its present address."""
        ...


class PresenceRun(Protocol):
    """Interface of the run for the requests."""

    loop: SimLoop
    network: FrameNetwork

    @property
    def controllers(self) -> list[ControllerView]:
        """All controllers."""
        ...

    def count(self, fault: str) -> None:
        """Count something that was done."""
        ...


class SimPresence(QuorumPresence):
    """One process of a controller: production's, except for the connection."""

    def __init__(
        self,
        world: PresenceRun,
        own: ControllerView,
        log: RaftMetadataLog,
        rng: random.Random,
        on_fault: Callable[[BaseException], None],
    ) -> None:
        """Prepare. There are no bootstrap servers: all controllers are connected."""
        super().__init__(
            log,
            cast(RaftTransport, None),
            cluster_id=CLUSTER_ID,
            bootstrap=[],
            endpoints=[own.listens_at],
            chance=rng,
            on_fault=on_fault,
        )
        self._world = world
        self._own = own
        self._rng = rng

    async def _request(self, address: Address, request: DescribeClusterRequest | UpdateRaftVoterRequest) -> object:
        """Send to the listener there; None without an answer."""
        assert isinstance(request, UpdateRaftVoterRequest), "no other request without bootstrap servers"
        world, loop, asking = self._world, self._world.loop, self._own.host
        answered: asyncio.Future[UpdateRaftVoterResponse] = loop.create_future()

        def arrive() -> None:
            target = next((each for each in world.controllers if each.listens_at[1:] == address), None)
            if target is not None and world.network.passes(self._own.node_id, target.node_id):
                loop.call_at_host(target.host, loop.time(), handle, target)

        def handle(target: ControllerView) -> None:
            if target.log is None:
                return
            answer = answer_of(target.log, request)
            world.count("update a voter" if not answer.error_code else f"refused {ErrorCode(answer.error_code).name}")
            if world.network.passes(target.node_id, self._own.node_id):
                loop.call_at_host(asking, loop.time() + self._delay_s(), give, answer)

        def give(answer: UpdateRaftVoterResponse) -> None:
            if not answered.done():
                answered.set_result(answer)

        loop.call_at_host(None, loop.time() + self._delay_s(), arrive)
        done, _ = await asyncio.wait([answered], timeout=REQUEST_TIMEOUT_MS / 1000)
        return answered.result() if done else None

    def _update_itself(self, directory_id: bytes) -> None:
        """See QuorumPresence: the leader's own."""
        pending = self._log.node.replica.voters.pending
        before = len(pending)
        super()._update_itself(directory_id)
        if len(pending) > before:
            self._world.count("update a voter")

    def _delay_s(self) -> float:
        options = self._world.network.options
        return options.delay_min_s + self._rng.random() * options.delay_max_s


def answer_of(log: RaftMetadataLog, request: UpdateRaftVoterRequest) -> UpdateRaftVoterResponse:
    """Make the request's handler respond for a controller's log."""
    services = SimpleNamespace(
        authorize_cluster=lambda ctx, operation: None,
        leader_and_epoch=lambda: (-1 if log.leader_id is None else log.leader_id, log.epoch),
        voter_addresses=lambda listener: {},
        cluster_id=CLUSTER_ID,
        node_id=log.node_id,
        listener_name=LISTENER,
        metadata_log=log,
        membership=log.membership,
    )
    ctx = RequestContext(
        principal=ANONYMOUS, api_key=request.API_KEY, api_version=request.VERSIONS[1], connection_id="sim"
    )
    return at_once(update_raft_voter.handle(ctx, request, cast(ControllerServices, services)))


def at_once(work: Coroutine[Any, Any, UpdateRaftVoterResponse]) -> UpdateRaftVoterResponse:
    """Run what waits for nothing."""
    try:
        work.send(None)
    except StopIteration as end:
        return cast(UpdateRaftVoterResponse, end.value)
    raise AssertionError("the handler waits")


def unknown_addresses(controllers: list[ControllerView], log: RaftMetadataLog) -> list[str]:
    """Return the voters whose address in a leader's committed set is outdated.

    A voter that lost its directory does not count; an uncommitted set may be lost with its leader.
    """
    voters = log.node.replica.voters
    found = ["the newest set is not committed"] if voters.pending else []
    for each in controllers:
        own = None if each.log is None else each.log.node.replica.voters.state.directory_id
        if own is not None and voters.in_force.get(each.node_id) == own:
            known = voters.endpoints.get(each.node_id)
            if known != [each.listens_at]:
                found.append(f"voter {each.node_id} listens at {each.listens_at}, the set has {known}")
    return found
