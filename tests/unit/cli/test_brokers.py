"""`kvorum brokers` against a cluster that is not there: what it asks for, what it prints, and how it ends."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kvorum.cli import operations
from kvorum.cli.main import main
from kvorum.cli.output import Exit
from kvorum.cli.reassign import brokers as commands
from kvorum.runtime.config_defs import BROKER_STATE, DECOMMISSION_THROTTLE
from tests.unit.admin.admin_state_cluster import AdminStateCluster


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> AdminStateCluster:
    made = AdminStateCluster()

    def with_it(bootstrap: str, work: Callable[[Any], Awaitable[Any]]) -> Any:
        async def run() -> Any:
            return await work(made)

        return asyncio.run(run())

    monkeypatch.setattr(commands, "with_cluster", with_it)
    monkeypatch.setattr(operations, "with_cluster", with_it)
    monkeypatch.setattr(commands, "LOOK_AGAIN_S", 0)
    return made


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["brokers", *arguments])


def test_brokers_are_listed_and_described(cluster: AdminStateCluster) -> None:
    cluster.requested[1] = {BROKER_STATE: "maintenance"}
    table = run("list").stdout.splitlines()
    assert table[0].split()[:3] == ["BROKER", "STATE", "ALIVE"] and table[1].split()[:3] == ["1", "draining", "yes"]
    rows = json.loads(run("list", "-o", "json").stdout)
    assert [(row["broker"], row["state"], row["left"]) for row in rows] == [
        (1, "draining", 1),
        (2, "active", 0),
        (3, "active", 0),
    ]
    reported = json.loads(run("describe", "1", "-o", "json").stdout)
    assert (
        reported["requested"] == "maintenance" and reported["done"] is False and "still to move" in reported["message"]
    )


def test_brokers_without_administrative_states_are_listed(cluster: AdminStateCluster) -> None:
    cluster.has_states = False
    rows = json.loads(run("list", "-o", "json").stdout)
    assert [(row["broker"], row["state"], row["leaders"], row["replicas"]) for row in rows] == [
        (1, None, 1, 1),
        (2, None, 0, 1),
        (3, None, 0, 0),
    ]


def test_maintenance_is_watched_until_it_leads_nothing(cluster: AdminStateCluster) -> None:
    def relieve(look: int) -> None:
        if look == 4:
            cluster.rows = [(2, [1, 2], [1, 2])]

    cluster.on_look = relieve
    done = run("maintenance", "1", "--timeout", "60")
    assert done.exit_code == Exit.DONE, done.output
    assert "broker 1 is maintenance. It leads no partition. It can be stopped." in done.output


def test_the_end_of_maintenance_is_watched_until_leaderships_are_back(cluster: AdminStateCluster) -> None:
    cluster.requested[1] = {BROKER_STATE: "maintenance"}
    cluster.rows = [(2, [1, 2], [1, 2])]

    def give_back(look: int) -> None:
        if look == 4:
            cluster.rows = [(1, [1, 2], [1, 2])]
            del cluster.requested[1][BROKER_STATE]  # as the controller does when it is over

    cluster.on_look = give_back
    done = run("maintenance", "1", "--end", "--timeout", "60")
    assert done.exit_code == Exit.DONE and "broker 1 is active." in done.output, done.output


def test_an_operation_after_its_timeout_is_reported_and_continues(cluster: AdminStateCluster) -> None:
    late = run("decommission", "1", "--timeout", "0", "--throttle", "5000")
    assert late.exit_code == Exit.FAILED and "the cluster continues" in late.output
    assert cluster.requested[1] == {BROKER_STATE: "decommissioned", DECOMMISSION_THROTTLE: "5000"}
    requested = run("decommission", "1", "--no-wait")
    assert requested.exit_code == Exit.DONE and "broker 1 is moving. 1 replica(s) left" in requested.output


def test_a_dry_run_validates_and_changes_nothing(cluster: AdminStateCluster) -> None:
    done = run("decommission", "1", "--dry-run")
    assert (done.exit_code, done.output, cluster.requested) == (Exit.DONE, "broker 1 can be decommissioned\n", {})


def test_a_broker_stays_after_all(cluster: AdminStateCluster) -> None:
    cluster.requested[1] = {BROKER_STATE: "decommissioned"}
    assert json.loads(run("recommission", "1", "-o", "json").stdout)["state"] == "active"
    assert cluster.requested[1] == {}


def test_a_broker_is_forgotten(cluster: AdminStateCluster) -> None:
    cluster.requested[3] = {BROKER_STATE: "decommissioned"}
    cluster.fenced.add(3)
    assert run("unregister", "3").output == "broker 3 is not registered any more\n"
    assert cluster.forgotten == [3]
