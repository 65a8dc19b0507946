"""Conditions of `wait` steps, compared with the cluster."""

from typing import Final

from kvorum.chaos.faults.lab import Lab
from kvorum.chaos.faults.target_cluster import LabError
from kvorum.chaos.scenario import operator_requests
from kvorum.chaos.scenario.external import ExternalCluster
from kvorum.chaos.scenario.models import Condition
from kvorum.chaos.scenario.node_state import describe_served_certificates, logs_contain, sum_of_metric
from kvorum.chaos.scenario.operator_steps import node_of
from kvorum.chaos.scenario.targets import Targets, no_leader

PARTITIONS_NAMED_MAX: Final = 5


def describe_unmet_condition(cluster: Lab | ExternalCluster, targets: Targets, wanted: Condition, left: float) -> str:
    """Return the first condition that is not met, except `acked`; empty if all are met.

    `left`: seconds in which the cluster may become healthy. Raises LabError.
    """
    for check in (_describe_partitions, _describe_controllers, _describe_operator_state, _describe_processes):
        problem = check(cluster, targets, wanted)
        if problem:
            return problem
    if wanted.healthy:
        cluster.wait_until_healthy(max(left, 0.0))
    return ""


def _describe_partitions(cluster: Lab | ExternalCluster, targets: Targets, wanted: Condition) -> str:
    is_about_partitions = wanted.isr or wanted.isr_at_most or wanted.leader or wanted.lies_in
    views = cluster.partitions() if is_about_partitions else {}

    def leader_of(partition: str) -> str | None:
        view = views.get(partition)
        return None if view is None or no_leader(view) else cluster.name_of(view.leader)

    for partition, count in wanted.isr.items():
        if partition not in views or len(views[partition].isr) != count:
            return f"{partition} with {count} in sync: {views.get(partition)}"
    for partition, count in wanted.isr_at_most.items():
        if partition not in views or len(views[partition].isr) > count:
            return f"{partition} with at most {count} in sync: {views.get(partition)}"
    for partition, who in wanted.leader.items():
        leader = leader_of(partition)
        if not _matches(targets, leader, who):
            return f"{partition} led by {who}: {leader}"
    for partition, number in wanted.lies_in.items():
        leader = leader_of(partition)
        if leader is None or not _lab(cluster, "lies_in").directories.has_log(leader, partition, number):
            return f"{partition} in directory {number} of its leader: {leader}"
    return ""


def _describe_controllers(cluster: Lab | ExternalCluster, targets: Targets, wanted: Condition) -> str:
    if wanted.controller and not _matches(targets, cluster.active_controller(), wanted.controller):
        return f"an active controller that is {wanted.controller}"
    if wanted.resigned:
        lab = _lab(cluster, "resigned")
        active = [lab.name_of(each) for each in lab.observer.active_controllers()]
        still = [each for each in targets.resolve(wanted.resigned) if each in active]
        if still:
            return f"{', '.join(still)} no longer active"
    if wanted.voters is not None:
        voters = _lab(cluster, "voters").observer.voters()
        if len(voters) != wanted.voters:
            return f"{wanted.voters} voters: {sorted(voters)}"
    return ""


def _describe_operator_state(cluster: Lab | ExternalCluster, targets: Targets, wanted: Condition) -> str:
    if wanted.reassigned:
        under_way = operator_requests.active_reassignments(cluster.access) & {*wanted.reassigned}
        if under_way:
            return f"{', '.join(sorted(under_way))} not being reassigned"
    for name in targets.resolve(wanted.empty) if wanted.empty else ():
        node_id = cluster.id_of(node_of(name))
        left = [each for each, view in cluster.partitions().items() if node_id in view.replicas]
        if left:
            return f"{name} without replicas: it has {', '.join(sorted(left)[:PARTITIONS_NAMED_MAX])}"
    return ""


def _describe_processes(cluster: Lab | ExternalCluster, targets: Targets, wanted: Condition) -> str:
    for target, text in wanted.logs.items():
        lab = _lab(cluster, "logs")
        for node in map(node_of, targets.resolve(target)):
            if not logs_contain(lab.cluster.node(node).folder, text):
                return f"a line of the logs of {node} with {text!r}"
    if wanted.certificates:
        lab = _lab(cluster, "certificates")
        for node in map(node_of, targets.resolve(wanted.certificates)):
            problem = describe_served_certificates(lab, node)
            if problem:
                return problem
    for metric, least in wanted.metrics.items():
        found = sum_of_metric(_lab(cluster, "metrics"), metric)
        if found < least:
            return f"{metric} of at least {least:g}: {found:g}"
    return ""


def _lab(cluster: Lab | ExternalCluster, what: str) -> Lab:
    if not isinstance(cluster, Lab):
        raise LabError(f"until: {what} needs a lab cluster")
    return cluster


def _matches(targets: Targets, name: str | None, who: str) -> bool:
    if who in ("none", "some"):
        return (name is None) == (who == "none")
    if who.startswith("not "):
        return name is not None and name not in targets.resolve(who.removeprefix("not "))
    return name is not None and name in targets.resolve(who)
