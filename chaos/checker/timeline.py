"""Faults and partitions over time: who led, who was in the ISR, which elections were unclean, who lost data when.

Built from the followed metadata log, since snapshots forget. Records between a BeginTransaction and its end count when
the end comes (KIP-868). Records seen before (a follower that started over) are left out; those of a snapshot may share
one offset.
"""

from bisect import bisect_right
from collections.abc import Mapping
from typing import Final, NamedTuple

from kvorum.chaos.checker.sends import NEVER
from kvorum.chaos.history import Fault, Metadata, Start
from kvorum.quorum.records import NO_LEADER, RECOVERED, RECOVERING

TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
"""ConfigResource.Type."""

INJECTION_MAX: Final = 1.0
"""Seconds from the line that announces a fault to its being done."""

UNCLEAN_CONFIG: Final = "unclean.leader.election.enable"
MIN_ISR_CONFIG: Final = "min.insync.replicas"
ELR_FEATURE: Final = "eligible.leader.replicas.version"
CONFIGS: Final = (UNCLEAN_CONFIG, MIN_ISR_CONFIG)


class PartitionState(NamedTuple):
    """A partition from `t` on, until the next state. `offset`: of the record that made it so."""

    t: float
    offset: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    last_known_elr: tuple[int, ...]
    replicas: tuple[int, ...]
    recovering: bool


class Election(NamedTuple):
    """An unclean election: of a leader in `leader_epoch`, from outside the ISR."""

    t: float
    offset: int
    leader: int
    deposed: int
    """Who led before it, -1 if nobody is known."""
    leader_epoch: int
    marked: bool
    """The record says RECOVERING. An unmarked one excuses nothing."""
    last_known: bool
    """It elected the last known leader after ISR and ELR were empty (KIP-966)."""
    allowed: bool
    """The topic's config allowed it, or an operator asked for it."""


class FaultSpan(NamedTuple):
    """A fault from its begin to its end (NEVER where it has none)."""

    id: int
    fault: str
    targets: tuple[str, ...]
    brokers: frozenset[int]
    """Ids of the nodes whose broker it hit."""
    lossy: bool
    begin: float
    end: float
    lost_by: float
    """Where it is lossy: data written after this was not touched by it."""
    story: str


