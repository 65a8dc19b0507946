"""Runs one scenario from an empty folder to its verdict: cluster, topics, load, faults, repair, final reads, checker.

folder/history.jsonl            the events, one per line
folder/cluster/                 the cluster: configurations, logs and data of every node
"""

import shutil
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

import msgspec
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]  # it means to export it

from kvorum.chaos import history
from kvorum.chaos.checker import check
from kvorum.chaos.client_access import ClientAccess
from kvorum.chaos.faults.events import FaultError, OnFault
from kvorum.chaos.faults.namespace_holder import NotPermitted
from kvorum.chaos.faults.processes import StartError
from kvorum.chaos.faults.target_cluster import LabError
from kvorum.chaos.faults.toxiproxy_binary import NoToxiproxy
from kvorum.chaos.history import read_history
from kvorum.chaos.report import files as report
from kvorum.chaos.scenario.event_rules import failed_event_rules, needs_events
from kvorum.chaos.scenario.models import Scenario
from kvorum.chaos.scenario.operator_requests import RequestError
from kvorum.chaos.scenario.operator_steps import StepError
from kvorum.chaos.scenario.outcome import HISTORY, Outcome, failed_expectations
from kvorum.chaos.scenario.schedule import Schedule, draw_steps
from kvorum.chaos.scenario.systems import ExternalAddresses, ExternalSystem, Follower, LabSystem, System
from kvorum.chaos.scenario.targets import Targets, UnknownTarget
from kvorum.chaos.scenario.verbs import Verbs
from kvorum.chaos.workload.admin import REQUEST_SECONDS, Administrator, admin_client
from kvorum.chaos.workload.final import read_all
from kvorum.chaos.workload.group_ends import final_offsets, wait_for_stable
from kvorum.chaos.workload.inspect import Unreadable
from kvorum.chaos.workload.libraries import software
from kvorum.chaos.workload.load import Load
from kvorum.chaos.workload.plan import groups_of, transactions_end_within
from kvorum.chaos.workload.recorder import Recorder, partition_names, split_partition
from kvorum.cluster.local.local import ClusterError
from kvorum.runtime.config import ConfigError

TOPIC_SECONDS: Final = 30.0
HIGH_WATERMARK_SECONDS: Final = 10.0
STEP_ERRORS: Final = (
    *(StepError, RequestError, UnknownTarget, FaultError, LabError, StartError),
    *(ClusterError, KafkaException, ValueError, OSError),
)
"""Exceptions of a step that cannot be executed."""
CANNOT_START: Final = (
    *(NoToxiproxy, NotPermitted, FaultError, LabError, StartError),
    *(ClusterError, ConfigError, KafkaException, ValueError, OSError),
)


@dataclass(slots=True)
class Watch:
    """Callbacks for a display. All calls come from the run's own threads."""

    on_line: Callable[[str], None] = lambda text: None
    """A line worth reading: a step, a fault, a phase."""
    recorder: Recorder | None = None
    in_force: dict[int, str] = field(default_factory=dict)
    """{fault: its description}."""
    phase: str = "starting"

    def fault(self, event: history.Fault) -> None:
        """A fault began or ended."""
        if event.phase == "begin":
            self.in_force[event.id] = f"{event.fault} {','.join(event.targets)}"
        else:
            self.in_force.pop(event.id, None)
        self.on_line(f"{event.phase:5} {event.story}")

    def enter(self, phase: str) -> None:
        """The run enters its next phase."""
        self.phase = phase
        self.on_line(f"----- {phase}")


