"""A cluster of real processes as a test sees it: few verbs, each ending by itself at the latest with the test.

Every call blocks and may come from any thread; in an asyncio test use asyncio.to_thread.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kvorum.chaos import history
from kvorum.chaos.faults.events import Injected
from kvorum.chaos.faults.lab import HEALTHY_SECONDS, LEADER_SECONDS, Lab, LabError
from kvorum.chaos.faults.processes import DOWN_KINDS, READY
from kvorum.chaos.faults.shape import LabShape
from kvorum.chaos.inside import Inside, inside_configs

CONTROLLERS_MAX: Final = 3
"""Of a cluster that does not say how many: three survive the loss of one, more cost only time."""
START_SECONDS: Final = 60.0


class NoLinks(Exception):
    """A fault on links, of a cluster that was made without proxies."""


@dataclass(slots=True, kw_only=True)
class KvorumCluster:
    """See the module. Nodes are named node-1, node-2, ...; clients as a whole are "clients"."""

    folder: str
    lab: Lab
    """Everything that can be done, for what is not here."""
    inside: Inside
    """Faults from inside: requests refused, late or lost by API; listeners that refuse; failpoints."""
    has_links: bool
    _told: list[history.Fault] = field(repr=False)

    @classmethod
    def start_in(
        cls,
        folder: str,
        *,
        brokers: int = 3,
        controllers: int | None = None,
        configs: Mapping[str, object] | None = None,
        node_configs: Mapping[str, Mapping[str, object]] | None = None,
        links: bool = False,
    ) -> "KvorumCluster":
        """Make a cluster in an empty folder, start it, and wait until it is healthy.

        The first `controllers` nodes are controllers too (by default up to three). `configs`: by Kafka's keys, for all
        nodes; `node_configs`: {node: its own}. `links`: put a proxy on every link. Raises ValueError and ConfigError
        (what cannot be), NoToxiproxy (what to do about it), LabError.
        """
        told: list[history.Fault] = []
        shape = LabShape(
            brokers=brokers,
            controllers=min(CONTROLLERS_MAX, brokers) if controllers is None else controllers,
            configs={**inside_configs(folder), **texts_of(configs or {})},
            node_configs={node: texts_of(own) for node, own in (node_configs or {}).items()},
        )
        network = "proxies" if links else "plain"
        lab = Lab.create(os.path.join(folder, "cluster"), shape, network=network, on_fault=told.append)  # type: ignore[arg-type]
        try:
            lab.wait_until_healthy()
            inside = Inside.of(lab.plan.cluster, lab.register)
        except BaseException:
            lab.close()
            raise
        return cls(folder=folder, lab=lab, inside=inside, has_links=links, _told=told)

    def close(self) -> None:
        """Kill every process and give everything back. Idempotent."""
        self.lab.close()

    # Who is there.

    @property
    def bootstrap(self) -> str:
        """What clients are given as bootstrap.servers."""
        return self.lab.bootstrap

    @property
    def nodes(self) -> list[str]:
        """All nodes, running or not."""
        return self.lab.nodes

    def leader_of(self, topic: str, partition: int, timeout_seconds: float = LEADER_SECONDS) -> str:
        """Return the node that leads a partition. Raises LabError where none does in time."""
        return self.lab.leader_of(topic, partition, timeout_seconds)

    def isr_of(self, topic: str, partition: int) -> list[str]:
        """Return the nodes in sync. Raises LabError for a partition nobody knows."""
        return self.lab.isr_of(topic, partition)

    def active_controller(self, timeout_seconds: float = LEADER_SECONDS) -> str:
        """Return the node of the active controller. Raises LabError where there is none in time."""
        return self.lab.active_controller(timeout_seconds)

    def wait_until_healthy(self, timeout_seconds: float = HEALTHY_SECONDS) -> None:
        """Wait until every broker is unfenced and every replica in sync. Raises LabError with what is wrong."""
        self.lab.wait_until_healthy(timeout_seconds)

    # Processes. What is down stays down until `restart` or `heal`.

    def kill(self, node: str) -> Injected:
        """kill -9 all of a node."""
        return self.lab.kill(node)

    def terminate(self, node: str) -> Injected:
        """Shut a node down in order."""
        return self.lab.terminate(node)

    def pause(self, node: str) -> Injected:
        """Stop all of a node in time (SIGSTOP): it neither answers nor closes a connection."""
        return self.lab.pause(node)

    def resume(self, node: str) -> None:
        """Let a paused node go on."""
        self.lab.resume(node)

    def restart(self, node: str) -> None:
        """Start a node that is down, or shut it down in order and start it. Raises LabError."""
        if node in self.lab.processes.running():
            self.lab.restart(node)
            return
        outcome = self.lab.start(node, wait_seconds=START_SECONDS)
        if outcome.get(node) != READY:
            raise LabError(f"{node} did not come up: {outcome.get(node)}")

    # Links; the cluster is made with links=True.

    def cut(self, a: str, b: str) -> Injected:
        """Let nothing pass between two nodes, or a node and "clients"."""
        self._need_links("cut")
        return self.lab.cut(a, b)

    def cut_one_way(self, a: str, b: str) -> Injected:
        """Let nothing that `a` sends reach `b`."""
        self._need_links("cut_one_way")
        return self.lab.cut_one_way(a, b)

    def slow(self, a: str, b: str, ms: int) -> Injected:
        """Let everything between two take so much longer, in each direction."""
        self._need_links("slow")
        return self.lab.slow(a, b, ms)

    def isolate(self, node: str) -> Injected:
        """Cut a node off from all others and from the clients; it lives on."""
        self._need_links("isolate")
        return self.lab.isolate(node)

    def _need_links(self, verb: str) -> None:
        if not self.has_links:
            raise NoLinks(
                f"{verb} needs proxies on the links: mark the test with @pytest.mark.kvorum(links=True), "
                "or run pytest with --kvorum-links"
            )

    # The end of it all.

    @property
    def is_touched(self) -> bool:
        """Whether any fault is in force, or a node is down."""
        return bool(self.lab.register.in_force()) or len(self.lab.processes.running()) < len(self.nodes)

    def heal(self) -> None:
        """End every fault, and start every node that is down; see `wait_until_healthy`. Raises NotStarted."""
        for fault in self.lab.register.in_force():
            if fault.kind not in DOWN_KINDS:
                fault.end()
        self.lab.processes.started(())

    def recover(self, timeout_seconds: float = HEALTHY_SECONDS) -> None:
        """End every fault, start every node, wait until all is well. Raises NotStarted, LabError."""
        self.heal()
        self.wait_until_healthy(timeout_seconds)

    def story(self) -> str:
        """Tell what was done so far, and where the processes' logs are."""
        lines = [f"{event.t:8.3f} s  {event.phase:5}  {event.story}" for event in self._told]
        return "\n".join([*lines, f"logs: {os.path.join(self.folder, 'cluster', 'node-*', '*.log')}"])


def texts_of(configs: Mapping[str, object]) -> dict[str, str]:
    """Return configs as texts: numbers and booleans may be given as they are."""
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in configs.items()}
