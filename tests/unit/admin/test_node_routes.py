"""Pages of the cluster's processes over HTTP: where they are, what is told of them, who may, and who is silent."""

import asyncio
import hashlib
from typing import Any

import pytest
from aiohttp import web

from kvorum.admin.http.access import Access, labels_of, tokens_of
from kvorum.admin.v1.cluster import broker_routes, node_pages
from kvorum.admin.v1.cluster.node_pages import CONTROLLER, NodeProblem, RoleProcess, endpoint_in
from kvorum.client.metadata_log.metadata_image import MetadataProblem
from kvorum.client.metadata_log.registrations import Registrations
from kvorum.client.wire.cluster_client import METADATA_TOPIC
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
)
from kvorum.protocol.messages.fetch import FetchRequest
from kvorum.protocol.uuids import Uuid
from kvorum.quorum import records
from kvorum.quorum.raft.log import SnapshotId
from kvorum.quorum.snapshots import encode_snapshot
from tests.unit.admin.fake import ME, NOW_MS, Client, Log, call, serve
from tests.unit.admin.managed import MANAGED_ANSWERS, ManagedCluster
from tests.unit.admin.node_server import CONNECTION, LINE, FakeNode, answer, name_listeners, running, with_node
from tests.unit.admin.operated import BROKER, DYNAMIC
from tests.unit.admin.operated import CONTROLLER as ACTIVE
from tests.unit.admin.test_metadata_routes import write
from tests.unit.admin.test_trail import written

__all__ = ["written"]
TOKENS = {role: f"{role}-token" for role in ("read", "operate", "admin")}
FILE = "".join(f"{role} {hashlib.sha256(t.encode()).hexdigest()} {role}\n" for role, t in TOKENS.items())
INCARNATION, FIRST, SECOND, THIRD = (Uuid(bytes([number]) * 16) for number in range(1, 5))


def guarded() -> Access:
    return Access(tokens_of(FILE), labels_of(FILE))


def as_(role: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {TOKENS[role]}"}


def register(cluster: ManagedCluster) -> None:
    """Broker 1 with three directories: one is cordoned, another one fails."""
    endpoints = (records.Endpoint(name="PLAINTEXT", host=ME[0], port=ME[1], security_protocol=0),)
    registered = records.RegisterBroker(
        broker_id=1,
        broker_epoch=0,
        incarnation_id=INCARNATION,
        endpoints=endpoints,
        log_dirs=(FIRST, SECOND, THIRD),
        cordoned_log_dirs=(SECOND,),
    )
    write(cluster, 1, registered)
    write(cluster, 1, records.BrokerRegistrationChange(broker_id=1, broker_epoch=0, log_dirs=(FIRST, SECOND)))


def test_a_broker_has_what_it_registered_with_and_what_its_process_reports() -> None:
    async def test(client: Client, cluster: ManagedCluster, node: FakeNode) -> None:
        register(cluster)
        status, found = await call(client, "GET", "/v1/brokers/1")
        assert status == 200, found
        assert (found["epoch"], found["incarnation_id"], found["registration_error"]) == (0, str(INCARNATION), None)
        assert [(each["id"], each["online"], each["cordoned"]) for each in found["log_dirs"]] == [
            (str(FIRST), True, False),
            (str(SECOND), True, True),
            (str(THIRD), False, False),
        ]
        assert (found["version"], found["started_ms"], found["uptime_ms"]) == ("0.1.0", NOW_MS, 60_000)
        assert (found["process_error"], found["process_message"]) == (None, None)
        assert found["in_controlled_shutdown"] is False
        leaves = records.BrokerRegistrationChange(broker_id=1, broker_epoch=0, in_controlled_shutdown=True)
        write(cluster, 1, leaves)
        assert (await call(client, "GET", "/v1/brokers/1"))[1]["in_controlled_shutdown"] is True
        write(cluster, 1, records.UnregisterBroker(broker_id=1, broker_epoch=0))
        again = (await call(client, "GET", "/v1/brokers/1"))[1]
        assert (again["epoch"], again["registration_error"]) == (None, "BROKER_ID_NOT_REGISTERED"), "the log went on"

    with_node(test)


def test_the_list_does_not_wait_for_a_stopped_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_routes, "LIST_SECONDS", 0.2)

    async def test(client: Client, cluster: ManagedCluster, node: FakeNode) -> None:
        name_listeners(cluster, 2, metrics_listener="http://127.0.0.1:1")
        name_listeners(cluster, 3, metrics_listener=None)
        rows = (await call(client, "GET", "/v1/brokers"))[1]
        assert [(row["id"], row["version"], row["process_error"]) for row in rows] == [
            (1, "0.1.0", None),
            (2, None, "NODE_UNREACHABLE"),
            (3, None, "NO_METRICS_LISTENER"),
            (4, None, "NOT_KVORUM"),
        ]
        assert "broker 2" in rows[1]["process_message"] and "127.0.0.1:1" in rows[1]["process_message"]
        cluster.silent = {4}
        (*_, last) = (await call(client, "GET", "/v1/brokers"))[1]
        assert last["process_error"] == "NODE_UNREACHABLE", "it is dead, or the network is: the cluster answers"
        node.hold.add("/v1/node")
        (first, *_) = (await call(client, "GET", "/v1/brokers"))[1]
        assert (first["uptime_ms"], first["process_error"]) == (None, "NODE_UNREACHABLE")
        assert first["leaders"] is not None and "0.2 s" in first["process_message"]

    with_node(test)