@dataclass(slots=True)
class Run:
    """One run of one scenario. `run` may be stopped from elsewhere by setting `stop`."""

    scenario: Scenario
    folder: Path
    seed: int
    duration: float | None = None
    command: str = ""
    """Command that runs it again, for the report."""
    elsewhere: ExternalAddresses | None = None
    """An external cluster, instead of one of the lab's."""
    watch: Watch = field(default_factory=Watch)
    stop: threading.Event = field(default_factory=threading.Event)
    keep_data: bool = True
    """Leave the nodes' data where it is; otherwise only configurations and logs are kept."""
    _began: float = 0.0
    _admins: list[Administrator] = field(default_factory=list)

    def run(self) -> Outcome:
        """Execute the whole run; errors that prevent it are in the outcome."""
        started = time.monotonic()
        outcome = Outcome(self.scenario.name, self.seed, str(self.folder))
        try:
            self._prepare()
            with history.HistoryWriter(self.folder / HISTORY) as writer:
                self._began = time.monotonic()
                self._run(Recorder(writer, self._seconds), outcome)
        except NotPermitted as error:
            outcome.skipped = str(error)
        except CANNOT_START as error:
            outcome.could_not_run = str(error) or type(error).__name__
        outcome.seconds = time.monotonic() - started
        if outcome.verdict is not None:
            report.write(
                self.folder, outcome.history, outcome.verdict, failures=outcome.failures, seconds=outcome.seconds
            )
        return outcome

    def _seconds(self) -> float:
        return time.monotonic() - self._began

    def _prepare(self) -> None:
        """Create the folder; remove the content of an earlier run."""
        self.folder.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(self.folder / "cluster", ignore_errors=True)

    def _run(self, recorder: Recorder, outcome: Outcome) -> None:
        watch = self.watch
        watch.recorder = recorder

        def on_fault(event: history.Fault) -> None:
            recorder.write(lambda t: msgspec.structs.replace(event, t=t))
            watch.fault(event)

        watch.enter("starting the cluster" if self.elsewhere is None else "connecting to the cluster")
        with ExitStack() as stack:
            system = self._system(on_fault)
            stack.callback(system.close)
            stack.enter_context(system.within())
            self._begin(recorder, system.cluster.history_shape())
            followers = system.followers(recorder)
            for follower in followers:
                follower.start()
                stack.callback(follower.stop)
            create_topics(system.cluster.direct_access, self.scenario)
            system.cluster.wait_until_healthy()
            schedule = self._run_load(recorder, system, outcome)
            if self._wait_until_healthy(system, outcome):
                self._last_looks(recorder, system, followers, outcome)
            outcome.failures += [f"unexpected exception: {line}" for line in system.unexpected_exceptions()]
            recorder.write(lambda t: history.Finish(t=t))
        self._judge(recorder, schedule, outcome)
        if not self.keep_data and self.elsewhere is None:
            forget_data(self.folder / "cluster")

    def _system(self, on_fault: OnFault) -> System:
        """Make or reach the cluster."""
        if self.elsewhere is not None:
            return ExternalSystem(self.scenario, self.elsewhere, on_fault, self._seconds)
        return LabSystem(self.scenario, self.folder, self.seed, on_fault, self._seconds)

    def _begin(self, recorder: Recorder, cluster: history.ClusterShape) -> None:
        """Write the first line."""
        scenario = self.scenario
        topics = {
            name: history.TopicShape(
                partitions=topic.partitions,
                replication_factor=topic.replication_factor,
                configs=topic.configs,
            )
            for name, topic in scenario.every_topic().items()
        }
        expect = scenario.expect.model_dump(exclude_defaults=True)
        recorder.write(
            lambda t: history.Start(
                t=t,
                scenario=scenario.name,
                seed=self.seed,
                expect=expect,
                cluster=cluster,
                topics=topics,
                software=software(),
                command=self.command,
            )
        )

    def _run_load(self, recorder: Recorder, system: System, outcome: Outcome) -> Schedule:
        """Load the cluster and break it; returns when the schedule is over and the load has stopped."""
        scenario, rng = self.scenario, Random(self.seed)
        topics = {name: topic.partitions for name, topic in scenario.every_topic().items()}
        load = Load(scenario.workload, topics, system.cluster.access_of, recorder, rng, system.within)
        groups = ("clients", *scenario.cluster.groups)
        targets = Targets(system.cluster, rng, lambda: system.cluster.controllers, groups)
        verbs = Verbs(system.cluster, targets, recorder, self.stop.is_set)
        schedule = Schedule(verbs, self._seconds, self.stop.is_set, self.watch.on_line)
        steps, duration = scenario.every_step(), self.duration or scenario.duration
        if scenario.random is not None:
            steps = tuple(draw_steps(scenario.random, partition_names(topics), duration, rng))
        period = duration if scenario.random is not None else scenario.duration
        load.start()
        try:
            self.watch.enter("load without faults")
            self.stop.wait(scenario.quiet_start)
            self.watch.enter("faults")
            try:
                schedule.run(steps, duration, period)
            except STEP_ERRORS as error:
                outcome.failures.append(f"a step failed: {type(error).__name__}: {error}")
            self.watch.enter("healing")
            schedule.finish()
            self._recover(system, outcome)
            self.stop.wait(scenario.quiet_end)
        finally:
            self.watch.enter("waiting for the last responses")
            load.stop()
        outcome.failures += schedule.errors
        self._admins = load.admins
        return schedule

    def _recover(self, system: System, outcome: Outcome) -> None:
        """Repair everything while the load continues."""
        try:
            system.cluster.recover(self.scenario.recovery)
        except STEP_ERRORS as error:
            outcome.failures.append(f"the cluster did not recover: {error}")

    def _wait_until_healthy(self, system: System, outcome: Outcome) -> bool:
        """Return whether the cluster is healthy after the load."""
        try:
            system.cluster.wait_until_healthy(self.scenario.recovery)
        except LabError as error:
            outcome.failures.append(f"the cluster is not healthy at the end: {error}")
            return False
        return True

    def _last_looks(self, recorder: Recorder, system: System, followers: Sequence[Follower], outcome: Outcome) -> None:
        """Read everything back; stop all nodes in order, and read their disks."""
        self.watch.enter("final reads")
        topics = {name: topic.partitions for name, topic in self.scenario.every_topic().items()}
        partitions = partition_names(topics)
        try:
            timeout = transactions_end_within(self.scenario.workload)
            if timeout is not None:
                wait_for_stable(recorder, system.cluster.direct_access, partitions, timeout)
            watermarks = high_watermarks(system.cluster.direct_access, partitions)
            for name, end in watermarks.items():
                if end < recorder.ends.get(name, 0):
                    recorder.note(f"{name} ends at {end}; offset {recorder.ends[name] - 1} was returned before")
            behind = read_all(recorder, system.cluster.direct_access, watermarks)
            if behind:
                outcome.failures.append(f"the final reads did not reach the end of {', '.join(behind)}")
            silent = final_offsets(recorder, system.cluster.direct_access, groups_of(self.scenario.workload, topics))
            if silent:
                outcome.failures.append(f"the committed offsets of {', '.join(silent)} are not available")
            self.watch.enter("comparing replicas and metadata")
            if self._admins:
                metadata = admin_client(system.cluster.direct_access).list_topics(timeout=REQUEST_SECONDS)
                for admin in self._admins:
                    admin.verify(set(metadata.topics))
            for follower in followers:
                follower.stop()
            outcome.failures += system.compare(recorder, watermarks)
        except (Unreadable, KafkaException, ClusterError, OSError) as error:
            outcome.failures.append(f"the disks could not be compared: {error}")

    def _judge(self, recorder: Recorder, schedule: Schedule, outcome: Outcome) -> None:
        """Check the history and the expectations."""
        self.watch.enter("checking")
        verdict = check(read_history(self.folder / HISTORY))
        outcome.verdict = verdict
        has_faults = any(step.fault is not None or step.do == "rolling-restart" for step in self.scenario.steps)
        faults_wanted = self.scenario.random is not None or has_faults
        outcome.failures += recorder.problems
        outcome.failures += failed_expectations(self.scenario, verdict, recorder.acked, schedule.windows, faults_wanted)
        if needs_events(self.scenario.expect):
            outcome.failures += failed_event_rules(self.scenario.expect, read_history(self.folder / HISTORY))


def create_topics(access: ClientAccess, scenario: Scenario) -> None:
    """Create a scenario's topics. Raises KafkaException."""
    topics = [
        NewTopic(name, topic.partitions, topic.replication_factor, config=dict(topic.configs))
        for name, topic in scenario.every_topic().items()
    ]
    client = admin_client(access)
    for future in client.create_topics(topics, request_timeout=REQUEST_SECONDS).values():
        future.result(TOPIC_SECONDS)


def high_watermarks(access: ClientAccess, partitions: list[str]) -> dict[str, int]:
    """Return {partition: high watermark} as the leaders have it. Raises KafkaException."""
    consumer = Consumer({**access.librdkafka(), "group.id": "kvorum-chaos-ends", "log_level": 0})
    try:
        found: dict[str, int] = {}
        for name in partitions:
            _, high = consumer.get_watermark_offsets(
                TopicPartition(*split_partition(name)), timeout=HIGH_WATERMARK_SECONDS, cached=False
            )
            found[name] = high
        return found
    finally:
        consumer.close()


def forget_data(cluster: Path) -> None:
    """Remove all but configurations and logs of a cluster's folder."""
    for node in cluster.iterdir():
        if node.is_dir():
            shutil.rmtree(node / "data", ignore_errors=True)
