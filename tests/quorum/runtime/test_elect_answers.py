"""ElectLeaders as its handler answers it: what is refused as a whole is refused for each partition too."""

import pytest
from runtime_kit import World

from kvorum.network.authorizer import AllowAll
from kvorum.protocol.codec import decode_response, encode_bytes
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions

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


def test_who_may_not_elect_is_told_so_for_each_partition(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.elect()
    monkeypatch.setattr(AllowAll, "authorize", lambda *_: False)
    answer = world.run(world.ask(ElectLeadersRequest(election_type=0, topic_partitions=TOPICS)))
    refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert answer.error_code == refused
    assert codes(answer) == {"a": [refused] * 2, "b": [refused]}
