"""Scenario files as models: load, faults over time, and expectations.

Strict: unknown keys are errors.

    name: frozen-leader
    title: A leader is paused while another one is elected
    topics: {orders: {partitions: 1, replication_factor: 3, configs: {min.insync.replicas: 2}}}
    workload:
      - {kind: send, rate: 100}
    duration: 20
    steps:
      - {at: 3, do: pause, target: leader orders-0, for: 8}
    expect: {loss: none, acked_during_faults: 100}

Targets are words: a node (`node-1`), a process (`node-1/broker`), `leader orders-0`, `follower orders-0` (`follower 2
orders-0`), `in-sync orders-0`, `coordinator GROUP`, `transaction-coordinator ID` (`any`), `active-controller`,
`standby-controller`, `random`, `all`, `clients`, `brokers`, `controllers`, or a name that an earlier step assigned
(`as: old`). `leader orders-0/broker` is only its broker. `heal` ends every fault of links, or with a name as its target
the faults of the step of that name.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError

from kvorum.chaos.faults.fault_kinds import FAULTS, FaultKind
from kvorum.chaos.faults.fault_options import FaultOptions, FlipOptions, NoOptions
from kvorum.chaos.faults.lab_security import Mechanism
from kvorum.chaos.faults.shape import INTERNAL
from kvorum.chaos.workload.plan import ClientPlan, Strict, WorkerClients

DURATION_MAX = 24 * 3600.0
ACTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "start": (),
    "resume": ("target",),
    "heal": (),
    "recover": (),
    "wait": ("until",),
    "window": ("hold",),
    "rolling-restart": (),
    "move-log-dir": ("target", "partition", "directory"),
    "alter-topic": ("topic", "configs"),
    "alter-broker": ("target", "configs"),
    "alter-quota": ("quota", "configs"),
    "elect-unclean": ("partition",),
    "elect-preferred": ("partition",),
    "reassign": ("partition", "replicas"),
    "cancel-reassignment": ("partition",),
    "features": ("levels",),
    "add-controller": ("target",),
    "remove-controller": ("target",),
}
"""{verb that is not a fault: the keys that its step needs}."""
REFUSE_INSIDE: Final = "refuse-inside"
ALIASES: Final[Mapping[str, str]] = {"failpoint": "failpoints", REFUSE_INSIDE: "refuse_listener"}
"""{verb: a fault with another name}. `refuse-inside` is about the broker's own listener."""
FAULT_VERBS: Final[Mapping[str, FaultKind]] = {
    **{kind.verb: kind for kind in FAULTS.values()},
    **{verb: FAULTS[name] for verb, name in ALIASES.items()},
}
"""{verb: its fault}."""


def one_of(names: Iterable[str]) -> AfterValidator:
    """Return the validator of a name."""
    known = list(names)

    def validate(name: str) -> str:
        if name not in known:
            raise PydanticCustomError("literal_error", "use one of {expected}", {"expected": ", ".join(known)})
        return name

    return AfterValidator(validate)


Verb: TypeAlias = Annotated[str, one_of([*FAULT_VERBS, *ACTIONS])]
"""Action of a step."""
RandomKind: TypeAlias = Annotated[str, one_of(kind.verb for kind in FAULTS.values() if kind.is_drawn)]

OF_A_PARTITION = ("leader", "follower", "followers", "in-sync")
"""Targets that contain a partition."""
NO_PARTITIONS = frozenset({"", "all", "journal"})
"""Values of a step's `partition` other than a partition."""


def texts(value: object) -> object:
    """Return configs with their values as Kafka spells them: YAML's true and 2 are "true" and "2"."""
    if not isinstance(value, dict):
        return value
    return {key: str(each).lower() if isinstance(each, bool) else str(each) for key, each in value.items()}


Configs: TypeAlias = Annotated[dict[str, str], BeforeValidator(texts)]


