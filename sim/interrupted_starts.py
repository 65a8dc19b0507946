"""Starts of brokers that are interrupted at a step: drawn for a seed, and carried out.

    start_cut    `detail`: END INTERRUPTION. The broker ends (kill, terminate, power); it is started, and after `amount`
                 more operations on its disk the start is interrupted (terminate, kill, power). When the `length` is
                 over it is started again.

An operation (read, write, sync, rename) is the finest step of a start. The draw has its own random generator, so seeds
without it stay the same.
"""

from random import Random
from typing import Final, NamedTuple

from sim.cluster import SimCluster
from sim.fault_targets import Targets
from sim.link_faults import Story
from sim.machine import BROKER, ProcessEnd, SimProcess, State
from sim.plan import FOLLOWER, LEADER, LOSSY_KINDS, Fault, Options
from sim.schedule_entries import add_entries

START_CUT: Final = "start_cut"
SHARE: Final = 0.2
"""Share of seeds with interrupted starts."""
EVERY_S: Final = (2.0, 4.0, 8.0)
DOWN_S: Final = 0.2
STEPS_MAX: Final = 400
"""A start of a seed's broker has some hundred operations."""
TERMINATE: Final = "terminate"
POWER: Final = "power"
ENDS: Final = ("kill", POWER, TERMINATE)
INTERRUPTIONS: Final = (TERMINATE, TERMINATE, "kill", POWER)


class FaultDetail(NamedTuple):
    """The words of a fault's detail."""

    end: str
    interruption: str


def add_interrupted_starts(
    rng: Random, options: Options, faults: list[Fault], seconds: float, *, certain: bool = False
) -> tuple[Options, list[Fault]]:
    """Add interrupted starts to a seed (`certain`: always), or none."""
    if not certain and rng.random() >= SHARE:
        return options, faults

    kinds = [each for each in ENDS if each != POWER or LOSSY_KINDS & {*options.fault_kinds}]

    def draw_at(at: float) -> list[Fault]:
        partition = f"orders-{rng.randrange(options.partitions)}"
        target = rng.choice((str(rng.randint(1, options.brokers)), f"{LEADER}:{partition}", f"{FOLLOWER}1:{partition}"))
        detail = (
            f"{rng.choice(kinds)} {rng.choice([each for each in INTERRUPTIONS if each == TERMINATE or each in kinds])}"
        )
        steps, length = float(rng.randrange(STEPS_MAX)), round(0.5 + 1.5 * rng.random(), 3)
        return [Fault(at=round(at, 3), kind=START_CUT, target=target, amount=steps, length=length, detail=detail)]

    return add_entries(rng, options, faults, seconds, EVERY_S, draw_at)


def is_lossy(fault: Fault) -> bool:
    """Return whether it loses unsynced data."""
    return fault.kind == START_CUT and POWER in fault.detail


class StartFaults:
    """Interrupted starts of one run."""

    def __init__(self, cluster: SimCluster, targets: Targets) -> None:
        """Store the cluster and the finder of targets."""
        self._cluster = cluster
        self._targets = targets

    def cut(self, fault: Fault) -> Story | None:
        """End a broker, start it, interrupt the start."""
        machine = self._targets.machine(fault.target)
        process = None if machine is None or machine.dark else machine.processes.get(BROKER)
        if process is None or not process.is_running or process.host.paused:
            return None
        words, leads = FaultDetail(*fault.detail.split()), self._targets.leads(process.machine)
        lives, loop = process.lives, self._cluster.loop
        self._end(process, words.end)

        def start_again() -> None:
            if process.lives != lives or self._cluster.healing:
                return
            if process.state is State.STOPPING:
                self._end(process, "kill")
            process.disk.alarm = (
                int(fault.amount),
                lambda: self._interrupt(process, lives + 1, words.interruption),
            )
            process.start()

        loop.call_at_host(None, loop.time() + DOWN_S, start_again)

        def undo() -> None:
            process.disk.alarm = None
            if process.state is State.STOPPING:
                self._end(process, "kill")
            process.start()

        story = f"{process.name} ends ({words.end}){leads}; its start is interrupted ({words.interruption})"
        return story, [process.name], undo

    def _end(self, process: SimProcess, how: str) -> None:
        in_order = process.broker is not None and process.broker.not_ready() is None
        if how == TERMINATE and in_order and process.state is State.RUNNING:
            process.terminate()
        elif how == POWER:
            self._cluster.invariants.incarnations.record_power_loss(process.machine.node_id)
            process.lose_power()
        else:
            self._cluster.invariants.incarnations.record_kill(process.machine.node_id)
            process.kill()

    def _interrupt(self, process: SimProcess, life: int, how: str) -> None:
        """The start has reached its step, perhaps in a thread. Raises ProcessEnd if it ends there."""
        if process.lives != life or process.state is not State.RUNNING:
            return
        self._cluster.note(f"the start of {process.name} is interrupted ({how})")
        if how == TERMINATE:
            process.terminate()
            return
        self._end(process, how)
        raise ProcessEnd
