"""Random histories of brokers' disks: with eligible leader replicas whoever leads has all that was acknowledged.

The controller is production's, and so is what a broker makes of a log that it does not find (missing_logs). The rest of
the brokers is a model: two of them with two log directories each, and what lies in these of one partition is how many
acknowledged records its log has. They are killed and stopped, directories break, are mended, replaced, taken out and
put back with what they held, replicas move between them. Nobody loses power, and no unclean election is allowed: so
nothing may ever be lost, at the price that a partition waits.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kvorum.broker.replica.missing_logs import MissingLogAction, missing_log_action
from kvorum.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from kvorum.protocol.uuids import Uuid
from kvorum.quorum.controller import assign_directories, registration
from kvorum.quorum.controller.alter_partition import alter_partition
from kvorum.quorum.controller.context import Context
from kvorum.quorum.controller.leader_isr import new_incarnation_records
from kvorum.quorum.controller.liveness import fence_refused_broker
from kvorum.quorum.controller.partition_change import NOBODY, PartitionChangeBuilder
from kvorum.quorum.image.partition import LOST_DIRECTORY, PartitionRegistration
from kvorum.quorum.steps import Steps
from tests.unit.quorum.controller.controller_kit import World, able

BROKERS = st.integers(1, 2)
SLOTS = st.sampled_from([0, 0, 0, 1])
"""The directory in which the log lay last, and the other one."""
NO_EPOCH = -1


@dataclass
class Directory:
    """A log directory: its id, how many records the log and the copy in it have, and the mark of a clean stop."""

    id: Uuid
    log: int | None = None
    copy: int | None = None
    mark: int = NO_EPOCH
    is_broken: bool = False


@dataclass
class Broker:
    """A broker's disks, and its process while it is up."""

    slots: list[Directory | None]
    """Its log.dirs; None is one that was taken out."""
    shelf: dict[int, Directory] = field(default_factory=dict)
    """Those that were taken out, and what they hold."""
    is_up: bool = False
    working: list[Directory] = field(default_factory=list)
    """The directories that this life began with and that have not failed since."""
    lies_in: Directory | None = None
    """Where this life has its log, though it may have failed."""
    message: list[Uuid] = field(default_factory=list)
    """What it has to tell the controller of its replica's directory, in order."""
    last: int = 0
    """The slot in which its log lay last."""

    @property
    def configured(self) -> list[Directory]:
        return [each for each in self.slots if each is not None]

    @property
    def log(self) -> Directory | None:
        """The directory of a log that works."""
        return self.lies_in if self.is_up and self.lies_in in self.working else None


