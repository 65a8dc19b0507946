"""Faults and partitions over time: leaders, ISRs, unclean elections, and losses of data.

Built from the followed metadata log, since snapshots have no history. Records between a BeginTransaction and its end
count when the end comes (KIP-868). Repeated records (a follower that started over) are left out; those of a snapshot
may share one offset.

A cluster whose log cannot be followed has samples (`"sampled": true`): whole partitions as some broker returned them,
now and then. They prove no unclean election, since the ISR may have grown between two of them; but if the config
permits one, a leader from outside the sampled ISR and ELR counts as one.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from itertools import accumulate
from typing import Final, NamedTuple

from kvorum.broker.coordinator.runtime.placing import partition_for
from kvorum.chaos.checker.configs import BROKER_RESOURCE, TOPIC_RESOURCE, Configs, Requests
from kvorum.chaos.checker.facts import MemberRequest
from kvorum.chaos.checker.sends import NEVER
from kvorum.chaos.checker.spans import FaultSpan
from kvorum.chaos.history import Fault, Metadata, Start
from kvorum.quorum.records import NO_LEADER, RECOVERED, RECOVERING

FOLLOW_LAG_MAX: Final = 0.25
"""Maximum delay in seconds of the followed metadata."""

INJECTION_MAX: Final = 1.0
"""Seconds from the line that announces a fault to its being done."""

LINK_FAULTS: Final = frozenset(
    {
        *("cut", "isolate", "slow", "reset", "refuse", "black_hole", "freeze", "latency", "bandwidth", "slicer"),
        *("lose_requests", "lose_responses", "drop", "drop_syn", "packet_loss"),
    }
)
"""Faults of links whose target is one end: the other end is also cut off."""
OFFSETS_PREFIX: Final = "__consumer_offsets-"
ELR_FEATURE: Final = "eligible.leader.replicas.version"


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
    former_leader: int
    """Its predecessor, -1 if unknown."""
    leader_epoch: int
    is_certain: bool
    """The record has RECOVERING, or it is a sample. An unmarked one excuses nothing."""
    is_last_known_leader: bool
    """It elected the last known leader after ISR and ELR were empty (KIP-966)."""
    is_allowed: bool
    """The topic's config permitted it, or an operator requested it."""


class LeaderConflict(NamedTuple):
    """Two leaders of one leader epoch in the metadata log."""

    t: float
    partition: str
    leader_epoch: int
    leaders: tuple[int, int]


def _holds_metadata(fault: FaultSpan) -> bool:
    """Return whether a fault may keep any broker from hearing of an election: one of links, or of a controller."""
    return fault.fault in LINK_FAULTS or any(target.endswith("/controller") for target in fault.targets)


