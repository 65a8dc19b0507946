"""Table of the faults of the HTTP interface: targets, options, implementation.

Targets are names: a node ("node-1"), one of its processes ("node-1/broker"), and for links also "clients", "brokers",
"controllers"; or selectors, resolved when the fault begins (serve_targets). A selector may resolve to several.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any, Final, Literal, TypeAlias

from kvorum.chaos.faults.cuts import NotThisNetwork
from kvorum.chaos.faults.disk_damage import NothingToDamage
from kvorum.chaos.faults.disks import NoSmallDisk
from kvorum.chaos.faults.events import Injected
from kvorum.chaos.faults.inside import InsideError
from kvorum.chaos.faults.links import LinkFaultError
from kvorum.chaos.faults.toxiproxy import ToxiproxyError
from kvorum.chaos.scenario.targets import UnknownTarget
from kvorum.chaos.serve.options import (
    BelowMinOptions,
    ClockOptions,
    ControllerOptions,
    CutOptions,
    DelayOptions,
    DropOptions,
    ErrorOptions,
    FailpointOptions,
    FlipOptions,
    IsolateOptions,
    LinkOptions,
    NoOptions,
    RefuseOptions,
    SlowDiskOptions,
    SlowOptions,
    Strict,
)
from kvorum.chaos.serve.served import Served
from kvorum.chaos.serve.targets import SEPARATOR, View, resolved
from kvorum.cluster.local.local import ClusterError

TARGETS_MAX: Final = 64
Needs: TypeAlias = Literal["processes", "disks", "small_disks", "clocks", "links", "inside"]
Of: TypeAlias = Literal["nodes", "processes", "parties", "partitions"]
"""Kind of targets: whole nodes; also processes; ends of a link; partitions."""
LACKING: Final[Mapping[str, str]] = {
    "small_disks": "no node of this cluster has a small disk: create one with --create --small-disk",
    "clocks": "the nodes of this cluster have no separate clocks: create one with --create",
    "links": "the links of this cluster have no proxies: create one with --create",
    "inside": "this cluster has no control listeners: create one with --create, or set kvorum.chaos.listener",
}


class CannotDo(Exception):
    """A fault that is not possible as requested."""


class NotHere(Exception):
    """A fault that the cluster does not support because of its creation options."""


@dataclass(frozen=True, slots=True)
class Scene:
    """A fault's target or probability."""

    served: Served
    rng: Random


Do: TypeAlias = Callable[[Scene, Sequence[str], Any], Injected | None]
"""Begins the fault; None: it is over at once."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault."""

    needs: Needs
    about: str
    """Its effect, for people."""
    do: Do
    options: type[Strict] = NoOptions
    targets: tuple[int, int] = (1, 1)
    """Minimum and maximum number of targets."""
    of: Of = "nodes"
    several: bool = True
    """Whether one target may mean several."""
    lasts: bool = True
    """It is in force until it is ended."""


def _kill(scene: Scene, targets: Sequence[str], options: NoOptions) -> Injected:
    names = split(targets[0])
    story = f"kill -9 {', '.join(names)}"
    if len(names) > 1:
        return scene.served.processes.kill_several(names, story)
    name, _, role = names[0].partition("/")
    return scene.served.processes.kill(name, (role,) if role else (), story)


def _kill_controller(scene: Scene, targets: Sequence[str], options: ControllerOptions) -> Injected:
    name = View(scene.served).active_controller()
    roles = ("controller",) if options.process else ()
    story = f"kill -9 {name}{'/controller' if options.process else ''}, the active controller"
    return scene.served.processes.kill(name, roles, story)


