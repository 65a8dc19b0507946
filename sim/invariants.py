"""Invariants of a simulated cluster, checked after every event with a change.

Brokers     a leader epoch has one leader; epochs only grow; a leader's high watermark never goes back within its epoch;
            committed replicas equal the committed batches (see ledger); a leader has all of them; the leader's
            maximal ISR holds every member of the controller's ISR and ELR (ReplicationQuorumSuperset); writes before a
            kill -9 exist after it; its log start is permitted (see log_starts), and is unchanged by a move
            between log directories (MoveKeepsAll); metadata are the controllers' committed ones.
Controllers see metadata_watch: equal committed batches and images, and the rules of an image.

The properties of Vanlightly's kip_966_properties.tla by their names there, and where each is checked:
LeaderCompleteness, LogMatching (through ledger), ReplicationQuorumSuperset: here. LeaderCandidateCompleteness:
candidates. In addition no replica is eligible, or leads, with a lost log (EligibleByALostLog in candidates,
LeadsWithoutItsLog here). Only an unclean election replaces all candidates (CandidatesKept in candidates).
NoCommittedRecordLostGlobally: here, when no candidate is left, which no rule about leaders detects (see tolerance).
MetadataLogMatching, and NoFencedInIsr, IsrElrDisjoint, ElrEmptyWithFullIsr: metadata_watch. ConsistentRead: consumer.
MinIsrRecoveryQuorum: nowhere. With ISR and ELR empty LastKnownElr was to hold min ISR members for KIP-966's unclean
recovery; Kafka does not have it: its LastKnownElr contains only the last leader, also here. Liveness (brokers run,
ISRs are complete, metadata converge, writes are acknowledged and reach all replicas): convergence.
"""

from collections.abc import Callable, Sequence

from kvorum.broker.replica.partition import Partition
from kvorum.broker.replica.types import Role
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.quorum.image import MetadataImage
from kvorum.quorum.image.partition import PartitionRegistration
from sim.broker_incarnations import BrokerIncarnations
from sim.candidates import Candidates, check_kept
from sim.ledger import Entry, Ledger, ReplicaLog, Violation
from sim.machine import SimProcess
from sim.metadata_watch import MetadataWatch
from sim.plan import Options
from sim.reassignment_throttles import check_isr_in_peace
from sim.replica_state import NOWHERE, Key, ReplicaState, check_log_start, electable_outsiders, is_there
from sim.tolerance import borne_in, broken_invariant, check_loss_of_all


def _is_unchanged(partition: Partition, each: ReplicaState) -> bool:
    """Whether a replica is unchanged since the last check."""
    log = partition.log
    return (
        each.partition is partition
        and each.log is log
        and log is not None
        and log.log_end_offset == each.end
        and log.high_watermark == each.high_watermark
        and log.log_start_offset == each.start
        and partition.partition_epoch == each.partition_epoch
        and partition.isr_state is each.isr_state
        and partition.role is each.role
        and partition.leader_epoch == each.epoch
    )


