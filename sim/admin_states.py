"""Maintenance and decommission of brokers during a seed, and their invariants.

Sans-IO.

It has its own random generator: seeds without these stay the same, and saved plans replay unchanged. It is an entry of
the schedule, `duty`: `target` is a broker, `detail` the value of its kvorum.broker.state, or NOTHING (the config is
deleted). Most are reverted later; some brokers are still in maintenance, or gone, at the end.
"""

from collections.abc import Iterator
from random import Random
from typing import Final

from kvorum.quorum.controller.broker_admin_state import BrokerAdminState, admin_states_in, is_leaving, rests
from kvorum.quorum.image import MetadataImage
from kvorum.quorum.image.partition import PartitionRegistration
from sim.ledger import Violation
from sim.plan import Fault, Options
from sim.schedule_entries import add_entries

KIND: Final = "duty"
SHARE: Final = 0.3
"""Share of these among seeds with a spare broker."""
NOTHING: Final = ""
FOR_GOOD: Final = 0.15
"""Probability that one is not reverted."""
EVERY_S: Final = (2.0, 4.0, 8.0)
LENGTHS_S: Final = (0.3, 2.0, 6.0)


def add_admin_states(
    rng: Random, options: Options, faults: list[Fault], seconds: float, *, certain: bool = False
) -> tuple[Options, list[Fault]]:
    """Add them to a seed (`certain`: always), or none."""
    if not certain and (rng.random() >= SHARE or options.brokers < 2):
        return options, faults
    return add_entries(rng, options, faults, seconds, EVERY_S, lambda at: draw(rng, options, round(at, 3)))


def draw(rng: Random, options: Options, at: float) -> list[Fault]:
    """Draw one, and its reversal."""
    target = str(rng.randint(1, options.brokers))
    requested = rng.choice((BrokerAdminState.MAINTENANCE, BrokerAdminState.DECOMMISSIONED))
    begun = Fault(at=at, kind=KIND, target=target, detail=requested)
    if rng.random() < FOR_GOOD:
        return [begun]
    after = rng.choice(LENGTHS_S) * (0.3 + 1.4 * rng.random())
    back = rng.choice((BrokerAdminState.ACTIVE, BrokerAdminState.ACTIVE, NOTHING))
    return [begun, Fault(at=round(at + after, 3), kind=KIND, target=target, detail=back)]


def check_admin_states(
    name: str,
    images: tuple[MetadataImage, MetadataImage],
    before: PartitionRegistration | None,
    after: PartitionRegistration,
) -> None:
    """Check a partition's change against the admin states that were in force before it, and still are after it.

    Raises Violation.
    """
    earlier, later = images
    gained = {*after.replicas} - ({*before.replicas} if before is not None else set())
    for broker_id in gained:
        if is_leaving(earlier.configs, broker_id) and is_leaving(later.configs, broker_id):
            raise Violation("NoReplicaForWhoLeaves", f"broker {broker_id} gets a replica: {before} to {after}")
    leader = after.leader
    if not after.has_leader or (before is not None and before.leader == leader):
        return
    if not (rests(earlier.configs, leader) and rests(later.configs, leader)):
        return
    # In the old ISR also: a member that joined by this change was not a candidate.
    others = {*after.isr} & ({*before.isr} if before is not None else {*after.isr}) - {leader}
    able = [each for each in sorted(others) if could_lead(images, after, each)]
    if able:
        raise Violation("NoLeaderInMaintenance", f"{name} is led by {leader}, and {able} could: {before} to {after}")


def could_lead(images: tuple[MetadataImage, MetadataImage], partition: PartitionRegistration, broker_id: int) -> bool:
    """Return whether a broker could also have been elected."""
    directory = partition.directory(broker_id)
    return all(
        image.cluster.is_active(broker_id)
        and image.cluster.has_online_directory(broker_id, directory)
        and not rests(image.configs, broker_id)
        for image in images
    )


def find_unfinished(image: MetadataImage) -> Iterator[str]:
    """Return the unfinished admin operations: with all brokers alive and in sync, there should be none."""
    found = admin_states_in(image)
    stay = [broker_id for broker_id in image.cluster.brokers if not is_leaving(image.configs, broker_id)]
    for broker_id, duty in found.items():
        if duty is BrokerAdminState.ACTIVE:
            yield f"broker {broker_id} does not lead all partitions that it led before its maintenance"
    for topic in image.topics.by_name.values():
        for number, partition in topic.sorted_partitions():
            leader = partition.leader
            if found.get(leader) is BrokerAdminState.MAINTENANCE:
                others = [each for each in partition.isr if could_lead((image, image), partition, each)]
                if others:
                    yield f"{topic.name}-{number} is led by {leader}, which is in maintenance, and {others} could"
            leaving = [each for each in partition.replicas if found.get(each) is BrokerAdminState.DECOMMISSIONED]
            if leaving and len(partition.replicas) <= len(stay):
                yield f"{topic.name}-{number} is still on {leaving}, which are decommissioned"
