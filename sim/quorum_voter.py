"""One voter of a simulated quorum: production's journal, voter and metadata log over a disk that forgets."""

import random
from collections.abc import Sequence
from typing import Final, NotRequired, Protocol, TypedDict

from kvorum.protocol.batch_header import parse_header
from kvorum.quorum.raft.journal import DurableJournal
from kvorum.quorum.raft.log import SnapshotContent, SnapshotView
from kvorum.quorum.raft.opening import format_raft, open_raft
from kvorum.quorum.raft.replicated import RaftMetadataLog
from kvorum.quorum.raft.voters import Endpoint, Endpoints
from sim.clock import SimClock
from sim.disk import PowerLoss, SimDisk
from sim.ledger import Violation
from sim.loop import Host, SimLoop
from sim.network import FrameNetwork
from sim.quorum_checker import EMPTY_STATE, Checker, next_state
from sim.quorum_options import SEGMENT_BYTES, Options
from sim.quorum_presences import LISTENER, ControllerView, SimPresence

PATH: Final = "/node/raft"


def endpoint(node_id: int, moves: int = 0) -> Endpoint:
    """Return a node's address after this number of moves."""
    return LISTENER, f"controller-{node_id}", 9093 + moves


class InitialVoters(TypedDict):
    """Initial voters for `format_raft`."""

    voter_ids: list[int]
    directories: dict[int, bytes] | None
    endpoints: NotRequired[Endpoints]


class VoterRun(Protocol):
    """Interface of the run for a voter: a QuorumSimulation."""

    rng: random.Random
    loop: SimLoop
    network: FrameNetwork
    checker: Checker
    options: Options
    ids: list[int]
    active_count: int

    @property
    def controllers(self) -> "list[ControllerView]":
        """All controllers."""
        ...

    def count(self, fault: str) -> None:
        """Count something that was done."""
        ...

    def tell(self, text: str) -> None:
        """Note something for the reader of the story."""
        ...


