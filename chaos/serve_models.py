"""Models of the requests and responses of `kvorum chaos serve`."""

from typing import Any, Literal

from pydantic import BaseModel, Field

from kvorum.chaos.serve_faults import KINDS, TARGETS_MAX, Needs, Of
from kvorum.chaos.serve_options import Strict
from kvorum.chaos.serve_scenarios import State

SECONDS_MAX = 86_400


class FaultRequest(Strict):
    """A fault to begin."""

    fault: str = Field(json_schema_extra={"enum": list(KINDS)})
    targets: list[str] = Field(
        default_factory=list,
        max_length=TARGETS_MAX,
        description="Names, or words: node-1, node-1/broker, clients, brokers; active-controller, leader orders-0, "
        "followers orders-0, coordinator GROUP, random",
        examples=[["node-1"], ["leader orders-0/broker"]],
    )
    options: dict[str, object] = Field(default_factory=dict, description="What GET /v1/chaos/kinds says of the fault")
    seconds: float | None = Field(None, gt=0, le=SECONDS_MAX, description="It ends by itself after so long")
    seed: int | None = Field(None, ge=0, lt=2**63, description="Of what is left to chance; one is drawn if left out")


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
    fault: str = Field(description="What it is made of: a slow link is a `latency`")
    targets: list[str]
    lossy: bool = Field(description="Records may be lost by it")
    story: str
    ends_ms: int | None = Field(None, description="When it ends by itself")
    failure: str | None = Field(None, description="Why it did not end when it was to: it is in force still")


class Begun(BaseModel):
    """Result of a fault request."""

    id: int | None = Field(description="null: it was over at once, and has no number")
    fault: str
    targets: list[str] = Field(description="By name, whatever words stood for them")
    lossy: bool = False
    story: str = ""
    ends_ms: int | None = None
    in_force: bool
    seed: int | None = Field(None, description="Of the chance it had: the same again makes the same choice")


class Process(BaseModel):
    """A process that lives."""

    pid: int
    stopped: bool


class Node(BaseModel):
    """A node, as it is."""

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
    """The cluster that may be broken."""

    cluster_id: str
    folder: str
    bootstrap: str
    nodes: list[Node]
    links: list[Link]
    faults: list[Fault]
    inside: dict[str, dict[str, Any] | None] = Field(
        description="Of each process that has a control listener what is in force inside; null: it does not answer"
    )
    ailments: list[str] | None = Field(description="What is not as it should be; null: nobody asked for it")


class FaultKind(BaseModel):
    """A fault there is."""

    fault: str
    about: str
    needs: Needs
    possible: bool = Field(description="This cluster, as it was made, can have it")
    lacking: str | None = Field(description="Why it cannot")
    of: Of = Field(description="What its targets are: nodes; processes, too; ends of links; partitions")
    targets: dict[Literal["from", "to"], int] = Field(description="How many targets it takes")
    several: bool = Field(description="Words that stand for several are fine")
    lasts: bool = Field(description="It is in force until it is ended; false: it is over at once")
    options: dict[str, Any] = Field(description="JSON schema")


class Healed(BaseModel):
    """Remaining problems after healing."""

    started: dict[str, str] = Field(description='{node: "ready", "died" or "late"}')
    in_force: list[Fault]


class Happened(BaseModel):
    """`fault`: one began or ended. `t`: seconds since the server started."""

    id: int
    fault: str
    phase: Literal["begin", "end"]
    targets: list[str]
    lossy: bool
    story: str
    t: float
    timestamp_ms: int


class NotEnded(BaseModel):
    """`failure`: a fault that was to end by itself and could not."""

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
    """One way in which a scenario is run."""

    name: str
    title: str
    seconds: float


class Shipped(BaseModel):
    """A scenario there is."""

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


class ScenarioTold(ScenarioState):
    """`scenario`: a run began or ended."""

    timestamp_ms: int


class ScenarioDetail(ScenarioState):
    """The same with what it printed, and what the checker says of it."""

    output: list[str] = Field(description="The last lines")
    lines: int = Field(description="All that it printed")
    verdicts: dict[str, Any] = Field(
        description="{cell: what `kvorum chaos check` says of its history; `error`: why it says nothing}. Times are "
        "seconds since the cell began: `t` of a violation, `begin` and `end` of a fault; `figures.pace` has how many "
        "operations ended `ok`, `fail` and `info` (nobody knows) in each `width` seconds"
    )
