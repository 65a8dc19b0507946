"""Moves between log directories by request (AlterReplicaLogDirs), which clients' libraries do not have."""

import asyncio
from typing import Final

from kvorum.chaos.faults.observer import in_a_thread
from kvorum.chaos.workload.recorder import split_partition
from kvorum.network.channel import Channel
from kvorum.network.dial import ChannelError
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from kvorum.runtime.chance import new_random
from kvorum.runtime.listeners import split_address

ANSWER_MS: Final = 10_000
RETRY_SECONDS: Final = 0.5
ATTEMPTS: Final = 4


class NotMoved(Exception):
    """A move that was rejected, or had no response."""


def move(broker: str, partition: str, path: str) -> None:
    """Request from the broker at HOST:PORT that its replica of a partition moves to a directory. Raises NotMoved."""
    in_a_thread(lambda: _move(broker, partition, path))


async def _move(broker: str, partition: str, path: str) -> None:
    topic, number = split_partition(partition)
    address = split_address(broker)
    assert address is not None, "a broker's address is HOST:PORT"
    topics = [AlterReplicaLogDirTopic(name=topic, partitions=[number])]
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=topics)])
    why = ""
    for attempt in range(ATTEMPTS):
        channel = Channel(*address, client_id="kvorum-chaos-move", chance=new_random())
        try:
            answer = await channel.ask(request, AlterReplicaLogDirsResponse, timeout_ms=ANSWER_MS)
            code = ErrorCode(answer.results[0].partitions[0].error_code)
            if code is ErrorCode.NONE:
                return
            why = code.name
        except (ChannelError, KafkaError) as error:
            why = str(error)
        finally:
            await channel.close()
        await asyncio.sleep(RETRY_SECONDS * (attempt + 1))
    raise NotMoved(f"{partition} to {path} at {broker}: {why}")