def test_brokers_are_reported_without_metadata_log_information() -> None:
    async def test(client: Client, cluster: ManagedCluster, node: FakeNode) -> None:
        cluster.codes[FetchRequest] = ErrorCode.UNSUPPORTED_VERSION
        row = (await call(client, "GET", "/v1/brokers/1"))[1]
        assert (row["log_dirs"], row["registration_error"], row["version"]) == (None, "UNSUPPORTED_VERSION", "0.1.0")

    with_node(test)


def test_connections_and_the_log_are_those_the_process_reports() -> None:
    async def test(client: Client, cluster: ManagedCluster, node: FakeNode) -> None:
        found = await call(client, "GET", "/v1/brokers/1/connections?limit=5")
        assert found == (200, {"total": 3, "connections": [CONNECTION]})
        assert await call(client, "GET", "/v1/brokers/1/log") == (200, {"lines": [LINE], "dropped": 2})
        assert (await call(client, "GET", "/v1/brokers/1/log?lines=9&level=debug"))[0] == 200
        assert [each for each in node.requested if each[1] != "/v1/node"] == [
            ("GET", "/v1/node/connections", {"limit": "5"}),
            ("GET", "/v1/node/log", {"lines": "200", "level": "info"}),
            ("GET", "/v1/node/log", {"lines": "9", "level": "debug"}),
        ]
        for path, field in (
            ("1/connections?limit=1001", "limit"),
            ("1/log?lines=0", "lines"),
            ("1/log?level=loud", "level"),
            ("x/log", "broker"),
        ):
            status, problem = await call(client, "GET", f"/v1/brokers/{path}")
            assert (status, problem["field"]) == (400, field)
        assert (await call(client, "GET", "/v1/brokers/9/log"))[1]["error"] == "BROKER_ID_NOT_REGISTERED"

    with_node(test)


