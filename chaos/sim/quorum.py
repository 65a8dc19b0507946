"""A metadata quorum under simulation: 1, 3 or 5 voters of the production classes, clients, faults, one seed a run.

    first      boot (directories known at format, or agreed on: by seed)
    faults     every half second or so: kill with a lossy disk, pause, cut (one way, both ways, a whole node), reset,
               wipe, handing over of leadership, I/O errors; and the repair of each
    heal       everything up and connected, and the quorum must come to rest: one active leader, all nodes equal

`run_seed(seed)` raises Violation (or any failed assertion) if something does not hold; the same seed does the same
again.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TypeVar

from kvorum.chaos.sim.clock import SimClock
from kvorum.chaos.sim.disk import PowerLost, SimDisk
from kvorum.chaos.sim.loop import Host, SimLoop
from kvorum.chaos.sim.network import FrameNetwork, NetworkOptions
from kvorum.chaos.sim.quorum_checker import EMPTY_STATE, Checker, Violation, next_state
from kvorum.protocol.records import Record, build_batch, parse_header
from kvorum.quorum.raft.journal import DurableJournal
from kvorum.quorum.raft.log import MetadataLogError, SnapshotContent, SnapshotView
from kvorum.quorum.raft.opening import format_raft, open_raft
from kvorum.quorum.raft.replicated import RaftMetadataLog
from kvorum.quorum.raft.settings import RaftSettings

T = TypeVar("T")
PATH = "/node/raft"
SEGMENT_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a run is made of; `drawn` draws it from the seed."""

    voters: int = 3
    duration_s: float = 12.0
    known_directories: bool = True
    wipes: bool = True
    network: NetworkOptions = field(default_factory=NetworkOptions)
    append_every_s: float = 0.02
    fault_every_s: float = 0.5
    settings: RaftSettings = field(default_factory=RaftSettings)
    log_class: type[RaftMetadataLog] = RaftMetadataLog

    @classmethod
    def drawn(cls, rng: random.Random, **fixed: object) -> "Options":
        """Draw what is not fixed: swarm testing, each seed with its own mixture; `snapshots=False`: none."""
        snapshots = fixed.pop("snapshots", True)
        wild = rng.random() < 0.35
        network = NetworkOptions(
            delay_max_s=rng.choice((0.001, 0.003, 0.03)),
            slow=rng.choice((0.0, 0.01, 0.1)),
            loss=rng.choice((0.0, 0.02)) if wild else 0.0,
            duplicate=rng.choice((0.0, 0.05)) if wild else 0.0,
            reorder=rng.choice((0.02, 0.2)) if wild else 0.0,
        )
        settings = RaftSettings(
            election_timeout_min_s=0.3,
            election_timeout_max_s=0.6,
            heartbeat_s=0.09,
            check_quorum_timeout_s=0.5,
            append_bytes=rng.choice((200, 2000, 1 << 20)),
            window_count=rng.choice((2, 64)),
            chunk_bytes=rng.choice((64, 1024)),
            apply_slice=rng.choice((1, 256)),
            snapshot_bytes=rng.choice((1500, 6000, 1 << 30)) if snapshots else 1 << 40,
            retained_entries=rng.choice((0, 5, 50)),
            segment_bytes=SEGMENT_BYTES,
        )
        values: dict[str, object] = {
            "voters": rng.choice((1, 3, 3, 3, 3, 5)),
            "known_directories": rng.random() < 0.5,
            "wipes": rng.random() < 0.6,
            "network": network,
            "append_every_s": rng.choice((0.01, 0.03)),
            "fault_every_s": rng.choice((0.3, 0.6, 1.5)),
            "settings": settings,
        }
        return cls(**{**values, **fixed})  # type: ignore[arg-type]  # a mapping by name


