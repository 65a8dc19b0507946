"""Faults for a simulated quorum: drawn from the seed as it runs, or carried out from a plan; and a whole run."""

import errno
import random
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from typing import Final

from kvorum.protocol.errors import KafkaError
from kvorum.quorum.raft.replicated import RaftMetadataLog
from kvorum.runtime import logs
from sim.loop import START_S
from sim.quorum import QuorumSimulation
from sim.quorum_options import Options
from sim.quorum_plan import QuorumFault, QuorumPlan, plan_of
from sim.quorum_voter import SimVoter

BOTH: Final = "both"
IN: Final = "in"
OUT: Final = "out"
WAYS: Final = ((OUT, IN), (OUT,), (IN,))
UPGRADE_KILL_S: Final = 0.002
"""Delay between an upgrade request and the kill of its leader: about as long as the entry is in flight."""
ASKED_S: Final = 0.0005
"""Delay after which a change is in the leader's log, and hardly on any other node."""
Draw = Callable[[SimVoter], QuorumFault | None]


def is_running(voter: SimVoter) -> bool:
    """Whether a voter's process has its log open."""
    return voter.host.alive and voter.log is not None


class Actions:
    """Carries faults and repairs out, each where the voter's state allows it, and keeps those that were."""

    def __init__(self, world: QuorumSimulation) -> None:
        """Create it without faults."""
        self._world = world
        self.done: list[QuorumFault] = []

    def do(self, fault: QuorumFault) -> None:
        """Carry one out now, if it can be; repairs are not counted as faults."""
        self.done.append(fault)
        voter = self._world.voters.get(fault.node)
        if voter is None:
            done = self._to_all(fault)
        elif fault.kind in ("kill", "pause", "disk_error") and not is_running(voter):
            done = False
        else:
            done = self._to_one(fault, voter)
        if done:
            self._world.tell(fault.text())

    def _to_all(self, fault: QuorumFault) -> bool:
        world = self._world
        match fault.kind:
            case "heal":
                world.network.heal_all()
            case "upgrade":
                return self._upgrade(fault.detail)
            case "kill_all":
                world.count("kill all")
                for voter in world.voters.values():
                    if is_running(voter):
                        voter.kill()
            case "resign":
                for voter in world.voters.values():
                    if voter.log is not None and not voter.host.paused and voter.log.is_active():
                        world.count("resign")
                        world.call(voter, voter.log.resign)
            case _:
                raise AssertionError(f"{fault.kind} needs a node")
        return True

    def _to_one(self, fault: QuorumFault, voter: SimVoter) -> bool:
        world = self._world
        match fault.kind:
            case "kill":
                world.count("kill")
                voter.kill()
            case "end" if voter.host.alive and voter.fatal is not None:
                voter.kill()
            case "start" if not voter.host.alive:
                voter.start()
            case "resume" if voter.host.paused:
                world.loop.resume(voter.host)
            case "pause":
                world.count("pause")
                voter.host.paused = True
            case "disk_error":
                world.count("disk error")
                voter.disk.fail(fault.detail, fault.number)
            case "reset":
                world.count("reset")
                world.network.reset(voter.node_id, fault.other)
            case "cut":
                world.count("cut")
                self._cut(voter.node_id, fault.other, fault.ways)
            case "isolate":
                world.count("isolate")
                for other in world.ids:
                    if other != voter.node_id:
                        self._cut(voter.node_id, other, fault.ways)
            case "move":
                self._move(voter)
            case "wipe":
                return self._wipe(voter)
            case "change":
                return self._change([voter, world.voters.get(fault.other, voter)], fault.detail)
            case _:
                return False
        return True

    def _cut(self, node: int, other: int, ways: str) -> None:
        if ways in (OUT, BOTH):
            self._world.network.cut(node, other)
        if ways in (IN, BOTH):
            self._world.network.cut(other, node)

    def _wipe(self, voter: SimVoter) -> bool:
        """Lose one voter's disk: only when all know the last one that did as a voter again."""
        world = self._world
        if world.options.initial or world.options.static:
            if not self._may_lose(voter):
                return False
        elif not self._all_know_all(voter):
            return False
        world.count("wipe")
        if is_running(voter):
            voter.kill()
        elif voter.host.alive:
            return False
        voter.disk.remove_tree("/node")
        voter.format(None, world.rng.randbytes(16), static=self._draw_static_format(voter))
        return True

    def _draw_static_format(self, voter: SimVoter) -> bool | None:
        """Whether a lost voter of a quorum that is upgraded is formatted as before; not the only one that there was."""
        world = self._world
        if not (world.options.static and voter.is_static and world.checker.upgraded_index):
            return None
        return world.rng.random() < 0.5 and world.options.static > 1

    def _all_know_all(self, voter: SimVoter) -> bool:
        world = self._world
        present = {node_id: other.directory_id for node_id, other in world.voters.items()}
        for other in world.voters.values():
            if other is not voter and (other.log is None or other.log.node.replica.voters.committed != present):
                return False
        return True

    def _may_lose(self, voter: SimVoter) -> bool:
        """Whether a dynamic quorum bears this loss: no change is under way, and a majority keeps its directories."""
        world = self._world
        logs = [other.log for other in world.voters.values()]
        sets = [log.node.replica.voters for log in logs if log is not None]
        if len(sets) < len(logs) or any(found.pending or found.committed != sets[0].committed for found in sets):
            return False
        members = sets[0].committed
        if members is None or len({bool(found.endpoints) for found in sets}) > 1:
            return False  # only those formatted as voters have an identity
        if voter.node_id not in members:
            return True
        return len(members) >= 3 and not self._lost_voters(members)

    def _lost_voters(self, members: dict[int, bytes]) -> list[int]:
        """Return the voters whose directories are lost."""
        return [node_id for node_id in members if self._world.voters[node_id].directory_id != members[node_id]]

    def _change(self, targets: list[SimVoter], then: str) -> bool:
        """Make the leader remove each voter of the two and add each observer; the second request is often too early.

        `then`: an observer moves before it knows of its addition. A set without a majority of directories would be an
        operator's mistake: it is not requested.
        """
        world, leader = self._world, self._leader()
        if leader is None:
            return False
        host = world.voters[leader.node_id]
        for target in dict.fromkeys(targets):
            members = leader.node.replica.voters.in_force
            lost = self._lost_voters(members)
            if target.node_id in members and lost not in ([], [target.node_id]):
                continue
            world.call(host, partial(self._ask, leader, target))
            if then == "move" and target.node_id not in members:
                world.loop.call_later(ASKED_S, self._move, target)
        return True

    def _move(self, voter: SimVoter) -> None:
        """Give a controller another address at its next start."""
        self._world.count("move")
        voter.moves += 1
        self._kill(voter)

    def _leader(self) -> RaftMetadataLog | None:
        logs = [each.log for each in self._world.voters.values() if is_running(each) and not each.host.paused]
        return next((log for log in logs if log is not None and log.is_active()), None)

    def _upgrade(self, then: str) -> bool:
        """Make the leader upgrade the quorum to a dynamic one; it may be cut off before, or killed soon after."""
        leader = self._leader()
        if leader is None or leader.node.replica.voters.dynamic:
            return False
        world, host = self._world, self._world.voters[leader.node_id]
        if then == "cut":
            for other in world.ids:
                if other != leader.node_id:
                    self._cut(leader.node_id, other, OUT)
        world.call(host, partial(self._ask_upgrade, leader))
        if then == "kill":
            world.loop.call_later(UPGRADE_KILL_S, self._kill, host)
        return True

    def _kill(self, voter: SimVoter) -> None:
        if is_running(voter):
            voter.kill()

    def _ask_upgrade(self, leader: RaftMetadataLog) -> None:
        try:
            leader.membership.upgrade()
        except KafkaError as error:
            self._world.count(f"refused {error.code.name}")
        else:
            self._world.count("upgrade")
            self._world.tell(f"node {leader.node_id} upgrades the quorum")

    def _ask(self, leader: RaftMetadataLog, target: SimVoter) -> None:
        members, where = leader.node.replica.voters.in_force, [target.listens_at]
        known = members.get(target.node_id)
        try:
            if known is not None:
                leader.membership.remove(target.node_id, known)
            else:
                leader.membership.add(target.node_id, target.directory_id, where)
        except KafkaError as error:
            self._world.count(f"refused {error.code.name}")
        else:
            self._world.count("remove a voter" if known is not None else "add a voter")
            self._world.tell(f"node {leader.node_id} makes the voters {sorted(leader.node.replica.voters.in_force)}")


