"""Consumer groups by Confluent's paths."""

from typing import Any

import pytest

from kvorum.protocol.messages import consumer_group_describe as cgd
from kvorum.protocol.messages.describe_groups import DescribedGroup
from tests.unit.admin.fake import Client, FakeCluster, call
from tests.unit.admin.test_groups_routes import fill
from tests.unit.admin.v3.fake import BASE, ConfiguredCluster, url, with_cluster

GROUPS = f"{BASE}/consumer-groups"


def group(client: Client, group_id: str, **fields: Any) -> dict[str, Any]:
    """Return what Confluent's server says of a group."""
    me = url(client, f"/consumer-groups/{group_id}")
    return {
        "kind": "KafkaConsumerGroup",
        "metadata": {"self": me, "resource_name": f"crn:///kafka=c/consumer-group={group_id}"},
        "cluster_id": "c",
        "consumer_group_id": group_id,
        "is_simple": False,
        "partition_assignor": "uniform",
        "state": "STABLE",
        "type": "CONSUMER",
        "is_mixed_consumer_group": False,
        "coordinator": {"related": url(client, "/brokers/1")},
        "consumers": {"related": f"{me}/consumers"},
        "lag_summary": {"related": f"{me}/lag-summary"},
        **fields,
    }


def test_groups_of_both_protocols_are_listed() -> None:
    async def test(client: Client, cluster: ConfiguredCluster) -> None:
        fill(cluster)
        status, body = await call(client, "GET", GROUPS)
        assert (status, body["kind"]) == (200, "KafkaConsumerGroupList")
        assert body["metadata"] == {"self": url(client, "/consumer-groups"), "next": None}
        assert body["data"] == [
            group(client, "c"),
            group(client, "e", state="EMPTY", partition_assignor=""),
            group(client, "k", type="CLASSIC", partition_assignor="range"),
        ]
        assert await call(client, "GET", f"{GROUPS}/c") == (200, group(client, "c"))

    with_cluster(test)


def test_a_state_of_two_words_and_members_of_the_other_protocol_are_reported() -> None:
    async def test(client: Client, cluster: ConfiguredCluster) -> None:
        fill(cluster)
        cluster.classics["k"].group_state = "PreparingRebalance"
        cluster.consumers["c"].members[0].member_type = 0
        cluster.classics["s"] = DescribedGroup(group_id="s", group_state="Empty")
        assert (await call(client, "GET", f"{GROUPS}/k"))[1]["state"] == "PREPARING_REBALANCE"
        assert (await call(client, "GET", f"{GROUPS}/c"))[1]["is_mixed_consumer_group"]
        simple = group(client, "s", type="CLASSIC", state="EMPTY", is_simple=True, partition_assignor="")
        assert await call(client, "GET", f"{GROUPS}/s") == (200, simple)

    with_cluster(test)


def test_members_lead_to_their_partitions() -> None:
    async def test(client: Client, cluster: ConfiguredCluster) -> None:
        fill(cluster)
        me = url(client, "/consumer-groups/c/consumers/m1")
        crn = "crn:///kafka=c/consumer-group=c/consumer=m1"
        member = {
            "kind": "KafkaConsumer",
            "metadata": {"self": me, "resource_name": crn},
            "cluster_id": "c",
            "consumer_group_id": "c",
            "consumer_id": "m1",
            "instance_id": None,
            "client_id": "app",
            "assignments": {"related": f"{me}/assignments"},
        }
        assert (await call(client, "GET", f"{GROUPS}/c/consumers"))[1]["data"] == [member]
        assert await call(client, "GET", f"{GROUPS}/c/consumers/m1") == (200, member)
        assigned = {
            "kind": "KafkaConsumerAssignment",
            "metadata": {
                "self": f"{me}/assignments/t/partitions/1",
                "resource_name": f"{crn}/assignment=t/partition=1",
            },
            "cluster_id": "c",
            "consumer_group_id": "c",
            "consumer_id": "m1",
            "topic_name": "t",
            "partition_id": 1,
            "partition": {"related": url(client, "/topics/t/partitions/1")},
            "lag": {"related": url(client, "/consumer-groups/c/lags/t/partitions/1")},
        }
        path = f"{GROUPS}/c/consumers/m1/assignments"
        rows = (await call(client, "GET", path))[1]["data"]
        assert [row["partition_id"] for row in rows] == [0, 1] and rows[1] == assigned
        assert await call(client, "GET", f"{path}/t/partitions/1") == (200, assigned)
        assert (await call(client, "GET", f"{path}/t/partitions/2"))[0] == 404
        assert (await call(client, "GET", f"{GROUPS}/c/consumers/other"))[0] == 404

    with_cluster(test)