def _below_min(scene: Scene, targets: Sequence[str], options: BelowMinOptions) -> Injected:
    """Remove as many followers from the ISR as necessary. The leader continues and rejects acks=all."""
    partition, view = targets[0], View(scene.served)
    found, minimum = view.partition(partition), view.min_isr(partition.rpartition("-")[0])
    leader = view.leader_of(*topic_partition(partition))
    followers = [name for name in map(view.name_of, found.isr) if name != leader]
    surplus = len(found.isr) - (minimum - 1)
    if minimum < 2:
        raise CannotDo(f"min.insync.replicas of {partition} is {minimum}: the ISR cannot shrink below it")
    if surplus <= 0:
        raise CannotDo(f"{partition} has {len(found.isr)} in-sync replicas, already fewer than {minimum}")
    chosen = sorted(scene.rng.sample(followers, surplus))
    story = f"{partition} falls below min.insync.replicas {minimum}: {', '.join(chosen)} stop following {leader}"
    if options.how == "kill":
        return scene.served.processes.kill_several(chosen, story)
    return scene.served.processes.pause_several([f"{name}/broker" for name in chosen], story)


def _terminate(scene: Scene, targets: Sequence[str], options: NoOptions) -> Injected:
    return scene.served.processes.terminate(*split(targets[0]))


def _pause(scene: Scene, targets: Sequence[str], options: NoOptions) -> Injected:
    return scene.served.processes.pause_several(split(targets[0]))


def _restart(scene: Scene, targets: Sequence[str], options: NoOptions) -> None:
    scene.served.processes.restart(*split(targets[0]))


def _kill_all(scene: Scene, targets: Sequence[str], options: NoOptions) -> Injected:
    return scene.served.processes.kill_all()


def _wipe(scene: Scene, targets: Sequence[str], options: NoOptions) -> Injected:
    name, _, role = targets[0].partition("/")
    return scene.served.disks.wipe(name, (role,) if role else ())


def _lose_tail(scene: Scene, targets: Sequence[str], options: NoOptions) -> Injected:
    return scene.served.disks.lose_tail([name for each in targets for name in split(each)])


def _flip_bits(scene: Scene, targets: Sequence[str], options: FlipOptions) -> None:
    disks = replace(scene.served.disks, rng=scene.rng)
    disks.flip_bits(targets[0], options.what, options.count, options.position)


def _disk_full(scene: Scene, targets: Sequence[str], options: NoOptions) -> Injected:
    return scene.served.disks.fill(targets[0])


def _read_only(scene: Scene, targets: Sequence[str], options: NoOptions) -> Injected:
    return scene.served.disks.read_only(targets[0])


def _slow_disk(scene: Scene, targets: Sequence[str], options: SlowDiskOptions) -> Injected:
    what = {"both": "a write or a sync", "writes": "a write", "syncs": "a sync"}[options.what]
    story = f"takes {options.delay_ms} ms longer for {what}"
    return scene.served.inside.slow_disk(targets[0], options.arm(), story)


def _jump_clock(scene: Scene, targets: Sequence[str], options: ClockOptions) -> Injected:
    names, offset_ms = split(targets[0]), options.offset_ms
    clocks = [scene.served.clocks[name] for name in names]
    story = f"the clock of {', '.join(names)} is {abs(offset_ms)} ms {'ahead' if offset_ms >= 0 else 'behind'}"

    def put(value: int) -> None:
        for clock in clocks:
            clock.set(value)

    return scene.served.register.begin("clock_jump", names, story, do=lambda: put(offset_ms), undo=lambda: put(0))


def _between(
    scene: Scene, targets: Sequence[str], kind: str | None, one_way: bool, attributes: Mapping[str, int], share: float
) -> Injected:
    cuts = scene.served.cuts
    assert cuts is not None, "it was looked at before"
    a, b = targets
    return cuts.between(kind or cuts.cut_kind, a, b, one_way=one_way, share=share, attributes=attributes)


def _cut(scene: Scene, targets: Sequence[str], options: CutOptions, *, one_way: bool) -> Injected:
    return _between(scene, targets, options.kind, one_way, {}, 1.0)


def _isolate(scene: Scene, targets: Sequence[str], options: IsolateOptions) -> Injected:
    cuts = scene.served.cuts
    assert cuts is not None, "it was looked at before"
    return cuts.isolate(targets[0], options.kind or cuts.cut_kind, clients=options.clients)


def _slow(scene: Scene, targets: Sequence[str], options: SlowOptions) -> Injected:
    attributes = {"latency": options.latency_ms, "jitter": options.jitter_ms}
    return _between(scene, targets, "latency", False, attributes, 1.0)