class Cluster(Strict):
    """The cluster that a scenario makes."""

    brokers: int = Field(default=3, ge=1, le=20)
    controllers: int = Field(default=3, ge=1, le=20)
    combined: bool = True
    network: Literal["proxies", "plain", "namespaces"] = "proxies"
    profile: Literal["fast", "default"] = "fast"
    """`fast`: sessions of 3 s, heartbeats of 0.5 s, replica lag of 2 s; `default`: Kafka's own."""
    groups: tuple[str, ...] = ("clients",)
    log_dirs: int = Field(default=1, ge=1, le=10)
    """Of each broker. The first one cannot fail: it has the node's own files."""
    configs: Configs = Field(default_factory=dict)
    node_configs: dict[str, Configs] = Field(default_factory=dict)
    small_disks: dict[str, int] = Field(default_factory=dict)
    """{node: bytes}: its log directory is that small."""
    secure: bool = False
    """TLS on all listeners; nodes authenticate by certificates, clients by the mechanism."""
    mechanism: Mechanism = "SCRAM-SHA-512"
    """Of the clients of a secure cluster."""


class Topic(Strict):
    """One topic, or `count` of them: `small` with count 3 is small-1, small-2, small-3."""

    partitions: int = Field(default=1, ge=1, le=1000)
    replication_factor: int = Field(default=3, ge=1, le=20)
    configs: Configs = Field(default_factory=dict)
    count: int | None = Field(default=None, ge=1, le=1000)


class Condition(Strict):
    """Conditions of a `wait` step; all must hold."""

    healthy: bool = False
    isr: dict[str, int] = Field(default_factory=dict)
    """{partition: how many are in sync}."""
    isr_at_most: dict[str, int] = Field(default_factory=dict)
    leader: dict[str, str] = Field(default_factory=dict)
    """{partition: "none", "some", a target, or "not TARGET"}."""
    lies_in: dict[str, int] = Field(default_factory=dict)
    """{partition: the number of the log directory of its leader's replica}, and no move is under way."""
    acked: int = Field(default=0, ge=0)
    """Number of acknowledgements since the step began."""
    controller: str = ""
    """"some", or "not TARGET"."""
    resigned: str = ""
    """A target whose controller, queried directly, does not claim to be active."""
    reassigned: tuple[str, ...] = ()
    """Partitions that must have no (further) reassignment."""
    empty: str = ""
    """A target that has no replica of any partition."""
    voters: int | None = Field(default=None, ge=1)
    """Number of voters, according to the active controller."""
    logs: dict[str, str] = Field(default_factory=dict)
    """{target: text}: some log of each of its nodes has a line with this text."""
    certificates: str = ""
    """A target whose listeners serve the certificates of its present files."""
    metrics: dict[str, float] = Field(default_factory=dict)
    """{metric: minimum of its sum over all listeners and brokers}."""


