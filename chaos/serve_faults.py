"""Which faults the HTTP interface takes, what each needs to know, and how it is done: a table.

Targets are names: a node ("node-1"), one of its processes ("node-1/broker"), and for links also "clients", "brokers",
"controllers".
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from kvorum.chaos.faults.cuts import NotThisNetwork
from kvorum.chaos.faults.disk_damage import NothingToDamage
from kvorum.chaos.faults.disks import NoSmallDisk
from kvorum.chaos.faults.events import Injected
from kvorum.chaos.faults.links import LinkFaultError
from kvorum.chaos.faults.toxiproxy import ToxiproxyError
from kvorum.chaos.inside import InsideError
from kvorum.chaos.served import Served
from kvorum.cluster.local import ClusterError

TARGETS_MAX: Final = 64
Needs: TypeAlias = Literal["processes", "disks", "clocks", "links", "inside"]


class Strict(BaseModel):
    """Refuses what it does not know."""

    model_config = ConfigDict(extra="forbid", strict=True)


class NoOptions(Strict):
    """Nothing more to say."""


class FlipOptions(Strict):
    """Where bits are flipped."""

    what: str = Field(description='A partition ("orders-0"), or "journal" for the controller\'s')
    count: int = Field(1, ge=1, le=1000)
    position: int | None = Field(None, ge=0)


class ClockOptions(Strict):
    """How far off the clock is."""

    offset_ms: int = Field(ge=-(10**12), le=10**12)


class CutOptions(Strict):
    """What a cut is made of."""

    kind: Literal["black_hole", "refuse", "freeze", "drop"] | None = None


class IsolateOptions(CutOptions):
    """From whom."""

    clients: bool = True


class SlowOptions(Strict):
    """How slow."""

    latency_ms: int = Field(ge=1, le=600_000)
    jitter_ms: int = Field(0, ge=0, le=600_000)


class LinkOptions(Strict):
    """Any fault of links by its own name and attributes."""

    kind: str
    one_way: bool = False
    share: float = Field(1.0, gt=0, le=1)
    attributes: dict[str, int] = Field(default_factory=dict)


class InsideOptions(Strict):
    """Which requests are meant."""

    api: str | int
    count: int | None = Field(None, ge=1, description="The next so many; unset: until it ends")
    client_id: str | None = None
    listener: str | None = None


class ErrorOptions(InsideOptions):
    """What they are answered."""

    code: str | int
    at_top: bool = False


class DelayOptions(InsideOptions):
    """How late they are answered."""

    delay_ms: int = Field(ge=1, le=600_000)


class DropOptions(InsideOptions):
    """How they are not answered."""

    silent: bool = False
    handled: bool = False


class RefuseOptions(Strict):
    """Which address is closed."""

    listener: str
    cut: bool = False


class FailpointOptions(Strict):
    """What is armed."""

    arm: str


class CannotDo(Exception):
    """A fault that cannot be as it was asked for."""


class NotHere(Exception):
    """A fault that this cluster, as it was made, cannot have."""


Do: TypeAlias = Callable[[Served, Sequence[str], Any], Injected | None]
"""Begins the fault; None: it is over at once."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One fault that can be asked for."""

    needs: Needs
    about: str
    """What it does, for people."""
    do: Do
    options: type[Strict] = NoOptions
    targets: tuple[int, int] = (1, 1)
    """How many, from and to."""


def _kill(served: Served, targets: Sequence[str], options: NoOptions) -> Injected:
    name, _, role = targets[0].partition("/")
    return served.processes.kill(name, (role,) if role else (), f"kill -9 {targets[0]}")


def _terminate(served: Served, targets: Sequence[str], options: NoOptions) -> Injected:
    return served.processes.terminate(targets[0])


def _pause(served: Served, targets: Sequence[str], options: NoOptions) -> Injected:
    name, _, role = targets[0].partition("/")
    return served.processes.pause(name, (role,) if role else ())


