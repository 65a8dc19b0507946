"""Which clients do what: the tests that show it, run, and what became of them in docs/compatibility.json.

`make compatibility` runs `python -m tests.compatibility`, then tools/generate_compatibility.py writes the page. The
table below says what a test shows and for whom; where a test has its client as a parameter, EACH stands for it.
`ONLY="test_racks.py test_groups.py" make compatibility` runs the tests of these files; what the others said stays.
"""

import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Final, NamedTuple

import pytest

ROOT: Final = Path(__file__).parent.parent
RESULTS: Final = ROOT / "docs" / "compatibility.json"
CONFLUENT, AIOKAFKA, KAFKA_PYTHON, KCAT = "confluent-kafka", "aiokafka", "kafka-python", "kcat"
CLIENTS: Final = (CONFLUENT, AIOKAFKA, KAFKA_PYTHON, KCAT)
EACH: Final = "each"
PREFIXES: Final = {"confluent": CONFLUENT, "aiokafka": AIOKAFKA, "kafka-python": KAFKA_PYTHON}
"""How the name of a parameter begins that is a client."""
WORST_FIRST: Final = ("failed", "skipped", "passed")


class Shown(NamedTuple):
    """A test, what passes with it, and the clients it uses: by name, or EACH."""

    feature: str
    test: str
    clients: tuple[str, ...]


PYTHONS: Final = (CONFLUENT, AIOKAFKA, KAFKA_PYTHON)
ALL_CODECS = "produce and consume: keys, headers, timestamps, all compression types, idempotence"
TABLE: Final = (
    Shown(ALL_CODECS, "test_clients.py::test_clients_of_three_makes_read_each_others_records_byte_for_byte", PYTHONS),
    Shown(
        "list topics, produce and consume",
        "test_clients.py::test_kcat_lists_produces_consumes_and_reads_the_metadata_log_as_json",
        (KCAT,),
    ),
    Shown(
        "partitioning by key as in the Java client",
        "test_partitioner.py::test_ten_thousand_keys_land_where_java_and_kafka_python_put_them",
        (KAFKA_PYTHON,),
    ),
    Shown(
        "groups: members join, leave and fail",
        "test_groups.py::test_partitions_are_reassigned_when_members_join_leave_and_die",
        (EACH,),
    ),
    Shown(
        "groups: members of different clients",
        "test_groups.py::test_clients_of_three_makes_share_one_group",
        PYTHONS,
    ),
    Shown(
        "groups: coordinator failure",
        "test_groups.py::test_a_group_continues_when_its_coordinator_is_killed_and_keeps_its_offsets",
        PYTHONS,
    ),
    Shown(
        "manual and automatic offset commits",
        "test_groups_offsets.py::test_commits_of_each_kind_are_where_the_next_consumer_begins",
        (EACH,),
    ),
    Shown(
        "pause, seek, offsets by timestamp",
        "test_groups_offsets.py::test_a_consumer_pauses_seeks_and_replays_from_a_time",
        (EACH,),
    ),
    Shown(
        "static members",
        "test_groups_offsets.py::test_a_static_member_that_is_killed_comes_back_without_a_rebalance",
        (EACH,),
    ),
    Shown(
        "cooperative rebalancing",
        "test_groups_offsets.py::test_cooperative_members_revoke_only_reassigned_partitions",
        (CONFLUENT,),
    ),
    Shown(
        "transactions: commit, abort, read_committed",
        "test_transactions.py::test_committed_records_are_visible_and_aborted_ones_are_not",
        (EACH,),
    ),
    Shown(
        "transactions: fencing of zombie producers",
        "test_transactions.py::test_a_zombie_is_fenced_by_the_next_producer_of_its_id",
        (EACH,),
    ),
    Shown(
        "transactions: offset commits (exactly once)",
        "test_transactions.py::test_offsets_are_committed_with_the_transaction_under_subscribe",
        (CONFLUENT,),
    ),
    Shown(
        "exactly once while nodes and workers are killed",
        "test_exactly_once.py::test_each_record_is_copied_once_and_in_order_despite_failures",
        (EACH,),
    ),
    Shown(
        "consumer protocol (KIP-848): members join, leave and fail",
        "test_consumer_protocol.py::test_members_join_leave_and_are_killed",
        (CONFLUENT,),
    ),
    Shown(
        "consumer protocol: static members",
        "test_consumer_protocol.py::test_a_static_member_returns_to_its_own_without_a_rebalance",
        (CONFLUENT,),
    ),
    Shown(
        "consumer protocol: pattern subscription with new topics",
        "test_consumer_protocol.py::test_a_pattern_takes_new_topics_in",
        (CONFLUENT,),
    ),
    Shown(
        "classic and consumer protocol in one group",
        "test_consumer_protocol.py::test_the_protocols_meet_in_one_group",
        (CONFLUENT,),
    ),
    Shown(
        "fetch from the follower in the same rack (KIP-392)",
        "test_racks.py::test_a_consumer_reads_from_the_follower_in_its_rack_and_continues_when_that_dies",
        (CONFLUENT,),
    ),
    Shown(
        "client metrics (KIP-714)",
        "test_client_metrics.py::test_a_producers_metrics_are_pushed_and_reported",
        (CONFLUENT,),
    ),
)


