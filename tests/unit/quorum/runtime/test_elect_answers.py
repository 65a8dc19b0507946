"""ElectLeaders as its handler answers it: what is refused as a whole is refused for each partition too."""

import asyncio

import pytest

from kvorum.network.authorizer import AllowAll
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.codec import decode_response, encode_bytes
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.alter_partition import AlterPartitionResponse, ResponsePartitionData, ResponseTopicData
from kvorum.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
    TopicPartitions,
)
from kvorum.quorum.forwarding import has_error, wrap
from tests.unit.quorum.runtime.runtime_kit import World

TOPICS = [TopicPartitions(topic="a", partitions=[0, 1]), TopicPartitions(topic="b", partitions=[5])]


def codes(answer: ElectLeadersResponse) -> dict[str, list[int]]:
    return {
        topic.topic: [result.error_code for result in topic.partition_result]
        for topic in answer.replica_election_results
    }


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("kind", [-1, 2, 7])
def test_an_unknown_kind_of_election_is_refused_in_every_row(world: World, kind: int, version: int) -> None:
    world.elect()
    request = ElectLeadersRequest(election_type=kind, topic_partitions=TOPICS)
    answer = world.run(world.ask(request, version=version))
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert codes(answer) == {"a": [ErrorCode.INVALID_REQUEST] * 2, "b": [ErrorCode.INVALID_REQUEST]}
    assert {row.error_message for topic in answer.replica_election_results for row in topic.partition_result} == {
        f"Unknown election type {kind}"
    }
    read = decode_response(request.API_KEY, version, memoryview(encode_bytes(answer, version)))
    assert isinstance(read, ElectLeadersResponse)
    assert codes(read) == codes(answer), "also in v0, which has no error for the whole"


def test_all_partitions_refused_as_a_whole_have_no_rows(world: World) -> None:
    world.elect()
    answer = world.run(world.ask(ElectLeadersRequest(election_type=7, topic_partitions=None)))
    assert (answer.error_code, answer.replica_election_results) == (ErrorCode.INVALID_REQUEST, [])


def test_an_election_without_permission_fails_for_each_partition(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.elect()
    monkeypatch.setattr(AllowAll, "authorize", lambda *_: False)
    answer = world.run(world.ask(ElectLeadersRequest(election_type=0, topic_partitions=TOPICS)))
    refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert answer.error_code == refused
    assert codes(answer) == {"a": [refused] * 2, "b": [refused]}


@pytest.mark.parametrize("version", [0, 1, 2])
def test_an_answer_of_a_controller_that_lost_its_leadership_reports_it_in_every_version(version: int) -> None:
    """v0 has no error for the whole: the envelope around it has to be refused by what its rows say."""
    world = World(commits_at_once=False)
    world.elect()
    ctx = RequestContext(api_key=ApiKey.ELECT_LEADERS, api_version=version, client_address="10.1.2.3")
    envelope = wrap(ctx, ElectLeadersRequest(election_type=0, topic_partitions=TOPICS))

    async def go() -> None:
        asking = asyncio.ensure_future(world.ask(envelope))
        await asyncio.sleep(0.001)
        assert not asking.done(), "what it was decided on is not committed yet"
        world.log.depose(leader_id=2)
        assert (await asking).error_code == ErrorCode.NOT_CONTROLLER

    world.run(go())
    world.end()


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_rows_own_error_is_not_the_wholes(version: int) -> None:
    answer = ElectLeadersResponse(
        replica_election_results=[
            ReplicaElectionResult(
                topic="a",
                partition_result=[
                    PartitionResult(partition_id=0),
                    PartitionResult(partition_id=1, error_code=ErrorCode.ELECTION_NOT_NEEDED),
                ],
            )
        ]
    )
    read = decode_response(answer.API_KEY, version, memoryview(encode_bytes(answer, version)))
    assert not has_error(read, ErrorCode.NOT_CONTROLLER)


def test_an_answer_with_its_error_at_the_top_is_not_looked_through() -> None:
    rows = [ReplicaElectionResult(partition_result=[PartitionResult(error_code=ErrorCode.NOT_CONTROLLER)])]
    refused = ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST, replica_election_results=rows)
    assert not has_error(refused, ErrorCode.NOT_CONTROLLER)
    topics = [ResponseTopicData(partitions=[ResponsePartitionData(error_code=ErrorCode.NOT_CONTROLLER)])]
    assert not has_error(AlterPartitionResponse(topics=topics), ErrorCode.NOT_CONTROLLER), "every version has it there"