class Timeline:
    """Takes start, fault and metadata events in order; answers questions about any time."""

    def __init__(self) -> None:
        """Create it without a cluster."""
        self.start = Start(t=0.0)
        self.states: dict[str, list[PartitionState]] = {}
        self.elections: dict[str, list[Election]] = {}
        self.deletion_times: dict[str, float] = {}
        """When a partition's topic was deleted."""
        self.faults: list[FaultSpan] = []
        """In the order of their begin."""
        self.has_samples = False
        """The states of partitions are samples."""
        self.has_elr_samples = False
        """Some sample had eligible leader replicas, perhaps an empty list."""
        self.leader_conflicts: list[LeaderConflict] = []
        """Leader epochs with two leaders."""
        self.end = 0.0
        """When the history ended."""
        self.configs = Configs()
        self._by_node: dict[int, tuple[list[FaultSpan], list[float]]] = {}
        self.requests = Requests()
        self._leaders: dict[tuple[str, int, int], int] = {}
        """By topic id, partition and leader epoch."""
        self._open_faults: dict[int, int] = {}
        self._topics: dict[str, str] = {}
        self._offset = -1
        self._record: dict[str, object] = {}
        self._broker_epochs: dict[int, int] = {}
        self._registrations: dict[int, list[tuple[float, int]]] = {}
        """By broker: when it registered, or was fenced, and at which offset of the metadata log."""
        self._features: set[str] = set()
        self._elr_levels: list[tuple[float, int]] = []
        self._batch: list[Metadata] | None = None

    @property
    def has_metadata(self) -> bool:
        """The history has the metadata log of some partition."""
        return bool(self.states)

    def brokers(self) -> frozenset[int]:
        """Return the ids of all nodes that are brokers, as the start event names them."""
        nodes = self.start.cluster.nodes.values()
        return frozenset(node.id for node in nodes if not node.roles or "broker" in node.roles)

    def take_start(self, event: Start) -> None:
        """Store the shape of the cluster and the configs of topics."""
        self.start = event
        for name, topic in event.topics.items():
            for config, value in topic.configs.items():
                self.configs.take(TOPIC_RESOURCE, name, config, value, event.t)
        for config, value in event.cluster.configs.items():
            self.configs.take(BROKER_RESOURCE, "", config, value, event.t)

    def take_fault(self, event: Fault) -> None:
        """Process the begin or the end of a fault."""
        if event.phase == "end":
            at = self._open_faults.pop(event.id, None)
            if at is not None:
                begun = self.faults[at]
                lost_by = event.t if event.lossy and not begun.lossy else begun.lost_by
                self.faults[at] = begun._replace(
                    end=event.t,
                    lossy=begun.lossy or event.lossy,
                    lost_by=lost_by,
                    partitions=begun.partitions | {*event.partitions},
                )
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
                frozenset(event.partitions),
            )
        )

    def take_metadata(self, event: Metadata) -> None:
        """Process a record of the metadata log."""
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

    def fault_end(self, node: int, t: float) -> float:
        """Return until when a fault that had hit a node by `t` lasted, `t` where none did."""
        faults, ends = self._faults_of(node)
        at = bisect_right(faults, t + INJECTION_MAX, key=lambda fault: fault.begin) - 1
        return max(t, ends[at]) if at >= 0 else t

    def may_be_unaware(self, deposed: int, elected: float, t: float) -> bool:
        """Return whether a deposed leader may, at `t`, not have known this election: a fault delayed it."""
        faults, ends = self._faults_of(deposed)
        at = bisect_left(ends, elected)
        return at < len(faults) and faults[at].begin <= t

    def excuse_coordinator(self, heard: MemberRequest, t: float) -> str | None:
        """Return why a session could end by `t` although its coordinator, in its own view, had a request of the member.

        A heartbeat need not write anything, so a coordinator that is cut off notices its replacement late; the new one
        restarts every session.
        """
        count = sum(name.startswith(OFFSETS_PREFIX) for name in self.states)
        if not count:
            return None
        states = self.states.get(f"{OFFSETS_PREFIX}{partition_for(heard.group, count)}", [])
        deposed = NO_LEADER
        for state in states:
            if state.t > heard.t:
                break
            elected = state.leader not in (NO_LEADER, deposed)
            if (
                elected
                and deposed != NO_LEADER
                and t >= state.t + heard.session
                and self.may_be_unaware(deposed, state.t, heard.t)
            ):
                return (
                    f"node {deposed} may not have known that node {state.leader} was elected coordinator of group "
                    f"{heard.group} at {state.t:.3f} s, which restarts the session"
                )
            if elected:
                deposed = state.leader
        return None

    def _faults_of(self, node: int) -> tuple[list[FaultSpan], list[float]]:
        """Return the faults of a node and by when all up to each had ended. For when all events are taken."""
        known = self._by_node.get(node)
        if known is None:
            faults = [fault for fault in self.faults if node in fault.brokers or _holds_metadata(fault)]
            known = self._by_node[node] = faults, list(accumulate((fault.end for fault in faults), max))
        return known

    def at(self, partition: str, t: float) -> int:
        """Return the index of the partition's state at a time; 0 before the first one."""
        states = self.states.get(partition, [])
        return max(0, bisect_right(states, t, key=lambda state: state.t) - 1)

    def _broker(self, target: str) -> int | None:
        """Return the node id of a target that holds data, None for controllers, links and strangers."""
        name, _, role = target.partition("/")
        node = self.start.cluster.nodes.get(name)
        if node is None or role == "controller" or (node.roles and "broker" not in node.roles):
            return None
        return node.id

    def deletion(self, partition: str, written: float) -> str | None:
        """Return what may have deleted the start of a log up to a record of that time; None if nothing did."""
        requested_s = self.requests.deletion(partition)
        if requested_s is not None:
            return f"an operator requested the deletion of records at {requested_s:.3f} s"
        jumped = any(fault.fault == "clock_jump" for fault in self.faults)
        config = self.configs.retention(partition.rpartition("-")[0], NEVER if jumped else self.end - written)
        return None if config is None else f"{config} permits retention to delete it"

    def elr_in_use(self, since: float, until: float) -> bool:
        """Return whether ELR (KIP-966) was finalized all that time; assumed if the history has no features."""
        if not self._features:
            return True
        at = bisect_right(self._elr_levels, since, key=lambda entry: entry[0])
        before = self._elr_levels[at - 1][1] if at else 0
        return before != 0 and all(level != 0 for t, level in self._elr_levels[at:] if t <= until)

    def is_unnoticed(self, node: int, since: float, until: PartitionState) -> bool:
        """Return whether the controllers had a broker registered and never saw its end or a new registration."""
        noticed = self._registrations.get(node, [])
        at = bisect_right(noticed, (since, until.offset))
        return at > 0 and (at == len(noticed) or noticed[at][1] > until.offset)

    def _replay(self, event: Metadata) -> None:
        record = event.record
        match record.get("type"):
            case "Topic":
                self._topics[str(record["topic_id"])] = str(record["name"])
            case "Feature":
                self._features.add(str(record["name"]))
                if record["name"] == ELR_FEATURE:
                    self._elr_levels.append((event.t, _number(record, "level", 0)))
            case "RegisterBroker" | "BrokerRegistrationChange":
                node, epoch = _number(record, "broker_id", -1), _number(record, "broker_epoch", -1)
                if epoch > self._broker_epochs.get(node, -1) or record.get("fenced") is True:
                    self._registrations.setdefault(node, []).append((event.t, event.offset))
                self._broker_epochs[node] = epoch
            case "RemoveTopic":
                self._remove(self._topics.pop(str(record["topic_id"]), None), event.t)
            case "Config":
                kind, name = record.get("resource_type"), str(record.get("resource_name"))
                if isinstance(kind, int):
                    self.configs.take(kind, name, str(record.get("name")), record.get("value"), event.t)
            case "Partition" | "PartitionChange":
                topic = self._topics.get(str(record.get("topic_id")))
                if topic is not None:
                    self._change(event, topic)

    def _remove(self, topic: str | None, t: float) -> None:
        for name in self.states:
            if topic is not None and name.rpartition("-")[0] == topic:
                self.deletion_times[name] = t

    def _change(self, event: Metadata, topic: str) -> None:
        """Append the state after a Partition or PartitionChange, and note an unclean election."""
        record = event.record
        name = f"{topic}-{record['partition_id']}"
        states = self.states.setdefault(name, [])
        whole = record["type"] == "Partition"
        if record.get("sampled"):
            self.has_samples = True
            self.has_elr_samples = self.has_elr_samples or "elr" in record
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
        last = states[-2] if len(states) > 1 else None
        self._one_leader(str(record["topic_id"]), name, state)
        if leader < 0 or not _is_unclean(record, last, state):
            return
        sampled = bool(record.get("sampled"))
        last_known = last is not None and (sampled or not whole) and leader in last.last_known_elr
        allowed = self.configs.unclean_allowed(topic, leader) or (
            not last_known and self.requests.unclean(name, event.t)
        )
        if sampled and not allowed:
            return
        marked = sampled or state.recovering
        self.elections.setdefault(name, []).append(
            Election(event.t, event.offset, leader, _former_leader(states), epoch, marked, last_known, allowed)
        )

    def _one_leader(self, topic_id: str, name: str, state: PartitionState) -> None:
        """Record a leader epoch that already had another leader."""
        if state.leader < 0:
            return
        key = (topic_id, int(name.rpartition("-")[2]), state.leader_epoch)
        other = self._leaders.setdefault(key, state.leader)
        if other != state.leader:
            self.leader_conflicts.append(LeaderConflict(state.t, name, state.leader_epoch, (other, state.leader)))