def _restart(served: Served, targets: Sequence[str], options: NoOptions) -> None:
    served.processes.restart(targets[0])


def _kill_all(served: Served, targets: Sequence[str], options: NoOptions) -> Injected:
    return served.processes.kill_all()


def _wipe(served: Served, targets: Sequence[str], options: NoOptions) -> Injected:
    name, _, role = targets[0].partition("/")
    return served.disks.wipe(name, (role,) if role else ())


def _lose_tail(served: Served, targets: Sequence[str], options: NoOptions) -> Injected:
    return served.disks.lose_tail(targets)


def _flip_bits(served: Served, targets: Sequence[str], options: FlipOptions) -> None:
    served.disks.flip_bits(targets[0], options.what, options.count, options.position)


def _disk_full(served: Served, targets: Sequence[str], options: NoOptions) -> Injected:
    return served.disks.fill(targets[0])


def _read_only(served: Served, targets: Sequence[str], options: NoOptions) -> Injected:
    return served.disks.read_only(targets[0])


def _jump_clock(served: Served, targets: Sequence[str], options: ClockOptions) -> Injected:
    name, offset_ms = targets[0], options.offset_ms
    if name not in served.clocks:
        raise NotHere(f"{name} was started without a clock of its own: make the cluster with --create")
    clock = served.clocks[name]
    story = f"the clock of {name} is {abs(offset_ms)} ms {'ahead' if offset_ms >= 0 else 'behind'}"
    return served.register.begin(
        "clock_jump", [name], story, do=lambda: clock.set(offset_ms), undo=lambda: clock.set(0)
    )


def _between(
    served: Served, targets: Sequence[str], kind: str | None, one_way: bool, attributes: Mapping[str, int], share: float
) -> Injected:
    if served.cuts is None:
        raise NotHere("this cluster was made without proxies on its links: make one with --create")
    a, b = targets
    return served.cuts.between(kind or served.cuts.cut_kind, a, b, one_way=one_way, share=share, attributes=attributes)


def _cut(served: Served, targets: Sequence[str], options: CutOptions, *, one_way: bool) -> Injected:
    return _between(served, targets, options.kind, one_way, {}, 1.0)


def _isolate(served: Served, targets: Sequence[str], options: IsolateOptions) -> Injected:
    if served.cuts is None:
        raise NotHere("this cluster was made without proxies on its links: make one with --create")
    return served.cuts.isolate(targets[0], options.kind or served.cuts.cut_kind, clients=options.clients)


def _slow(served: Served, targets: Sequence[str], options: SlowOptions) -> Injected:
    attributes = {"latency": options.latency_ms, "jitter": options.jitter_ms}
    return _between(served, targets, "latency", False, attributes, 1.0)


def _link(served: Served, targets: Sequence[str], options: LinkOptions) -> Injected:
    return _between(served, targets, options.kind, options.one_way, options.attributes, options.share)


def _error(served: Served, targets: Sequence[str], options: ErrorOptions) -> Injected:
    more = options.model_dump(include={"client_id", "listener", "at_top"})
    return served.inside.error(targets[0], options.api, options.code, count=options.count, **more)


def _delay(served: Served, targets: Sequence[str], options: DelayOptions) -> Injected:
    more = options.model_dump(include={"client_id", "listener"})
    return served.inside.delay(targets[0], options.api, options.delay_ms, count=options.count, **more)


def _drop(served: Served, targets: Sequence[str], options: DropOptions) -> Injected:
    more = options.model_dump(include={"client_id", "listener", "silent", "handled"})
    return served.inside.drop(targets[0], options.api, count=options.count, **more)


def _refuse(served: Served, targets: Sequence[str], options: RefuseOptions) -> Injected:
    return served.inside.refuse(targets[0], options.listener, cut=options.cut)


def _failpoints(served: Served, targets: Sequence[str], options: FailpointOptions) -> Injected:
    return served.inside.failpoints(targets[0], options.arm)


