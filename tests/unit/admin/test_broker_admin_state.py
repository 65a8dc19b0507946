"""What the admin API says of a broker's maintenance and decommission, and what it asks for."""

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel

from kvorum.admin.http.operations import BadInput, Call, NoBody, Role
from kvorum.admin.v1.cluster import broker_admin_state_routes
from kvorum.admin.v1.cluster.broker_admin_state_models import BrokerAdminState, Decommission
from kvorum.client.reassignments import broker_admin_state
from kvorum.client.reassignments.broker_admin_state import State
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.runtime.config_defs import BROKER_STATE, DECOMMISSION_THROTTLE
from tests.unit.admin.admin_state_cluster import AdminStateCluster, Row

MAINTENANCE, LEAVING, BACK = {BROKER_STATE: "maintenance"}, {BROKER_STATE: "decommissioned"}, {BROKER_STATE: "active"}


def call(cluster: AdminStateCluster, handle: Any, body: BaseModel | None = None, broker: str = "1") -> Any:
    return asyncio.run(handle(Call(cluster=cluster, path={"broker": broker}, query={}, body=body or NoBody())))


def refused(cluster: AdminStateCluster, handle: Any, body: BaseModel | None = None, broker: str = "1") -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        call(cluster, handle, body, broker)
    return caught.value.code


@pytest.mark.parametrize(
    ("requested_items", "rows", "removing", "state", "left", "words"),
    [
        ({}, [(1, [1, 2], [1, 2])], {}, State.ACTIVE, 0, "operates"),
        (MAINTENANCE, [(1, [1, 2], [1, 2]), (1, [1], [1])], {}, State.DRAINING, 1, "1 partition leader"),
        (MAINTENANCE, [(2, [1, 2], [1, 2])], {}, State.MAINTENANCE, 0, "can be stopped"),
        (MAINTENANCE, [(2, [1, 2], [1, 2]), (1, [1], [1])], {}, State.MAINTENANCE, 0, "a-1"),
        (BACK, [(2, [1, 2], [1, 2]), (2, [2, 1], [1, 2])], {}, State.RETURNING, 1, "still to return"),
        (LEAVING, [(2, [1, 2], [2]), (2, [2, 1], [2, 1])], {1: [1]}, State.MOVING, 2, "1 of them moving"),
        (LEAVING, [(2, [3, 2], [2, 3])], {}, State.DECOMMISSIONED, 0, "unregister"),
    ],
)
def test_how_far_a_broker_is(
    requested_items: dict[str, str],
    rows: list[Row],
    removing: dict[int, list[int]],
    state: State,
    left: int,
    words: str,
) -> None:
    cluster = AdminStateCluster(*rows)
    cluster.requested[1] = dict(requested_items)
    cluster.removing = removing
    found: BrokerAdminState = call(cluster, broker_admin_state_routes.get_maintenance)
    assert (found.state, found.left, found.done) == (state, left, left == 0)
    assert words in found.message
    assert found.replicas == sum(1 in replicas for _, replicas, _ in rows)


def test_all_brokers_are_reported_in_order() -> None:
    found = asyncio.run(broker_admin_state.broker_states(AdminStateCluster()))
    assert [(each.broker, each.rack, each.leaders) for each in found] == [(1, "r1", 1), (2, "r2", 0), (3, "r3", 0)]


def test_maintenance_begins_and_ends() -> None:
    cluster = AdminStateCluster()
    assert refused(cluster, broker_admin_state_routes.end_maintenance) == ErrorCode.INVALID_REQUEST
    assert call(cluster, broker_admin_state_routes.begin_maintenance).requested == "maintenance"
    assert call(cluster, broker_admin_state_routes.begin_maintenance).requested == "maintenance", "asked again"
    call(cluster, broker_admin_state_routes.end_maintenance)
    assert cluster.requested[1] == BACK


def test_a_decommission_begins_with_its_throttle_and_is_taken_back() -> None:
    cluster = AdminStateCluster()
    body = Decommission(throttle_bytes_per_second=5_000)
    assert call(cluster, broker_admin_state_routes.begin_decommission, body).throttle_bytes_per_second == 5_000
    assert cluster.requested[1] == LEAVING | {DECOMMISSION_THROTTLE: "5000"}
    assert refused(cluster, broker_admin_state_routes.begin_maintenance) == ErrorCode.INVALID_REQUEST
    call(cluster, broker_admin_state_routes.cancel_decommission)
    assert BROKER_STATE not in cluster.requested[1]
    assert refused(cluster, broker_admin_state_routes.cancel_decommission) == ErrorCode.INVALID_REQUEST


def test_a_dry_run_and_a_refusal_change_nothing() -> None:
    cluster = AdminStateCluster()
    call(cluster, broker_admin_state_routes.begin_decommission, Decommission(validate_only=True))
    cluster.refusal = ErrorCode.INVALID_REPLICATION_FACTOR, "too few"
    assert refused(cluster, broker_admin_state_routes.begin_decommission, Decommission()) == cluster.refusal[0]
    assert cluster.requested.get(1, {}) == {}


def test_only_a_decommissioned_and_stopped_broker_is_unregistered() -> None:
    cluster = AdminStateCluster((2, [2, 3], [2, 3]))
    assert refused(cluster, broker_admin_state_routes.unregister_broker) == ErrorCode.INVALID_REQUEST
    cluster.requested[1] = dict(LEAVING)
    assert refused(cluster, broker_admin_state_routes.unregister_broker) == ErrorCode.INVALID_REQUEST
    cluster.fenced.add(1)
    assert call(cluster, broker_admin_state_routes.unregister_broker) is None
    assert cluster.forgotten == [1]


def test_a_missing_broker_is_reported() -> None:
    assert (
        refused(AdminStateCluster(), broker_admin_state_routes.get_decommission, broker="9")
        == ErrorCode.BROKER_ID_NOT_REGISTERED
    )
    with pytest.raises(BadInput):
        call(AdminStateCluster(), broker_admin_state_routes.get_decommission, broker="one")


def test_maintenance_is_for_operators_and_decommission_for_admins() -> None:
    needed = {(each.method, each.path.rpartition("/")[2]): each.needs for each in broker_admin_state_routes.OPERATIONS}
    assert needed["PUT", "maintenance"] is needed["DELETE", "maintenance"] is Role.OPERATE
    assert needed["PUT", "decommission"] is needed["DELETE", "decommission"] is Role.ADMIN
    assert needed["DELETE", "{broker}"] is Role.ADMIN and needed["GET", "maintenance"] is Role.READ
