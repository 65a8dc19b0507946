"""A copy of an AlterPartition that may be on its way is told to its sender: the next one's answer is not the last word.

Else: the copy is lost on the wire, the next one is refused (the new member is fenced), the leader goes back to an ISR
without it and acknowledges, the first copy arrives when the member is back, and it is in an ISR that nobody waits for.
"""

import asyncio
import random

import pytest

from kvorum.network.dial import ChannelError, ConnectionLost
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from kvorum.protocol.schema import Message
from kvorum.quorum.controller_channel import ControllerChannel, ControllerNodes
from tests.unit.quorum.runtime.runtime_kit import CLUSTER_ID, settings


class ScriptedChannel(ControllerChannel):
    """Answers from a list."""

    def __init__(self, *script: Message | ChannelError) -> None:
        super().__init__(
            ControllerNodes({1: ("a", 1), 2: ("b", 2)}, CLUSTER_ID),
            settings(),
            client_id="isr",
            chance=random.Random(1),
        )
        self.script = list(script)

    async def send_to(self, node_id: int, message: Message, *, timeout_ms: int) -> Message:
        answer = self.script.pop(0)
        if isinstance(answer, ChannelError):
            raise answer
        return answer


def test_a_lost_answer_is_reported() -> None:
    async def go() -> None:
        channel = ScriptedChannel(ConnectionLost("broke", maybe_sent=True), AlterPartitionResponse())
        with pytest.raises(KafkaError) as caught:
            await channel.alter_partition(AlterPartitionRequest())
        assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT
        assert len(channel.script) == 1, "no second copy was sent"
        assert await channel.alter_partition(AlterPartitionRequest()) == AlterPartitionResponse()

    asyncio.run(go())


def test_unsent_requests_and_responses_of_other_nodes_are_retried() -> None:
    async def go() -> None:
        channel = ScriptedChannel(
            ConnectionLost("refused", maybe_sent=False),
            AlterPartitionResponse(error_code=ErrorCode.NOT_CONTROLLER),
            AlterPartitionResponse(),
        )
        assert await channel.alter_partition(AlterPartitionRequest()) == AlterPartitionResponse()

    asyncio.run(go())
