"""One broker that does not answer hides nothing of the others."""

import asyncio

import pytest

from kvorum.client.wire.all_brokers import of_all
from kvorum.client.wire.cluster_client import Unreachable
from kvorum.network.addresses import Address
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages import describe_groups
from kvorum.protocol.messages.describe_transactions import TransactionState
from kvorum.protocol.messages.list_groups import ListGroupsRequest
from tests.unit.admin.fake import Client, call
from tests.unit.admin.operated import BROKER, STATIC, OperatedCluster, with_operated

BROKERS: dict[int, Address] = {each: ("host", each) for each in (1, 2, 3)}
LISTS = ["/v1/groups", "/v1/transactions"]


def begin(cluster: OperatedCluster) -> None:
    """A group and a transaction that everybody tells of; broker 3 stands still."""
    cluster.classics["g"] = describe_groups.DescribedGroup(group_id="g", group_state="Empty", protocol_type="consumer")
    cluster.transactions["x"] = TransactionState(transactional_id="x", producer_id=1, transaction_state="Ongoing")
    cluster.silent = {3}


@pytest.mark.parametrize("path", LISTS)
def test_a_list_has_the_rows_of_those_who_answer_and_names_the_others(path: str) -> None:
    async def test(client: Client, cluster: OperatedCluster) -> None:
        begin(cluster)
        status, page = await call(client, "GET", path)
        rows = page["groups"] if "groups" in page else page["transactions"]
        assert status == 200 and rows and page["unreachable"] == [3]
        cluster.silent = set()
        assert (await call(client, "GET", path))[1]["unreachable"] == []
        cluster.silent = {1, 2, 3, 4}
        assert (await call(client, "GET", path))[0] == 503

    with_operated(test)


def test_brokers_are_compared_without_one_that_does_not_answer_unless_it_is_named() -> None:
    async def test(client: Client, cluster: OperatedCluster) -> None:
        begin(cluster)
        for broker in ("1", "2", "3", "4"):
            cluster.layers[BROKER, broker] = [[("num.io.threads", broker, STATIC)]]
        status, diff = await call(client, "GET", "/v1/configs/diff?of=brokers")
        assert (status, diff["columns"]) == (200, ["broker:1", "broker:2", "broker:4"])
        assert diff["unreachable"] == [3]
        assert [cell["value"] for cell in diff["rows"][0]["cells"]] == ["1", "2", "4"]
        assert (await call(client, "GET", "/v1/configs/diff?of=broker:1,broker:3"))[0] == 503

    with_operated(test)


def test_an_error_is_raised_except_that_of_a_broker_that_is_not_ready() -> None:
    async def ask(broker: int, _: Address) -> str:
        if broker == 2:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "soon")
        if broker == 3:
            raise Unreachable("no answer")
        return "an answer"

    async def refused(broker: int, _: Address) -> str:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "wrong")

    found = asyncio.run(of_all(BROKERS, ask))
    assert (found.answers, found.unreachable) == ({1: "an answer"}, [2, 3])
    with pytest.raises(KafkaError, match="soon"):
        found.whole()
    with pytest.raises(KafkaError, match="wrong"):
        asyncio.run(of_all(BROKERS, refused))
    assert asyncio.run(of_all({}, ask)).answers == {}


def test_a_coordinator_that_refuses_is_no_silent_one() -> None:
    async def test(client: Client, cluster: OperatedCluster) -> None:
        begin(cluster)
        cluster.codes[ListGroupsRequest] = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert (await call(client, "GET", "/v1/groups"))[0] == 403

    with_operated(test)
