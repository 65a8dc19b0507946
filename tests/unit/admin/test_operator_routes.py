"""Features, loggers, differences of configs, and transactions in full, over HTTP in front of a fake cluster."""

import pytest

from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.describe_producers import DescribeProducersRequest
from tests.unit.admin.fake import Client, call
from tests.unit.admin.operated import (
    BROKER,
    CLUSTER,
    DEFAULT,
    DYNAMIC,
    OWN,
    STATIC,
    TOPIC,
    OperatedCluster,
    with_operated,
)
from tests.unit.admin.test_roles_and_transactions import begin


def test_features_are_listed_tried_and_put_to_other_levels() -> None:
    async def test(client: Client, cluster: OperatedCluster) -> None:
        rows = (await call(client, "GET", "/v1/features"))[1]
        assert rows[1] == {
            "name": "transaction.version",
            "min_supported": 0,
            "max_supported": 2,
            "level": 1,
            "epoch": 7,
        }
        assert (await call(client, "GET", "/v1/features?broker=3"))[1] == rows
        assert (await call(client, "GET", "/v1/features?broker=9"))[1]["error"] == "BROKER_ID_NOT_REGISTERED"
        up = {"levels": {"transaction.version": 2}}
        assert (await call(client, "PATCH", "/v1/features?validate_only=true", up))[0] == 204
        assert cluster.levels["transaction.version"] == 1
        assert (await call(client, "PATCH", "/v1/features", up))[0] == 204
        assert cluster.levels["transaction.version"] == 2
        down = {"levels": {"transaction.version": 0}}
        status, problem = await call(client, "PATCH", "/v1/features", down)
        assert (status, problem["error"], problem["field"]) == (422, "INVALID_UPDATE_VERSION", "levels")
        assert (await call(client, "PATCH", "/v1/features", {**down, "kind": "safe_downgrade"}))[0] == 204
        assert cluster.levels["transaction.version"] == 0
        for body in ({}, {"levels": {}}, {"levels": {"a": -1}}, {**up, "kind": "downgrade"}):
            assert (await call(client, "PATCH", "/v1/features", body))[0] == 400, body

    with_operated(test)


def test_log_levels_are_those_of_the_broker_that_is_named() -> None:
    async def test(client: Client, cluster: OperatedCluster) -> None:
        path = "/v1/brokers/2/loggers"
        async with client.get(path) as answer:
            assert await answer.json() == [{"name": "network", "level": "INFO"}, {"name": "root", "level": "INFO"}]
            tag = {"If-Match": answer.headers["ETag"]}
        change = {"set": {"network": "DEBUG"}}
        assert (await call(client, "PATCH", f"{path}?validate_only=true", change))[0] == 204
        assert cluster.loggers[2]["network"] == "INFO"
        assert (await call(client, "PATCH", path, change, headers=tag))[0] == 204
        assert (cluster.loggers[2]["network"], cluster.loggers[1]["network"]) == ("DEBUG", "INFO")
        assert (await call(client, "PATCH", path, change, headers=tag))[0] == 412
        assert (await call(client, "PATCH", path, {"delete": ["network"]}))[0] == 204
        assert cluster.loggers[2]["network"] == "INFO"
        status, problem = await call(client, "PATCH", path, {"set": {"nobody": "INFO"}})
        assert (status, problem["error"], problem["field"]) == (422, "INVALID_CONFIG", "set.nobody")
        assert (await call(client, "PATCH", path, {}))[1]["field"] == "set"
        assert (await call(client, "GET", "/v1/brokers/9/loggers"))[0] == 404

    with_operated(test)


def configure(cluster: OperatedCluster) -> None:
    """Two brokers of which the second differs, a topic with configs of its own and one without."""
    hours = [("log.retention.hours", "168", DEFAULT)]
    cluster.layers[BROKER, "1"] = [
        [("node.id", "1", STATIC)],
        [("num.io.threads", "8", DEFAULT)],
        [("background.threads", "4", DYNAMIC), ("background.threads", "5", STATIC), ("background.threads", "10", 5)],
        [("ssl.key.password", "x", STATIC)],
        hours,
    ]
    cluster.layers[BROKER, "2"] = [
        [("node.id", "2", STATIC)],
        [("num.io.threads", "16", CLUSTER), ("num.io.threads", "8", DEFAULT)],
        [("background.threads", " 4", STATIC), ("background.threads", "10", DEFAULT)],
        [("ssl.key.password", "y", STATIC)],
        hours,
    ]
    cluster.place("mine", [1])
    cluster.place("plain", [1])
    cluster.layers[TOPIC, "mine"] = [
        [("retention.ms", "5", OWN)],
        [("cleanup.policy", "delete", DEFAULT)],
    ]
    cluster.layers[TOPIC, "plain"] = [
        [("retention.ms", "604800000", DEFAULT)],
        [("cleanup.policy", "delete", DEFAULT)],
    ]


