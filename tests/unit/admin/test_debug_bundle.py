"""The debug bundle: what is in it, what its manifest says is missing, and that no secret and no record is in it."""

import asyncio
import io
import json
import zipfile
from typing import Any

import pytest

from kvorum.admin.v1.cluster import debug_bundle
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.list_groups import ListGroupsRequest
from kvorum.protocol.records import Record
from kvorum.quorum import records
from kvorum.runtime.config_types import HIDDEN
from tests.unit.admin.fake import Client, call, serve
from tests.unit.admin.managed import ManagedCluster
from tests.unit.admin.node_server import FakeNode, answer, name_listeners, running, with_node
from tests.unit.admin.operated import BROKER, CONTROLLER, DYNAMIC
from tests.unit.admin.test_metadata_routes import write

SECRET, RECORD = "hunter2", b"what nobody is to see"


async def bundle(client: Client) -> tuple[dict[str, bytes], dict[str, str]]:
    """Return {part: what it says}, and {missing part: error}, as the manifest has them."""
    async with client.get("/v1/debug-bundle") as answered:
        assert (answered.status, answered.content_type) == (200, "application/zip")
        assert "kvorum-debug-" in answered.headers["Content-Disposition"]
        with zipfile.ZipFile(io.BytesIO(await answered.read())) as archive:
            assert archive.testzip() is None
            found = {name: archive.read(name) for name in archive.namelist()}
    assert list(found)[-1] == "manifest.json"
    manifest = json.loads(found.pop("manifest.json"))
    assert {each["name"]: each["bytes"] for each in manifest["parts"]} == {k: len(v) for k, v in found.items()}
    return found, {each["name"]: each["error"] for each in manifest["missing"]}


def test_it_has_all_available_data_and_lists_the_rest() -> None:
    async def run() -> None:
        broker, controller, cluster = FakeNode(), FakeNode(CONTROLLER, "controller"), ManagedCluster()
        async with running(broker, controller), serve(cluster) as client:
            for node in (broker, controller):
                name_listeners(cluster, node.node_id, process_roles=node.role, metrics_listener=node.url)
            name_listeners(cluster, 2, metrics_listener="http://127.0.0.1:1")
            (log,) = cluster.add("t")
            log.append(Record(value=RECORD))
            write(cluster, 1, records.Config(resource_type=BROKER, resource_name="1", name="a.plugin", value=SECRET))
            cluster.layers[BROKER, "1"] += [[("a.password", SECRET, DYNAMIC)], [("log.dirs", "/a", DYNAMIC)]]
            controller.answers["/v1/node/log"] = answer(404, error="NOT_FOUND", message="an older one")
            found, missing = await bundle(client)
        whole = {f"{name}.json" for name in ("cluster", "health", "brokers", "topics", "groups", "quorum", "features")}
        nodes = {"brokers/1/node.json", "brokers/1/metrics.txt", "brokers/1/log.json"}
        nodes |= {f"controllers/{CONTROLLER}/node.json", f"controllers/{CONTROLLER}/metrics.txt"}
        configs = {f"brokers/{broker}/configs.json" for broker in (1, 2, 3, 4)}
        assert found.keys() == whole | {"configs.json"} | nodes | configs
        assert missing == {
            "brokers/2/": "NODE_UNREACHABLE",
            "brokers/3/": "NOT_KVORUM",
            "brokers/4/": "NOT_KVORUM",
            f"controllers/{CONTROLLER}/log.json": "NO_NODE_PAGES",
        }
        assert json.loads(found["configs.json"]) == {"BROKER": {"1": {"a.plugin": HIDDEN}}}
        rows = {row["name"]: row["value"] for row in json.loads(found["brokers/1/configs.json"])}
        assert rows["log.dirs"] == "/a" and rows["a.password"] is None
        assert json.loads(found["brokers/1/log.json"])["dropped"] == 2
        assert found["brokers/1/metrics.txt"] == b"kvorum_up 1\n"
        assert [row["name"] for row in json.loads(found["topics.json"])["topics"]] == ["t"]
        everything = b"".join(found.values())
        assert SECRET.encode() not in everything and RECORD not in everything

    asyncio.run(run())


def test_an_unreachable_cluster_also_has_a_bundle() -> None:
    async def test(client: Client, cluster: ManagedCluster, node: FakeNode) -> None:
        cluster.reachable = False
        found, missing = await bundle(client)
        assert found == {} and set(missing.values()) == {"CLUSTER_UNREACHABLE"}
        assert {"cluster.json", "configs.json", "brokers/", "controllers/"} <= missing.keys()

    with_node(test)


def test_each_limit_leaves_a_part_out_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(client: Client, cluster: ManagedCluster, node: FakeNode) -> None:
        monkeypatch.setattr(debug_bundle, "PART_BYTES_MAX", 11)
        _, missing = await bundle(client)
        assert missing["brokers/1/metrics.txt"] == "TOO_LARGE"
        monkeypatch.setattr(debug_bundle, "PART_BYTES_MAX", 1 << 20)
        monkeypatch.setattr(debug_bundle, "BUNDLE_BYTES_MAX", 2_000)
        found, missing = await bundle(client)
        assert sum(map(len, found.values())) <= 2_000 and "TOO_LARGE" in missing.values() and found
        monkeypatch.setattr(debug_bundle, "PART_SECONDS", 0.3)
        monkeypatch.setattr(debug_bundle, "BUNDLE_BYTES_MAX", 1 << 20)
        node.hold.add("/v1/node/log")
        found, missing = await bundle(client)
        assert missing["brokers/1/log.json"] == "REQUEST_TIMED_OUT" and "brokers/1/metrics.txt" in found
        monkeypatch.setattr(debug_bundle, "BUNDLE_SECONDS", 0.0)
        found, missing = await bundle(client)
        assert found == {} and missing["cluster.json"] == "REQUEST_TIMED_OUT"

    with_node(test)


@pytest.mark.unexpected("debug bundle:")
def test_a_part_that_we_fail_at_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(client: Client, cluster: ManagedCluster, node: FakeNode) -> None:
        async def fails(*_: Any) -> Any:
            raise ZeroDivisionError("a fault of ours")

        monkeypatch.setattr(debug_bundle.cluster_routes, "get_health", fails)
        cluster.codes[ListGroupsRequest] = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        found, missing = await bundle(client)
        assert missing["health.json"] == "UNKNOWN_SERVER_ERROR"
        assert missing["groups.json"] == "CLUSTER_AUTHORIZATION_FAILED"
        assert "quorum.json" in found

    with_node(test)


def test_a_parameter_that_is_missing_is_refused_before_anything_is_queried() -> None:
    async def test(client: Client, cluster: ManagedCluster, node: FakeNode) -> None:
        status, problem = await call(client, "GET", "/v1/debug-bundle?all=true")
        assert (status, problem["field"]) == (400, "all") and node.requested == []

    with_node(test)