def test_lags_name_the_partitions_owner_and_the_summary_the_largest_lag() -> None:
    async def test(client: Client, cluster: ConfiguredCluster) -> None:
        fill(cluster)
        cluster.consumers["c"].members[0].assignment = cgd.Assignment(
            topic_partitions=[cgd.TopicPartitions(topic_name="t", partitions=[1])]
        )
        cluster.offsets_of["c"] = {("t", 0): 7, ("t", 1): 0}
        me = url(client, "/consumer-groups/c")
        lag = {
            "kind": "KafkaConsumerLag",
            "metadata": {
                "self": f"{me}/lags/t/partitions/1",
                "resource_name": "crn:///kafka=c/consumer-group=c/lag=t/partition=1",
            },
            "cluster_id": "c",
            "consumer_group_id": "c",
            "topic_name": "t",
            "partition_id": 1,
            "consumer_id": "m1",
            "instance_id": None,
            "client_id": "app",
            "current_offset": 0,
            "log_end_offset": 4,
            "lag": 4,
        }
        rows = (await call(client, "GET", f"{GROUPS}/c/lags"))[1]["data"]
        assert rows[1] == lag
        assert (rows[0]["lag"], rows[0]["consumer_id"], rows[0]["client_id"]) == (3, "", "")
        assert await call(client, "GET", f"{GROUPS}/c/lags/t/partitions/1") == (200, lag)
        assert (await call(client, "GET", f"{GROUPS}/c/lags/t/partitions/9"))[0] == 404
        summary = {
            "kind": "KafkaConsumerGroupLagSummary",
            "metadata": {
                "self": f"{me}/lag-summary",
                "resource_name": "crn:///kafka=c/consumer-group=c/lag-summary",
            },
            "cluster_id": "c",
            "consumer_group_id": "c",
            "max_lag_consumer_id": "m1",
            "max_lag_instance_id": None,
            "max_lag_client_id": "app",
            "max_lag_topic_name": "t",
            "max_lag_partition_id": 1,
            "max_lag": 4,
            "total_lag": 7,
            "max_lag_consumer": {"related": f"{me}/consumers/m1"},
            "max_lag_partition": {"related": url(client, "/topics/t/partitions/1")},
        }
        assert await call(client, "GET", f"{GROUPS}/c/lag-summary") == (200, summary)

    with_cluster(test)


def test_an_offset_beyond_the_end_is_no_lag_and_a_partial_sum_is_not_reported() -> None:
    """The list leaves out a partition whose leader tells no end; a sum without it would look like progress."""

    async def test(client: Client, cluster: ConfiguredCluster) -> None:
        fill(cluster)
        cluster.offsets_of["e"] = {("t", 0): 50, ("t", 1): 1, ("gone", 0): 1}
        cluster.logs["t"][1].leader = -1
        body = (await call(client, "GET", f"{GROUPS}/e/lags"))[1]
        assert [(row["partition_id"], row["lag"]) for row in body["data"]] == [(0, 0)]
        assert (await call(client, "GET", f"{GROUPS}/e/lags/t/partitions/0"))[1]["lag"] == 0
        for path in ("lag-summary", "lags/t/partitions/1"):
            status, problem = await call(client, "GET", f"{GROUPS}/e/{path}")
            assert (status, problem["error_code"]) == (500, 50003), path
            assert "t-1" in problem["message"]
        cluster.logs["t"][0].leader = -1
        assert (await call(client, "GET", f"{GROUPS}/e/lags"))[0] == 500, "none is told: that is not that there is none"
        cluster.logs["t"][0].leader = cluster.logs["t"][1].leader = 1
        assert (await call(client, "GET", f"{GROUPS}/e/lag-summary"))[0] == 200, "what is gone is in no sum"

    with_cluster(test)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("no", "Consumer Group no could not be found."),
        ("no/consumers", "Consumer Group no could not be found."),
        ("k/lags", "Consumer group offsets could not be found."),
        ("k/lag-summary", "Consumer group offsets could not be found."),
    ],
)
def test_missing_resources_are_reported(path: str, message: str) -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        fill(cluster)
        assert await call(client, "GET", f"{GROUPS}/{path}") == (404, {"error_code": 404, "message": message})

    with_cluster(test)