def _link(scene: Scene, targets: Sequence[str], options: LinkOptions) -> Injected:
    return _between(scene, targets, options.kind, options.one_way, options.attributes, options.share)


def _error(scene: Scene, targets: Sequence[str], options: ErrorOptions) -> Injected:
    more = options.model_dump(include={"client_id", "listener", "at_top"})
    return scene.served.inside.error(targets[0], options.api, options.code, count=options.count, **more)


def _delay(scene: Scene, targets: Sequence[str], options: DelayOptions) -> Injected:
    more = options.model_dump(include={"client_id", "listener"})
    return scene.served.inside.delay(targets[0], options.api, options.delay_ms, count=options.count, **more)


def _drop(scene: Scene, targets: Sequence[str], options: DropOptions) -> Injected:
    more = options.model_dump(include={"client_id", "listener", "silent", "handled"})
    return scene.served.inside.drop(targets[0], options.api, count=options.count, **more)


def _refuse(scene: Scene, targets: Sequence[str], options: RefuseOptions) -> Injected:
    return scene.served.inside.refuse(targets[0], options.listener, cut=options.cut)


def _failpoints(scene: Scene, targets: Sequence[str], options: FailpointOptions) -> Injected:
    return scene.served.inside.failpoints(targets[0], options.arm)


inside = partial(Kind, "inside", of="processes")
link = partial(Kind, "links", of="parties", targets=(2, 2))
KINDS: Final[Mapping[str, Kind]] = {
    "kill": Kind(
        "processes",
        "Kills a node or process with SIGKILL. A node stays down until it is started; a process restarts",
        _kill,
        of="processes",
    ),
    "controller_kill": Kind(
        "processes", "Kills the node of the active controller with SIGKILL", _kill_controller, ControllerOptions, (0, 0)
    ),
    "isr_below_min": Kind(
        "processes",
        "Stops followers of a partition until fewer replicas are in sync than min.insync.replicas",
        _below_min,
        BelowMinOptions,
        of="partitions",
    ),
    "terminate": Kind("processes", "Shuts a node down in order. It stays down until it is started", _terminate),
    "pause": Kind(
        "processes", "Pauses a node or process with SIGSTOP: it stays connected and silent", _pause, of="processes"
    ),
    "restart": Kind("processes", "Shuts a node down in order and starts it again", _restart, lasts=False),
    "kill_all": Kind(
        "processes", "Kills all nodes at once with SIGKILL, as a power failure does", _kill_all, targets=(0, 0)
    ),
    "wipe": Kind(
        "disks",
        "Kills a node or process with SIGKILL and empties its directories, as a replaced disk does",
        _wipe,
        of="processes",
        several=False,
    ),
    "lose_tail": Kind(
        "disks",
        "Kills nodes with SIGKILL and truncates unsynced data, as a power loss does",
        _lose_tail,
        targets=(1, TARGETS_MAX),
    ),
    "flip_bits": Kind("disks", "Flips bits in files on disk", _flip_bits, FlipOptions, several=False, lasts=False),
    "slow_disk": inside("Slows down writes or syncs of a disk", _slow_disk, SlowDiskOptions),
    "disk_full": Kind("small_disks", "Writes fail because the disk is full", _disk_full, several=False),
    "read_only": Kind("small_disks", "Writes fail because the disk is read-only", _read_only, several=False),
    "clock_jump": Kind("clocks", "Shifts the wall clock of a node", _jump_clock, ClockOptions),
    "cut": link("Blocks all traffic between two ends, in both directions", partial(_cut, one_way=False), CutOptions),
    "cut_one_way": link("Blocks all traffic from the first end to the second", partial(_cut, one_way=True), CutOptions),
    "isolate": link("Blocks all traffic of a node", _isolate, IsolateOptions, targets=(1, 1)),
    "slow": link("Adds latency between two ends, in both directions", _slow, SlowOptions),
    "link": link("Any fault of a link, by its name in Toxiproxy", _link, LinkOptions),
    "error": inside("Rejects requests of an API with an error code", _error, ErrorOptions),
    "delay": inside("Delays responses of an API", _delay, DelayOptions),
    "drop": inside("Drops requests of an API without a response", _drop, DropOptions),
    "refuse_listener": inside("A listener refuses connections while its process runs", _refuse, RefuseOptions),
    "failpoints": inside("Kills the process at a failpoint: log.append.after=kill", _failpoints, FailpointOptions),
}


