"""A leader, its followers and a controller in memory, over a network that loses, repeats and reorders everything.

The machines are the real ones (Partition, Follower, isr_changes); logs, controller and network are models. One seed is
one run. After every event:

- what was acknowledged with acks=all is in the log of every member of the controller's ISR, at its offset (so whoever
  is elected has it);
- what a leader's high watermark has shown never changes;
- a leader's maximal ISR holds the controller's ISR, as long as the controller still means it.

In the end everything heals: all logs become equal, the ISR is full, nothing acknowledged is missing.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

import pytest

from kvorum.broker.replica import isr, isr_changes, partition_reads
from kvorum.broker.replica.follower import Follower, FollowerPhase, Outcome
from kvorum.broker.replica.follower_state import FollowerState
from kvorum.broker.replica.isr import (
    NOT_APPLIED,
    AfterRefusal,
    AlterPartitionAnswer,
    AlterPartitionProposal,
    CommittedIsr,
)
from kvorum.broker.replica.isr_changes import complete_alter_partition, fail_alter_partition, maybe_shrink_isr
from kvorum.broker.replica.isr_manager import is_outlived
from kvorum.broker.replica.partition import Partition
from kvorum.broker.replica.types import NO_BROKER_EPOCH, Role
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.fetch import PartitionData
from kvorum.quorum.image.partition import PartitionRegistration
from tests.unit.broker.replica.replica_kit import (
    LAG_MS,
    ModelCluster,
    ModelLog,
    a_partition,
    batch,
    config,
    follower_fetch,
    registration,
    row_of,
)

BROKERS = (1, 2, 3)
EVENTS = 1000
SEEDS = 120
HUNT_SEEDS = 600
"""How far a rule that is off is looked for; the search ends with the first seed that finds it."""


@dataclass
class Controller:
    """The true ISR and leader; decides as Kafka's ReplicationControlManager does.

    With `bumps_on_shrink` a member that leaves the ISR by fencing makes a new leader epoch also where the leader stays,
    as before Kafka 3.6; without, the leader keeps what it knows of its followers, as it does with our controller.
    """

    min_isr: int
    bumps_on_shrink: bool = False
    state: PartitionRegistration = field(default_factory=lambda: registration(leader=1))
    epochs: dict[int, int] = field(default_factory=lambda: {each: 100 + each for each in BROKERS})
    fenced: set[int] = field(default_factory=set)
    next_epoch: int = 200

    def change(self, isr: tuple[int, ...], leader: int, new_epoch: bool) -> None:
        state = self.state
        self.state = registration(
            leader=leader,
            isr=isr,
            leader_epoch=state.leader_epoch + new_epoch,
            partition_epoch=state.partition_epoch + 1,
        )

    def alter_partition(self, sender: int, proposal: AlterPartitionProposal) -> AlterPartitionAnswer | ErrorCode:
        state = self.state
        members = tuple(member for member, _ in proposal.isr)
        if proposal.leader_epoch > state.leader_epoch or proposal.partition_epoch > state.partition_epoch:
            return ErrorCode.NOT_CONTROLLER
        if proposal.leader_epoch < state.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if sender != state.leader:
            return ErrorCode.INVALID_REQUEST
        if proposal.partition_epoch < state.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        for member, epoch in proposal.isr:
            if member in self.fenced or (epoch != -1 and epoch != self.epochs[member]):
                return ErrorCode.INELIGIBLE_REPLICA
        if members != state.isr:
            self.change(members, state.leader, new_epoch=False)
        return AlterPartitionAnswer(
            leader_id=self.state.leader,
            leader_epoch=self.state.leader_epoch,
            partition_epoch=self.state.partition_epoch,
            isr=self.state.isr,
        )

    def fence(self, broker_id: int) -> None:
        """Take a broker out of leadership and ISR; the last of the ISR keeps its place."""
        if broker_id in self.fenced:
            return
        self.fenced.add(broker_id)
        state = self.state
        isr = tuple(each for each in state.isr if each != broker_id) or state.isr
        leader = next((each for each in isr if each not in self.fenced), -1)
        if isr != state.isr or leader != state.leader:
            self.change(isr, leader, new_epoch=leader != state.leader or (self.bumps_on_shrink and isr != state.isr))

    def elect(self, broker_id: int) -> None:
        """Let a broker lead that may, if another one does now."""
        state = self.state
        if broker_id in state.isr and broker_id not in self.fenced and state.leader not in (-1, broker_id):
            self.change(state.isr, broker_id, new_epoch=True)

    def register(self, broker_id: int) -> int:
        """A new incarnation: the old one is fenced first."""
        self.fence(broker_id)
        self.epochs[broker_id] = self.next_epoch
        self.next_epoch += 1
        return self.epochs[broker_id]

    def unfence(self, broker_id: int) -> None:
        self.fenced.discard(broker_id)
        state = self.state
        if state.leader == -1 and broker_id in state.isr:
            self.change(state.isr, broker_id, new_epoch=True)


class Message(NamedTuple):
    """Something on its way: delivering it may put more on its way."""

    kind: str
    target: int
    deliver: Callable[[], None]


class Broker:
    """One broker's replica; its log survives kill -9 (unless `lose` comes), everything else does not."""

    def __init__(self, broker_id: int, controller: Controller) -> None:
        self.broker_id = broker_id
        self.controller = controller
        self.log = ModelLog(config(controller.min_isr))
        self._decoded: tuple[tuple[ModelLog, int, int], dict[int, bytes | None]] = (self.log, 0, 0), {}
        self.is_up = True
        self.boot()

    def boot(self) -> None:
        self.epoch = self.controller.epochs[self.broker_id]
        self.view = ModelCluster(dict(self.controller.epochs), set(self.controller.fenced))
        self.partition: Partition = a_partition(self.view, self.broker_id)
        self.partition.local_broker_epoch = lambda: self.epoch
        self.follower: Follower | None = None
        self.requested: object | None = None
        """The fetch whose answer it waits for."""
        self.waiting: dict[int, bytes] = {}
        """Required offset -> value of produces not acknowledged yet."""
        self.copies: dict[int, int] = {}
        """How often each proposal was sent."""
        self.proposals: list[AlterPartitionProposal] = []
        """Kept, so that no two have one identity."""

    def records(self) -> dict[int, bytes | None]:
        """Return {offset: value} of the log; decoded anew only when it has changed."""
        state = (self.log, self.log.log_end_offset, len(self.log.truncations))
        if self._decoded[0] != state:
            self._decoded = state, {offset: value for offset, _, value in self.log.history}
        return self._decoded[1]

    def lose(self, from_offset: int) -> None:
        """Lose the log from an offset on: an unsynced tail, or, from 0 on, the whole disk."""
        if from_offset == 0:
            self.log = ModelLog(config(self.controller.min_isr))
        else:
            self.log.truncate_to(from_offset)