class SimVoter:
    """One controller: its disk stays, its process comes and goes."""

    def __init__(self, world: "QuorumWorld", node_id: int) -> None:
        """Create it with an empty disk; `format` and `start` follow."""
        self.world = world
        self.node_id = node_id
        self.disk = SimDisk(random.Random(world.rng.getrandbits(64)))
        self.host = Host(f"controller-{node_id}")
        self.host.alive = False
        self.log: RaftMetadataLog | None = None
        self.directory_id = b""
        self.journals: dict[bytes, DurableJournal] = {}
        """The newest journal of each directory this voter ever had: a dead one's counts, too."""
        self.high_watermark = 0
        self.state = EMPTY_STATE
        self.seen_term = 0
        self.seen_commit = 0
        self.seen_match: dict[int, int] = {}
        self.fatal: BaseException | None = None

    def format(self, directories: dict[int, bytes] | None, directory_id: bytes) -> None:
        """Format an empty disk."""
        self.directory_id = directory_id
        self.disk.mkdir("/node")
        self.disk.sync_dir("")
        format_raft(
            self.disk,
            PATH,
            cluster_id="sim",
            node_id=self.node_id,
            directory_id=directory_id,
            voter_ids=self.world.ids,
            directories=directories,
            segment_bytes=SEGMENT_BYTES,
        )

    def start(self) -> None:
        """Start a process."""
        assert not self.host.alive
        world = self.world
        self.host = Host(self.host.name)
        self.fatal = None
        self.high_watermark, self.state, self.seen_term, self.seen_commit = 0, EMPTY_STATE, 0, 0
        world.loop.call_at_host(self.host, world.loop.time(), self._run)

    def _run(self) -> None:
        world = self.world
        opened = open_raft(self.disk, PATH, segment_bytes=SEGMENT_BYTES)
        self.journals[self.directory_id] = opened.journal
        self.log = world.options.log_class(
            opened,
            link=self,
            settings=world.options.settings,
            clock=SimClock(world.loop),
            rng=random.Random(world.rng.getrandbits(64)),
            on_fatal=self._on_fatal,
        )
        self.log.add_listener(self)
        self.log.set_snapshot_source(self)
        self.log.start()
        world.network.attach(self.node_id, self)
        world.network.dial_all(self.node_id, self.log.node.peer_ids)

    def _on_fatal(self, error: BaseException) -> None:
        self.fatal = error
        if not isinstance(error, OSError):
            raise error

    def kill(self) -> None:
        """Lose power: whatever was being written is cut short somewhere."""
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
                except (PowerLost, OSError):
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
        self.world.checker.sent(self.directory_id, self.node_id, peer, frame)
        self.world.network.send(self.node_id, peer, frame)

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
        known = self.world.checker.applied(self.node_id, self.high_watermark, base_offset, epoch, batch)
        self.state = next_state(self.state, batch)
        if self.state != known:
            raise Violation(f"node {self.node_id}: the state behind offset {base_offset} is not the replay's")
        self.high_watermark = parse_header(batch).next_offset

    def on_snapshot_loaded(self, snapshot: SnapshotView) -> None:
        """See MetadataLogListener."""
        state = b"".join(snapshot.chunks())[:16]
        end_offset = snapshot.snapshot_id.end_offset
        if end_offset < self.high_watermark:
            raise Violation(f"node {self.node_id} goes back from {self.high_watermark} to snapshot {end_offset}")
        if self.log is not None and self.log.node.replica.core.is_leader():
            raise Violation(f"node {self.node_id} loads a snapshot as leader")
        self.world.checker.loaded(self.node_id, end_offset, state)
        self.high_watermark, self.state = end_offset, state

    def on_leader_changed(self, leader_id: int | None, epoch: int) -> None:
        """See MetadataLogListener."""
        if leader_id == self.node_id:
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