class DirectoryHistories(RuleBasedStateMachine):
    """See the module."""

    @initialize(min_isr=st.integers(1, 2), assigned=st.booleans())
    def begin(self, min_isr: int, assigned: bool) -> None:
        self.count = 0
        self.min_isr = min_isr
        self.world = World(elr=1, min_isr=min_isr)
        self.acknowledged = 0
        self.brokers = {number: Broker([self.fresh(), self.fresh()]) for number in (1, 2)}
        for number, broker in self.brokers.items():
            self.world.register(number, log_dirs=[each.id for each in broker.configured])
            self.world.beat(number)
            broker.is_up, broker.working = True, broker.configured
        self.world.topic("t", (1, 2))
        for number, broker in self.brokers.items():
            broker.lies_in = broker.working[0]
            broker.lies_in.log = 0
            broker.message.append(broker.lies_in.id)
            if assigned:
                self.tell(number)

    def fresh(self) -> Directory:
        self.count += 1
        return Directory(Uuid((30_000 + self.count).to_bytes(16, "big")))

    @property
    def partition(self) -> PartitionRegistration:
        return self.world.partition("t")

    def slot(self, number: int, slot: int) -> Directory | None:
        """Return the directory in which a broker's log lay last (0), or the other one (1)."""
        broker = self.brokers[number]
        return broker.slots[(broker.last + slot) % 2]

    def is_registered_now(self, number: int) -> bool:
        return self.brokers[number].is_up and self.world.image.cluster.broker(number) is not None

    # Records.

    @rule()
    def write(self) -> None:
        """Acknowledge a record, if the leader and all in sync are there and as many as there must be."""
        isr = self.partition.isr
        logs = [self.brokers[each].log for each in isr]
        leader = self.partition.leader
        if leader == -1 or len(isr) < self.min_isr or not all(logs):
            return
        self.acknowledged += 1
        for directory in logs:
            assert directory is not None
            directory.log = self.acknowledged

    @rule()
    def catch_up(self) -> None:
        """Whoever is there and unfenced fetches all that the leader has, and comes into the ISR."""
        leader = self.partition.leader
        if leader == -1 or self.brokers[leader].log is None:
            return
        source = self.brokers[leader].log
        assert source is not None
        members = [leader]
        for number, broker in self.brokers.items():
            if number != leader and broker.log is not None and self.world.image.cluster.is_active(number):
                broker.log.log = source.log
                members.append(number)
        self.alter_isr(leader, members)

    @rule(number=BROKERS)
    def shrink(self, number: int) -> None:
        """The leader drops somebody from the ISR."""
        leader, isr = self.partition.leader, self.partition.isr
        if leader not in (-1, number) and number in isr and self.brokers[leader].log is not None:
            self.alter_isr(leader, [each for each in isr if each != number])

    def alter_isr(self, leader: int, members: list[int]) -> None:
        topic = self.world.image.topics.topic("t")
        assert topic is not None
        row = RequestPartitionData(
            partition_index=0,
            leader_epoch=self.partition.leader_epoch,
            partition_epoch=self.partition.partition_epoch,
            new_isr_with_epochs=[
                BrokerState(broker_id=each, broker_epoch=self.world.epoch_of(each)) for each in members
            ],
        )
        rows = [RequestTopicData(topic_id=topic.topic_id, partitions=[row])]
        epoch = self.world.epoch_of(leader)
        self.world.do(alter_partition, AlterPartitionRequest(broker_id=leader, broker_epoch=epoch, topics=rows))

    # Processes.

    @rule(number=BROKERS)
    def kill(self, number: int) -> None:
        broker = self.brokers[number]
        broker.is_up, broker.message, broker.working, broker.lies_in = False, [], [], None

    @rule(number=BROKERS)
    def stop(self, number: int) -> None:
        """Shut down in order: the controller lets it go, and each directory that works has the mark."""
        broker = self.brokers[number]
        if not self.is_registered_now(number):
            return
        epoch = self.world.epoch_of(number)
        for _ in range(4):
            if self.world.beat(number, want_shut_down=True).should_shut_down:
                for directory in broker.working:
                    directory.mark = epoch
                self.kill(number)
                return

    @rule(number=BROKERS, is_clean=st.booleans(), slot=SLOTS, deed=st.sampled_from(["", "", "break", "lose", "out"]))
    def go(self, number: int, is_clean: bool, slot: int, deed: str) -> None:
        """End, be fenced, and perhaps have something happen to a directory."""
        if is_clean:
            self.stop(number)
        self.kill(number)
        self.fence(number)
        if deed == "break":
            self.break_directory(number, slot)
        elif deed:
            self.lose(number, slot, deed == "out")

    @rule(number=BROKERS, tells=st.booleans())
    def come(self, number: int, tells: bool) -> None:
        """Start and be unfenced, with what is to be said of the directory heard before or later."""
        self.start(number)
        if tells:
            self.tell(number)
        self.unfence(number)

    @rule(number=BROKERS)
    def fence(self, number: int) -> None:
        """Its session is over, or its address refuses."""
        epoch = self.world.epoch_of(number)
        self.world.duty(lambda context: fence_refused_broker(context, number, epoch))

    @rule(number=BROKERS)
    def start(self, number: int) -> None:
        broker = self.brokers[number]
        broker_working = [each for each in broker.configured if not each.is_broken]
        if broker.is_up or not broker_working:
            return
        self.fence(number)  # its session is over by then
        marks = {NO_EPOCH if each.is_broken else each.mark for each in broker.configured}
        for each in broker_working:
            each.mark = NO_EPOCH
        broker.is_up, broker.working, broker.message = True, broker_working, []
        previous = marks.pop() if len(marks) == 1 else NO_EPOCH
        self.world.register(number, log_dirs=[each.id for each in broker.working], previous_broker_epoch=previous)
        self.open_log(number)

    def open_log(self, number: int) -> None:
        """Find the log as a start does: of two the one that goes further; a copy may take a lost one's place."""
        broker, named = self.brokers[number], self.partition.directory(number)
        logs = [each for each in broker.working if each.log is not None]
        if len(logs) == 2:
            kept = max(logs, key=lambda each: (each.log, each.id == named))
            if all(each.id != named for each in logs):
                kept = logs[0]
                broker.working.remove(logs[1])
            else:
                next(each for each in logs if each is not kept).log = None
            logs = [kept]
        broker.lies_in = logs[0] if logs else None
        if broker.lies_in is None:
            self.miss_log(number)
        if broker.lies_in is not None:
            broker.last = broker.slots.index(broker.lies_in)
        if broker.lies_in is not None and broker.lies_in.id != named and not self.is_on_its_way(broker, named):
            broker.message.append(broker.lies_in.id)

    def is_on_its_way(self, broker: Broker, named: Uuid) -> bool:
        return any(each.id == named and each.copy is not None for each in broker.working)

    def miss_log(self, number: int) -> None:
        broker = self.brokers[number]
        copies = [each for each in broker.working if each.copy is not None]
        while True:
            named = self.partition.directory(number)
            all_work = len(broker.working) == len(broker.configured)
            takes_over = [each for each in copies if each.id == named or named == LOST_DIRECTORY]
            is_promoted = takes_over and (named == LOST_DIRECTORY or number not in self.partition.eligible)
            if all_work and is_promoted:
                broker.lies_in, takes_over[0].log, takes_over[0].copy = takes_over[0], takes_over[0].copy, None
                return
            fate = missing_log_action(
                self.partition,
                number,
                online={each.id for each in broker.working},
                all_work=all_work,
                is_new=False,
                has_copy=bool(copies),
            )
            if fate is MissingLogAction.CREATE:
                place = next((each for each in broker.working if each.id == named), broker.working[0])
                broker.lies_in, place.log = place, 0
                return
            if fate is MissingLogAction.WAIT:
                return
            # LOST is heard before the broker asks to be unfenced.
            self.world.assign("t", number, LOST_DIRECTORY)

    @rule(number=BROKERS)
    def unfence(self, number: int) -> None:
        """A heartbeat, which names the directories that have failed in this life."""
        if self.is_registered_now(number):
            self.world.beat(number, offline_log_dirs=self.failed(number))

    def failed(self, number: int) -> list[Uuid]:
        broker, registered = self.brokers[number], self.world.image.cluster.broker(number)
        assert registered is not None
        working = {each.id for each in broker.working}
        return [each for each in registered.log_dirs if each not in working]

    @rule(number=BROKERS)
    def tell(self, number: int) -> None:
        """What it has to say of its directory is heard."""
        broker = self.brokers[number]
        if self.is_registered_now(number) and broker.message:
            directory = broker.message.pop(0)
            broker.message = broker.message[-1:]
            self.world.assign("t", number, directory)

    # Directories.

    @rule(number=BROKERS, slot=SLOTS)
    def break_directory(self, number: int, slot: int) -> None:
        """It fails; a broker that lives keeps one that works, and says where a replica lay that it took."""
        broker, directory = self.brokers[number], self.slot(number, slot)
        others = [each for each in broker.working if each is not directory]
        if directory is None or directory.is_broken or (broker.is_up and not others):
            return
        directory.is_broken = True
        broker.working = others
        if broker.is_up and broker.lies_in is directory and self.partition.directory(number) != directory.id:
            broker.message.append(directory.id)

    @rule(number=BROKERS, slot=SLOTS)
    def mend(self, number: int, slot: int) -> None:
        """It works again, from the next start on."""
        directory = self.slot(number, slot)
        if directory is not None:
            directory.is_broken = False

    @rule(number=BROKERS, slot=SLOTS, taken_out=st.booleans())
    def lose(self, number: int, slot: int, taken_out: bool) -> None:
        """While the broker is down a directory is replaced by an empty one, or taken out of log.dirs."""
        broker, directory = self.brokers[number], self.slot(number, slot)
        if broker.is_up or directory is None or (taken_out and len(broker.configured) == 1):
            return
        place = broker.slots.index(directory)
        if taken_out:
            broker.shelf[place], broker.slots[place] = directory, None
        else:
            broker.slots[place] = self.fresh()

    @rule(number=BROKERS)
    def put_back(self, number: int) -> None:
        """A directory that was removed from log.dirs is in it again with its old content."""
        broker = self.brokers[number]
        for place in [] if broker.is_up else list(broker.shelf):
            broker.slots[place] = broker.shelf.pop(place)

    @rule(number=BROKERS, steps=st.integers(1, 4))
    def move(self, number: int, steps: int) -> None:
        """Go so many steps of a move: copied, asked for, heard, ended."""
        for step in (self.begin_move, self.ask_for_the_moves_end, self.tell, self.end_move)[:steps]:
            step(number)

    @rule(number=BROKERS)
    def begin_move(self, number: int) -> None:
        broker = self.brokers[number]
        targets = [each for each in broker.working if each is not broker.log]
        if broker.log is not None and targets and all(each.copy is None for each in broker.working):
            targets[0].copy = broker.log.log

    @rule(number=BROKERS)
    def ask_for_the_moves_end(self, number: int) -> None:
        broker = self.brokers[number]
        copies = [each for each in broker.working if each.copy is not None]
        if broker.log is not None and copies:
            copies[0].copy = broker.log.log
            broker.message.append(copies[0].id)

    @rule(number=BROKERS)
    def end_move(self, number: int) -> None:
        """The metadata name the copy's directory: it has all, and takes the log's place."""
        broker, named = self.brokers[number], self.partition.directory(number)
        target = next((each for each in broker.working if each.copy is not None and each.id == named), None)
        if broker.log is not None and target is not None:
            target.log, target.copy = broker.log.log, None
            broker.log.log = None
            broker.lies_in, broker.last = target, broker.slots.index(target)

    # What must hold.

    @invariant()
    def whoever_leads_has_all(self) -> None:
        leader = self.partition.leader
        broker = self.brokers.get(leader)
        if broker is not None and broker.log is not None:
            assert broker.log.log == self.acknowledged, (leader, self.partition, broker, self.acknowledged)

    @invariant()
    def nobody_able_waits(self) -> None:
        partition = self.partition
        if partition.leader == -1:
            candidates = partition.isr or partition.elr or partition.last_known_elr
            assert not any(able(self.world.image, partition, each) for each in candidates)