class Simulation:
    """See the head of the module."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.now_ms = 0
        self.controller = Controller(
            min_isr=self.chance.choice([1, 2, 2, 3]), bumps_on_shrink=self.chance.random() < 0.5
        )
        self.loses_disks = self.chance.random() < 0.5
        self.loss = self.chance.choice([0.02, 0.15])
        """Which share of all messages is lost."""
        self.brokers = {each: Broker(each, self.controller) for each in BROKERS}
        self.network: list[Message] = []
        self.acked: dict[int, bytes] = {}
        self.shown: dict[int, bytes | None] = {}
        self.is_healing = False
        self.written = 0
        for broker in self.brokers.values():
            self.catch_up_metadata(broker)

    # --- events

    def run(self) -> None:
        events: list[tuple[int, Callable[[], None]]] = [
            (12, self.produce),
            (60, self.send_fetch),
            (60, self.deliver),
            (60, self.some_metadata),
            (3, self.shrink_tick),
            (5, self.time_passes),
            (1, self.crash),
            (10, self.restart),
            (3, self.bounce),
            (1, self.fence_one),
            (20, self.unfence_one),
            (6, self.move_leadership),
            (6, self.send_again),
        ]
        kinds = [event for _, event in events]
        weights = [weight for weight, _ in events]
        for _ in range(EVENTS):
            self.chance.choices(kinds, weights)[0]()
            self.after_event()
        self.heal()

    def up(self) -> list[Broker]:
        return [broker for broker in self.brokers.values() if broker.is_up]

    def produce(self) -> None:
        leaders = [broker for broker in self.up() if broker.partition.role is Role.LEADING]
        if not leaders:
            return
        broker = self.chance.choice(leaders)
        self.written += 1
        value = f"{broker.broker_id}/{broker.partition.leader_epoch}/{self.written}".encode()
        try:
            info = broker.partition.append_records_to_leader(batch(value), -1, self.now_ms)
        except KafkaError as error:
            assert error.code is ErrorCode.NOT_ENOUGH_REPLICAS
            return
        broker.waiting[info.last_offset + 1] = value

    def send_fetch(self) -> None:
        broker = self.chance.choice(list(self.brokers.values()))
        follower = broker.follower
        if not broker.is_up or follower is None:
            return
        if broker.requested is not None and self.chance.random() < 0.8:
            return  # it waits for the answer; now and then it has waited long enough, and connects anew
        if follower.is_ready(FollowerPhase.RESETTING, self.now_ms):
            self.reset(broker, follower)
        if not follower.is_ready(FollowerPhase.FETCHING, self.now_ms):
            return
        offset, last_epoch, start = follower.fetch_position()
        leader = self.brokers.get(follower.leader_id)
        epoch = broker.epoch
        if leader is None:
            return
        broker.requested = requested = object()

        def arrive() -> None:
            assert leader is not None
            if not leader.is_up:
                return
            try:
                read = follower_fetch(
                    leader.partition, broker.broker_id, offset, now_ms=self.now_ms, replica_epoch=epoch,
                    leader_epoch=follower.leader_epoch, last_fetched_epoch=last_epoch, log_start_offset=start,
                    max_bytes=self.chance.choice([1, 200, 1 << 20]),
                )  # fmt: skip
                row = row_of(read)
            except KafkaError as error:
                row = PartitionData(error_code=error.code)
            self.send("fetched", broker.broker_id, lambda: self.take_rows(broker, follower, requested, offset, row))

        self.send("fetch", leader.broker_id, arrive)

    def take_rows(self, broker: Broker, follower: Follower, requested: object, offset: int, row: PartitionData) -> None:
        """Take the answer to the fetch that was sent last: others came over connections that are closed by now."""
        if broker.is_up and broker.follower is follower and broker.requested is requested:
            broker.requested = None
            outcome = follower.on_fetched(offset, row, self.now_ms)
            assert outcome is not Outcome.OUT_OF_RANGE, "nothing is ever deleted, and no election is unclean"

    def reset(self, broker: Broker, follower: Follower) -> None:
        raise AssertionError(f"broker {broker.broker_id} lost its place in the log of {follower.leader_id}")

    def deliver(self) -> None:
        if not self.network:
            return
        index = self.chance.randrange(len(self.network))
        message = self.network[index]
        fate = self.chance.random()
        if fate < self.loss and not self.is_healing:
            self.network.pop(index)
        elif fate < self.loss + 0.1 and message.kind != "alter" and not self.is_healing:
            message.deliver()  # and again later; a proposal is sent again only by who then knows of it
        else:
            self.network.pop(index)
            message.deliver()

    def send_again(self) -> None:
        """The answer to a proposal did not come in time: the same once more, the first may still be on its way."""
        for broker in self.up():
            state = broker.partition.isr_state
            if not isinstance(state, CommittedIsr):
                self.propose(broker, state.proposal)

    def send(self, kind: str, target: int, deliver: Callable[[], None]) -> None:
        self.network.append(Message(kind, target, deliver))
        if len(self.network) > 60:
            self.network.pop(self.chance.randrange(30))

    def some_metadata(self) -> None:
        self.catch_up_metadata(self.chance.choice(self.up() or [self.brokers[1]]))

    def catch_up_metadata(self, broker: Broker) -> None:
        """Give a broker the newest state; what was between is skipped, as a delta of several batches does."""
        if not broker.is_up:
            return
        state = self.controller.state
        broker.view.epochs = dict(self.controller.epochs)
        broker.view.fenced = set(self.controller.fenced)
        if state.leader == broker.broker_id:
            broker.partition.make_leader(state, broker.log, self.now_ms)
            broker.follower = None
        elif broker.partition.make_follower(state, broker.log):
            broker.waiting.clear()  # NOT_LEADER_OR_FOLLOWER: their outcome is unknown
            broker.requested = None
            broker.follower = Follower(broker.partition, 1) if state.leader != -1 else None

    def shrink_tick(self) -> None:
        for broker in self.up():
            maybe_shrink_isr(broker.partition, self.now_ms)

    def time_passes(self) -> None:
        self.now_ms += self.chance.choice([1, 100, LAG_MS // 3])

    def crash(self) -> None:
        broker = self.chance.choice(list(self.brokers.values()))
        broker.is_up = False

    def bounce(self) -> None:
        """Kill a broker that is back before anything it had sent has arrived."""
        self.crash()
        self.restart()

    def restart(self) -> None:
        down = [broker for broker in self.brokers.values() if not broker.is_up]
        if down:
            broker = self.chance.choice(down)
            self.controller.register(broker.broker_id)
            # The last of an ISR is waited for: what it alone has would be lost with its disk, whatever anyone does.
            if self.loses_disks and broker.broker_id not in self.controller.state.isr:
                end = broker.log.log_end_offset
                broker.lose(from_offset=self.chance.choice([0, self.chance.randint(0, end), end]))
            broker.is_up = True
            broker.boot()
            self.catch_up_metadata(broker)

    def move_leadership(self) -> None:
        """Leader balance, or a controlled shutdown: another member of the ISR leads, and nobody leaves it."""
        self.controller.elect(self.chance.choice(BROKERS))

    def fence_one(self) -> None:
        self.controller.fence(self.chance.choice(BROKERS))

    def unfence_one(self) -> None:
        broker = self.chance.choice(self.up() or [self.brokers[1]])
        if broker.is_up and broker.epoch == self.controller.epochs[broker.broker_id]:
            self.controller.unfence(broker.broker_id)

    # --- what follows every event

    def after_event(self) -> None:
        for broker in self.up():
            self.take_effects(broker)
            self.acknowledge(broker)
            self.check_shown(broker)
        self.check_acked()
        self.check_maximal_isr()

    def take_effects(self, broker: Broker) -> None:
        effects = broker.partition.take_effects()
        if effects is not None and effects.proposal is not None:
            self.propose(broker, effects.proposal)

    def propose(self, broker: Broker, proposal: AlterPartitionProposal) -> None:
        partition, sender = broker.partition, broker.broker_id

        def arrive() -> None:
            answer = self.controller.alter_partition(sender, proposal)
            self.send("altered", sender, lambda: back(answer))

        broker.proposals.append(proposal)
        broker.copies[id(proposal)] = broker.copies.get(id(proposal), 0) + 1

        def back(answer: AlterPartitionAnswer | ErrorCode) -> None:
            if not broker.is_up or broker.partition is not partition:
                return
            if answer in NOT_APPLIED and broker.copies[id(proposal)] > 1 and not is_outlived(partition, proposal):
                return  # another copy may yet be applied: IsrManager asks again instead
            if isinstance(answer, AlterPartitionAnswer):
                complete_alter_partition(partition, proposal, answer, self.now_ms)
            elif fail_alter_partition(partition, proposal, answer, self.now_ms) is AfterRefusal.RETRY:
                self.send("alter", 0, arrive)

        self.send("alter", 0, arrive)

    def acknowledge(self, broker: Broker) -> None:
        for required_offset, value in tuple(broker.waiting.items()):
            outcome = broker.partition.check_enough_replicas_reach_offset(required_offset)
            if outcome is not None:
                del broker.waiting[required_offset]
            if outcome is ErrorCode.NONE:
                assert self.acked.get(required_offset - 1, value) == value, "one offset, two acknowledged records"
                self.acked[required_offset - 1] = value

    def check_shown(self, broker: Broker) -> None:
        if broker.partition.role is Role.LEADING:
            records = broker.records()
            for offset in range(broker.log.high_watermark):
                value = records[offset]
                assert self.shown.setdefault(offset, value) == value, f"consumers saw {self.shown[offset]!r}"

    def check_acked(self) -> None:
        for member in self.controller.state.isr:
            records = self.brokers[member].records()
            missing = {offset: value for offset, value in self.acked.items() if records.get(offset) != value}
            assert not missing, f"broker {member} of ISR {self.controller.state.isr} lacks {missing}"

    def check_maximal_isr(self) -> None:
        state = self.controller.state
        leader = self.brokers.get(state.leader)
        if leader is not None and leader.is_up and leader.partition.leader_epoch == state.leader_epoch:
            assert leader.partition.isr_state.maximal_isr >= set(state.isr)

    # --- the end

    def heal(self) -> None:
        self.is_healing = True
        for _ in range(600):
            for broker in self.brokers.values():
                if not broker.is_up:
                    self.controller.register(broker.broker_id)
                    broker.is_up = True
                    broker.boot()
                self.controller.unfence(broker.broker_id)
                self.catch_up_metadata(broker)
            self.now_ms += 10
            self.send_again()
            for _ in range(6):
                self.send_fetch()
            while self.network:
                self.deliver()
                self.after_event()
            if self.is_whole():
                break
        assert self.is_whole(), f"after healing: {self.controller.state}"
        leader = self.brokers[self.controller.state.leader].log
        for broker in self.brokers.values():
            assert broker.log.history == leader.history
        history = {offset: value for offset, _, value in leader.history}
        assert {offset: history.get(offset) for offset in self.acked} == self.acked

    def is_whole(self) -> bool:
        state = self.controller.state
        if set(state.isr) != set(BROKERS) or state.leader == -1:
            return False
        ends = {broker.log.log_end_offset for broker in self.brokers.values()}
        return len(ends) == 1 and self.brokers[state.leader].log.high_watermark in ends


@pytest.mark.parametrize("block", range(6))
def test_nothing_acknowledged_is_lost_and_replicas_converge(block: int) -> None:
    acked = 0
    for seed in range(block * SEEDS // 6, (block + 1) * SEEDS // 6):
        simulation = Simulation(seed)
        try:
            simulation.run()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        acked += len(simulation.acked)
    assert acked > 100, "the runs acknowledge something"


def believe_a_shrink_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is proposed to leave no longer counts."""
    gone = property(lambda state: state.last_committed.isr - state.out_of_sync_replica_ids)
    monkeypatch.setattr(isr.PendingShrinkIsr, "maximal_isr", gone)