def client_of(nodeid: str) -> str:
    """Return the client that a test has as its parameter."""
    parameter = nodeid.partition("[")[2]
    found = [client for prefix, client in PREFIXES.items() if parameter.startswith(prefix)]
    assert len(found) == 1, f"{nodeid} has no parameter that is a client"
    return found[0]


class Recorder:
    """Plugs into pytest and keeps what became of each test."""

    def __init__(self) -> None:
        self.outcomes: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the worst of a test's setup, call and teardown."""
        before = self.outcomes.get(report.nodeid, WORST_FIRST[-1])
        self.outcomes[report.nodeid] = min(before, report.outcome, key=WORST_FIRST.index)

    def results(self) -> list[dict[str, str]]:
        """Return what each row of the table shows for each of its clients: the worst of its tests."""
        found: dict[tuple[str, str, str], str] = {}
        for shown in TABLE:
            for nodeid, outcome in self.outcomes.items():
                if nodeid.partition("[")[0] == f"tests/cluster/{shown.test}":
                    for client in [client_of(nodeid)] if shown.clients == (EACH,) else shown.clients:
                        place = (shown.feature, client, shown.test)
                        found[place] = min(found.get(place, WORST_FIRST[-1]), outcome, key=WORST_FIRST.index)
        return [
            {"feature": feature, "client": client, "test": f"tests/cluster/{test}", "outcome": outcome}
            for (feature, client, test), outcome in found.items()
        ]


def versions() -> dict[str, str]:
    """Return the versions of the clients that are here; kcat's is its own word."""
    found = {client: version(client) for client in PYTHONS}
    if shutil.which("kcat") is not None:
        message = subprocess.run(["kcat", "-V"], capture_output=True, text=True, timeout=30, check=True).stdout
        found[KCAT] = next(line.split()[1] for line in message.splitlines() if line.startswith("Version"))
    return found


def joined(before: list[dict[str, str]], now: list[dict[str, str]]) -> list[dict[str, str]]:
    """Return the results of a run, and of tests that did not run in it those from before, in the table's order."""
    ran = {row["test"] for row in now}
    rows = [row for row in before if row["test"] not in ran] + now
    order = [(shown.feature, f"tests/cluster/{shown.test}") for shown in TABLE]
    kept = [row for row in rows if (row["feature"], row["test"]) in order]
    return sorted(kept, key=lambda row: order.index((row["feature"], row["test"])))


def main() -> int:
    """Run the tests of the table and write what became of them."""
    recorder = Recorder()
    only = os.environ.get("ONLY", "").split()
    chosen = [shown for shown in TABLE if not only or shown.test.partition("::")[0] in only]
    tests = sorted({f"tests/cluster/{shown.test}" for shown in chosen})
    code = pytest.main(["-q", *sys.argv[1:], *tests], plugins=[recorder])
    before = json.loads(RESULTS.read_text())["results"] if only else []
    found = {"clients": versions(), "results": joined(before, recorder.results())}
    RESULTS.write_text(json.dumps(found, indent=2) + "\n")
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
