"""Requests that belong to the controller, where brokers forward nothing and say who the controller is."""

import asyncio
from typing import Any
from unittest import mock

import pytest

from kvorum.client.wire.cluster_client import ClusterClient
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages import create_partitions, create_topics, delete_topics, elect_leaders, metadata


def answer_of(request: Any, code: int) -> Any:
    match request:
        case create_topics.CreateTopicsRequest():
            row: Any = create_topics.CreatableTopicResult(name="t", error_code=code)
            return create_topics.CreateTopicsResponse(topics=[row])
        case delete_topics.DeleteTopicsRequest():
            return delete_topics.DeleteTopicsResponse(responses=[delete_topics.DeletableTopicResult(error_code=code)])
        case create_partitions.CreatePartitionsRequest():
            row = create_partitions.CreatePartitionsTopicResult(name="t", error_code=code)
            return create_partitions.CreatePartitionsResponse(results=[row])
        case elect_leaders.ElectLeadersRequest():
            return elect_leaders.ElectLeadersResponse(error_code=code)
        case _:
            brokers = [metadata.MetadataResponseBroker(node_id=each, host=f"b{each}", port=each) for each in (1, 2)]
            return metadata.MetadataResponse(brokers=brokers, controller_id=2)


@pytest.mark.parametrize("controller", [2, 9], ids=["the controller", "nobody that is there"])
@pytest.mark.parametrize(
    "work",
    [
        lambda client: client.create_topic(create_topics.CreatableTopic(name="t")),
        lambda client: client.delete_topic("t"),
        lambda client: client.create_partitions("t", 3),
        lambda client: client.elect_leaders(None),
    ],
    ids=["create", "delete", "partitions", "elect"],
)
def test_the_controller_is_queried_about_unknown_brokers(work: Any, controller: int) -> None:
    requested: list[object] = []

    async def ask(self: ClusterClient, request: Any, response: type[Any], address: Any = None, **_: Any) -> Any:
        if not isinstance(request, metadata.MetadataRequest):
            requested.append(address)
        found = answer_of(request, 0 if address == ("b2", 2) else ErrorCode.NOT_CONTROLLER)
        if isinstance(found, metadata.MetadataResponse):
            found.controller_id = controller
        return found

    with mock.patch.object(ClusterClient, "ask", ask):
        client = ClusterClient([("b1", 1)])
        if controller == 2:
            asyncio.run(work(client))
            assert requested == [None, ("b2", 2)]
        else:
            with pytest.raises(KafkaError, match="NOT_CONTROLLER"):
                asyncio.run(work(client))
            assert requested == [None]
