"""Elections by request (ElectLeaders), by this project's own channel: confluent-kafka's call fails in its own code.

Seen in confluent-kafka 2.16: `elect_leaders(..., request_timeout=...)` raises SystemError before anything is sent.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from kvorum.chaos.faults.observer import in_a_thread
from kvorum.chaos.workload.recorder import split_partition
from kvorum.network.channel import Channel
from kvorum.network.dial import ChannelError
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from kvorum.runtime.chance import new_random
from kvorum.runtime.listeners import split_address

PREFERRED: Final = 0
UNCLEAN: Final = 1
"""ElectionType on the wire."""
ANSWER_MS: Final = 10_000
RETRY_SECONDS: Final = 0.5
ATTEMPTS: Final = 4
FINE: Final = frozenset({ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED})


class NotElected(Exception):
    """An election that was rejected, or had no response."""


def elect(bootstrap: str, kind: int, partitions: Sequence[str]) -> None:
    """Request elections; an existing leader is not an error. Raises NotElected."""
    in_a_thread(lambda: _elect(bootstrap, kind, partitions))


async def _elect(bootstrap: str, kind: int, partitions: Sequence[str]) -> None:
    topics: dict[str, list[int]] = {}
    for name in partitions:
        topic, number = split_partition(name)
        topics.setdefault(topic, []).append(number)
    wanted = [TopicPartitions(topic=topic, partitions=numbers) for topic, numbers in topics.items()]
    request = ElectLeadersRequest(election_type=kind, topic_partitions=wanted, timeout=ANSWER_MS)
    why = "no broker known"
    for attempt in range(ATTEMPTS):
        for text in bootstrap.split(","):
            address = split_address(text)
            assert address is not None, "a bootstrap server is HOST:PORT"
            channel = Channel(*address, client_id="kvorum-chaos-elect", chance=new_random())
            try:
                _judge(await channel.ask(request, ElectLeadersResponse, timeout_ms=ANSWER_MS))
                return
            except (ChannelError, KafkaError) as error:
                why = f"{text}: {error}"
            finally:
                await channel.close()
        await asyncio.sleep(RETRY_SECONDS * (attempt + 1))
    raise NotElected(why)


def _judge(answer: ElectLeadersResponse) -> None:
    """Raise KafkaError where the whole was refused, NotElected where a partition was."""
    if answer.error_code:
        raise KafkaError(ErrorCode(answer.error_code), "elections were rejected")
    for result in answer.replica_election_results:
        for row in result.partition_result:
            if ErrorCode(row.error_code) not in FINE:
                raise NotElected(f"{result.topic}-{row.partition_id}: {ErrorCode(row.error_code).name}")
