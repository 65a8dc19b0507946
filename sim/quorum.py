"""A metadata quorum under simulation: 1, 3 or 5 voters of the production classes, clients, faults, one seed per run.

    first      boot (directories known at format, or agreed on: by seed)
    faults     about every half second: kill with a lossy disk, pause, cut (one way, both ways, a whole node), reset,
               wipe, leadership transfer, I/O errors; and the repair of each
    heal       all nodes up and connected; the quorum must converge: one active leader, all nodes equal

`run_seed(seed)` raises Violation (or any failed assertion) if an invariant breaks; the same seed repeats the run.
"""

import random
from collections.abc import Callable
from hashlib import blake2b
from typing import TypeVar

from kvorum.protocol.records import Record, build_batch
from kvorum.quorum.raft.log import MetadataLogError
from kvorum.quorum.raft.replicated import RaftMetadataLog
from sim.ledger import Violation
from sim.loop import START_S, Host, SimLoop
from sim.network import FrameNetwork, NetworkOptions
from sim.quorum_checker import Checker
from sim.quorum_options import Options
from sim.quorum_presences import ControllerView, unknown_addresses
from sim.quorum_voter import SimVoter

T = TypeVar("T")


class QuorumSimulation:
    """One run."""

    def __init__(self, seed: int, options: Options | None = None, **fixed: object) -> None:
        """Create everything from the seed; `options`, or parts of them, may be fixed.

        They are drawn nevertheless, so that other drawn values do not depend on them.
        """
        self.seed = seed
        self.rng = random.Random(seed)
        drawn = Options.draw(self.rng, **fixed)
        self.options = options or drawn
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
        self.lines: list[tuple[float, str]] = []
        """The faults and the quorum's events, in words."""
        self.quiet = False
        self.healing = False
        self._by_host: dict[str, SimVoter] = {voter.host.name: voter for voter in self.voters.values()}
        self.loop.after_event = self._after_event

    @property
    def controllers(self) -> list[ControllerView]:
        """All of them."""
        return list(self.voters.values())

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
            raise Violation("MonotonicEpoch", f"node {voter.node_id}: term {voter.seen_term} went back to {term}")
        if commit < voter.seen_commit:
            raise Violation(
                "MonotonicHighWatermark",
                f"node {voter.node_id}: commit index {voter.seen_commit} went back to {commit}",
            )
        if commit > voter.seen_commit and core.is_leader():
            log_term = log.node.replica.journal.term_at(commit)
            assert log_term is not None
            self.checker.check_commit(commit, log_term, self.voters.values(), self._voters_in_force(log))
        voter.seen_term, voter.seen_commit = term, commit
        if core.is_leader():
            self._check_matches(voter, log, term)
        self.checker.check_voter_sets(voter.node_id, log.node.replica.voters, commit)
        if self.options.static:
            self.checker.check_upgrade(voter.node_id, log.node.replica.voters, commit, core.last_applied())

    def _voters_in_force(self, log: RaftMetadataLog) -> dict[int, bytes]:
        """Return whose majority commits, as the leader sees it."""
        voters = log.node.replica.voters
        if voters.dynamic:
            return dict(voters.in_force)
        agreed = voters.pins()
        return {node_id: agreed.get(node_id, b"?") for node_id in voters.ids}

    def _check_matches(self, voter: SimVoter, log: RaftMetadataLog, term: int) -> None:
        """Compare a leader's knowledge of its peers with their disks, after a change."""
        present = log.node.replica.voters.present
        for peer in log.node.leader.peers.values():
            index = peer.match_index
            if index and voter.seen_match.get(peer.node_id) != index:
                voter.seen_match[peer.node_id] = index
                journal = self.voters[peer.node_id].journals.get(present.get(peer.node_id, b""))
                index_term = log.node.replica.journal.term_at(index)
                if journal is not None and index_term is not None:
                    self.checker.check_match_index(voter.node_id, term, peer.node_id, index, index_term, journal)

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

        def on_append(result: object) -> None:
            if future.exception() is None:
                assert future.result() == offset
                self.acked += 1
                self.checker.check_acknowledgement(offset, offset + len(records), digest)
            elif not isinstance(future.exception(), MetadataLogError):
                raise AssertionError("an append failed with no MetadataLogError") from future.exception()

        future.add_done_callback(on_append)

    def _read(self, log: RaftMetadataLog) -> None:
        before = self.checker.acknowledged_end
        future = log.read_index()

        def on_append(result: object) -> None:
            if future.exception() is None:
                self.reads += 1
                self.checker.read(future.result(), before)

        future.add_done_callback(on_append)

    # Running.

    def boot(self, *, load: bool = True) -> None:
        """Format and start all voters, and begin the load."""
        directories = {node_id: self.rng.randbytes(16) for node_id in self.ids}
        initial = set(self.ids[: self.options.initial])
        voting = self.ids[: self.options.static or None]
        known = {node_id: directories[node_id] for node_id in voting} if self.options.known_directories else None
        if initial:
            known = {node_id: directories[node_id] for node_id in sorted(initial)}
        for voter in self.voters.values():
            observes = bool(initial) and voter.node_id not in initial
            voter.format(None if observes else known, directories[voter.node_id])
            voter.start()
        if load:
            self.loop.call_later(0.0, self._client)

    def leader(self, *, limit_s: float = 10.0) -> SimVoter:
        """Run until a leader is active, and return it (the one of the latest term)."""

        def active() -> list[SimVoter]:
            voters = [voter for voter in self.voters.values() if voter.host.alive and not voter.host.paused]
            return [voter for voter in voters if voter.log is not None and voter.log.is_active()]

        if not self.loop.run_until(lambda: bool(active()), limit_s=limit_s):
            raise Violation("Convergence", f"no leader within {limit_s} s")
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
        """Raise errors of callbacks, unexpected errors of handlers, and the error of a node without a disk fault."""
        for context in self.loop.errors:
            raise context["exception"]

    def is_at_rest(self) -> bool:
        """Whether one leader is active and every node has applied the same, with all voters counting."""
        logs = [voter.log for voter in self.voters.values()]
        active = [log for log in logs if log is not None and log.is_active()]
        if len(active) != 1 or any(log is None for log in logs):
            return False
        ends = {voter.high_watermark for voter in self.voters.values()}
        dynamic = active[0].node.replica.voters.dynamic  # then a wiped voter is dead until an operator removes it
        counted = dynamic or all(active[0].node.replica.voters.counts(peer) for peer in active[0].node.peer_ids)
        if dynamic and self.options.moves and unknown_addresses(self.controllers, active[0]):
            return False
        return len(ends) == 1 and counted and active[0].log_end_offset == active[0].high_watermark

    def heal(self, *, limit_s: float = 20.0) -> None:
        """Repair everything, end the load, and check that the quorum settles and still works."""
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
            raise Violation("Convergence", f"did not settle within {limit_s} s")
        self.check_errors()
        (leader,) = [voter for voter in self.voters.values() if voter.log is not None and voter.log.is_active()]
        batch = build_batch([Record(value=b"last", timestamp=1)])
        future = self.do(leader, lambda log: log.append(batch, log.log_end_offset, log.epoch))
        if not self.loop.run_until(lambda: future.done() and self.is_at_rest(), limit_s=5.0):
            raise Violation("Convergence", "an append after healing does not get through")
        future.result()
        self.checker.final()

    def now(self) -> float:
        """Return virtual seconds since the begin."""
        return self.loop.time() - START_S

    def tell(self, text: str) -> None:
        """Note something for the reader of the story."""
        self.lines.append((self.now(), text))

    def count(self, fault: str) -> None:
        """Count an injected fault."""
        self.faults[fault] = self.faults.get(fault, 0) + 1

    def call(self, voter: SimVoter, action: Callable[[], object]) -> None:
        """Run something as if a callback of the voter's process did."""
        self.loop.call_at_host(voter.host, self.loop.time(), action)