def possible(served: Served, kind: Kind) -> bool:
    """Return whether the cluster, as created, supports such a fault."""
    lacking = {
        "small_disks": not served.disks.small,
        "clocks": not served.clocks,
        "links": served.cuts is None,
        "inside": not served.inside.doors,
    }
    return not lacking.get(kind.needs, False)


def split(target: str) -> list[str]:
    """Return the names of a target."""
    return target.split(SEPARATOR)


def topic_partition(name: str) -> tuple[str, int]:
    """Return topic and partition of a name like "orders-0". Raises CannotDo."""
    topic, _, number = name.rpartition("-")
    if not topic or not number.isdecimal():
        raise CannotDo(f"{name!r} is not a partition (TOPIC-NUMBER)")
    return topic, int(number)


def named(scene: Scene, fault: str, targets: Sequence[str]) -> list[str]:
    """Resolve the targets to names; the names of one target are joined. Raises CannotDo, NotHere, NotNow."""
    kind = KINDS[fault]
    if not possible(scene.served, kind):
        raise NotHere(LACKING[kind.needs])
    first, last = kind.targets
    if not first <= len(targets) <= last:
        wanted = str(first) if first == last else f"{first} to {last}"
        raise CannotDo(f"{fault} needs {wanted} targets, not {len(targets)}")
    if kind.of == "partitions":
        return ["-".join(map(str, topic_partition(each))) for each in targets]
    try:
        found = [resolved(scene.served, each, scene.rng) for each in targets]
    except UnknownTarget as error:
        raise CannotDo(str(error)) from error
    every = [name for names in found for name in names]
    if len(set(every)) < len(every):
        raise CannotDo("duplicate target")
    for target, names in zip(targets, found, strict=True):
        if len(names) > 1 and not kind.several:
            raise CannotDo(f"{fault} needs a single target, but {target!r} resolves to {', '.join(names)}")
    if kind.of in ("nodes", "processes") and kind.needs != "inside":
        _check_names(scene.served, fault, kind, every)
    return [SEPARATOR.join(names) for names in found]


def _check_names(served: Served, fault: str, kind: Kind, names: Sequence[str]) -> None:
    """Check that nodes and processes exist. Raises CannotDo."""
    roles = {node.name: node.roles for node in served.cluster.plan.nodes}
    for target in names:
        name, slash, role = target.partition("/")
        if name not in roles or (slash and role not in roles[name]):
            raise CannotDo(f"{target!r} does not exist; nodes: {', '.join(roles)} (with /broker, /controller)")
        if slash and kind.of == "nodes":
            raise CannotDo(f"{fault} applies to whole nodes: use {name}, not {target}")
    if len({"/" in name for name in names}) > 1:
        raise CannotDo("give nodes or processes, not both")


def is_over_at_once(fault: str, targets: Sequence[str], options: Strict) -> bool:
    """Return whether a fault is instantaneous: it cannot be ended."""
    killed = fault == "kill" and any("/" in each for each in targets)
    return not KINDS[fault].lasts or killed or (isinstance(options, ControllerOptions) and options.process)


def begin(scene: Scene, fault: str, targets: Sequence[str], options: Strict) -> Injected | None:
    """Start a fault of `named` targets; return None if it has already ended and got no number.

    Raises CannotDo (the request is wrong), NotHere, NotNow, NotStarted.
    """
    try:
        return KINDS[fault].do(scene, targets, options)
    except (NotThisNetwork, NoSmallDisk) as error:
        raise NotHere(str(error)) from error
    except (ClusterError, ValueError, InsideError, LinkFaultError, ToxiproxyError, NothingToDamage, OSError) as error:
        raise CannotDo(str(error)) from error
