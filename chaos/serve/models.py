"""Models of the requests and responses of `kvorum chaos serve`."""

from typing import Any, Literal

from pydantic import BaseModel, Field

from kvorum.chaos.serve.faults import KINDS, TARGETS_MAX, Needs, Of
from kvorum.chaos.serve.options import Strict
from kvorum.chaos.serve.scenarios import State

SECONDS_MAX = 86_400


class FaultRequest(Strict):
    """A fault to start."""

    fault: str = Field(json_schema_extra={"enum": list(KINDS)})
    targets: list[str] = Field(
        default_factory=list,
        max_length=TARGETS_MAX,
        description="Names or selectors: node-1, node-1/broker, clients, brokers; active-controller, leader orders-0, "
        "followers orders-0, coordinator GROUP, random",
        examples=[["node-1"], ["leader orders-0/broker"]],
    )
    options: dict[str, object] = Field(
        default_factory=dict, description="Options of the kind, as listed by GET /v1/chaos/kinds"
    )
    seconds: float | None = Field(None, gt=0, le=SECONDS_MAX, description="Duration after which it ends automatically")
    seed: int | None = Field(None, ge=0, lt=2**63, description="Seed of random choices; default: a random one")


class HealRequest(Strict):
    """Scope of healing."""

    start: bool = True


class ScenarioRequest(Strict):
    """A scenario to run."""

    scenario: str = Field(examples=["n-minus-one", "failover/leader-kill"])
    seed: int = Field(1, ge=0, lt=2**63)
    duration: float | None = Field(None, gt=0, le=SECONDS_MAX)


class Fault(BaseModel):
    """A fault in force."""

    id: int
    fault: str = Field(description="Low-level fault: a slow link is a `latency`")
    targets: list[str]
    lossy: bool = Field(description="Whether it can lose records")
    story: str
    ends_ms: int | None = Field(None, description="Time at which it ends automatically")
    failure: str | None = Field(None, description="Why it did not end in time; it is still in force")


class Begun(BaseModel):
    """Result of a fault request."""

    id: int | None = Field(description="null: it ended at once and has no id")
    fault: str
    targets: list[str] = Field(description="Resolved names")
    lossy: bool = False
    story: str = ""
    ends_ms: int | None = None
    in_force: bool
    seed: int | None = Field(None, description="Seed of its random choices; the same seed repeats them")


class Process(BaseModel):
    """A running process."""

    pid: int
    stopped: bool


class Node(BaseModel):
    """State of a node."""

    name: str
    id: int
    roles: list[str]
    running: bool
    processes: dict[str, Process | None]


class Link(BaseModel):
    """A link with a proxy."""

    name: str
    upstream: str


class Lab(BaseModel):
    """The cluster that faults apply to."""

    cluster_id: str
    folder: str
    bootstrap: str
    nodes: list[Node]
    links: list[Link]
    faults: list[Fault]
    inside: dict[str, dict[str, Any] | None] = Field(
        description="Faults in force inside each process with a control listener; null: it does not respond"
    )
    ailments: list[str] | None = Field(description="Problems of the cluster; null: not requested")


class FaultKind(BaseModel):
    """A kind of fault."""

    fault: str
    about: str
    needs: Needs
    possible: bool = Field(description="Whether this cluster supports it")
    lacking: str | None = Field(description="Why it is not supported")
    of: Of = Field(description="Kind of its targets: nodes; nodes and processes; ends of links; partitions")
    targets: dict[Literal["from", "to"], int] = Field(description="Number of targets")
    several: bool = Field(description="Whether selectors of several targets are permitted")
    lasts: bool = Field(description="Whether it is in force until it is ended; false: it ends at once")
    options: dict[str, Any] = Field(description="JSON schema")


class Healed(BaseModel):
    """Remaining problems after healing."""

    started: dict[str, str] = Field(description='{node: "ready", "died" or "late"}')
    in_force: list[Fault]


class Happened(BaseModel):
    """`fault`: a fault began or ended. `t`: seconds since the server started."""

    id: int
    fault: str
    phase: Literal["begin", "end"]
    targets: list[str]
    lossy: bool
    story: str
    t: float
    timestamp_ms: int


class NotEnded(BaseModel):
    """`failure`: a fault that could not be ended automatically."""

    id: int
    fault: str
    targets: list[str]
    story: str
    failure: str
    timestamp_ms: int


class Printed(BaseModel):
    """`output`: a line that a run printed."""

    id: int
    number: int
    line: str


class Cell(BaseModel):
    """A cell of a scenario's matrix."""

    name: str
    title: str
    seconds: float


class Shipped(BaseModel):
    """A scenario."""

    name: str
    title: str
    cells: list[Cell]


class ScenarioState(BaseModel):
    """A run of a scenario."""

    id: int
    scenario: str
    seed: int
    began_ms: int
    state: State
    exit_code: int | None
    folder: str


class ScenarioChanged(ScenarioState):
    """`scenario`: a run began or ended."""

    timestamp_ms: int


class ScenarioDetail(ScenarioState):
    """A run with its output and the checker's verdict."""

    output: list[str] = Field(description="The last lines")
    lines: int = Field(description="Number of output lines")
    verdicts: dict[str, Any] = Field(
        description="{cell: verdict of `kvorum chaos check` on its history; `error`: why there is none}. Times are "
        "seconds since the cell began: `t` of a violation, `begin` and `end` of a fault; `figures.pace` has how many "
        "operations ended `ok`, `fail` and `info` (unknown) in each `width` seconds"
    )
