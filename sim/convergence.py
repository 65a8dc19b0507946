"""The end of a simulated run: all faults end, and the cluster must converge and keep its guarantees.

Required within bounded virtual time: every operation answered, all brokers unfenced, no partition under-replicated,
half reassigned or without leader, admin states of brokers completed without a remaining throttle, all images equal,
replicas equal to the end of the log and in no other directory, epoch caches equal, everything committed read back by a
consumer from the beginning. Then the checker of the chaos lab judges the history.
"""

import asyncio
from typing import Final

from kvorum.chaos.history import Finish, Image, Info, Ok, OperationValue, Replica
from kvorum.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from kvorum.quorum.controller.elections import UNCLEAN
from sim.admin_states import find_unfinished
from sim.client import NoAnswer, SimClient
from sim.cluster import TOPIC, SimCluster
from sim.cluster_faults import Faults
from sim.consumer import Consumer
from sim.coordination import SINK, SOURCE
from sim.group_work import STABLE_SLACK_S, LeaderView, last_looks, stable_events
from sim.ledger import Entry, Violation
from sim.machine import BROKER, SimProcess, State
from sim.operator import is_operator
from sim.plan import Coordination
from sim.quota_probe import look_at_quotas
from sim.reassignment_throttles import find_stray_throttles
from sim.replica_state import ReplicaState
from sim.throttle_removal import has_rates_of_its_own, has_throttles, take_off

ANSWER_LIMIT_S: Final = 20.0
REST_LIMIT_S: Final = 40.0
READ_LIMIT_S: Final = 30.0


def heal(cluster: SimCluster, faults: Faults) -> None:
    """End every fault and start all stopped nodes."""
    cluster.healing = True
    faults.end_all()
    cluster.network.heal_all()
    for machine in cluster.machines.values():
        machine.power_on()
        for process in machine.processes.values():
            process.disk.repair()
            process.disk.capacity = None
            process.disk.broken.clear()
            process.resume()
            if process.state is State.STOPPING or process.disk_faulted:
                if process.role == BROKER:
                    cluster.invariants.incarnations.record_kill(machine.node_id)
                process.kill()
                cluster.invariants.end_peace()  # a directory that failed is out until then, long after its fault
            process.start()


def settle(cluster: SimCluster, faults: Faults) -> None:
    """Heal, and demand all of the above. Raises Violation."""
    heal(cluster, faults)
    if not cluster.run_until(lambda: not cluster.recorder.open, ANSWER_LIMIT_S):
        raise Violation("Answers", f"unfinished operations: {dict(list(cluster.recorder.open.items())[:5])}")
    cluster.start_client("operator", lambda client: elect_uncleanly(cluster, client))
    if has_throttles(cluster):
        cluster.start_client("throttles", lambda client: take_off(cluster, client))
    reasons: list[str] = []
    looked_at = [0.0]

    def at_rest() -> bool:
        if cluster.loop.time() < looked_at[0]:
            return False
        looked_at[0] = cluster.loop.time() + 0.05
        reasons[:] = unrest(cluster)
        return not reasons

    def demand_rest() -> None:
        if not cluster.run_until(at_rest, REST_LIMIT_S):
            raise Violation("Convergence", f"after {REST_LIMIT_S:g} s of peace: " + "; ".join(reasons[:4]))

    demand_rest()
    if cluster.options.coordination is not None:
        look_at_stable_offsets(cluster, cluster.options.coordination)
        demand_rest()
    check_replicas(cluster)
    check_topics(cluster)
    if cluster.options.probes_quotas:
        # A request of the run's operator may still wait for its answer, and would set a quota during the probe.
        if not cluster.run_until(lambda: not any(map(is_operator, cluster.working)), REST_LIMIT_S):
            raise Violation("Answers", f"unfinished clients: {sorted(cluster.working)[:5]}")
        look_at_quotas(cluster)
    read_back(cluster)
    cluster.history.write(Finish(t=cluster.now()))