TestDirectoryHistories = DirectoryHistories.TestCase
TestDirectoryHistories.settings = settings(
    max_examples=200, stateful_step_count=60, deadline=None, suppress_health_check=[HealthCheck.filter_too_much]
)


Story = Callable[[DirectoryHistories], None]


def taken_out_after_a_clean_stop(history: DirectoryHistories) -> None:
    history.begin(2, True)
    history.write()
    history.go(1, False, 0, "")
    history.go(2, True, 0, "out")


def replaced_under_the_last_leader(history: DirectoryHistories) -> None:
    history.begin(1, True)
    history.write()
    history.go(1, False, 0, "")
    history.go(2, False, 0, "lose")


def replaced_before_anybody_knew_what_lay_there(history: DirectoryHistories) -> None:
    history.begin(1, False)
    history.write()
    history.go(1, False, 0, "")
    history.go(2, False, 0, "lose")


def taken_out_from_under_a_move(history: DirectoryHistories) -> None:
    """The metadata name the copy's directory, and the log goes on in its own."""
    history.begin(1, True)
    history.write()
    history.go(1, False, 0, "")
    history.move(2, 3)
    history.write()
    history.go(2, False, 0, "out")


def trust_the_mark(patches: pytest.MonkeyPatch) -> None:
    def everything(context: Context, broker_id: int, *_: object, is_clean: bool, is_any_gone: bool) -> Steps[Any]:
        topic = context.image.topics.topic("t")
        named = () if topic is None else topic.partitions[0].directories
        return new_incarnation_records(context, broker_id, named, is_clean=is_clean, is_any_gone=is_any_gone)

    patches.setattr(registration, "new_incarnation_records", everything)