KINDS: Final[Mapping[str, Kind]] = {
    "kill": Kind(
        "processes",
        "kill -9 of a node or one process; it is down until it is started (a process comes back by itself)",
        _kill,
    ),
    "terminate": Kind("processes", "Shut a node down in order; down until it is started", _terminate),
    "pause": Kind("processes", "SIGSTOP of a node or one process: alive, connected, and silent", _pause),
    "restart": Kind("processes", "Shut a node down in order and start it again", _restart),
    "kill_all": Kind(
        "processes", "kill -9 of every node at once: the power cut of the whole machine room", _kill_all, targets=(0, 0)
    ),
    "wipe": Kind("disks", "kill -9, and its directories are emptied: a disk that was replaced", _wipe),
    "lose_tail": Kind(
        "disks",
        "kill -9, and what was not synced is cut off its logs: a power loss",
        _lose_tail,
        targets=(1, TARGETS_MAX),
    ),
    "flip_bits": Kind("disks", "Bits of what lies on the disk are flipped", _flip_bits, FlipOptions),
    "disk_full": Kind("disks", "Writes find no room", _disk_full),
    "read_only": Kind("disks", "Writes are refused", _read_only),
    "clock_jump": Kind("clocks", "The wall clock of a node is off by so much", _jump_clock, ClockOptions),
    "cut": Kind("links", "Nothing passes between two, either way", partial(_cut, one_way=False), CutOptions, (2, 2)),
    "cut_one_way": Kind(
        "links", "Nothing passes from the first to the second", partial(_cut, one_way=True), CutOptions, (2, 2)
    ),
    "isolate": Kind("links", "A node is cut off from everybody", _isolate, IsolateOptions),
    "slow": Kind("links", "Everything between two takes so much longer, each way", _slow, SlowOptions, (2, 2)),
    "link": Kind("links", "Any fault of a link by its own name, as Toxiproxy has it", _link, LinkOptions, (2, 2)),
    "error": Kind("inside", "Requests of an API are refused with a code", _error, ErrorOptions),
    "delay": Kind("inside", "Requests of an API are answered late", _delay, DelayOptions),
    "drop": Kind("inside", "Requests of an API are not answered", _drop, DropOptions),
    "refuse_listener": Kind("inside", "A listener refuses connections while its process lives", _refuse, RefuseOptions),
    "failpoints": Kind(
        "inside", "The process dies at a step of its own: log.append.after=kill", _failpoints, FailpointOptions
    ),
}


def begin(served: Served, fault: str, targets: Sequence[str], options: Strict) -> Injected | None:
    """Begin a fault; None where it is over already. Raises CannotDo (the request is wrong), NotHere, NotStarted."""
    kind = KINDS[fault]
    first, last = kind.targets
    if not first <= len(targets) <= last:
        wanted = str(first) if first == last else f"{first} to {last}"
        raise CannotDo(f"{fault} takes {wanted} targets, not {len(targets)}")
    if len(set(targets)) < len(targets):
        raise CannotDo("a target is named twice")
    if kind.needs not in ("links", "inside"):
        _check_names(served, targets)
    try:
        return kind.do(served, targets, options)
    except (NotThisNetwork, NoSmallDisk) as error:
        raise NotHere(str(error)) from error
    except (ClusterError, ValueError, InsideError, LinkFaultError, ToxiproxyError, NothingToDamage, OSError) as error:
        raise CannotDo(str(error)) from error


def _check_names(served: Served, targets: Sequence[str]) -> None:
    """A node that there is, and a process that it has."""
    roles = {node.name: node.roles for node in served.cluster.plan.nodes}
    for target in targets:
        name, slash, role = target.partition("/")
        if name not in roles or (slash and role not in roles[name]):
            raise CannotDo(f"there is no {target!r}; there are {', '.join(roles)}, each with /broker, /controller")