class Step(Strict):
    """One step of the schedule. Steps begin in order: at `at` seconds, or `after` seconds after the last one's end.

    A fault also has its own options (fault_options), by any of their spellings.
    """

    model_config = ConfigDict(extra="allow")

    do: Verb
    at: float | None = Field(default=None, ge=0)
    after: float = Field(default=0.0, ge=0)
    target: str | tuple[str, ...] = ""
    to: str = ""
    """The other end of a link: empty means all (`cut`: like `isolate`)."""
    hold: float | None = Field(default=None, gt=0, alias="for")
    """Seconds until the fault ends; without it, until a later step or the end of the run."""
    name: str = Field(default="", alias="as")
    """By which later steps know this one's target."""
    partition: str = ""
    directory: int = Field(default=0, ge=0)
    """A log directory of the target, from 1."""
    replicas: tuple[str, ...] = ()
    """Targets to which a partition is reassigned, in this order."""
    levels: dict[str, int] = Field(default_factory=dict)
    """{feature: level}."""
    topic: str = ""
    configs: Configs = Field(default_factory=dict)
    quota: dict[str, str] = Field(default_factory=dict)
    """The entity of `alter-quota`, {type: name, or "" for the default}; a value of "" removes one."""
    times: int = Field(default=1, ge=1, le=10_000)
    every: float = Field(default=1.0, gt=0)
    """Number of repetitions of the step, and the seconds between them."""
    gap: float = Field(default=1.0, ge=0)
    """Seconds between the nodes of a rolling restart, once all is well again."""
    until: Condition | None = None
    within: float = Field(default=30.0, gt=0)
    """Seconds that a `wait` may take."""
    acked: Literal["some", "none", "any"] | dict[str, Literal["some", "none", "any"]] = "any"
    """Expectations of a `window` on sends begun and acknowledged in it; by topic (or `name*`), or for all."""
    acked_max: int | None = Field(default=None, ge=0)
    """Maximum of sends that may be acknowledged within a `window`, whenever they began."""
    _options: FaultOptions = PrivateAttr(default_factory=NoOptions)

    @model_validator(mode="after")
    def _whole(self) -> "Step":
        kind = self.fault
        needs = ACTIONS.get(self.do, ()) if kind is None else ("target", "to")[: kind.targets[0]]
        missing = [need for need in needs if not getattr(self, need)]
        unknown = set(self.model_extra or ())
        if kind is not None:
            spellings = kind.options.spellings()
            own = {name for names in spellings.values() for name in names}
            unknown -= own
            given = (self.model_extra or {}) | {name: getattr(self, name) for name in own & self.model_fields_set}
            if self.do == REFUSE_INSIDE:
                given = {"listener": INTERNAL, "cut": True}
            try:
                self._options = kind.options.model_validate(
                    {name: value for name, value in given.items() if name in own}
                )
            except ValidationError as error:
                slip = error.errors()[0]
                if slip["type"] != "missing":
                    raise ValueError(f"do: {self.do}: {slip['loc'][0]}: {slip['msg']}") from error
                missing.append(str(slip["loc"][0]))
        if unknown:
            raise PydanticCustomError(
                "unknown_key",
                "do: {do}: unknown key {name}",
                {"do": self.do, "name": min(unknown), "known": [*Step.model_fields, *(own if kind else ())]},
            )
        if missing:
            words = ", ".join("for" if each == "hold" else each for each in missing)
            raise ValueError(f"do: {self.do} needs {words}")
        return self

    @property
    def fault(self) -> FaultKind | None:
        """The fault that the step begins; None for an action."""
        return FAULT_VERBS.get(self.do)

    @property
    def options(self) -> FaultOptions:
        """The options of its fault."""
        return self._options

    def partitions(self) -> set[str]:
        """Return the partitions that the step names."""
        targets = [self.target] if isinstance(self.target, str) else list(self.target)
        targets += self.replicas
        what = self._options.what if isinstance(self._options, FlipOptions) else ""
        partitions = {self.partition, what} - NO_PARTITIONS
        if self.until is not None:
            partitions |= {*self.until.isr, *self.until.isr_at_most, *self.until.leader, *self.until.lies_in}
            partitions |= {*self.until.reassigned}
            targets += [*self.until.leader.values(), *self.until.logs, self.until.controller, self.until.resigned]
            targets += [self.until.empty, self.until.certificates]
        for target in [*targets, self.to]:
            words = [word for word in target.partition("/")[0].split() if word != "not"]
            if len(words) > 1 and words[0] in OF_A_PARTITION:
                partitions.add(words[-1])
        return partitions


class RandomFaults(Strict):
    """Faults drawn with the run's seed: every `every` seconds another subset of the kinds, now and then none."""

    kinds: tuple[RandomKind, ...]
    every: float = Field(default=8.0, gt=0)
    """Seconds of one subset."""
    quiet: float = Field(default=0.25, ge=0, le=1)
    """Share of the subsets that are empty, so that the cluster recovers."""
    hold: tuple[float, float] = (1.0, 4.0)
    """Seconds of one fault: from, to."""
    gap: tuple[float, float] = (0.5, 2.0)
    """Seconds between a fault's end and the next one's begin."""
    down_max: int = Field(default=1, ge=0)
    """Nodes that are dead, stopped or cut off at the same time, at most."""


class LateAnswers(Strict):
    """Proof of late requests: sends that a broker answered, with any result, this long after they had begun."""

    after: float = Field(gt=0)
    """Seconds."""
    min: int = Field(default=1, ge=1)