class SimVoter:
    """One controller: its disk stays, its process comes and goes."""

    def __init__(self, world: VoterRun, node_id: int) -> None:
        """Create it with an empty disk; `format` and `start` follow."""
        self.world = world
        self.node_id = node_id
        self.disk = SimDisk(random.Random(world.rng.getrandbits(64)))
        self.host = Host(f"controller-{node_id}")
        self.host.alive = False
        self.log: RaftMetadataLog | None = None
        self.directory_id = b""
        self.journals: dict[bytes, DurableJournal] = {}
        """The newest journal of each directory this voter ever had, including lost ones."""
        self.high_watermark = 0
        self.state = EMPTY_STATE
        self.seen_term = 0
        self.seen_commit = 0
        self.seen_match: dict[int, int] = {}
        self.fatal: BaseException | None = None
        self.own_snapshot = 0
        """End offset of the snapshot that it started with, until it has loaded it; a voter may be elected before."""
        self.moves = 0
        self._presence: SimPresence | None = None

    @property
    def listens_at(self) -> Endpoint:
        """Its address from its next start on."""
        return endpoint(self.node_id, self.moves)

    def format(self, directories: dict[int, bytes] | None, directory_id: bytes, *, static: bool | None = None) -> None:
        """Format an empty disk; in a dynamic quorum `directories` are the initial voters', None makes an observer.

        `static` is for a voter of a static quorum that has been upgraded: whether it is formatted as it once was.
        """
        self.directory_id = directory_id
        self.disk.mkdir("/node")
        self.disk.sync_dir("")
        format_raft(
            self.disk,
            PATH,
            cluster_id="sim",
            node_id=self.node_id,
            directory_id=directory_id,
            **self._voters_at_first(directories, self.is_static if static is None else static),
            segment_bytes=SEGMENT_BYTES,
        )

    @property
    def is_static(self) -> bool:
        """Whether it is one of a static quorum's voters, or was before the upgrade."""
        options = self.world.options
        return not options.initial and self.node_id in self.world.ids[: options.static or None]

    def _voters_at_first(self, directories: dict[int, bytes] | None, static: bool) -> "InitialVoters":
        if static:
            return {"voter_ids": self.world.ids[: self.world.options.static or None], "directories": directories}
        known = (directories if self.world.options.initial else None) or {}
        endpoints = {node_id: [endpoint(node_id)] for node_id in known}
        return {"voter_ids": sorted(known), "directories": known, "endpoints": endpoints}

    def start(self) -> None:
        """Start a process."""
        assert not self.host.alive
        world = self.world
        self.host = Host(self.host.name)
        self.fatal = None
        self._presence = None
        self.high_watermark, self.state, self.seen_term, self.seen_commit = 0, EMPTY_STATE, 0, 0
        world.loop.call_at_host(self.host, world.loop.time(), self._run)

    def _run(self) -> None:
        world = self.world
        opened = open_raft(self.disk, PATH, segment_bytes=SEGMENT_BYTES)
        self.journals[self.directory_id] = opened.journal
        opened.voters.listens_at = [self.listens_at]
        self.log = world.options.log_class(
            opened,
            link=self,
            settings=world.options.settings,
            clock=SimClock(world.loop),
            rng=random.Random(world.rng.getrandbits(64)),
            on_fatal=self._on_fatal,
        )
        self.own_snapshot = self.log.log_start_offset
        self.log.add_listener(self)
        self.log.set_snapshot_source(self)
        if world.options.moves:
            rng = random.Random(world.rng.getrandbits(64))
            self._presence = SimPresence(world, self, self.log, rng, self._on_fatal)
            self._presence.start()
        self.log.start()
        world.network.attach(self.node_id, self)
        world.network.dial_all(self.node_id, tuple(peer for peer in world.ids if peer != self.node_id))

    def _on_fatal(self, error: BaseException) -> None:
        self.fatal = error
        if not isinstance(error, OSError):
            raise error

    def kill(self) -> None:
        """Lose power: a write in progress is cut at some point."""
        rng, host = self.world.rng, self.host
        if self.log is None and self.host.alive:
            self.host.alive = False
            self.disk.crash()
            return
        host.alive = False
        for number in sorted(host.jobs):
            if rng.random() < 0.7:
                self.disk.power(rng.randint(0, 3))
                try:
                    host.jobs[number]()
                except (PowerLoss, OSError):
                    break
                finally:
                    self.disk.power(None)
        host.jobs.clear()
        host.deferred.clear()
        self.disk.crash()
        self.log = None
        self.world.network.detach(self.node_id)

    # The link, and its other side.

    def send(self, peer: int, frame: bytes) -> None:
        """See RaftLink."""
        self.world.checker.check_frame(self.directory_id, self.node_id, peer, frame)
        self.world.network.send(self.node_id, peer, frame)

    def reach(self, peers: Sequence[int], endpoints: Endpoints) -> None:
        """See RaftLink: here all nodes are connected."""
        if self._presence is not None:
            self._presence.on_voters_changed()

    def connected(self, peer: int) -> None:
        """See Endpoint."""
        assert self.log is not None
        self.log.node.connected(peer)

    def disconnected(self, peer: int) -> None:
        """See Endpoint."""
        assert self.log is not None
        self.log.node.disconnected(peer)

    def refused(self, peer: int) -> None:
        """See Endpoint."""
        assert self.log is not None
        self.log.node.refused(peer)

    def receive(self, peer: int, frame: bytes) -> None:
        """See Endpoint."""
        assert self.log is not None
        self.log.node.receive(peer, frame)

    def reset(self, peer: int) -> None:
        """See RaftLink."""
        self.world.network.reset(self.node_id, peer)

    # MetadataLogListener and SnapshotSource.

    def on_batch_applied(self, base_offset: int, epoch: int, timestamp_ms: int, batch: bytes) -> None:
        """See MetadataLogListener."""
        known = self.world.checker.apply(self.node_id, self.high_watermark, base_offset, epoch, batch)
        self.state = next_state(self.state, batch)
        if self.state != known:
            raise Violation(
                "StateIsReplay", f"node {self.node_id}: the state behind offset {base_offset} is not the replay's"
            )
        self.high_watermark = parse_header(batch).next_offset

    def on_snapshot_loaded(self, snapshot: SnapshotView) -> None:
        """See MetadataLogListener."""
        state = b"".join(snapshot.chunks())[:16]
        end_offset = snapshot.snapshot_id.end_offset
        if end_offset < self.high_watermark:
            raise Violation(
                "MonotonicHighWatermark",
                f"node {self.node_id} goes back from {self.high_watermark} to snapshot {end_offset}",
            )
        own, self.own_snapshot = self.own_snapshot, 0
        if (
            self.log is not None
            and self.log.node.replica.core.is_leader()
            and (self.log.is_active() or end_offset != own)
        ):
            raise Violation("LeaderLoadsNoSnapshot", f"node {self.node_id} loads a snapshot as leader")
        self.world.checker.load(self.node_id, end_offset, state)
        self.high_watermark, self.state = end_offset, state

    def on_leader_changed(self, leader_id: int | None, epoch: int) -> None:
        """See MetadataLogListener."""
        if leader_id == self.node_id:
            self.world.tell(f"node {self.node_id} leads term {epoch}")
            self.world.checker.leads(self.node_id, self.directory_id, epoch)

    def on_active(self, epoch: int) -> None:
        """See MetadataLogListener."""
        self.world.checker.active(self.node_id, self.high_watermark)
        self.world.active_count += 1

    def on_inactive(self) -> None:
        """See MetadataLogListener."""

    def capture(self) -> SnapshotContent:
        """See SnapshotSource. Padded, so that a transfer takes several pieces."""
        return SnapshotContent(chunks=iter((self.state, bytes(300), bytes(300))))