def trust_any_log(patches: pytest.MonkeyPatch) -> None:
    def forgetful(**fields: Any) -> PartitionChangeBuilder:
        return PartitionChangeBuilder(**{**fields, "lost": NOBODY})

    patches.setattr(assign_directories, "PartitionChangeBuilder", forgetful)


def forget_directories(patches: pytest.MonkeyPatch) -> None:
    def all_there(*arguments: Any, is_clean: bool, is_any_gone: bool) -> Steps[Any]:
        return new_incarnation_records(*arguments, is_clean=is_clean, is_any_gone=False)

    patches.setattr(registration, "new_incarnation_records", all_there)


def trust_that_there_never_was_a_log(patches: pytest.MonkeyPatch) -> None:
    patches.setattr(sys.modules[__name__], "missing_log_action", lambda *_, **__: MissingLogAction.CREATE)


@pytest.mark.parametrize(
    ("story", "mistake"),
    [
        (taken_out_after_a_clean_stop, trust_the_mark),
        (replaced_under_the_last_leader, trust_any_log),
        (replaced_before_anybody_knew_what_lay_there, forget_directories),
        (taken_out_from_under_a_move, trust_that_there_never_was_a_log),
    ],
)
def test_no_replica_leads_with_an_empty_log_and_a_violation_is_detected(
    monkeypatch: pytest.MonkeyPatch, story: Story, mistake: Callable[[pytest.MonkeyPatch], None]
) -> None:
    def end() -> DirectoryHistories:
        history = DirectoryHistories()
        story(history)
        history.come(2, False)
        history.tell(2)
        history.unfence(2)
        return history

    history = end()
    assert history.partition.leader == -1
    history.whoever_leads_has_all()
    history.nobody_able_waits()
    mistake(monkeypatch)
    with pytest.raises(AssertionError, match="PartitionRegistration"):
        end().whoever_leads_has_all()
