"""Topics made on demand: asked for once, in the client's name, whatever becomes of it."""

import asyncio
from typing import Any

import pytest

from kvorum.broker.metadata import auto_topic_creation
from kvorum.broker.metadata.auto_topic_creation import AutoTopicCreation
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from kvorum.protocol.topic_names import name_problem
from kvorum.runtime.config import Settings
from kvorum.security.principal import Principal

ALICE = RequestContext(principal=Principal("User", "alice"), api_key=ApiKey.METADATA, api_version=12)
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class Controller:
    """Answers when the test lets it."""

    def __init__(self) -> None:
        self.requested: list[list[str]] = []
        self.contexts: list[RequestContext] = []
        self.internal: list[str] = []
        self.go = asyncio.Event()
        self.code = ErrorCode.NONE

    async def forward(self, ctx: RequestContext, request: Any) -> CreateTopicsResponse:
        self.requested.append([each.name for each in request.topics])
        self.contexts.append(ctx)
        await self.go.wait()
        if self.code is ErrorCode.REQUEST_TIMED_OUT:
            raise KafkaError(self.code)
        return CreateTopicsResponse(
            topics=[CreatableTopicResult(name=each.name, error_code=self.code) for each in request.topics]
        )


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.INVALID_REPLICATION_FACTOR, ErrorCode.REQUEST_TIMED_OUT])
def test_a_topic_is_requested_once_at_a_time(code: ErrorCode) -> None:
    async def story() -> None:
        controller = Controller()
        controller.code = code
        creation = AutoTopicCreation(controller, lambda: Settings.of({}), controller.internal.append)
        assert creation.create(ALICE, ["a", "b"]) == {"a": UNKNOWN, "b": UNKNOWN}
        assert creation.create(ALICE, ["b", "c"]) == {"b": UNKNOWN, "c": UNKNOWN}
        await asyncio.sleep(0)
        assert controller.requested == [["a", "b"], ["c"]]
        assert {(each.principal.name, each.api_key) for each in controller.contexts} == {
            ("alice", ApiKey.CREATE_TOPICS)
        }
        controller.go.set()
        for _ in range(3):
            await asyncio.sleep(0)
        creation.create(ALICE, ["a"])
        await asyncio.sleep(0)
        assert controller.requested[2:] == [["a"]]
        await creation.close()

    asyncio.run(story())


def test_the_number_of_requested_topics_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto_topic_creation, "IN_FLIGHT_MAX", 2)

    async def story() -> None:
        controller = Controller()
        creation = AutoTopicCreation(controller, lambda: Settings.of({}), controller.internal.append)
        assert creation.create(ALICE, ["a", "b", "c"]) == {"a": UNKNOWN, "b": UNKNOWN, "c": UNKNOWN}
        await asyncio.sleep(0)
        assert controller.requested == [["a", "b"]]
        await creation.close()

    asyncio.run(story())


def test_internal_topics_are_never_created_as_plain_topics() -> None:
    async def story() -> None:
        controller = Controller()
        creation = AutoTopicCreation(controller, lambda: Settings.of({}), controller.internal.append)
        names = ["__consumer_offsets", "__transaction_state", "__share_group_state"]
        assert creation.create(ALICE, [*names, "a"]) == dict.fromkeys([*names, "a"], UNKNOWN)
        await asyncio.sleep(0)
        assert (controller.internal, controller.requested) == (names, [["a"]])
        await creation.close()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("name", "good"),
    [("a", True), ("A.b_c-9", True), ("x" * 249, True), ("x" * 250, False), ("", False), (".", False), ("..", False)]
    + [(name, False) for name in ("a b", "a/b", "é", "a\n")],
)
def test_topic_names_are_as_in_kafka(name: str, good: bool) -> None:
    assert (name_problem(name) is None) is good