async def elect_uncleanly(cluster: SimCluster, client: SimClient) -> None:
    """Execute an operator's unclean election where no replica is eligible: all candidates lost unsynced data.

    Without a loss this has no effect, and the partition without a leader is a violation. A broker that restarted
    without a log directory (failed or full disk) counts as one that lost it permanently.
    """
    hurt = (
        cluster.invariants.incarnations.lossy_brokers | cluster.invariants.unregistered_brokers | cluster.disks_failed
    )
    recorder, process = cluster.recorder, cluster.recorder.process("operator", 0, idempotent=False)
    while True:
        await asyncio.sleep(2.0)
        wanted = [
            TopicPartitions(topic=topic.name, partitions=numbers)
            for topic in cluster.metadata.newest.topics.sorted_topics()
            if (
                numbers := [
                    number
                    for number, each in topic.sorted_partitions()
                    if not (each.has_leader or each.isr or each.elr) and hurt.intersection(each.replicas)
                ]
            )
        ]
        for each in wanted:
            topic = cluster.metadata.newest.topics.by_name[each.topic]
            cluster.invariants.unclean_elections |= {(topic.topic_id, number) for number in each.partitions}
        if wanted:
            names = [f"{each.topic}-{number}" for each in wanted for number in each.partitions]
            value: OperationValue = ["elect-leaders-unclean", *names]
            op = recorder.invoke(process, "admin", value)
            request = ElectLeadersRequest(election_type=UNCLEAN, topic_partitions=wanted, timeout=1_000)
            try:
                await client.ask_any(request, ElectLeadersResponse)
            except NoAnswer as error:
                recorder.complete(Info, op, process, value, str(error))
            else:
                recorder.complete(Ok, op, process, value)


def brokers_of(cluster: SimCluster) -> list[SimProcess]:
    """Return the brokers' processes."""
    return [process for process in cluster.processes if process.role == BROKER]


def unrest(cluster: SimCluster) -> list[str]:
    """Return the reasons why the cluster is not idle yet."""
    found: list[str] = []
    newest = cluster.metadata.newest
    active = []
    for process in cluster.processes:
        if process.controller is not None and process.is_running:
            if process.controller.metadata_log.is_active():
                active.append(process.name)
            reason = process.controller.not_ready()
            if reason is None and not process.controller.server.store.image.same_content(newest):
                reason = "its image is behind"
        elif process.broker is not None and process.is_running:
            reason = process.broker.not_ready()
            if reason is None and not process.broker.broker.metadata.image.same_content(newest):
                reason = "its image is behind"
        else:
            reason = "it does not run"
        if reason is not None:
            found.append(f"{process.name}: {reason}")
    if len(active) != 1:
        found.append(f"active controllers: {active}")
    for topic in newest.topics.by_name.values():
        for number, partition in topic.sorted_partitions():
            if not partition.has_leader:
                found.append(f"{topic.name}-{number} has no leader: ISR {partition.isr}, ELR {partition.elr}")
            elif set(partition.isr) != set(partition.replicas):
                found.append(f"{topic.name}-{number} is under-replicated: ISR {partition.isr} of {partition.replicas}")
            elif partition.is_reassigning:
                found.append(f"{topic.name}-{number} is still being reassigned")
    found += find_unfinished(newest)
    if has_throttles(cluster) and not has_rates_of_its_own(cluster):
        found += find_stray_throttles(newest)
    if not found:
        found += replicas_behind(cluster) + find_stray_replicas(cluster)
    return found


def find_stray_replicas(cluster: SimCluster) -> list[str]:
    """Return the brokers that still have a replica that is no longer theirs."""
    topics = cluster.metadata.newest.topics
    found = []
    for process in brokers_of(cluster):
        assert process.broker is not None
        for name in process.broker.broker.replica_manager.hosted.by_name:
            topic = topics.topic(name.topic)
            partition = None if topic is None else topic.partition(name.partition)
            if partition is None or process.machine.node_id not in partition.replicas:
                found.append(f"{process.name} still has {name}")
    return found


def replicas_behind(cluster: SimCluster) -> list[str]:
    """Return the replicas that lack committed records of their leader."""
    found = []
    for topic in cluster.metadata.newest.topics.by_name.values():
        for number, partition in topic.sorted_partitions():
            ends = set()
            for broker_id in partition.replicas:
                each = replica(cluster, broker_id, topic.name, number)
                if each is None:
                    found.append(f"broker {broker_id} has no log of {topic.name}-{number}")
                else:
                    ends |= {each.shadow.end, each.high_watermark}
            if len(ends) > 1:
                found.append(f"{topic.name}-{number}: log ends and high watermarks {sorted(ends)}")
    return found


def replica(cluster: SimCluster, broker_id: int, topic: str, number: int) -> ReplicaState | None:
    """Return the last observed state of a broker's replica."""
    names = cluster.invariants.incarnations.by_broker.get(broker_id, {})
    return next((each for name, each in names.items() if name == (topic, number)), None)


