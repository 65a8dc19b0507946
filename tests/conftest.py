"""What holds for every test: a loaded machine fails none; which of the long ones are left to `make acceptance`."""

import os

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes says how busy the machine is, not whether the code is right.
settings.register_profile("kvorum", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("kvorum")

# Together some twenty minutes; docs/skipped.md says that they are left out.
LONG_ON_SPARK = {
    "bridge/test_executor_kills.py",
    "cdc/test_pipeline.py",
    "connect/test_cluster.py",
    "jobs/test_jobs.py",
    "mirror/test_migration.py",
    "run/test_commands.py",
    "run/test_connectors.py",
    "streams/test_streams_cluster.py",
    "streams/test_streams_examples.py",
    "streams/test_streams_kills.py",
    "streams/test_streams_operators.py",
    "checker/test_spark_check.py",
}
LONG_CASE_ON_SPARK = "test_output_equals_input[each task writes what it read]"
"""Of bridge/test_kills.py, whose staged case stays."""

# Mistakes whose hunt takes longest, and scenarios that `make chaos` runs as well; docs/skipped.md says so, too.
LONG_IN_THE_LAB = (
    *(
        f"test_the_simulation_catches_it_and_not_the_code_as_it_is[{name}]"
        for name in (
            *("fence-nobody", "forget-aborted", "ignore-last-stable-offset", "answer-of-former-epoch", "look-once"),
            *("show-open-offsets", "serve-unstable-offsets", "forget-a-marker", "accept-old-generation", "keep-epoch"),
            *("answer-before-committed", "read-before-quota", "assign-before-revoked", "keep-new-quotas-alone"),
            *("accept-old-member-epoch", "forget-producer-state", "rebalance-without-waiting", "place-on-who-leaves"),
            *("hold-back-who-is-in-sync", "keep-who-fell-eligible", "hold-for-ever", "tell-without-holding"),
            *("elect-who-rests", "end-every-throttle", "accept-stale-partition-epoch", "send-anywhere"),
        )
    ),
    "test_voters_leave_and_come_back_though_the_active_controller_dies_and_is_removed",
    "test_levels_go_down_and_up_though_the_active_controller_dies_each_time",
    "test_a_broker_leaves_by_its_throttle_though_it_and_the_controller_die",
    "test_consumers_read_from_followers_that_lag_are_cut_off_and_die",
    "test_a_broker_in_maintenance_leads_nothing_though_it_and_the_controller_die",
    "test_one_of_two_log_directories_fails_under_a_replica_that_moved_into_it",
    "test_a_leader_sleeps_through_its_deposition",
    "test_links_are_cut_one_way",
    "test_what_coordinators_partitions_and_moves_do_wrong_is_found[vouch-for-a-lost-directory-lost-write]",
    "test_packets_and_syns_between_clients_and_brokers_are_lost",
    # The console with a real cluster behind it: test_accessibility looks at the same pages in front of a stage.
    "test_the_pages_are_for_everybody",
    "test_axe_finds_nothing_on_these_pages",
    "test_axe_finds_nothing_on_a_page_with_members",
)


BENCH_KEPT = ("produce-0", "consume-0", "latency-0", "start-0", "metadata-0", "transactions-0")
"""Of bench/test_smoke.py, where every measure of `make bench` comes to a figure."""


def is_long_in_the_lab(item: pytest.Item) -> bool:
    """Tell whether a test is left to `make acceptance`."""
    measure = item.name.partition("[")[2].rstrip("]")
    is_bench = item.path.parts[-2:] == ("bench", "test_smoke.py")
    return item.name in LONG_IN_THE_LAB or (is_bench and measure not in BENCH_KEPT)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave the long ones out unless they are asked for."""
    names = ("KVORUM_PIPELINES", "KVORUM_LAB", "KVORUM_LONG")
    on_spark, in_the_lab, takes_long = (os.environ.get(name) == "all" for name in names)
    for item in items:
        if item.get_closest_marker("long") and not takes_long:
            item.add_marker(pytest.mark.skip(reason="long, run by `make test-long` (KVORUM_LONG=all)"))
        if item.get_closest_marker("pipelines"):
            is_long = "/".join(item.path.parts[-2:]) in LONG_ON_SPARK or item.name == LONG_CASE_ON_SPARK
            if is_long and not on_spark:
                item.add_marker(pytest.mark.skip(reason="long, run by `make pipelines-test` (KVORUM_PIPELINES=all)"))
        elif not in_the_lab and is_long_in_the_lab(item):
            item.add_marker(pytest.mark.skip(reason="long, run by `make acceptance` (KVORUM_LAB=all)"))