class Expectation(Strict):
    """Expected results of a run, in addition to the checker's rules."""

    loss: Literal["none", "explained", "required"] = "none"
    """`none`: no acknowledged record is lost; `explained`: it may be lost legally; `required`: it must be, legally."""
    topics: dict[str, Literal["none", "explained", "required"]] = Field(default_factory=dict)
    """`loss` by topic (or `name*`), for those that differ."""
    acked_min: int = Field(default=1, ge=0)
    acked_during_faults: int = Field(default=0, ge=0)
    """Sends that were begun and acknowledged while a fault was in force."""
    unavailable_max: float | None = Field(default=None, ge=0)
    """Seconds in which some partition had a send waiting and acknowledged none."""
    unavailable_min: float | None = Field(default=None, ge=0)
    failed_sends_max: int | None = Field(default=None, ge=0)
    """Sends that ended as fail or info."""
    errors: tuple[str, ...] = ()
    """Errors that have to be seen, by Kafka's names."""
    errors_not: tuple[str, ...] = ()
    """Errors that no client may see."""
    isr_changes_max: dict[str, int] = Field(default_factory=dict)
    """{partition: how often its ISR may change in all}."""
    late_answers: LateAnswers | None = None
    """Of clients that send once (`kvorum`): each of their sends is known to be one request."""
    anomalies: tuple[str, ...] = ()
    """The checker's names of explained findings that are required."""


class Scenario(Strict):
    """One scenario file, or one cell of its matrix."""

    name: str
    title: str
    why: str = ""
    cluster: Cluster = Cluster()
    topics: dict[str, Topic]
    workload: tuple[ClientPlan, ...]
    duration: float = Field(default=20.0, gt=0, le=DURATION_MAX)
    """Seconds of the schedule, after `quiet_start`; a longer run repeats it."""
    quiet_start: float = Field(default=2.0, ge=0)
    quiet_end: float = Field(default=1.0, ge=0)
    """Seconds of load after everything has healed."""
    recovery: float = Field(default=90.0, gt=0)
    """Seconds in which the cluster must be healthy after the last fault."""
    steps: tuple[Step, ...] = ()
    random: RandomFaults | None = None
    expect: Expectation = Expectation()

    @model_validator(mode="after")
    def _consistent(self) -> "Scenario":
        times = [step.at for step in self.steps if step.at is not None]
        if times != sorted(times) and not all(step.at is not None for step in self.steps):
            raise ValueError("steps: times (at) must not decrease")
        if self.random is not None and self.steps:
            raise ValueError("give steps or random, not both")
        counts = {name: topic.partitions for name, topic in self.every_topic().items()}
        for plan in self.workload:
            if isinstance(plan, WorkerClients):
                source, sink = counts.get(plan.source), counts.get(plan.sink)
                if source is None or source != sink:
                    raise ValueError(f"kind: rpw: {plan.source} and {plan.sink} need the same number of partitions")
        partitions = {f"{name}-{n}" for name, topic in self.every_topic().items() for n in range(topic.partitions)}
        for step in self.steps:
            for partition in step.partitions():
                if partition not in partitions:
                    raise ValueError(
                        f"do: {step.do}: partition {partition} does not exist; topics: {', '.join(self.topics)}"
                    )
        return self

    def every_step(self) -> tuple[Step, ...]:
        """Return the steps, repeated ones multiple times, in the order of their times."""
        found: list[Step] = []
        for step in self.steps:
            found.append(step)
            for number in range(1, step.times):
                at = None if step.at is None else step.at + number * step.every
                found.append(step.model_copy(update={"at": at, "after": step.every if at is None else 0.0}))
        timed = all(step.at is not None for step in found)
        return tuple(sorted(found, key=lambda step: step.at or 0.0) if timed else found)

    def every_topic(self) -> dict[str, Topic]:
        """Return {name: topic} with counted ones by number."""
        found: dict[str, Topic] = {}
        for name, topic in self.topics.items():
            numbers = [""] if topic.count is None else [f"-{number}" for number in range(1, topic.count + 1)]
            found |= {f"{name}{number}": topic for number in numbers}
        return found
