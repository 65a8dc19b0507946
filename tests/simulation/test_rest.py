"""What is demanded of a simulated cluster's clients, processes and end: each broken once, and kept once beside it."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from random import Random
from typing import Any

import msgspec
import pytest

from kvorum.broker.metadata.lifecycle import RegistrationRefused
from kvorum.broker.replica import isr_changes, partition_reads
from kvorum.chaos.history import Invoke, Ok
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.delete_records import DeleteRecordsRequest
from sim import run
from sim.client import SimClient
from sim.cluster import TOPIC, SimCluster
from sim.cluster_faults import Faults
from sim.consumer import ConsistentReads, Consumer
from sim.convergence import check_epochs, check_replicas, check_topics, settle
from sim.ledger import Entry, Ledger, Violation
from sim.machine import SimProcess
from sim.operator import Operator
from sim.plan import Fault, Plan, draw_options
from sim.run import judge, quiet, violation_of

pytestmark = pytest.mark.filterwarnings("ignore:coroutine:RuntimeWarning")
LOAD_S = 2.0


def plan(**changed: object) -> Plan:
    """One controller, two brokers, one partition on both, and a producer that writes all the time."""
    options = draw_options(Random(4))
    load = msgspec.structs.replace(
        options.load, producers=[(-1, True)], consumers=1, every_s=0.1, admin_every_s=0.5, burst_s=0.0
    )
    base: dict[str, object] = {
        "controllers": 1,
        "brokers": 2,
        "combined": False,
        "partitions": 1,
        "replication_factor": 2,
        "min_isr": 1,
        "unclean": False,
        "delay_max_s": 0.001,
        "load": load,
        "fault_kinds": ["kill"],
    }
    options = msgspec.structs.replace(options, **{**base, **changed})
    return Plan(seed=4, seconds=LOAD_S, options=options, faults=[])


@contextmanager
def running() -> Iterator[SimCluster]:
    """Return a cluster that has run for a while."""
    with quiet():
        cluster = SimCluster(plan())
        with closing(cluster.loop):
            cluster.boot()
            cluster.start_load()
            cluster.run_for(LOAD_S)
            yield cluster


@pytest.fixture
def cluster() -> Iterator[SimCluster]:
    with running() as made:
        yield made


@contextmanager
def told_as(kind: str) -> Iterator[None]:
    """Demand a violation of that name."""
    with pytest.raises(Violation) as found:
        yield
    assert found.value.kind == kind


def broker(cluster: SimCluster, node_id: int = 1) -> SimProcess:
    return cluster.machines[node_id].processes["broker"]


def ledger_of(cluster: SimCluster) -> tuple[Any, Ledger]:
    topic = cluster.metadata.newest.topics.by_name[TOPIC]
    return topic.topic_id, cluster.invariants.ledgers[topic.topic_id, 0]


# The end.


def acknowledge_a_value_that_is_nowhere(cluster: SimCluster) -> None:
    """Put another value beside the first that was acknowledged, as if it had the offset before."""
    events = cluster.history.events
    place = next(place for place, each in enumerate(events) if isinstance(each, Ok) and each.f == "send")
    ok = events[place]
    assert isinstance(ok, Ok)
    value: list[Any] = [["send", f"{TOPIC}-0", 987654]]
    begun = Invoke(t=ok.t, op=1_000_000, process=ok.process, f="send", value=value)
    done = Ok(t=ok.t, op=1_000_000, process=ok.process, f="send", value=[[*value[0], 1]])
    events[place + 1 : place + 1] = [begun, done]


def test_a_healthy_cluster_converges_and_later_changes_are_found(cluster: SimCluster) -> None:
    settle(cluster, Faults(cluster))
    check_replicas(cluster)
    check_topics(cluster)
    judge(cluster)

    assert cluster.admin is not None and cluster.admin.created
    cluster.admin.created.add("ghost")
    with told_as("MetadataDurable"):
        check_topics(cluster)

    acknowledge_a_value_that_is_nowhere(cluster)
    with told_as("checker: lost-write"):
        judge(cluster)

    name = next(each for each in cluster.invariants.incarnations.by_broker[2] if each.topic == TOPIC)
    shadow = cluster.invariants.incarnations.by_broker[2][name].shadow
    shadow.follow(shadow.entries[-2].next_offset)
    with told_as("ReplicasEqual"):
        check_replicas(cluster)


def test_a_replica_that_cannot_join_again_keeps_the_cluster_from_rest(
    cluster: SimCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isr_changes, "is_in_sync", lambda *_: False)
    cluster.invariants.incarnations.record_kill(2)
    broker(cluster, 2).kill()
    cluster.run_for(3.0)
    with told_as("Convergence"):
        settle(cluster, Faults(cluster))


def test_an_operation_without_an_end_is_reported(cluster: SimCluster) -> None:
    cluster.recorder.invoke(1, "send", [["send", f"{TOPIC}-0", 987654]])
    with told_as("Answers"):
        settle(cluster, Faults(cluster))


def test_finally_unreadable_records_are_reported(cluster: SimCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that shows consumers nothing of its last records."""
    read = partition_reads._read

    def less(log: Any, target: Any, max_bytes: int, min_one: bool, upper_bound: int) -> Any:
        return read(log, target, max_bytes, min_one, upper_bound - (2 if target.log_start_offset < 0 else 0))

    monkeypatch.setattr(partition_reads, "_read", less)
    with told_as("FinalRead"):
        settle(cluster, Faults(cluster))