@pytest.mark.parametrize(
    ("columns", "found"),
    [
        ("broker:1,broker:2", {"node.id": ["1", "2"], "num.io.threads": ["8", "16"]}),
        ("broker:1,broker:1:static", {"background.threads": ["4", "5"]}),
        ("broker:2,broker:2:default", {"node.id": ["2", None], "num.io.threads": ["16", "8"]}),
        ("topic:mine,topic:plain", {"retention.ms": ["5", "604800000"]}),
        ("topic:mine,topic:mine:broker", {"retention.ms": ["5", "604800000"]}),
        ("topic:plain,topic:plain:default", {}),
    ],
)
def test_configs_are_compared_by_meaning(columns: str, found: dict[str, list[str | None]]) -> None:
    async def test(client: Client, cluster: OperatedCluster) -> None:
        configure(cluster)
        status, diff = await call(client, "GET", f"/v1/configs/diff?of={columns}")
        assert (status, diff["columns"]) == (200, columns.split(","))
        reported = {
            row["name"]: [None if cell is None else cell["value"] for cell in row["cells"]]
            for row in diff["rows"]
            if row["name"] in ("node.id", "num.io.threads", "background.threads", "retention.ms", "cleanup.policy")
        }
        assert {name: reported.get(name) for name in found} == found
        assert (
            set(reported) - set(found) <= {"background.threads"}
            if "default" in columns
            else set(reported) == set(found)
        )

    with_operated(test)


def test_secrets_are_not_reported_and_own_configs_of_brokers_are_marked() -> None:
    async def test(client: Client, cluster: OperatedCluster) -> None:
        configure(cluster)
        rows = (await call(client, "GET", "/v1/configs/diff?of=broker:1,broker:2&all=true"))[1]["rows"]
        by_name = {row["name"]: row for row in rows}
        secret = by_name["ssl.key.password"]
        assert [(cell["value"], cell["sensitive"]) for cell in secret["cells"]] == [(None, True)] * 2
        assert not secret["differs"] and by_name["node.id"]["own"] and not by_name["num.io.threads"]["own"]

    with_operated(test)


@pytest.mark.parametrize(
    "columns",
    [
        "",
        "broker:1",
        "broker:1,broker:1",
        "broker:1,topic:mine",
        "broker:x,broker:1",
        "broker:1:all,broker:1",
        "t:1,t:2",
        ",".join(f"broker:{each}" for each in range(30)),
        "brokers,broker:1",
        "topic:,topic:mine",
        "topic:mine:static,t:1",
    ],
)
def test_incomparable_configs_are_refused(columns: str) -> None:
    async def test(client: Client, cluster: OperatedCluster) -> None:
        status, problem = await call(client, "GET", f"/v1/configs/diff?of={columns}")
        assert (status, problem["field"]) == (400, "of"), columns

    with_operated(test)


def test_all_brokers_are_compared_and_missing_ones_reported() -> None:
    async def test(client: Client, cluster: OperatedCluster) -> None:
        configure(cluster)
        diff = (await call(client, "GET", "/v1/configs/diff?of=brokers"))[1]
        assert diff["columns"] == ["broker:1", "broker:2", "broker:3", "broker:4"]
        assert (await call(client, "GET", "/v1/configs/diff?of=broker:1,broker:9"))[0] == 404
        assert (await call(client, "GET", "/v1/configs/diff?of=topic:mine,topic:none"))[0] == 404

    with_operated(test)


def test_a_transactions_partitions_are_reported_with_where_it_begins() -> None:
    async def test(client: Client, cluster: OperatedCluster) -> None:
        begin(cluster)
        (row,) = (await call(client, "GET", "/v1/transactions/known/partitions"))[1]
        assert (row["topic"], row["partition"], row["start_offset"], row["producer_epoch"]) == ("t", 0, 3, 2)
        cluster.codes[DescribeProducersRequest] = ErrorCode.NOT_LEADER_OR_FOLLOWER
        (row,) = (await call(client, "GET", "/v1/transactions/known/partitions"))[1]
        assert (row["start_offset"], row["error"]) == (None, "NOT_LEADER_OR_FOLLOWER")
        assert (await call(client, "GET", "/v1/transactions/none/partitions"))[0] == 404

    with_operated(test)


def test_a_transaction_is_aborted_by_fencing_its_producer_and_a_mistyped_one_is_not_made() -> None:
    async def test(client: Client, cluster: OperatedCluster) -> None:
        begin(cluster)
        assert (await call(client, "POST", "/v1/transactions/known/abort"))[0] == 204
        assert cluster.fenced_ids == ["known"]
        status, problem = await call(client, "POST", "/v1/transactions/knwon/abort")
        assert (status, problem["error"]) == (404, "TRANSACTIONAL_ID_NOT_FOUND")
        assert cluster.fenced_ids == ["known"]

    with_operated(test)