class Invariants:
    """One per run. `check_broker` after each event of a broker's process, `metadata` beside it for controllers."""

    def __init__(self, metadata: MetadataWatch, options: Options, now: Callable[[], float]) -> None:
        """Create it without observations."""
        self.metadata = metadata
        self._options = options
        self._now = now
        self.ledgers: dict[Key, Ledger] = {}
        self.incarnations = BrokerIncarnations(metadata, self.ledgers, now)
        self._candidates = Candidates(metadata, self.incarnations)
        self.unclean_elections: set[Key] = set()
        """Partitions with an operator's unclean election."""
        self.unregistered_brokers: set[int] = set()
        """Brokers that an operator unregistered."""
        self.peace_since: float | None = None
        """Start of the present quiet period; None during a fault, or before the load."""
        self.checks = 0
        metadata.on_change = self.check_registration
        metadata.on_configs = self.update_configs
        metadata.on_brokers = self.check_brokers

    def end_peace(self) -> None:
        """Restart the quiet period, if it had begun: a process failed without a fault."""
        if self.peace_since is not None:
            self.peace_since = self._now()

    # After each event of a broker.

    def check_broker(self, process: SimProcess) -> None:
        """Check the changes of a broker."""
        broker = process.broker
        parts = None if broker is None else broker.parts
        if parts is None:
            return
        broker_id = process.machine.node_id
        self.metadata.check_node(process.name, parts.broker.metadata.image)
        self.incarnations.epochs[broker_id] = parts.registration.broker_epoch()
        known = self.incarnations.by_broker.get(broker_id)
        if known is None:
            known = self.incarnations.by_broker[broker_id] = {}
        hosted = parts.replica_manager.hosted.by_name
        if len(hosted) == len(known) and all(map(_is_unchanged, hosted.values(), known.values())):
            return  # the path of nearly every event
        for name, partition in hosted.items():
            each = known.get(name)
            if partition.log is not None and (each is None or not _is_unchanged(partition, each)):
                self._look(process, known, name, partition)
        # In the order of `hosted`, so that the comparison above can take them pairwise.
        self.incarnations.by_broker[broker_id] = {name: known[name] for name in hosted if name in known}

    def _look(
        self, process: SimProcess, known: dict[TopicPartition, ReplicaState], name: TopicPartition, partition: Partition
    ) -> None:
        """Something about a replica has changed."""
        log, each = partition.log, known.get(name)
        assert log is not None
        if (
            each is None
            or each.key[0] != partition.topic_id
            or each.folder != log.folder  # type: ignore[attr-defined]  # storage's Log
            or each.partition is not partition  # it left, and was assigned again
        ):
            before, each = each, self._start_watch(process, name, partition)
            known[name] = each
            if before is not None and before.partition is partition and before.key == each.key:
                check_log_start(process, str(name), before, each)
        each.log, each.partition, each.shadow.deleted_below = log, partition, log.log_start_offset
        if log.log_end_offset != each.end:
            self._check_log_end(process, each, partition)
        if (
            partition.partition_epoch != each.partition_epoch
            or partition.role is not each.role
            or partition.leader_epoch != each.epoch
        ):
            self._check_metadata_change(process, each, partition)
        if log.high_watermark != each.high_watermark:
            self._check_high_watermark(process, each, partition)
        if log.log_start_offset != each.start:
            self._check_log_start(process, each, log.log_start_offset)
        if partition.isr_state is not each.isr_state:
            each.isr_state = partition.isr_state
            self._check_superset(process, each, partition)

    def _ledger(self, key: Key, name: TopicPartition) -> Ledger:
        ledger = self.ledgers.get(key)
        if ledger is None:
            ledger = self.ledgers[key] = Ledger(str(name))
        return ledger

    def _start_watch(self, process: SimProcess, name: TopicPartition, partition: Partition) -> ReplicaState:
        broker_id, key = process.machine.node_id, (partition.topic_id, name.partition)
        folder = partition.log.folder  # type: ignore[union-attr]  # storage's Log
        each = ReplicaState(key, ReplicaLog(process.disk, folder), folder, partition)
        assert partition.log is not None
        ledger, shadow = self._ledger(key, name), each.shadow
        shadow.follow(partition.log.log_end_offset)
        each.end = shadow.end
        remembered = self.incarnations.killed_logs.get(broker_id, {}).pop(name, None)
        held = [] if remembered is None or remembered.key != key else remembered.entries
        if remembered is not None and held and partition.role is not Role.NONE and is_there(process, remembered.folder):
            left = [entry for entry in held if entry.base_offset >= shadow.start]
            if [entry for entry in shadow.entries if entry.base_offset >= shadow.start][: len(left)] != left:
                raise Violation(
                    "KillLosesNothing",
                    f"{process.name} had {len(held)} batches of {name} when it was killed, and restarted with "
                    f"{len(shadow.entries)}, or others",
                )
        if each.start > ledger.starts.highest:
            self._judge_start(process, ledger, ledger.starts.highest, each.start, held or ledger.entries)
        if ledger.losses:
            each.high_watermark = partition.log.high_watermark  # the persisted state, perhaps from before the loss
        if self.incarnations.is_suspect(broker_id, key):
            self.incarnations.recheck(broker_id, each)
        return each

    def _check_log_end(self, process: SimProcess, each: ReplicaState, partition: Partition) -> None:
        assert partition.log is not None
        shadow, end = each.shadow, partition.log.log_end_offset
        cut = end < shadow.end
        ledger = self.ledgers[each.key]
        if partition.log.log_start_offset > shadow.end:
            # Its leader has deleted records that it did not have yet: it restarts at the leader's log start.
            shadow.begin_at(partition.log.log_start_offset)
        shadow.follow(end)
        each.end = shadow.end
        if cut:
            self._candidates.check(process.machine.node_id, each, ledger, "cut its log off")
        elif self.incarnations.is_suspect(process.machine.node_id, each.key) and shadow.end >= ledger.end:
            self.incarnations.recheck(process.machine.node_id, each)

    def _check_log_start(self, process: SimProcess, each: ReplicaState, start: int) -> None:
        """The log start moved; backwards only if an empty log restarts, or to a batch in which its leader starts."""
        before, each.start = each.start, start
        ledger = self.ledgers[each.key]
        if start > before:
            self._judge_start(process, ledger, before, start, each.shadow.entries)
        elif not (ledger.losses or ledger.has_batch(start, before) or each.is_new_log(start)):
            raise Violation("MonotonicLogStart", f"{process.name}: log start of {ledger.name} went {before} to {start}")

    def _judge_start(
        self, process: SimProcess, ledger: Ledger, before: int, start: int, entries: Sequence[Entry]
    ) -> None:
        if ledger.losses:
            return ledger.starts.rise(start)  # the committed records are not known any more
        wall_ms = None if "clock" in self._options.fault_kinds else process.clock.wall_ms()
        wrong = ledger.starts.check_move(before, start, committed_end=ledger.end, batches=entries, wall_ms=wall_ms)
        if wrong is not None:
            raise Violation("LogStart", f"{process.name}, {ledger.name}: {wrong}")

    def _check_metadata_change(self, process: SimProcess, each: ReplicaState, partition: Partition) -> None:
        """The metadata moved the replica: a role, an epoch."""
        broker_id = process.machine.node_id
        ledger = self.ledgers[each.key]
        who = f"{process.name} of {ledger.name}"
        if partition.leader_epoch < each.epoch or partition.partition_epoch < each.partition_epoch:
            raise Violation(
                "MonotonicEpoch",
                f"{who} goes from leader epoch {each.epoch}, partition epoch {each.partition_epoch} "
                f"to {partition.leader_epoch}, {partition.partition_epoch}",
            )
        each.role, each.epoch, each.partition_epoch = partition.role, partition.leader_epoch, partition.partition_epoch
        if partition.role is Role.LEADING and each.led_epoch != partition.leader_epoch:
            each.led_epoch = partition.leader_epoch
            other = ledger.leaders.setdefault(partition.leader_epoch, broker_id)
            if other != broker_id:
                raise Violation("SingleLeader", f"{who} and broker {other} lead in epoch {partition.leader_epoch}")
            self._check_new_leader(broker_id, each, ledger, partition.leader_epoch)
            each.high_watermark = NOWHERE
        each.isr_state = None

    def _check_new_leader(self, broker_id: int, each: ReplicaState, ledger: Ledger, epoch: int) -> None:
        lacks = ledger.missing_batches(each.shadow)
        if lacks is None:
            return
        if epoch < max(ledger.leaders):
            return  # a broker that is late to lead: it cannot commit anything, a newer leader exists
        if (broker_id, each.key) in self.incarnations.bereft and self._is_judged_by_logs(each.key):
            raise Violation(
                "LeadsWithoutItsLog",
                f"broker {broker_id} lost its log of {ledger.name} with the log's directory, and leads in epoch "
                f"{epoch} without permission: {lacks}",
            )
        reason = ledger.legal_losses.get(epoch)
        if reason is None:
            raise Violation(
                "LeaderCompleteness", f"broker {broker_id} leads {ledger.name} in epoch {epoch}, but {lacks}"
            )
        self._check_tolerance(each.key, ledger, lacks)
        ledger.lose(each.shadow, reason)
        for other in self.incarnations.replicas(each.key):
            other.shadow.verified_below = min(other.shadow.verified_below, ledger.end)

    def _check_tolerance(self, key: Key, ledger: Ledger, lacks: str) -> None:
        """Check that the brokers that fell explain a loss without an unclean election."""
        if self._may_be_unclean(key):
            return
        borne = borne_in(self._options, self.metadata)
        wrong = broken_invariant(
            ledger, lacks, self.incarnations.uncleans, self.incarnations.lossy_brokers, self.unregistered_brokers, borne
        )
        if wrong is not None:
            raise wrong

    def check_brokers(self) -> None:
        """Check that no broker may be elected for a lost log."""
        self._candidates.check_bereft(self._is_judged_by_logs)

    def _is_judged_by_logs(self, key: Key) -> bool:
        """Return whether no election may replace a lost log: with ELR and without a permitted unclean election."""
        steady = self.metadata.is_elr_enabled and "elr" not in self._options.fault_kinds
        return steady and not self._may_be_unclean(key)

    def _may_be_unclean(self, key: Key) -> bool:
        return self._options.unclean or "unclean" in self._options.fault_kinds or key in self.unclean_elections

    def _check_high_watermark(self, process: SimProcess, each: ReplicaState, partition: Partition) -> None:
        """The high watermark moved."""
        assert partition.log is not None
        ledger, mark, leads = self.ledgers[each.key], partition.log.high_watermark, partition.role is Role.LEADING
        who = f"{process.name}, {'leader' if leads else 'replica'} in epoch {each.epoch}"
        if not leads:
            before, each.high_watermark = each.high_watermark, mark
            # Where logs parted legally an old leader's word does not count, nor a mark that fell: more may be cut off.
            if not ledger.losses or (mark > before and each.epoch >= max(ledger.leaders, default=0)):
                ledger.verify(each.shadow, min(mark, ledger.end), who)
                if mark > ledger.end and not ledger.losses:  # it may have to truncate once more
                    above = f"high watermark {mark} of {ledger.name} is above {ledger.end}"
                    raise Violation("LogMatching", f"{who}: {above}")
            return
        if mark < each.high_watermark:
            raise Violation(
                "MonotonicHighWatermark", f"{who}: high watermark of {ledger.name} went {each.high_watermark} to {mark}"
            )
        least = self.metadata.min_isr_of(each.key)
        if "min_isr" in self._options.fault_kinds and process.broker is not None and process.broker.parts is not None:
            image = process.broker.parts.broker.metadata.image  # of a broker that does not know an increase yet
            least = min(least, self.metadata.min_isr_in(image, each.key))
        least = min(least, len(partition.assigned_replicas))
        if mark > each.high_watermark > NOWHERE and len(partition.isr_state.isr) < least:
            raise Violation(
                "MinIsr",
                f"{who}: high watermark of {ledger.name} went {each.high_watermark} to {mark} with ISR "
                f"{sorted(partition.isr_state.isr)}, the minimum is {least}",
            )
        each.high_watermark = mark
        if ledger.losses and each.epoch < max(ledger.leaders):
            return  # a leader of before a legal loss
        self.checks += 1
        if ledger.commit(each.shadow, mark, who):
            registration = self.metadata.partition(each.key)
            if registration is not None:
                ledger.witnesses = {*registration.isr, *registration.elr}
                ledger.committed_at, ledger.committed_epoch = self._now(), each.epoch
            self._candidates.check_all(each.key, ledger)

    def _check_superset(self, process: SimProcess, each: ReplicaState, partition: Partition) -> None:
        """The leader waits for every replica that the controller may elect."""
        registration = self.metadata.partition(each.key)
        if registration is None or partition.role is not Role.LEADING or partition.log is None:
            return
        if registration.leader != process.machine.node_id or registration.leader_epoch != partition.leader_epoch:
            return
        beyond = electable_outsiders(partition, registration)
        if beyond:
            raise Violation(
                "ReplicationQuorumSuperset",
                f"{process.name} leads {self.ledgers[each.key].name} in epoch {partition.leader_epoch} and waits for "
                f"{sorted(partition.isr_state.maximal_isr)} only; the controller may elect {beyond} too",
            )

    # On a committed change of a partition or of configs.

    def update_configs(self, image: MetadataImage) -> None:
        """Update what retention may delete from now on."""
        for topic in image.topics.by_name.values():
            configs = image.configs.topic(topic.name)
            for number in topic.partitions if configs else ():
                key = (topic.topic_id, number)
                self._ledger(key, TopicPartition(topic.name, number)).starts.retention.take(configs)

    def check_registration(
        self, key: Key, name: str, before: PartitionRegistration | None, after: PartitionRegistration
    ) -> None:
        """Judge whether the change may lose data, and whether its ISR and ELR may be."""
        ledger = self._ledger(key, TopicPartition(name, key[1]))
        if before is not None and self.peace_since is not None:
            peace_s, need_s = self._now() - self.peace_since, self._options.patience_s
            isrs = frozenset(before.isr), frozenset(after.isr)
            check_isr_in_peace(ledger.name, *isrs, frozenset(after.replicas), peace_s, need_s)
        if before is None:
            ledger.starts.retention.take(self.metadata.newest.configs.topic(name))
        if before is not None and after.leader_epoch != before.leader_epoch and after.has_leader:
            candidates = {*before.isr, *before.elr}
            joins = after.leader in before.adding_replicas  # the last awaited one, by the same change
            if not (after.leader in candidates or joins) or after.recovering:
                ledger.legal_losses[after.leader_epoch] = f"unclean election of broker {after.leader}"
                if after.leader not in before.last_known_elr:
                    # The previous leader may continue as a zombie for a while: the loss of its commits is also legal.
                    ledger.losses.append(f"{ledger.name}: unclean election of broker {after.leader}")
            elif all(self.incarnations.is_suspect(broker_id, key) for broker_id in candidates):
                ledger.legal_losses[after.leader_epoch] = f"all of {sorted(candidates)} lost unsynced data"
        elif before is not None and not after.has_leader and before.leader_epoch in ledger.unheard_losses:
            ledger.legal_losses[after.leader_epoch] = ledger.legal_losses[before.leader_epoch]  # it is still to come
        if before is not None:
            check_kept(ledger.name, before, after, is_unclean=after.leader_epoch in ledger.legal_losses)
            dropped = {*before.replicas} - {*after.replicas}
            if ledger.witnesses:
                # A joining replica also has all records; all the others may leave by the same change.
                ledger.witnesses = (ledger.witnesses | ({*after.isr} - {*before.isr})) - dropped
            self.incarnations.forget(dropped, key)
        self._candidates.check_all(key, ledger)
        self.check_brokers()
        # By an unclean election since: no replica must have it. One that it passed over leaves the ELR permanently.
        uncleanly = ledger.losses or max(ledger.legal_losses, default=-1) > ledger.committed_epoch
        given_up = uncleanly and self._may_be_unclean(key)
        if not (after.isr or after.elr or given_up or self.unregistered_brokers & ledger.witnesses):
            wrong = check_loss_of_all(ledger, self.incarnations.uncleans, borne_in(self._options, self.metadata))
            if wrong is not None:
                raise wrong
        if before is not None and before.leader_epoch == after.leader_epoch:
            for broker_id in sorted({*after.isr} - {*before.isr}):
                self._candidates.check_joined(broker_id, key, ledger, after)
        each = self.incarnations.replica(after.leader, key) if after.has_leader else None
        if each is not None:
            each.isr_state = None  # checked again after the leader's next event