ENTRIES = [Entry(0, 2, 0, 7), Entry(2, 3, 0, 8), Entry(3, 4, 2, 9)]


@pytest.mark.parametrize("epochs", [[[0, 0], [2, 3]], [[0, 0], [1, 3], [2, 3]], [[0, 0], [2, 2]]])
def test_an_epoch_cache_may_know_epochs_without_batches(epochs: list[list[int]]) -> None:
    check_epochs("orders-0", "broker", epochs, ENTRIES)


@pytest.mark.parametrize("epochs", [[], [[0, 0]], [[2, 3]], [[0, 0], [2, 4]], [[0, 1], [2, 3]]])
def test_an_epoch_cache_that_lacks_an_epoch_or_begins_it_late_is_reported(epochs: list[list[int]]) -> None:
    with told_as("EpochCache"):
        check_epochs("orders-0", "broker", epochs, ENTRIES)


def test_a_cluster_that_does_not_boot_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(process: SimProcess) -> None:
        """Stand for a controller that does not start."""

    monkeypatch.setattr(SimProcess, "_serve_controller", never)
    with quiet(), closing(SimCluster(plan()).loop) as loop, told_as("Boot"):
        owner: SimCluster = loop.after_event.__self__  # type: ignore[union-attr]  # the cluster's method
        owner.boot()


def test_an_assertion_of_production_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("our own fault")

    monkeypatch.setattr(run, "settle", fail)
    with running() as made:
        monkeypatch.setattr(made, "boot", lambda: None)
        monkeypatch.setattr(made, "start_load", lambda: None)
        found = violation_of(made, Faults(made))
    assert found is not None and found.kind == "Assertion" and isinstance(found.__cause__, AssertionError)


# Processes.


@pytest.mark.parametrize(("error", "faulted", "kind"), [
    (RuntimeError("ours"), False, "ProcessEnded"),
    (Violation("MinIsr", "seen by its listener"), False, "MinIsr"),
    (OSError("injected"), True, None),
    (RegistrationRefused("another has its id"), False, None),
])  # fmt: skip
def test_a_process_ends_itself_only_for_a_reason(
    cluster: SimCluster, error: Exception, faulted: bool, kind: str | None
) -> None:
    process = broker(cluster)
    process.disk_faulted = faulted
    cluster._on_process_end(process, error)
    assert (None if cluster.violation is None else cluster.violation.kind) == kind


def raises(error: Exception) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


