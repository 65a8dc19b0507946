"""Clients of groups, one thread each: readers that commit, workers that process exactly once.

A worker has its own transactional id, and a life with one producer and one membership. It gets its producer id before
it joins, so the last life's open transaction has ended before it fetches the group's offsets again (KIP-447 does the
rest: offsets of open transactions are unstable, and a removed member is rejected).
"""

import threading
import time
from random import Random
from typing import Final

from confluent_kafka import TopicPartition

from kvorum.chaos.client_access import ClientAccess
from kvorum.chaos.history import MicroOp, PolledRecord
from kvorum.chaos.workload.libraries import CONFLUENT
from kvorum.chaos.workload.members import Member
from kvorum.chaos.workload.plan import GroupClients, SubscribeClients, WorkerClients
from kvorum.chaos.workload.recorder import Recorder, split_partition
from kvorum.chaos.workload.threads import client_thread, join_or_tell
from kvorum.chaos.workload.transactions import TransactionalProducer

POLL_SECONDS: Final = 0.2
POLL_RECORDS_MAX: Final = 500
DIES_IN_TRANSACTION: Final = 0.5


class _GroupThread:
    """A member after another, in one thread."""

    def __init__(self, plan: GroupClients, access: ClientAccess, recorder: Recorder, rng: Random) -> None:
        self._group_plan = plan
        self._access = access
        self._recorder = recorder
        self._rng = rng
        self._stop = threading.Event()
        self._thread = client_thread(f"chaos-{plan.group_id}", self._run, recorder)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Stop starting operations."""
        self._stop.set()

    def join(self) -> None:
        """Wait until the member has left."""
        join_or_tell(self._thread, self._recorder)

    def _run(self) -> None:
        while not self._stop.is_set():
            crash, leave = (
                time.monotonic() + (float("inf") if every is None else every * (0.5 + self._rng.random()))
                for every in (self._group_plan.crash_every, self._group_plan.leave_every)
            )
            self._live(min(crash, leave), dies=crash < leave)

    def _live(self, ends: float, *, dies: bool) -> None:
        raise NotImplementedError


class SubscribedReader(_GroupThread):
    """Reads its assigned partitions and commits now and then."""

    def __init__(
        self, plan: SubscribeClients, topics: dict[str, int], access: ClientAccess, recorder: Recorder, rng: Random
    ) -> None:
        """Create it; `start` starts it."""
        super().__init__(plan, access, recorder, rng)
        self._plan = plan
        self._topics = list(topics)

    def _live(self, ends: float, *, dies: bool) -> None:
        recorder, plan = self._recorder, self._plan
        process = recorder.process(CONFLUENT, isolation=plan.isolation)
        member = Member(plan, self._topics, self._access, recorder, process, plan.isolation)
        due = time.monotonic() + plan.commit_every
        while not self._stop.is_set() and time.monotonic() < ends:
            member.poll(POLL_RECORDS_MAX, POLL_SECONDS)
            if time.monotonic() >= due:
                member.commit()
                due = time.monotonic() + plan.commit_every
        if dies and not self._stop.is_set():
            member.die()
        else:
            member.leave()


class Worker(_GroupThread):
    """Reads, makes a record of each, and commits both in one transaction."""

    def __init__(self, plan: WorkerClients, access: ClientAccess, recorder: Recorder, rng: Random) -> None:
        """Create it; `start` starts it."""
        super().__init__(plan, access, recorder, rng)
        self._plan = plan
        self._id = f"kvorum-chaos-{plan.group_id}-{rng.getrandbits(32):08x}"

    def _live(self, ends: float, *, dies: bool) -> None:
        plan = self._plan
        life = TransactionalProducer(self._access, self._id, plan.timeout, self._recorder)
        if not life.ready(self._stop):
            life.die()
            return
        member = Member(plan, [plan.source], self._access, self._recorder, life.process, "read_committed")
        while not self._stop.is_set() and time.monotonic() < ends:
            begins = dict(member.owned)
            found = member.poll(plan.records, POLL_SECONDS)
            if found and not self._process(life, member, found, begins):
                dies = True
                break
        if dies and not self._stop.is_set():
            if self._rng.random() < DIES_IN_TRANSACTION and member.owned:
                _, number = split_partition(next(iter(member.owned)))
                life.leave_open([(f"{plan.sink}-{number}", self._recorder.next_value())], [])
            member.die()
            life.producer.purge(in_queue=True, in_flight=True, blocking=False)
        else:
            member.leave()
            life.die()

    def _process(
        self, life: TransactionalProducer, member: Member, found: dict[str, list[PolledRecord]], begins: dict[str, int]
    ) -> bool:
        """One transaction; returns whether this life may continue."""
        plan, recorder = self._plan, self._recorder
        records: list[tuple[str, int]] = []
        more: list[MicroOp] = []
        for name, polled in found.items():
            target = f"{plan.sink}-{split_partition(name)[1]}"
            for record in polled:
                made = recorder.next_value()
                records.append((target, made))
                more.append(["copy", plan.group_id, name, record[1], target, made])
            more.append(["offset", plan.group_id, name, member.owned[name]])
        offsets = [TopicPartition(*split_partition(name), member.owned[name]) for name in found]
        generation = member.classic_generation
        metadata = member.consumer.consumer_group_metadata()
        commit = self._rng.random() >= plan.abort
        done = life.run(records, more, commit=commit, offsets=(offsets, metadata), generation=generation)
        if done and not commit:
            for name in found:
                if name in member.owned:
                    member.seek(name, begins.get(name, found[name][0][0]))
        return done