class Timeline:
    """Takes start, fault and metadata events in order; answers questions about any time."""

    def __init__(self) -> None:
        """Begin without a cluster."""
        self.start = Start(t=0.0)
        self.states: dict[str, list[PartitionState]] = {}
        self.elections: dict[str, list[Election]] = {}
        self.removed: dict[str, float] = {}
        """When a partition's topic was deleted."""
        self.faults: list[FaultSpan] = []
        """In the order of their begin."""
        self.asked_unclean: list[float] = []
        """When an operator asked for unclean elections (an admin operation)."""
        self._open_faults: dict[int, int] = {}
        self._topics: dict[str, str] = {}
        self._configs: dict[tuple[int, str, str], str] = {}
        self._offset = -1
        self._record: dict[str, object] = {}
        self._features: dict[str, object] = {}
        self._batch: list[Metadata] | None = None

    @property
    def followed(self) -> bool:
        """The history has the metadata log of some partition."""
        return bool(self.states)

    def brokers(self) -> frozenset[int]:
        """Return the ids of all nodes that are brokers, as the start event names them."""
        nodes = self.start.cluster.nodes.values()
        return frozenset(node.id for node in nodes if not node.roles or "broker" in node.roles)

    def take_start(self, event: Start) -> None:
        """Take the shape of the cluster and the configs of topics."""
        self.start = event
        for name, topic in event.topics.items():
            for config in CONFIGS:
                self._configure(TOPIC_RESOURCE, name, config, topic.configs.get(config))
        for config in CONFIGS:
            self._configure(BROKER_RESOURCE, "", config, event.cluster.configs.get(config))

    def take_fault(self, event: Fault) -> None:
        """Take the begin or the end of a fault."""
        if event.phase == "end":
            at = self._open_faults.pop(event.id, None)
            if at is not None:
                begun = self.faults[at]
                lost_by = event.t if event.lossy and not begun.lossy else begun.lost_by
                self.faults[at] = begun._replace(end=event.t, lossy=begun.lossy or event.lossy, lost_by=lost_by)
            return
        self._open_faults[event.id] = len(self.faults)
        brokers = frozenset(id for target in event.targets if (id := self._broker(target)) is not None)
        self.faults.append(
            FaultSpan(
                event.id,
                event.fault,
                tuple(event.targets),
                brokers,
                event.lossy,
                event.t,
                NEVER,
                event.t + INJECTION_MAX,
                event.story,
            )
        )

    def take_metadata(self, event: Metadata) -> None:
        """Take a record of the metadata log."""
        if event.offset < self._offset or (event.offset == self._offset and event.record == self._record):
            return
        self._offset, self._record = event.offset, event.record
        kind = event.record.get("type")
        if kind == "BeginTransaction":
            self._batch = []
        elif kind == "AbortTransaction":
            self._batch = None
        elif kind == "EndTransaction":
            batch, self._batch = self._batch or [], None
            for record in batch:
                self._replay(record)
        elif self._batch is not None:
            self._batch.append(event)
        else:
            self._replay(event)

    def at(self, partition: str, t: float) -> int:
        """Return the index of the partition's state at a time; 0 for a time before the first one."""
        states = self.states.get(partition, [])
        return max(0, bisect_right(states, t, key=lambda state: state.t) - 1)

    def _broker(self, target: str) -> int | None:
        """Return the node id of a target that holds data, None for controllers, links and strangers."""
        name, _, role = target.partition("/")
        node = self.start.cluster.nodes.get(name)
        if node is None or role == "controller" or (node.roles and "broker" not in node.roles):
            return None
        return node.id

    def min_isr(self, partition: str) -> int:
        """Return min.insync.replicas of a partition's topic, as last configured; Kafka's default is 1."""
        value = self._config(partition.rpartition("-")[0], "", MIN_ISR_CONFIG)
        return int(value) if value is not None and value.isdecimal() else 1

    @property
    def elr_in_use(self) -> bool:
        """ELR (KIP-966) is finalized; taken as given where the history tells no feature at all."""
        return not self._features or self._features.get(ELR_FEATURE, 0) != 0

    def _configure(self, kind: int, name: str, config: str, value: object) -> None:
        if value is None:
            self._configs.pop((kind, name, config), None)
        else:
            self._configs[kind, name, config] = str(value)

    def _config(self, topic: str, broker: str, config: str) -> str | None:
        """Return a topic's config: its own, the broker's, the cluster's, in this order; None where none is known."""
        for kind, name in ((TOPIC_RESOURCE, topic), (BROKER_RESOURCE, broker), (BROKER_RESOURCE, "")):
            if (kind, name, config) in self._configs:
                return self._configs[kind, name, config]
        return None

    def _unclean_allowed(self, topic: str, leader: int) -> bool:
        return (self._config(topic, str(leader), UNCLEAN_CONFIG) or "").lower() == "true"

    def _replay(self, event: Metadata) -> None:
        record = event.record
        match record.get("type"):
            case "Topic":
                self._topics[str(record["topic_id"])] = str(record["name"])
            case "Feature":
                self._features[str(record["name"])] = record.get("level", 0)
            case "RemoveTopic":
                self._remove(self._topics.pop(str(record["topic_id"]), None), event.t)
            case "Config":
                kind, config = record.get("resource_type"), str(record.get("name"))
                if config in CONFIGS and isinstance(kind, int):
                    self._configure(kind, str(record.get("resource_name")), config, record.get("value"))
            case "Partition" | "PartitionChange":
                topic = self._topics.get(str(record.get("topic_id")))
                if topic is not None:
                    self._change(event, topic)

    def _remove(self, topic: str | None, t: float) -> None:
        for name in self.states:
            if topic is not None and name.rpartition("-")[0] == topic:
                self.removed[name] = t

    def _change(self, event: Metadata, topic: str) -> None:
        """Append the state after a Partition or PartitionChange, and note an unclean election."""
        record = event.record
        name = f"{topic}-{record['partition_id']}"
        states = self.states.setdefault(name, [])
        whole = record["type"] == "Partition"
        before = states[-1] if states and not whole else None
        leader = _number(record, "leader", before.leader if before else NO_LEADER)
        epoch = _number(record, "leader_epoch", before.leader_epoch + ("leader" in record) if before else 0)
        recovery = _number(record, "leader_recovery_state", int(before.recovering) if before else RECOVERED)
        state = PartitionState(
            event.t,
            event.offset,
            leader,
            epoch,
            _numbers(record, "isr", before.isr if before else ()),
            _numbers(record, "elr", before.elr if before else ()),
            _numbers(record, "last_known_elr", before.last_known_elr if before else ()),
            _numbers(record, "replicas", before.replicas if before else ()),
            recovery == RECOVERING,
        )
        states.append(state)
        if leader >= 0 and _is_unclean(record, states[-2] if len(states) > 1 else None, state):
            last_known = before is not None and leader in before.last_known_elr
            allowed = self._unclean_allowed(topic, leader) or any(t <= event.t for t in self.asked_unclean)
            self.elections.setdefault(name, []).append(
                Election(event.t, event.offset, leader, _deposed(states), epoch, state.recovering, last_known, allowed)
            )


def _is_unclean(record: Mapping[str, object], before: PartitionState | None, after: PartitionState) -> bool:
    """Say whether a change was an unclean election: marked as one, or of a leader from outside ISR and ELR."""
    if record["type"] == "Partition":  # new, or out of a snapshot that was taken while it recovered
        return after.recovering and (before is None or before.leader_epoch != after.leader_epoch)
    if record.get("leader_recovery_state") == RECOVERING:
        return True
    if before is None or "leader" not in record or after.leader == before.leader or "replicas" in record:
        return False  # a reassignment that ends lets its last new member join the ISR and lead in one record
    safe = before.isr + before.elr
    return bool(safe) and after.leader not in safe


def _deposed(states: list[PartitionState]) -> int:
    """Return the last leader before the newest state."""
    return next((state.leader for state in reversed(states[:-1]) if state.leader >= 0), -1)


def _number(record: Mapping[str, object], name: str, default: int) -> int:
    value = record.get(name, default)
    return value if isinstance(value, int) else default


def _numbers(record: Mapping[str, object], name: str, default: tuple[int, ...]) -> tuple[int, ...]:
    value = record.get(name)
    return tuple(int(item) for item in value) if isinstance(value, list | tuple) else default