class QuorumWorld:
    """One run."""

    def __init__(self, seed: int, options: Options | None = None, **fixed: object) -> None:
        """Build everything from the seed; `options`, or parts of them, may be fixed."""
        self.seed = seed
        self.rng = random.Random(seed)
        self.options = options or Options.drawn(self.rng, **fixed)
        self.loop = SimLoop(random.Random(self.rng.getrandbits(64)))
        self.network = FrameNetwork(self.loop, random.Random(self.rng.getrandbits(64)), self.options.network)
        self.checker = Checker()
        self.ids = list(range(1, self.options.voters + 1))
        self.voters = {node_id: SimVoter(self, node_id) for node_id in self.ids}
        self.active_count = 0
        self.appended = 0
        self.acked = 0
        self.reads = 0
        self.faults: dict[str, int] = {}
        self.quiet = False
        self.healing = False
        self._by_host: dict[str, SimVoter] = {voter.host.name: voter for voter in self.voters.values()}
        self.loop.after_event = self._after_event

    # Invariants.

    def _after_event(self, host: Host) -> None:
        if self.loop.errors:
            self.check_errors()
        voter = self._by_host[host.name]
        log = voter.log
        if log is None or voter.host is not host or log.node.halted:
            return
        core = log.node.replica.core
        term, commit = core.term(), core.commit_index()
        if term < voter.seen_term:
            raise Violation(f"node {voter.node_id}: term {voter.seen_term} went back to {term}")
        if commit < voter.seen_commit:
            raise Violation(f"node {voter.node_id}: commit index {voter.seen_commit} went back to {commit}")
        if commit > voter.seen_commit and core.is_leader():
            log_term = log.node.replica.journal.term_at(commit)
            assert log_term is not None
            agreed = log.node.replica.voters.pins()
            full = {node_id: agreed.get(node_id, b"?") for node_id in self.ids}
            self.checker.committed(commit, log_term, self.voters.values(), full)
        voter.seen_term, voter.seen_commit = term, commit
        if core.is_leader():
            self._check_matches(voter, log, term)

    def _check_matches(self, voter: SimVoter, log: RaftMetadataLog, term: int) -> None:
        """Hold what a leader believes of its peers against their disks, where it has changed."""
        present = log.node.replica.voters.present
        for peer in log.node.leader.peers.values():
            index = peer.match_index
            if index and voter.seen_match.get(peer.node_id) != index:
                voter.seen_match[peer.node_id] = index
                journal = self.voters[peer.node_id].journals.get(present.get(peer.node_id, b""))
                index_term = log.node.replica.journal.term_at(index)
                if journal is not None and index_term is not None:
                    self.checker.believed(voter.node_id, term, peer.node_id, index, index_term, journal)

    # Clients.

    def _client(self) -> None:
        voter = self.voters[self.rng.choice(self.ids)]
        if voter.host.alive and not voter.host.paused and voter.log is not None:
            self.loop.host = voter.host
            if self.rng.random() < 0.15:
                self._read(voter.log)
            else:
                for _ in range(self.rng.choice((1, 1, 4))):
                    self._append(voter.log)
            self.loop.host = None
        if not self.quiet:
            self.loop.call_later(self.options.append_every_s * (0.5 + self.rng.random()), self._client)

    def _append(self, log: RaftMetadataLog) -> None:
        self.appended += 1
        value = b"%d" % self.appended + bytes(self.rng.choice((10, 100, 400)))
        records = [Record(value=value, timestamp=self.appended)] * self.rng.choice((1, 1, 3))
        offset = log.log_end_offset + (1 if self.rng.random() < 0.02 else 0)
        epoch = log.epoch
        batch = build_batch(records)
        future = log.append(batch, offset, epoch)
        stamped = bytearray(batch)
        stamped[0:8], stamped[12:16] = offset.to_bytes(8, "big"), epoch.to_bytes(4, "big")
        digest = blake2b(stamped, digest_size=16).digest()

        def done(result: object) -> None:
            if future.exception() is None:
                assert future.result() == offset
                self.acked += 1
                self.checker.acked(offset, offset + len(records), digest)
            elif not isinstance(future.exception(), MetadataLogError):
                raise AssertionError("an append failed with no MetadataLogError") from future.exception()

        future.add_done_callback(done)

    def _read(self, log: RaftMetadataLog) -> None:
        before = self.checker.acknowledged_end
        future = log.read_index()

        def done(result: object) -> None:
            if future.exception() is None:
                self.reads += 1
                self.checker.read(future.result(), before)

        future.add_done_callback(done)

    # Running.

    def boot(self, *, load: bool = True) -> None:
        """Format and start all voters, and begin the load."""
        directories = {node_id: self.rng.randbytes(16) for node_id in self.ids}
        known = directories if self.options.known_directories else None
        for voter in self.voters.values():
            voter.format(known, directories[voter.node_id])
            voter.start()
        if load:
            self.loop.call_later(0.0, self._client)

    def leader(self, *, limit_s: float = 10.0) -> SimVoter:
        """Run until a leader is active, and return it (the one of the latest term)."""

        def active() -> list[SimVoter]:
            voters = [voter for voter in self.voters.values() if voter.host.alive and not voter.host.paused]
            return [voter for voter in voters if voter.log is not None and voter.log.is_active()]

        if not self.loop.run_until(lambda: bool(active()), limit_s=limit_s):
            raise Violation(f"no leader within {limit_s} s")
        return max(active(), key=lambda voter: voter.log.epoch if voter.log else 0)

    def do(self, voter: SimVoter, action: Callable[[RaftMetadataLog], T]) -> T:
        """Do something in the voter's process, now."""
        assert voter.log is not None
        self.loop._enter()
        self.loop.host = voter.host
        try:
            return action(voter.log)
        finally:
            self.loop.host = None
            self.loop._leave()

    def check_errors(self) -> None:
        """Raise what a callback raised, and what ended a node for no fault of its disk."""
        for context in self.loop.errors:
            raise context["exception"]

    def is_at_rest(self) -> bool:
        """Whether one leader is active and every node has applied the same, with all voters counting."""
        logs = [voter.log for voter in self.voters.values()]
        active = [log for log in logs if log is not None and log.is_active()]
        if len(active) != 1 or any(log is None for log in logs):
            return False
        ends = {voter.high_watermark for voter in self.voters.values()}
        counted = all(active[0].node.replica.voters.counts(peer) for peer in active[0].node.peer_ids)
        return len(ends) == 1 and counted and active[0].log_end_offset == active[0].high_watermark

    def heal(self, *, limit_s: float = 20.0) -> None:
        """Repair everything, end the load, and demand that the quorum comes to rest and still works."""
        self.healing = True
        self.network.heal_all()
        self.network.options = NetworkOptions()
        for voter in self.voters.values():
            voter.disk.repair()
            if voter.host.alive and voter.host.paused:
                self.loop.resume(voter.host)
            if voter.host.alive and voter.fatal is not None:
                voter.kill()
            if not voter.host.alive:
                voter.start()
        self.loop.run_for(2.0)
        self.quiet = True
        if not self.loop.run_until(self.is_at_rest, limit_s=limit_s):
            raise Violation(f"did not come to rest within {limit_s} s")
        self.check_errors()
        (leader,) = [voter for voter in self.voters.values() if voter.log is not None and voter.log.is_active()]
        batch = build_batch([Record(value=b"last", timestamp=1)])
        future = self.do(leader, lambda log: log.append(batch, log.log_end_offset, log.epoch))
        if not self.loop.run_until(lambda: future.done() and self.is_at_rest(), limit_s=5.0):
            raise Violation("an append after healing does not get through")
        future.result()
        self.checker.final()

    def count(self, fault: str) -> None:
        """Count an injected fault."""
        self.faults[fault] = self.faults.get(fault, 0) + 1

    def call(self, voter: SimVoter, action: Callable[[], object]) -> None:
        """Run something as if a callback of the voter's process did."""
        self.loop.call_at_host(voter.host, self.loop.time(), action)