class Faults:
    """Injects a fault now and then. Each has its repair; the mixture differs from seed to seed."""

    def __init__(self, world: QuorumSimulation) -> None:
        """Draw the mixture of faults."""
        self._world = world
        self._rng = random.Random(world.rng.getrandbits(64))
        self.actions = Actions(world)
        kinds: list[Draw] = [
            *(self._simple("kill"), self._simple("kill"), self._simple("pause"), self._cut, self._cut),
            *(self._isolate, self._reset, self._to_all("resign"), self._to_all("kill_all"), self._disk_error),
        ]
        if world.options.wipes and world.options.voters > 1:
            kinds.append(self._simple("wipe"))
        self._kinds = self._rng.sample(kinds, self._rng.randint(3, len(kinds)))
        if world.options.static:
            self._kinds += [self._upgrade] * (len(self._kinds) // 3)
        if world.options.initial or world.options.static:
            self._kinds += [self._change] * len(self._kinds)
        if world.options.moves:
            self._kinds += [self._simple("move")] * (len(self._kinds) // 4)

    def schedule(self) -> None:
        """Inject the next one in a while."""
        pause = self._world.options.fault_every_s * (0.2 + 1.6 * self._rng.random())
        self._world.loop.call_later(pause, self._next)

    def replay(self, faults: Sequence[QuorumFault]) -> None:
        """Execute a list instead, each at its time; faults of one time stay together."""
        for at, together in groupby(faults, key=lambda fault: fault.at):
            self._world.loop.call_at(START_S + at, self._again, list(together))

    def _again(self, faults: list[QuorumFault]) -> None:
        for fault in faults if not self._world.healing else ():
            self.actions.do(fault)

    def _next(self) -> None:
        if self._world.healing:
            return
        self._repair()
        if self._rng.random() < 0.75:
            draw = self._rng.choice(self._kinds)
            fault = draw(self._world.voters[self._rng.choice(self._world.ids)])
            if fault is not None:
                self.actions.do(fault)
        self.schedule()

    def _repair(self) -> None:
        world, rng = self._world, self._rng
        for voter in world.voters.values():
            if voter.host.alive and voter.fatal is not None:
                self.actions.do(self._fault("end", voter))
            if not voter.host.alive and rng.random() < 0.6:
                self.actions.do(self._fault("start", voter))
            elif voter.host.paused and rng.random() < 0.6:
                self.actions.do(self._fault("resume", voter))
        if rng.random() < 0.4:
            self.actions.do(self._fault("heal"))

    # Draws.

    def _fault(self, kind: str, voter: SimVoter | None = None, **rest: object) -> QuorumFault:
        node = 0 if voter is None else voter.node_id
        return QuorumFault(at=self._world.now(), kind=kind, node=node, **rest)  # type: ignore[arg-type]  # by name

    def _simple(self, kind: str) -> Draw:
        return lambda voter: self._fault(kind, voter)

    def _to_all(self, kind: str) -> Draw:
        return lambda _: self._fault(kind)

    def _cut(self, voter: SimVoter) -> QuorumFault | None:
        if self._world.options.voters == 1:
            return None
        other = self._rng.choice([node_id for node_id in self._world.ids if node_id != voter.node_id])
        return self._fault("cut", voter, other=other, ways=BOTH if self._rng.random() < 0.5 else OUT)

    def _isolate(self, voter: SimVoter) -> QuorumFault:
        ways = self._rng.choice(WAYS)
        return self._fault("isolate", voter, ways=BOTH if len(ways) == 2 else ways[0])

    def _change(self, voter: SimVoter) -> QuorumFault:
        moves = self._world.options.moves and self._rng.random() < 0.5
        return self._fault("change", voter, other=self._rng.choice(self._world.ids), detail="move" if moves else "")

    def _upgrade(self, _: SimVoter) -> QuorumFault:
        return self._fault("upgrade", detail=self._rng.choice(("", "", "cut", "kill")))

    def _reset(self, voter: SimVoter) -> QuorumFault:
        return self._fault("reset", voter, other=self._rng.choice(self._world.ids))

    def _disk_error(self, voter: SimVoter) -> QuorumFault | None:
        if not is_running(voter):
            return None
        detail = self._rng.choice(("sync", "pwrite"))
        return self._fault("disk_error", voter, detail=detail, number=self._rng.choice((errno.EIO, errno.ENOSPC)))


class QuorumRun:
    """One run, of a seed or of a plan; `plan` is the executed plan, also after a failure."""

    def __init__(self, world: QuorumSimulation, faults: Sequence[QuorumFault] | None = None) -> None:
        """Prepare a world; `faults` are carried out instead of drawn ones."""
        self.world = world
        self._plan = faults
        self._faults: Faults | None = None

    @classmethod
    def of_plan(cls, plan: QuorumPlan, log_class: type[RaftMetadataLog] = RaftMetadataLog) -> "QuorumRun":
        """Prepare to do a plan again."""
        return cls(QuorumSimulation(plan.seed, plan.run_options(log_class)), plan.faults)

    @property
    def plan(self) -> QuorumPlan:
        """Return the faults so far as a plan."""
        done = () if self._faults is None else self._faults.actions.done
        return plan_of(self.world.seed, self.world.options, done)

    def run(self) -> None:
        """Run to the end. Raises the violation, with the seed in a note."""
        world = self.world
        with logs.observe_unexpected(lambda where, error: world.loop.errors.append({"exception": error})):
            self._run(world)

    def _run(self, world: QuorumSimulation) -> None:
        try:
            world.boot()
            faults = self._faults = Faults(world)
            if self._plan is None:
                faults.schedule()
            else:
                faults.replay(self._plan)
            world.loop.run_for(world.options.duration_s)
            world.check_errors()
            world.heal()
        except BaseException as error:
            error.add_note(f"seed {world.seed}, at {world.loop.time():.4f}, options {world.options}")
            raise
        finally:
            world.loop.close()


def run_seed(seed: int, **fixed: object) -> QuorumSimulation:
    """Run one seed to its end; return the world with its counts. Raises the violation, with the seed in a note."""
    run = QuorumRun(QuorumSimulation(seed, None, **fixed))
    run.run()
    return run.world


__all__ = ["Actions", "Faults", "Options", "QuorumRun", "run_seed"]
