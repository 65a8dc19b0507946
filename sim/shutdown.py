"""A stop of all nodes at the end of a simulated run: in a drawn order, and every process must end within a limit.

Each node stops as its supervisor does it: SIGTERM to the broker, and to the controller once the broker has ended. The
brokers so lose their controllers, their leaders and each other at any moment of their stop. Before it, the active
controller's node may be killed and started again, or a majority of the controllers killed for good.
"""

from random import Random
from typing import Final

from kvorum.cluster.process.controller_node import BROKERS_STOP_SECONDS_MAX
from kvorum.network.server import CLOSE_GRACE_MS
from sim.cluster import SimCluster
from sim.ledger import Violation
from sim.machine import BROKER, CONTROLLER, Machine, SimProcess, State

STAGGER_MAX_S: Final = (0.0, 0.0, 0.05, 0.5, 3.0)
"""Delays between the stop signals of the nodes."""
RESTART: Final = "restart"
"""Before: kill -9 of the node with the active controller; it is started again while or before the others stop."""
NO_MAJORITY: Final = "no majority"
"""Before: kill -9 of so many controllers that no majority is left."""
BEFORE: Final = ("", "", RESTART, RESTART, NO_MAJORITY)
RESTART_LIMIT_S: Final = 5.0
SLACK_S: Final = 3.0
"""Time of a stop without waits for peers: threads, disks, back-offs."""


def limit_s(cluster: SimCluster) -> float:
    """Return the longest time from a node's SIGTERM to its end.

    A broker waits for an active controller for a session, and for one heartbeat's response half as long. The controller
    waits for brokers. Both complete requests in progress. Nothing else waits for a peer.
    """
    session_s, grace_s = cluster.options.session_timeout_ms / 1000, CLOSE_GRACE_MS / 1000
    return 1.5 * session_s + BROKERS_STOP_SECONDS_MAX + 2 * grace_s + SLACK_S


def stop_drawn(cluster: SimCluster, rng: Random) -> None:
    """Stop every node as drawn. Raises Violation."""
    stop_all(cluster, rng, before=rng.choice(BEFORE), stagger_s=rng.choice(STAGGER_MAX_S))


def stop_all(cluster: SimCluster, rng: Random, *, before: str, stagger_s: float) -> float:
    """Stop every node, and demand that each process ends in time; return the seconds it took. Raises Violation."""
    cluster.invariants.end_peace()  # replicas leave the ISR
    cluster.note(f"all nodes are stopped within {stagger_s:g} s" + (f"; before: {before}" if before else ""))
    cluster.invariants.peace_since = None
    if before:
        _disturb(cluster, rng, before)
    loop = cluster.loop
    now = loop.time()
    signalled_s: dict[int, float] = {}
    nodes = list(cluster.machines.values())
    rng.shuffle(nodes)
    for machine in nodes:
        signalled_s[machine.node_id] = at = now + stagger_s * rng.random()
        loop.call_at_host(None, at, _stop_broker, machine)

    def have_all_ended() -> bool:
        for machine in nodes:
            if loop.time() >= signalled_s[machine.node_id]:
                _stop_next(machine)
        return not any(process.is_running for process in cluster.processes)

    limit = limit_s(cluster)
    in_time = cluster.run_until(have_all_ended, stagger_s + limit)
    left = [f"{each.name} {waits_for(each)}" for each in cluster.processes if each.is_running]
    brokers = ((each.name, each.broker) for each in cluster.processes if each.broker is not None)
    left += [f"{name} left behind: {', '.join(broker.not_stopped)}" for name, broker in brokers if broker.not_stopped]
    if left or not in_time:
        raise Violation("Stop", f"{limit:g} s after the last node received the stop signal: {'; '.join(left)}")
    return loop.time() - now


def waits_for(process: SimProcess) -> str:
    """Return the pending tasks of a stopping process."""
    part = None if process.broker is None else process.broker.stopping
    return f"waits for {part}" if part else process.state.value


def _disturb(cluster: SimCluster, rng: Random, before: str) -> None:
    """Kill nodes; after RESTART the node is started again."""
    controllers = [each for each in cluster.processes if each.role == CONTROLLER and each.is_running]
    if before == NO_MAJORITY:
        killed = rng.sample(controllers, len(controllers) // 2 + 1)
        for process in killed:
            process.kill()
        return
    active = [each for each in controllers if each.controller and each.controller.metadata_log.is_active()]
    machine = active[0].machine if active else rng.choice(list(cluster.machines.values()))
    for process in machine.processes.values():
        if process.role == BROKER and process.is_running:
            cluster.invariants.incarnations.record_kill(machine.node_id)
        process.kill()
    cluster.run_for(2 * rng.random())
    machine.start()
    broker = machine.processes.get(BROKER)
    if broker is None or rng.random() < 0.5:
        cluster.run_for(2 * rng.random())
    else:  # as soon as it is unfenced: its replicas are in no ISR yet
        cluster.run_until(lambda: broker.broker is not None and broker.broker.not_ready() is None, RESTART_LIMIT_S)


def _stop_broker(machine: Machine) -> None:
    broker = machine.processes.get(BROKER)
    if broker is not None:
        broker.terminate()


def _stop_next(machine: Machine) -> None:
    """Stop the controller of a node whose broker has ended."""
    broker, controller = machine.processes.get(BROKER), machine.processes.get(CONTROLLER)
    if controller is not None and controller.state is State.RUNNING and (broker is None or not broker.is_running):
        controller.terminate()