@pytest.mark.parametrize(
    ("path", "printed", "status", "error"),
    [
        ("/v1/node/log", answer(404, error="NOT_FOUND", message="no page"), 422, "NO_NODE_PAGES"),
        ("/v1/node", answer(403, error="FORBIDDEN", message="kvorum.admin.tokens.file"), 403, "NODE_REFUSED"),
        ("/v1/node/log", answer(500, error="FAILED", message="see the log"), 503, "NODE_FAILED"),
        ("/v1/node/log", answer(200, lines="none"), 503, "NODE_FAILED"),
        ("/v1/node/log", answer(302, error="", message=""), 503, "NODE_FAILED"),
    ],
)
def test_an_unexpected_response_of_a_process_is_reported(path: str, printed: Any, status: int, error: str) -> None:
    async def test(client: Client, cluster: ManagedCluster, node: FakeNode) -> None:
        node.answers[path] = printed
        found = await call(client, "GET", "/v1/brokers/1/log")
        assert (found[0], found[1]["error"]) == (status, error), found
        assert "broker 1" in found[1]["message"]

    with_node(test)


def test_an_answer_that_does_not_end_is_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_pages, "ANSWER_BYTES_MAX", 200)

    async def test(client: Client, cluster: ManagedCluster, node: FakeNode) -> None:
        node.answers["/v1/node/log"] = answer(200, lines=[], dropped=0, more="x" * 300)
        status, problem = await call(client, "GET", "/v1/brokers/1/log")
        assert (status, problem["error"]) == (503, "NODE_FAILED") and "200 bytes" in problem["message"]

    with_node(test)


def test_another_process_at_the_address_is_neither_queried_nor_stopped() -> None:
    async def test(client: Client, cluster: ManagedCluster, node: FakeNode) -> None:
        name_listeners(cluster, 2, metrics_listener=node.url)
        for method, path in (("GET", "log"), ("POST", "controlled-shutdown")):
            status, problem = await call(client, method, f"/v1/brokers/2/{path}")
            assert (status, problem["error"]) == (422, "ANOTHER_NODE")
            assert "broker 2" in problem["message"] and "broker 1" in problem["message"]
        assert {each[1] for each in node.requested} == {"/v1/node"}

    with_node(test)


def test_a_process_of_another_cluster_is_neither_queried_nor_stopped() -> None:
    """Of the same id and role: two clusters' loopback addresses may be the same."""

    async def test(client: Client, cluster: ManagedCluster, node: FakeNode) -> None:
        node.cluster_id = "other"
        for method, path in (("GET", "log"), ("POST", "controlled-shutdown")):
            status, problem = await call(client, method, f"/v1/brokers/1/{path}")
            assert (status, problem["error"]) == (422, "ANOTHER_NODE") and "cluster other" in problem["message"]
        assert {each[1] for each in node.requested} == {"/v1/node"}
        node.cluster_id = None
        assert (await call(client, "GET", "/v1/brokers/1/log"))[0] == 200

    with_node(test)


def test_a_token_is_not_sent_to_addresses_of_dynamic_configs_or_redirects() -> None:
    async def run() -> None:
        node, elsewhere, cluster = FakeNode(), FakeNode(), ManagedCluster()
        async with running(node, elsewhere), serve(cluster) as client:
            name_listeners(cluster, 1, metrics_listener=node.url)
            node.answers["/v1/node/log"] = web.Response(
                status=307, headers={"Location": f"{elsewhere.url}/v1/node/log"}
            )
            assert (await call(client, "GET", "/v1/brokers/1/log", headers=as_("read")))[1]["error"] == "NODE_FAILED"
            name_listeners(cluster, 1)
            cluster.layers[BROKER, "1"][-1] = [("metrics.listener", elsewhere.url, DYNAMIC)]
            status, problem = await call(client, "GET", "/v1/brokers/1/log", headers=as_("read"))
            assert (status, problem["error"]) == (422, "NO_METRICS_LISTENER")
            assert elsewhere.requested == []

    asyncio.run(run())