def check_replicas(cluster: SimCluster) -> None:
    """Compare all replicas, and write them and the images to the history. Raises Violation."""
    for process in brokers_of(cluster):
        broker = process.broker
        assert broker is not None
        image = broker.broker.metadata.image
        cluster.history.write(Image(t=cluster.now(), node=process.name, offset=image.offset, hash=image.digest()))
        for name, partition in broker.broker.replica_manager.hosted.by_name.items():
            watched = cluster.invariants.incarnations.by_broker[process.machine.node_id][name]
            log = partition.log
            assert log is not None
            epochs = [[entry.epoch, entry.start_offset] for entry in log.epoch_cache.entries]
            entries = [each for each in watched.shadow.entries if each.base_offset >= log.log_start_offset]
            if name.topic == TOPIC:
                cluster.history.write(
                    Replica(
                        t=cluster.now(),
                        node=process.machine.node_id,
                        partition=str(name),
                        start=log.log_start_offset,
                        high_watermark=log.high_watermark,
                        end=log.log_end_offset,
                        epochs=epochs,
                        batches=[(each.base_offset, each.next_offset - 1, f"{each.crc:08x}") for each in entries],
                    )
                )
            check_epochs(str(name), process.name, epochs, entries)
            ledger = cluster.invariants.ledgers[watched.key]
            lacks = ledger.missing_batches(watched.shadow)
            if lacks is not None:
                raise Violation("ReplicasEqual", f"{process.name}, {name}: {lacks}")
    for process in cluster.processes:
        if process.controller is not None:
            image = process.controller.server.store.image
            cluster.history.write(Image(t=cluster.now(), node=process.name, offset=image.offset, hash=image.digest()))


def check_epochs(name: str, who: str, epochs: list[list[int]], entries: list[Entry]) -> None:
    """Each epoch with batches in the log begins in the cache where its first batch does or before. Raises Violation."""
    starts: dict[int, int] = {}
    for entry in entries:
        starts.setdefault(entry.epoch, entry.base_offset)
    known = {epoch: start for epoch, start in epochs}
    for epoch, start in starts.items():
        if known.get(epoch, start + 1) > start:
            raise Violation("EpochCache", f"{who}: {name} has epoch {epoch} from {start}, its cache says {epochs}")


def check_topics(cluster: SimCluster) -> None:
    """Every topic with an answered creation, and without a requested deletion, exists. Raises Violation."""
    existing = cluster.metadata.newest.topics.by_name
    for name in sorted(cluster.admin.created if cluster.admin is not None else ()):
        if name not in existing:
            raise Violation("MetadataDurable", f"topic {name} was created and does not exist")


def look_at_stable_offsets(cluster: SimCluster, drawn: Coordination) -> None:
    """Wait until no transaction can be open, nor any session of a dead member; write the leaders' states then."""

    def stable() -> bool:
        return not any(each.last_stable_offset < each.high_watermark for each in leader_logs(cluster).values())

    cluster.run_for(drawn.session_ms / 1000)
    cluster.run_until(stable, drawn.transaction_timeout_ms / 1000 + STABLE_SLACK_S)
    for event in stable_events(cluster.now(), leader_logs(cluster)):
        cluster.history.write(event)


def leader_logs(cluster: SimCluster) -> dict[str, LeaderView]:
    """Return {partition: the log of its leader}, if it exists."""
    found: dict[str, LeaderView] = {}
    for topic in cluster.metadata.newest.topics.by_name.values():
        for number, partition in topic.sorted_partitions():
            each = replica(cluster, partition.leader, topic.name, number)
            if each is not None and each.log is not None:
                log = each.log
                found[f"{topic.name}-{number}"] = LeaderView(log.last_stable_offset, log.high_watermark)
    return found


def read_back(cluster: SimCluster) -> None:
    """Read everything from the beginning with new consumers. Raises Violation."""
    cluster.recorder.final = True
    done: list[bool] = []

    async def read(client: SimClient) -> None:
        partitions = list(range(cluster.options.partitions))
        consumer = Consumer("final", client, cluster.recorder, cluster.reads, TOPIC, partitions)
        consumer.assign()
        for partition in partitions:
            topic = cluster.metadata.newest.topics.by_name[TOPIC]
            end = cluster.invariants.ledgers[topic.topic_id, partition].end
            while consumer.position(partition) < end:
                try:
                    await consumer.poll(partition)
                except NoAnswer:
                    await asyncio.sleep(0.1)
        drawn = cluster.options.coordination
        if drawn is not None and not cluster.has_coordination_losses():
            marks = leader_logs(cluster)
            names = [(topic, number) for topic in (SOURCE, SINK) for number in range(drawn.partitions)]
            ends = {(topic, number): marks[f"{topic}-{number}"].last_stable_offset for topic, number in names}
            await last_looks(client, cluster.recorder, drawn, ends)
        done.append(True)

    cluster.start_client("final", read)
    if not cluster.run_until(lambda: bool(done), READ_LIMIT_S):
        raise Violation("FinalRead", f"not everything committed could be read within {READ_LIMIT_S:g} s")
