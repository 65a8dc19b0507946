"""Requests to every broker of a cluster; brokers that do not respond do not affect the other responses.

Source: Kafka's ListGroupsResult and ListTransactionsResult, which have the valid ones and the errors side by side.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Generic, NamedTuple, TypeVar

from kvorum.client.wire.cluster_client import Unreachable
from kvorum.client.wire.coordinators import RETRIED
from kvorum.network.addresses import Address
from kvorum.protocol.errors import KafkaError

T = TypeVar("T")


class Reached(NamedTuple, Generic[T]):
    """Responses of brokers, and errors of the others: down, blocked, or not ready."""

    answers: dict[int, T]
    failures: dict[int, Exception]

    @property
    def unreachable(self) -> list[int]:
        """Those that did not."""
        return sorted(self.failures)

    def whole(self) -> dict[int, T]:
        """Return the responses of all. Raises KafkaError, Unreachable: the error of one of them."""
        for failure in self.failures.values():
            raise failure
        return self.answers


async def of_all(brokers: Mapping[int, Address], ask: Callable[[int, Address], Awaitable[T]]) -> Reached[T]:
    """Query all brokers at once. Raises KafkaError for an error response; Unreachable if none responds."""

    async def of(broker_id: int, address: Address) -> T | Exception:
        try:
            return await ask(broker_id, address)
        except Unreachable as error:
            return error
        except KafkaError as error:
            if error.code not in RETRIED:
                raise
            return error

    results = dict(zip(brokers, await asyncio.gather(*(of(*each) for each in brokers.items())), strict=True))
    answers = {broker: found for broker, found in results.items() if not isinstance(found, Exception)}
    failures = {broker: found for broker, found in results.items() if isinstance(found, Exception)}
    reached = Reached(answers, failures)
    if not answers:
        reached.whole()
    return reached