def _is_unclean(record: Mapping[str, object], before: PartitionState | None, after: PartitionState) -> bool:
    """Return whether a change was an unclean election: marked as one, or of a leader from outside ISR and ELR."""
    if record.get("sampled"):
        known = () if before is None else before.isr + before.elr
        return bool(known) and before is not None and after.leader != before.leader and after.leader not in known
    if record["type"] == "Partition":  # new, or out of a snapshot that was taken while it recovered
        return after.recovering and (before is None or before.leader_epoch != after.leader_epoch)
    if record.get("leader_recovery_state") == RECOVERING:
        return True
    if before is None or "leader" not in record or after.leader == before.leader or "replicas" in record:
        return False  # a reassignment that ends lets its last new member join the ISR and lead in one record
    return after.leader not in before.isr + before.elr  # if both are empty no replica can lead cleanly


def _former_leader(states: list[PartitionState]) -> int:
    """Return the last leader before the newest state."""
    return next((state.leader for state in reversed(states[:-1]) if state.leader >= 0), -1)


def _number(record: Mapping[str, object], name: str, default: int) -> int:
    value = record.get(name, default)
    return value if isinstance(value, int) else default


def _numbers(record: Mapping[str, object], name: str, default: tuple[int, ...]) -> tuple[int, ...]:
    value = record.get(name)
    return tuple(int(item) for item in value) if isinstance(value, list | tuple) else default
