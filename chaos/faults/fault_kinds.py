"""The table of faults: name, title, targets, options, what a fault stops, how it is injected and ended.

Scenario files, `kvorum chaos serve`, the pytest fixture, the console and docs/chaos.md (generated) read it: a row makes
a fault available in all of them. Names are those of HTTP; scenario files write them with dashes (`kill-all`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any, Final, Literal, TypeAlias

from kvorum.chaos.faults.events import ActiveFault, FaultError
from kvorum.chaos.faults.fault_options import (
    BandwidthOptions,
    BelowMinOptions,
    ClockOptions,
    ConnectionOptions,
    ControllerOptions,
    CutOptions,
    DelayOptions,
    DirectoryOptions,
    DropOptions,
    ErrorOptions,
    ExpireOptions,
    FailpointOptions,
    FaultOptions,
    FlipOptions,
    IsolateOptions,
    LatencyOptions,
    LinkFaultOptions,
    LinkOptions,
    NoOptions,
    RefuseOptions,
    SlowDiskOptions,
    SlowOptions,
)
from kvorum.chaos.faults.link_faults import LINK_KINDS
from kvorum.chaos.faults.target_cluster import TargetCluster

TARGETS_MAX: Final = 64
SEPARATOR: Final = ","
"""Separator of the names in one target."""

Needs: TypeAlias = Literal[
    "processes", "disks", "small_disks", "directories", "clocks", "links", "inside", "certificates", "issuer"
]
TargetKind: TypeAlias = Literal["nodes", "processes", "parties", "partitions"]
"""Whole nodes; also processes; ends of a link; partitions."""
Stops: TypeAlias = Literal["nodes", "processes", "traffic", "requests", "writes", "replication", "nothing"]
Ends: TypeAlias = Literal["start", "end", "at once"]
"""With the start of its nodes; with its own end; it is over when it is done."""

GROUPS: Final[dict[Needs, str]] = {
    "processes": "Processes",
    "disks": "Disks",
    "small_disks": "Disks of limited size",
    "directories": "Log directories",
    "clocks": "Clocks",
    "links": "Network",
    "inside": "Requests and failpoints",
    "certificates": "Certificates",
    "issuer": "Issuer of bearer tokens",
}
"""Titles of the kinds with the same needs."""


LACKING: Final[dict[Needs, str]] = {
    "small_disks": "no node of this cluster has a small disk: create one with --create --small-disk",
    "directories": "the brokers of this cluster have one log directory each: set several in log.dirs",
    "clocks": "the nodes of this cluster have no separate clocks: create one with --create",
    "links": "the links of this cluster have no proxies: create one with --create",
    "inside": "this cluster has no control listeners: create one with --create, or set kvorum.chaos.listener",
    "certificates": "this cluster has no CA of Kvorum: create it with --create --secure, or with kvorum dev --secure",
    "issuer": "this cluster has no token issuer of the lab: a scenario has one with mechanism: OAUTHBEARER",
}
"""Why a cluster does not support them."""


@dataclass(frozen=True, slots=True)
class Injection:
    """The cluster and the targets of one fault."""

    cluster: TargetCluster
    targets: Sequence[str]
    """The names of one target are joined by SEPARATOR."""
    rng: Random
    story: str = ""
    """Replaces that of a kill or pause."""

    @property
    def names(self) -> list[str]:
        """All names of all targets."""
        return [name for target in self.targets for name in target.split(SEPARATOR)]


@dataclass(frozen=True, slots=True)
class FaultKind:
    """A row of the table."""

    name: str
    title: str
    about: str
    """Its effect, for people."""
    inject: Callable[[Injection, Any], ActiveFault | None]
    """Begins the fault. The result ends it, by undoing it or by a start of its nodes; None: it is over at once."""
    needs: Needs = "processes"
    options: type[FaultOptions] = NoOptions
    stops: Stops = "nothing"
    ends: Ends = "end"
    of: TargetKind = "nodes"
    targets: tuple[int, int] = (1, 1)
    """Minimum and maximum number of targets."""
    several: bool = True
    """Whether one target may mean several names."""
    is_drawn: bool = False
    """Random schedules may draw it."""

    @property
    def verb(self) -> str:
        """Its name in scenario files."""
        return self.name.replace("_", "-")

    def check_count(self, targets: Sequence[str]) -> None:
        """Check the number of targets. Raises FaultError."""
        first, last = self.targets
        if not first <= len(targets) <= last:
            wanted = str(first) if first == last else f"{first} to {last}"
            raise FaultError(f"{self.name} needs {wanted} targets, not {len(targets)}")

    def why_unsupported(self, cluster: TargetCluster) -> str | None:
        """Return why the cluster, as created, does not support such a fault; None if it does."""
        links = cluster.links.kinds
        has_directories = any("," in node.properties.get("log.dirs", "") for node in cluster.cluster.plan.nodes)
        means: dict[Needs, object] = {
            "small_disks": cluster.disks.small,
            "directories": has_directories,
            "clocks": cluster.clocks.nodes,
            "links": links,
            "inside": cluster.inside.listeners,
            "certificates": cluster.security.certificates,
            "issuer": cluster.security.issuer,
        }
        if not means.get(self.needs, True):
            return LACKING[self.needs]
        if self.name in LINK_KINDS and self.needs == "links" and self.name not in links:
            return f"the network of this cluster supports only {', '.join(links)}"
        return None


def _kill_controller(at: Injection, options: ControllerOptions) -> ActiveFault:
    name = at.cluster.active_controller(0) + ("/controller" if options.process else "")
    return at.cluster.processes.kill(name, story=f"kill -9 {name}, the active controller")


def _shrink_isr(at: Injection, options: BelowMinOptions) -> ActiveFault:
    """Remove as many followers from the ISR as necessary. The leader continues and rejects acks=all."""
    (partition,), cluster = at.targets, at.cluster
    topic, _, number = partition.rpartition("-")
    found, minimum = cluster.partition(partition), cluster.min_isr(topic)
    leader = cluster.leader_of(topic, int(number), 0)
    followers = [name for name in map(cluster.name_of, found.isr) if name != leader]
    surplus = len(found.isr) - (minimum - 1)
    if minimum < 2:
        raise FaultError(f"min.insync.replicas of {partition} is {minimum}: the ISR cannot shrink below it")
    if surplus <= 0:
        raise FaultError(f"{partition} has {len(found.isr)} in-sync replicas, already fewer than {minimum}")
    chosen = sorted(at.rng.sample(followers, surplus))
    story = f"{partition} falls below min.insync.replicas {minimum}: {', '.join(chosen)} stop following {leader}"
    if options.how == "kill":
        return cluster.processes.kill(*chosen, story=story)
    return cluster.processes.pause(*(f"{name}/broker" for name in chosen), story=story)


def _flip_bits(at: Injection, options: FlipOptions) -> None:
    disks = replace(at.cluster.disks, rng=at.rng)
    disks.flip_bits(at.targets[0], options.what, options.count, options.position)


def _cut(at: Injection, options: CutOptions, *, one_way: bool) -> ActiveFault:
    a, b = at.targets
    return at.cluster.links.cut(a, b, options.kind, one_way=one_way)


def _link(at: Injection, options: LinkFaultOptions, kind: str) -> ActiveFault:
    a, b = at.targets
    return at.cluster.links.between(kind, a, b, **options.arguments())


def _raw(name: str, title: str, about: str, **more: Any) -> FaultKind:
    """Return the row of one of LINK_KINDS."""
    more = {"options": ConnectionOptions, "stops": "traffic", **more}
    return _link_kind(name, title, about, partial(_link, kind=name), **more)


_down = partial(FaultKind, stops="nodes", ends="start")
_directory = partial(FaultKind, needs="directories", options=DirectoryOptions, several=False)
_lost_directory = partial(_directory, stops="nodes", ends="start")
_link_kind = partial(FaultKind, needs="links", of="parties", targets=(2, 2))
_inside = partial(FaultKind, needs="inside", of="processes")
_small_disk = partial(FaultKind, needs="small_disks", stops="writes", several=False)

_ROWS: Final = (
    _down(
        "kill",
        "Kill (SIGKILL)",
        "Kills a node or process with SIGKILL. A node stays down until it is started; a process restarts",
        lambda at, _: at.cluster.processes.kill(*at.names, story=at.story),
        of="processes",
        is_drawn=True,
    ),
    _down(
        "controller_kill",
        "Kill the active controller",
        "Kills the node of the active controller with SIGKILL",
        _kill_controller,
        options=ControllerOptions,
        targets=(0, 0),
    ),
    FaultKind(
        "isr_below_min",
        "Shrink the ISR below min.insync.replicas",
        "Stops followers of a partition until fewer replicas are in sync than min.insync.replicas",
        _shrink_isr,
        options=BelowMinOptions,
        stops="replication",
        of="partitions",
    ),
    _down(
        "terminate",
        "Shut down (SIGTERM)",
        "Shuts a node down in order. It stays down until it is started",
        lambda at, _: at.cluster.processes.terminate(*at.names),
        is_drawn=True,
    ),
    FaultKind(
        "pause",
        "Pause (SIGSTOP)",
        "Pauses a node or process with SIGSTOP: it stays connected and silent",
        lambda at, _: at.cluster.processes.pause(*at.names, story=at.story),
        stops="nodes",
        of="processes",
        is_drawn=True,
    ),
    FaultKind(
        "restart",
        "Restart",
        "Shuts a node down in order and starts it again",
        lambda at, _: at.cluster.processes.restart(*at.names),
        stops="nodes",
        ends="at once",
        is_drawn=True,
    ),
    _down(
        "kill_all",
        "Kill all nodes",
        "Kills all nodes at once with SIGKILL, as a power failure does",
        lambda at, _: at.cluster.processes.kill_all(),
        targets=(0, 0),
        is_drawn=True,
    ),
    _down(
        "wipe",
        "Kill and wipe the disk",
        "Kills a node or process with SIGKILL and empties its directories, as a replaced disk does",
        lambda at, _: at.cluster.disks.wipe(at.targets[0]),
        needs="disks",
        of="processes",
        several=False,
    ),
    _down(
        "lose_tail",
        "Power loss: lose unsynced data",
        "Kills nodes with SIGKILL and truncates unsynced data, as a power loss does",
        lambda at, _: at.cluster.disks.lose_tail(at.names),
        needs="disks",
        targets=(1, TARGETS_MAX),
    ),
    FaultKind(
        "flip_bits",
        "Flip bits on disk",
        "Flips bits in files on disk",
        _flip_bits,
        needs="disks",
        options=FlipOptions,
        ends="at once",
        several=False,
    ),
    _inside(
        "slow_disk",
        "Slow disk",
        "Slows down writes or syncs of a disk",
        lambda at, options: at.cluster.inside.slow_disk(at.targets[0], options.failpoints(), options.story()),
        options=SlowDiskOptions,
    ),
    _small_disk(
        "disk_full",
        "Disk full",
        "Writes fail because the disk is full",
        lambda at, _: at.cluster.disks.fill(at.targets[0]),
    ),
    _small_disk(
        "read_only",
        "Read-only disk",
        "Writes fail because the disk is read-only",
        lambda at, _: at.cluster.disks.read_only(at.targets[0]),
    ),
    _directory(
        "fail_directory",
        "Log directory fails",
        "A log directory disappears; at the end it returns with its content, and a running node is restarted",
        lambda at, options: at.cluster.directories.fail(at.targets[0], options.directory),
        stops="writes",
    ),
    _lost_directory(
        "replace_directory",
        "Log directory is replaced",
        "Kills a node with SIGKILL and replaces a log directory by an empty one",
        lambda at, options: at.cluster.directories.replace(at.targets[0], options.directory),
    ),
    _lost_directory(
        "drop_directory",
        "Log directory is removed",
        "Kills a node with SIGKILL and removes a log directory from log.dirs",
        lambda at, options: at.cluster.directories.drop(at.targets[0], options.directory),
    ),
    FaultKind(
        "clock_jump",
        "Clock jump",
        "Shifts the wall clock of a node",
        lambda at, options: at.cluster.clocks.jump(*at.names, offset_ms=options.offset_ms),
        needs="clocks",
        options=ClockOptions,
        is_drawn=True,
    ),
    _link_kind(
        "cut",
        "Network partition, both directions",
        "Blocks all traffic between two ends, in both directions",
        partial(_cut, one_way=False),
        options=CutOptions,
        stops="traffic",
        is_drawn=True,
    ),
    _link_kind(
        "cut_one_way",
        "Network partition, one direction",
        "Blocks all traffic from the first end to the second",
        partial(_cut, one_way=True),
        options=CutOptions,
        stops="traffic",
        is_drawn=True,
    ),
    _link_kind(
        "isolate",
        "Isolate a node",
        "Blocks all traffic of a node",
        lambda at, options: at.cluster.links.isolate(at.targets[0], options.kind, clients=options.clients),
        options=IsolateOptions,
        stops="nodes",
        targets=(1, 1),
        is_drawn=True,
    ),
    _link_kind(
        "slow",
        "Network latency",
        "Adds latency between two ends, in both directions",
        partial(_link, kind="latency"),
        options=SlowOptions,
        is_drawn=True,
    ),
    _link_kind(
        "link",
        "Toxiproxy toxic",
        "Any fault of a link, by its name in Toxiproxy",
        lambda at, options: _link(at, options, options.kind),
        options=LinkOptions,
    ),
    _raw("refuse", "Link refuses connections", "Refuses connections between two ends and closes open ones"),
    _raw("black_hole", "Link loses all data", "Connections between two ends open, and all their data are lost"),
    _raw("freeze", "Link freezes", "Data between two ends arrive when the fault ends", is_drawn=True),
    _raw("latency", "Link latency", "Adds latency to a link", options=LatencyOptions, stops="nothing"),
    _raw("bandwidth", "Link bandwidth", "Limits the rate of a link", options=BandwidthOptions, stops="nothing"),
    _raw("slicer", "Data in small pieces", "Data between two ends arrive in small pieces", stops="nothing"),
    _raw("reset", "Connections are reset", "Resets new and open connections between two ends", is_drawn=True),
    _raw("lose_requests", "Requests are lost", "Loses requests from the first end to the second", is_drawn=True),
    _raw(
        "lose_responses",
        "Responses are lost",
        "Loses responses to requests of the first end, which the second one executes",
        is_drawn=True,
    ),
    _raw("drop_syn", "Connection attempts are lost", "Loses the packets that open connections; open ones continue"),
    _raw("packet_loss", "Packet loss", "Loses a share of all packets between two ends", stops="nothing"),
    _inside(
        "error",
        "Reject requests with an error",
        "Rejects requests of an API with an error code",
        lambda at, options: at.cluster.inside.error(at.targets[0], options.api, **options.rule()),
        options=ErrorOptions,
        stops="requests",
    ),
    _inside(
        "delay",
        "Delay responses",
        "Delays responses of an API",
        lambda at, options: at.cluster.inside.delay(at.targets[0], options.api, **options.rule()),
        options=DelayOptions,
    ),
    _inside(
        "drop",
        "Drop requests",
        "Drops requests of an API without a response",
        lambda at, options: at.cluster.inside.drop(at.targets[0], options.api, **options.rule()),
        options=DropOptions,
        stops="requests",
    ),
    _inside(
        "refuse_listener",
        "Refuse connections",
        "A listener refuses connections while its process runs",
        lambda at, options: at.cluster.inside.refuse(at.targets[0], options.listener, cut=options.cut),
        options=RefuseOptions,
        stops="requests",
    ),
    _inside(
        "failpoints",
        "Crash at a failpoint",
        "Kills the process at a failpoint: log.append.after=kill",
        lambda at, options: at.cluster.inside.failpoints(at.targets[0], options.arm),
        options=FailpointOptions,
        stops="processes",
    ),
    FaultKind(
        "rotate_certificates",
        "Renew certificates",
        "Gives nodes new keys and certificates, as `kvorum certs rotate` does",
        lambda at, _: at.cluster.security.rotate(*at.names),
        needs="certificates",
        ends="at once",
    ),
    FaultKind(
        "expire_certificate",
        "Certificate expires",
        "Gives a node a certificate that expires soon; at the end it is renewed",
        lambda at, options: at.cluster.security.expire(*at.names, lifetime=options.lifetime),
        needs="certificates",
        options=ExpireOptions,
        stops="nodes",
    ),
    FaultKind(
        "stop_issuer",
        "Keys of the token issuer are unreachable",
        "Stops the server of the keys that verify bearer tokens",
        lambda at, _: at.cluster.security.stop_issuer(),
        needs="issuer",
        targets=(0, 0),
    ),
)
FAULTS: Final[dict[str, FaultKind]] = {kind.name: kind for kind in _ROWS}


def inject(cluster: TargetCluster, name: str, *targets: str, **options: object) -> ActiveFault | None:
    """Begin a fault of the table at named targets; None: it is over at once.

    Raises KeyError (no such fault), FaultError, ValueError (invalid options or names), ClusterError, OSError.
    """
    kind = FAULTS[name]
    kind.check_count(targets)
    return kind.inject(Injection(cluster, targets, cluster.disks.rng), kind.options.model_validate(options))
