"""Shipped scenarios on real processes: the verdict holds, faults were injected, and sends acknowledged during them."""

from pathlib import Path

import pytest

from kvorum.chaos.faults.toxiproxy_binary import NoToxiproxy, find_or_build
from kvorum.chaos.history import Image, Invoke, Metadata, Ok, Owned, Process, Replica, Stable, read_history
from kvorum.chaos.scenario.files import find
from kvorum.chaos.scenario.outcome import Outcome
from kvorum.chaos.scenario.runner import Run

SEED = 1


@pytest.fixture(scope="module", autouse=True)
def toxiproxy() -> None:
    """Without the server no link can be cut; it says why."""
    try:
        find_or_build()
    except NoToxiproxy as error:
        pytest.skip(str(error))


def run(name: str, folder: Path) -> Outcome:
    """Run one shipped scenario and show all there is to know where it did not hold."""
    (scenario,) = find(name)
    outcome = Run(scenario, folder, SEED).run()
    if outcome.skipped:
        pytest.skip(outcome.skipped)
    assert not outcome.could_not_run, outcome.could_not_run
    assert outcome.verdict is not None
    reported = [
        f"{each.anomaly} in {each.partition}: {each.reason} {each.story}" for each in outcome.verdict.violations
    ]
    assert outcome.valid, [*outcome.failures, *reported]
    assert (folder / "report.html").exists()
    return outcome


def assert_broken_and_used(outcome: Outcome, kinds: dict[str, int], acked_min: int) -> None:
    """So many faults of each kind, and sends that began and were acknowledged while one was in force."""
    assert outcome.verdict is not None
    figures = outcome.verdict.figures
    assert figures.faults_by_kind == kinds
    assert figures.acked >= acked_min and figures.final_reads
    assert all(fault.first_ack is not None and fault.end is not None for fault in figures.faults)


def assert_compared(outcome: Outcome, replicas: int) -> None:
    """Every replica, every node's metadata image, and the metadata log are in the history."""
    kinds = [type(event) for event in read_history(outcome.history)]
    assert kinds.count(Replica) == replicas and kinds.count(Image) >= 3 and kinds.count(Metadata) > 10


@pytest.mark.long
def test_a_broker_in_maintenance_leads_nothing_though_it_and_the_controller_die(tmp_path: Path) -> None:
    outcome = run("maintenance", tmp_path)
    assert_broken_and_used(outcome, {"kill": 2}, 500)


@pytest.mark.long
def test_one_of_two_log_directories_fails_under_a_replica_that_moved_into_it(tmp_path: Path) -> None:
    outcome = run("failing-directory", tmp_path)
    assert_broken_and_used(outcome, {"fail_directory": 1, "restart": 2}, 500)
    assert_compared(outcome, 6)


@pytest.mark.long
def test_the_last_in_sync_replica_restarts_without_its_log_and_does_not_lead(tmp_path: Path) -> None:
    outcome = run("lost-directory", tmp_path)
    assert outcome.verdict is not None
    figures = outcome.verdict.figures
    assert figures.faults_by_kind == {"kill": 1, "terminate": 2, "drop_directory": 1}
    assert figures.acked >= 300 and figures.final_reads and not figures.lost
    assert_compared(outcome, 3)


def test_leaders_are_killed_one_after_the_other(tmp_path: Path) -> None:
    outcome = run("n-minus-one/rf3-min2", tmp_path)
    assert_broken_and_used(outcome, {"kill": 2}, 1000)
    assert_compared(outcome, replicas=9)


@pytest.mark.long
def test_a_leader_sleeps_through_its_deposition(tmp_path: Path) -> None:
    outcome = run("frozen-leader", tmp_path)
    assert_broken_and_used(outcome, {"pause": 2}, 1000)
    assert_compared(outcome, replicas=9)


@pytest.mark.long
def test_packets_and_syns_between_clients_and_brokers_are_lost(tmp_path: Path) -> None:
    outcome = run("packet-loss", tmp_path)
    assert_broken_and_used(outcome, {"packet_loss": 1, "drop_syn": 1}, 1000)
    assert_compared(outcome, replicas=9)
    assert outcome.verdict is not None
    _, drop = outcome.verdict.figures.faults
    assert drop.end is not None
    late: set[int] = set()
    sent: set[int] = set()
    for event in read_history(outcome.history):
        if isinstance(event, Process) and drop.begin + 0.1 < event.t < drop.end - 0.5:
            late.add(event.process)
        elif isinstance(event, Invoke) and event.f == "send":
            sent.add(event.process)
        elif isinstance(event, Ok) and event.f == "send" and event.process in late:
            assert event.t > drop.end, "who came in between met with silence"
    assert late & sent, "there was somebody"


@pytest.mark.long
def test_links_are_cut_one_way(tmp_path: Path) -> None:
    outcome = run("one-way-cuts", tmp_path)
    assert_broken_and_used(outcome, {"black_hole": 4}, 1000)


def test_with_unclean_elections_on_loss_is_found_and_explained(tmp_path: Path) -> None:
    outcome = run("unclean-on/with-elr", tmp_path)
    assert outcome.verdict is not None
    figures = outcome.verdict.figures
    assert figures.faults_by_kind == {"kill": 3} and figures.acked > 500
    assert 0 < figures.lost == figures.lost_legally
    (reasons,) = [{each.reason.partition("; legal")[2] != "" for each in outcome.verdict.explained}]
    assert outcome.verdict.explained and reasons == {True}


def test_read_process_write_is_exactly_once_while_coordinators_are_killed(tmp_path: Path) -> None:
    outcome = run("exactly-once/coordinators-killed", tmp_path)
    assert outcome.verdict is not None
    figures = outcome.verdict.figures
    assert figures.faults_by_kind == {"kill": 2}
    assert figures.operations["txn"]["ok"] > 50 and figures.operations["offsets"]["ok"] > 3
    events = list(read_history(outcome.history))
    assert sum(isinstance(each, Owned) and bool(each.partitions) for each in events) > 5
    assert sum(isinstance(each, Stable) for each in events) == 8
    copies = [step for each in events if isinstance(each, Ok) and each.f == "txn" for step in each.value]
    assert sum(isinstance(step, list) and step[0] == "copy" for step in copies) > 200