def test_unhandled_exceptions_are_reported_except_those_of_dead_processes(cluster: SimCluster) -> None:
    process, loop = broker(cluster), cluster.loop
    loop.call_at_host(process.host, loop.time() + 0.1, raises(RuntimeError("ours")))
    cluster.invariants.incarnations.record_kill(1)
    process.kill()
    cluster.run_for(0.2)
    process.start()
    loop.call_at_host(process.host, loop.time() + 0.1, raises(RuntimeError("ours")))
    with told_as("UnexpectedException"):
        cluster.run_for(0.2)
    loop.call_at_host(process.host, loop.time() + 0.1, raises(Violation("LogOnDisk", "seen on the way")))
    with told_as("LogOnDisk"):
        cluster.run_for(0.2)


# Clients.


@pytest.mark.parametrize(("error", "kind"), [
    (ValueError("unreadable"), "Client"), (Violation("ConsistentRead", "changed"), "ConsistentRead"),
])  # fmt: skip
def test_undecodable_responses_are_reported(cluster: SimCluster, error: Exception, kind: str) -> None:
    async def work(client: SimClient) -> None:
        await asyncio.sleep(0.1)
        raise error

    cluster.start_client("odd", work)
    with told_as(kind):
        cluster.run_for(0.2)


def test_acknowledged_records_are_committed_at_their_offset(cluster: SimCluster) -> None:
    topic_id, ledger = ledger_of(cluster)
    entry = ledger.entries[-1]
    cluster._check_acknowledgement(topic_id, 0, entry.base_offset, entry.crc)
    assert cluster.violation is None
    for offset, crc in ((entry.base_offset, entry.crc + 1), (entry.next_offset + 1_000, entry.crc)):
        cluster.violation = None
        cluster._check_acknowledgement(topic_id, 0, offset, crc)
        assert cluster.violation is not None and cluster.violation.kind == "AcknowledgedIsCommitted"


def test_read_records_never_change() -> None:
    lossy: set[str] = set()
    reads = ConsistentReads(lambda partition: partition in lossy, lambda partition: 0)
    reads.note("orders-0", 5, 50)
    reads.note("orders-0", 5, 50)
    reads.note("orders-1", 5, 51)
    with told_as("ConsistentRead"):
        reads.note("orders-0", 5, 52)
    lossy.add("orders-0")
    reads.note("orders-0", 5, 52)


def test_a_consumer_is_cut_off_only_by_a_loss_or_a_deletion(cluster: SimCluster) -> None:
    lossy: set[str] = set()
    begins_at = [0]
    reads = ConsistentReads(lambda partition: partition in lossy, lambda partition: begins_at[0])
    client = SimClient("c", [], Random(1))
    consumer = Consumer("consumer", client, cluster.recorder, reads, TOPIC, [0])
    consumer.assign()
    with told_as("ConsumerCutOff"):
        consumer._judge_cut(0, ErrorCode.OFFSET_OUT_OF_RANGE)
    begins_at[0] = 1
    consumer._judge_cut(0, ErrorCode.OFFSET_OUT_OF_RANGE)
    with told_as("ConsumerCutOff"):
        consumer._judge_cut(0, ErrorCode.NONE)  # a diverging epoch is no deletion
    lossy.add(f"{TOPIC}-0")
    consumer._judge_cut(0, ErrorCode.NONE)


@pytest.mark.parametrize("lie", [0, 1])
def test_records_reported_as_deleted_are_deleted(
    cluster: SimCluster, lie: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask, answers = SimClient.ask, []

    async def lying(self: SimClient, address: Any, request: Any, response: Any, **how: Any) -> Any:
        answer = await ask(self, address, request, response, **how)
        if isinstance(request, DeleteRecordsRequest):
            answer.topics[0].partitions[0].low_watermark -= lie
            answers.append(answer.topics[0].partitions[0].error_code)
        return answer

    monkeypatch.setattr(SimClient, "ask", lying)
    _, ledger = ledger_of(cluster)
    assert ledger.end > 2
    assert Operator(cluster).delete_records(Fault(at=0.0, kind="delete_records", target="0", amount=0.5)) is not None
    if lie:
        with told_as("DeleteRecordsAnswer"):
            cluster.run_for(3.0)
    else:
        cluster.run_for(3.0)
    assert ErrorCode.NONE in answers
