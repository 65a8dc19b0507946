"""Requested faults: their targets resolved to names when they begin, and their errors.

    node-1, node-1/broker, clients, brokers, controllers                names
    active-controller, standby-controllers, random, all, not node-1     selectors, each also with /broker or /controller
    leader orders-0, followers orders-0, follower 2 orders-0, in-sync orders-0
    coordinator GROUP, transaction-coordinator ID

Selectors are resolved once, without a wait: if there is no leader now, the target is empty. One may mean several names.
"""

from collections.abc import Sequence
from random import Random
from typing import Final

from kvorum.chaos.faults.events import ActiveFault, FaultError, Unsupported
from kvorum.chaos.faults.fault_kinds import SEPARATOR, FaultKind, Injection
from kvorum.chaos.faults.fault_options import ControllerOptions, FaultOptions
from kvorum.chaos.faults.target_cluster import StateError, TargetCluster
from kvorum.chaos.faults.topology import CLIENTS
from kvorum.chaos.scenario.targets import Targets, UnknownTarget, split_partition
from kvorum.cluster.local.local import ClusterError

LONE: Final = (["all"], ["random"], ["active-controller"], ["standby-controller"], ["standby-controllers"])
"""Complete selectors; others have an argument."""
KEYED: Final = (["coordinator"], ["transaction-coordinator"])
"""Their arguments may have any character in their names."""


def resolve_targets(cluster: TargetCluster, kind: FaultKind, targets: Sequence[str], rng: Random) -> list[str]:
    """Resolve the targets to names; the names of one target are joined. Raises FaultError, Unsupported, StateError."""
    why = kind.why_unsupported(cluster)
    if why is not None:
        raise Unsupported(why)
    kind.check_count(targets)
    try:
        if kind.of == "partitions":
            return ["-".join(map(str, split_partition(each))) for each in targets]
        found = [resolve(cluster, each, rng) for each in targets]
    except UnknownTarget as error:
        raise FaultError(str(error)) from error
    every = [name for names in found for name in names]
    if len(set(every)) < len(every):
        raise FaultError("duplicate target")
    for target, names in zip(targets, found, strict=True):
        if len(names) > 1 and not kind.several:
            raise FaultError(f"{kind.name} needs a single target, but {target!r} resolves to {', '.join(names)}")
    if kind.of in ("nodes", "processes") and kind.needs != "inside":
        _check_names(cluster, kind, every)
    return [SEPARATOR.join(names) for names in found]


def resolve(cluster: TargetCluster, target: str, rng: Random) -> list[str]:
    """Return the names that a target selects; plain names unchanged. Raises StateError, UnknownTarget."""
    if SEPARATOR in target and target.split()[:1] not in KEYED:
        found = [name for part in target.split(SEPARATOR) for name in resolve(cluster, part, rng)]
        return list(dict.fromkeys(found))
    words = target.partition("/")[0].split()
    if len(words) < 2 and words[:1] not in LONE:
        return [target.strip()]

    try:
        found = Targets(cluster, rng, lambda: cluster.controllers, (CLIENTS,), timeout_seconds=0).resolve(target)
    except IndexError as error:  # no candidate
        raise StateError(f"{target!r} matches no node now") from error
    if not found:
        raise StateError(f"{target!r} matches no node now")
    return found


def _check_names(cluster: TargetCluster, kind: FaultKind, names: Sequence[str]) -> None:
    """Check that nodes and processes exist. Raises FaultError."""
    roles = {node.name: node.roles for node in cluster.cluster.plan.nodes}
    for target in names:
        name, slash, role = target.partition("/")
        if name not in roles or (slash and role not in roles[name]):
            raise FaultError(f"{target!r} does not exist; nodes: {', '.join(roles)} (with /broker, /controller)")
        if slash and kind.of == "nodes":
            raise FaultError(f"{kind.name} applies to whole nodes: use {name}, not {target}")
    if len({"/" in name for name in names}) > 1:
        raise FaultError("give nodes or processes, not both")


def ends_at_once(kind: FaultKind, targets: Sequence[str], options: FaultOptions) -> bool:
    """Return whether a fault is instantaneous: it cannot be ended."""
    restarts = kind.name == "kill" and any("/" in each for each in targets)
    return kind.ends == "at once" or restarts or (isinstance(options, ControllerOptions) and options.process)


def begin(kind: FaultKind, injection: Injection, options: FaultOptions) -> ActiveFault | None:
    """Start a fault of resolved targets; return None if it has already ended and got no number.

    Raises FaultError (the request is wrong), Unsupported, StateError, StartError.
    """
    try:
        return kind.inject(injection, options)
    except (ClusterError, ValueError, OSError) as error:
        raise FaultError(str(error)) from error
