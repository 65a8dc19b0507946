"""Faults for a simulated quorum, drawn from the seed; and `run_seed`, a whole run."""

import errno
import random

from kvorum.chaos.sim.quorum import QuorumWorld
from kvorum.chaos.sim.quorum_options import Options
from kvorum.chaos.sim.quorum_voter import SimVoter


class Faults:
    """Injects a fault now and then. Each has its repair; the mixture differs from seed to seed."""

    def __init__(self, world: QuorumWorld) -> None:
        """Draw the mixture."""
        self._world = world
        self._rng = random.Random(world.rng.getrandbits(64))
        kinds = [self._kill, self._kill, self._pause, self._cut, self._cut, self._isolate, self._reset, self._resign]
        kinds += [self._kill_all, self._disk_error]
        if world.options.wipes and world.options.voters > 1:
            kinds.append(self._wipe)
        self._kinds = self._rng.sample(kinds, self._rng.randint(3, len(kinds)))

    def schedule(self) -> None:
        """Inject the next one in a while."""
        pause = self._world.options.fault_every_s * (0.2 + 1.6 * self._rng.random())
        self._world.loop.call_later(pause, self._next)

    def _next(self) -> None:
        if self._world.healing:
            return
        self._repair()
        if self._rng.random() < 0.75:
            fault = self._rng.choice(self._kinds)
            voter = self._world.voters[self._rng.choice(self._world.ids)]
            fault(voter)
        self.schedule()

    def _repair(self) -> None:
        world, rng = self._world, self._rng
        for voter in world.voters.values():
            if voter.host.alive and voter.fatal is not None:
                voter.kill()
            if not voter.host.alive and rng.random() < 0.6:
                voter.start()
            elif voter.host.paused and rng.random() < 0.6:
                world.loop.resume(voter.host)
        if rng.random() < 0.4:
            world.network.heal_all()

    def _is_running(self, voter: SimVoter) -> bool:
        return voter.host.alive and voter.log is not None

    def _kill(self, voter: SimVoter) -> None:
        if self._is_running(voter):
            self._world.count("kill")
            voter.kill()

    def _kill_all(self, _: SimVoter) -> None:
        self._world.count("kill all")
        for voter in self._world.voters.values():
            if self._is_running(voter):
                voter.kill()

    def _pause(self, voter: SimVoter) -> None:
        if self._is_running(voter):
            self._world.count("pause")
            voter.host.paused = True

    def _cut(self, voter: SimVoter) -> None:
        if self._world.options.voters == 1:
            return
        self._world.count("cut")
        other = self._rng.choice([node_id for node_id in self._world.ids if node_id != voter.node_id])
        self._world.network.cut(voter.node_id, other)
        if self._rng.random() < 0.5:
            self._world.network.cut(other, voter.node_id)

    def _isolate(self, voter: SimVoter) -> None:
        self._world.count("isolate")
        ways = self._rng.choice(((True, True), (True, False), (False, True)))
        for other in self._world.ids:
            if other != voter.node_id:
                if ways[0]:
                    self._world.network.cut(voter.node_id, other)
                if ways[1]:
                    self._world.network.cut(other, voter.node_id)

    def _reset(self, voter: SimVoter) -> None:
        self._world.count("reset")
        self._world.network.reset(voter.node_id, self._rng.choice(self._world.ids))

    def _resign(self, _: SimVoter) -> None:
        for voter in self._world.voters.values():
            if voter.log is not None and not voter.host.paused and voter.log.is_active():
                self._world.count("resign")
                self._world.call(voter, voter.log.resign)

    def _disk_error(self, voter: SimVoter) -> None:
        if self._is_running(voter):
            self._world.count("disk error")
            voter.disk.fail(self._rng.choice(("sync", "pwrite")), self._rng.choice((errno.EIO, errno.ENOSPC)))

    def _wipe(self, voter: SimVoter) -> None:
        """Lose one voter's disk: only when all know the last one that did as a voter again."""
        world = self._world
        present = {node_id: other.directory_id for node_id, other in world.voters.items()}
        for other in world.voters.values():
            if other is not voter and (other.log is None or other.log.node.replica.voters.committed != present):
                return
        world.count("wipe")
        if self._is_running(voter):
            voter.kill()
        elif voter.host.alive:
            return
        voter.disk.remove_tree("/node")
        voter.format(None, world.rng.randbytes(16))


def run_seed(seed: int, **fixed: object) -> QuorumWorld:
    """Run one seed to its end; return the world for its counts. Raises what does not hold, with the seed in a note."""
    world = QuorumWorld(seed, None, **fixed)
    try:
        world.boot()
        Faults(world).schedule()
        world.loop.run_for(world.options.duration_s)
        world.check_errors()
        world.heal()
    except BaseException as error:
        error.add_note(f"seed {seed}, at {world.loop.time():.4f}, options {world.options}")
        raise
    finally:
        world.loop.close()
    return world


__all__ = ["Faults", "Options", "run_seed"]