def test_registrations_are_those_of_the_log_that_there_is() -> None:
    async def test(client: Client, cluster: ManagedCluster, node: FakeNode) -> None:
        register(cluster)
        assert (await call(client, "GET", "/v1/brokers/1"))[1]["epoch"] == 0
        write(cluster, 1, records.BeginTransaction(name="x"), records.UnregisterBroker(broker_id=1, broker_epoch=0))
        assert (await call(client, "GET", "/v1/brokers/1"))[1]["epoch"] == 0, "the transaction is open"
        write(cluster, 1, records.EndTransaction())
        assert (await call(client, "GET", "/v1/brokers/1"))[1]["epoch"] is None
        cluster.logs[METADATA_TOPIC] = [Log()]  # another cluster's
        write(cluster, 1, records.NoOp())
        register(cluster)
        assert (await call(client, "GET", "/v1/brokers/1"))[1]["registration_error"] is None

    with_node(test)


def test_registrations_continue_behind_a_snapshot() -> None:
    registered = records.RegisterBroker(broker_id=1, broker_epoch=4, incarnation_id=INCARNATION, endpoints=())
    found = Registrations.of_snapshot(SnapshotId(end_offset=9, epoch=1), b"".join(encode_snapshot([registered], 1, 0)))
    assert found.next_offset == 9 and found.read([])[1].broker_epoch == 4
    with pytest.raises(MetadataProblem):
        Registrations.of_snapshot(SnapshotId(end_offset=9, epoch=1), b"nonsense")


def test_a_broker_is_shut_down_by_an_admin_and_the_trail_reports_it(written: list[dict[str, Any]]) -> None:
    async def test(client: Client, cluster: ManagedCluster, node: FakeNode) -> None:
        path = "/v1/brokers/1/controlled-shutdown"
        assert (await call(client, "POST", path, headers=as_("operate")))[1]["error"] == "FORBIDDEN_ROLE"
        assert node.requested == [], "refused here already"
        assert await call(client, "POST", path, headers=as_("admin")) == (202, {"stopping": True})
        assert node.requested[-1] == ("POST", "/v1/node/controlled-shutdown", {})
        (line,) = [each for each in written if each["message"] == "admin request accepted"]
        assert (line["who"], line["method"], line["path"], line["status"]) == ("admin", "POST", path, 202)

    with_node(test, FakeNode(access=guarded()), guarded())


def test_a_process_with_other_tokens_rejects_with_its_own_message() -> None:
    async def test(client: Client, cluster: ManagedCluster, node: FakeNode) -> None:
        status, problem = await call(client, "GET", "/v1/brokers/1/log")
        assert (status, problem["error"]) == (403, "NODE_REFUSED") and "token" in problem["message"]
        row = (await call(client, "GET", "/v1/brokers/1"))[1]
        assert (row["version"], row["process_error"]) == (None, "NODE_REFUSED")

    with_node(test, FakeNode(access=guarded()))