def forget_proposals_with_old_news(monkeypatch: pytest.MonkeyPatch) -> None:
    """Metadata of the epoch already known from an answer undoes a proposal sent since."""
    monkeypatch.setattr(Partition, "_is_news", lambda self, state: state.partition_epoch >= self.partition_epoch)


def truncate_to_the_high_watermark(monkeypatch: pytest.MonkeyPatch) -> None:
    """What followers did before KIP-101."""
    begin = Follower.__init__

    def begin_by_cutting(self: Follower, partition: Partition, backoff_ms: int) -> None:
        begin(self, partition, backoff_ms)
        assert partition.log is not None
        partition.log.truncate_to(partition.log.high_watermark)

    monkeypatch.setattr(Follower, "__init__", begin_by_cutting)


def acknowledge_what_is_appended(monkeypatch: pytest.MonkeyPatch) -> None:
    """acks=all answers without waiting for anybody."""
    monkeypatch.setattr(Partition, "check_enough_replicas_reach_offset", lambda self, offset: ErrorCode.NONE)


def admit_whoever_reached_the_high_watermark(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new leader's own high watermark, which lags, is all that a follower must reach to join the ISR."""
    in_sync = isr_changes.is_in_sync

    def without_the_epochs_start(partition: Partition, follower: FollowerState, now_ms: int) -> bool:
        start_offset, partition.leader_epoch_start_offset = partition.leader_epoch_start_offset, 0
        try:
            return in_sync(partition, follower, now_ms)
        finally:
            partition.leader_epoch_start_offset = start_offset

    monkeypatch.setattr(isr_changes, "is_in_sync", without_the_epochs_start)


def ignore_broker_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an earlier incarnation fetched counts for the one that is there now (before KIP-903)."""

    def is_able(self: Partition, follower: FollowerState) -> bool:
        broker_id = follower.broker_id
        return not self.brokers.is_fenced(broker_id) and not self.brokers.is_shutting_down(broker_id)

    def record(*partition_and_follower: Any, **fetch: Any) -> None:
        isr_changes.record_follower_fetch(*partition_and_follower, **{**fetch, "broker_epoch": NO_BROKER_EPOCH})

    monkeypatch.setattr(partition_reads, "record_follower_fetch", record)
    monkeypatch.setattr(Partition, "is_isr_eligible", is_able)


@pytest.mark.patches
@pytest.mark.parametrize(
    "break_rule",
    [
        believe_a_shrink_at_once,
        forget_proposals_with_old_news,
        truncate_to_the_high_watermark,
        acknowledge_what_is_appended,
        admit_whoever_reached_the_high_watermark,
        ignore_broker_epochs,
    ],
)
def test_with_a_rule_off_the_same_seeds_find_it(
    monkeypatch: pytest.MonkeyPatch, break_rule: Callable[[pytest.MonkeyPatch], None]
) -> None:
    break_rule(monkeypatch)
    with pytest.raises(AssertionError):
        for seed in range(HUNT_SEEDS):
            Simulation(seed).run()