def test_a_change_without_a_response_may_have_happened(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(client: Client, cluster: ManagedCluster, node: FakeNode) -> None:
        node.hold.add("/v1/node/controlled-shutdown")
        monkeypatch.setattr(node_pages.NodePages.post, "__kwdefaults__", {"seconds": 0.2})
        status, problem = await call(client, "POST", "/v1/brokers/1/controlled-shutdown")
        assert (status, problem["error"]) == (503, "NODE_UNREACHABLE") and "may or may not" in problem["message"]

    with_node(test)


def test_the_active_controller_writes_a_snapshot_or_the_one_that_is_named() -> None:
    async def test(client: Client, cluster: ManagedCluster, node: FakeNode) -> None:
        wanted = {"controller": ACTIVE, "end_offset": 9, "epoch": 2, "bytes": 100, "took_ms": 3, "written": False}
        assert await call(client, "POST", "/v1/metadata/snapshot") == (200, wanted)
        assert await call(client, "POST", f"/v1/metadata/snapshot?controller={ACTIVE}") == (200, wanted)
        assert (await call(client, "GET", f"/v1/quorum/controllers/{ACTIVE}/log"))[1]["lines"] == [LINE]
        for wrong, status in (("9", 404), ("x", 400)):
            assert (await call(client, "POST", f"/v1/metadata/snapshot?controller={wrong}"))[0] == status
        node.answers["/v1/node/snapshot"] = answer(409, error="SNAPSHOT_IN_PROGRESS", message="one is being written")
        status, problem = await call(client, "POST", "/v1/metadata/snapshot")
        assert (status, problem["error"]) == (409, "SNAPSHOT_IN_PROGRESS")
        assert (await call(client, "GET", "/v1/quorum/controllers/1/log"))[1]["error"] == "NOT_KVORUM"
        name_listeners(cluster, 1, metrics_listener=node.url)
        assert (await call(client, "GET", "/v1/quorum/controllers/1/log"))[1]["error"] == "NO_SUCH_ROLE"
        roles, url = "broker,controller", node.url
        name_listeners(cluster, 1, process_roles=roles, kvorum_controller_metrics_listener=url)
        status, problem = await call(client, "GET", "/v1/quorum/controllers/1/log")
        assert problem["error"] == "ANOTHER_NODE", "no voter, and so asked of the broker of the same node"

    with_node(test, FakeNode(ACTIVE, "controller"))


def test_the_address_of_a_following_controller_is_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def reported(cluster: ManagedCluster, broker: int, request: Any) -> DescribeQuorumResponse:
        row = ResponsePartitionData(leader_id=-1, observers=[ReplicaState(replica_id=103)])
        return DescribeQuorumResponse(topics=[ResponseTopicData(partitions=[row])])

    monkeypatch.setitem(MANAGED_ANSWERS, DescribeQuorumRequest, reported)

    async def test(client: Client, cluster: ManagedCluster, node: FakeNode) -> None:
        status, problem = await call(client, "GET", "/v1/quorum/controllers/103/log")
        assert (status, problem["error"]) == (422, "NO_CONTROLLER_ADDRESS")
        status, problem = await call(client, "GET", "/v1/quorum/controllers/104/log")
        assert (status, problem["error"]) == (404, "VOTER_NOT_FOUND")
        assert (await call(client, "POST", "/v1/metadata/snapshot"))[1]["error"] == "LEADER_NOT_AVAILABLE"

    with_node(test)


COMBINED = "controller, broker"


@pytest.mark.parametrize(
    ("who", "configs", "url"),
    [
        (RoleProcess("broker", 1), {"metrics.listener": "http://127.0.0.2:80"}, "http://127.0.0.2:80"),
        (RoleProcess("broker", 1), {"metrics.listener": "0.0.0.0:80/"}, "http://there:80"),
        (RoleProcess("broker", 1), {"metrics.listener": "https://0.0.0.0:80"}, "https://there:80"),
        (RoleProcess("broker", 1), {"metrics.listener": "http://[::]:80"}, "http://there:80"),
        (RoleProcess("broker", 1), {"metrics.listener": "http://:80"}, "http://127.0.0.1:80"),
        (RoleProcess(CONTROLLER, 1), {"metrics.listener": "http://[::1]:80"}, "http://[::1]:180"),
        (RoleProcess(CONTROLLER, 1), {"metrics.listener": "https://[::1]:80"}, "https://[::1]:180"),
        (RoleProcess(CONTROLLER, 1), {"kvorum.controller.metrics.listener": "http://a:7"}, "http://a:7"),
        (RoleProcess(CONTROLLER, 1), {"process.roles": "controller", "metrics.listener": "a:7"}, "http://a:7"),
    ],
)
def test_address_of_a_processs_pages(who: RoleProcess, configs: dict[str, str], url: str) -> None:
    assert endpoint_in({"process.roles": COMBINED, **configs}, who, "there").url == url


@pytest.mark.parametrize("text", ["http://127.0.0.1:0", "nonsense", "http://a:x", ""])
def test_a_port_that_is_chosen_at_the_start_cannot_be_known(text: str) -> None:
    with pytest.raises(NodeProblem) as refused:
        endpoint_in({"process.roles": COMBINED, "metrics.listener": text}, RoleProcess("broker", 1), "there")
    assert refused.value.error == "NO_METRICS_LISTENER"
