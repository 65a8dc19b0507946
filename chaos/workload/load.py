"""All clients of a run together: made from the plan, started, stopped, waited for."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from random import Random
from typing import Protocol, assert_never

from kvorum.chaos.client_access import ClientAccess
from kvorum.chaos.faults.topology import CLIENTS
from kvorum.chaos.workload.admin import Administrator
from kvorum.chaos.workload.aio import AioReader, AioSender
from kvorum.chaos.workload.groups import SubscribedReader, Worker
from kvorum.chaos.workload.plan import (
    AdminClients,
    AssignClients,
    ClientPlan,
    SendClients,
    SubscribeClients,
    TransactionClients,
    WorkerClients,
    select_topics,
)
from kvorum.chaos.workload.raw import RawSender
from kvorum.chaos.workload.readers import ConfluentReader
from kvorum.chaos.workload.recorder import Recorder
from kvorum.chaos.workload.senders import ConfluentSender
from kvorum.chaos.workload.transactions import TransactionalSender


class Client(Protocol):
    """A client that runs beside others until it is stopped."""

    def start(self) -> None:
        """Begin."""
        ...

    def stop(self) -> None:
        """Stop starting operations."""
        ...

    def join(self) -> None:
        """Wait for pending operations."""
        ...


def here(group: str) -> AbstractContextManager[None]:
    """Let clients start where their maker is."""
    return nullcontext()


class Load:
    """The clients of one run."""

    def __init__(
        self,
        plans: Sequence[ClientPlan],
        topics: Mapping[str, int],
        access_of: Callable[[str], ClientAccess],
        recorder: Recorder,
        rng: Random,
        within: Callable[[str], AbstractContextManager[None]] = here,
    ) -> None:
        """Make all; nothing starts yet. `topics` are {name: partitions}. Raises ValueError.

        `within`: where the clients of a group are started, for threads stay where they began.
        """
        self.admins: list[Administrator] = []
        self._within = within
        self._clients: list[tuple[str, Client]] = []
        for plan in plans:
            for _ in range(plan.count if not isinstance(plan, AdminClients) else 1):
                client = self._make(plan, dict(topics), access_of, recorder, Random(rng.random()))
                self._clients.append((getattr(plan, "group", CLIENTS), client))

    def _make(
        self,
        plan: ClientPlan,
        topics: dict[str, int],
        access_of: Callable[[str], ClientAccess],
        recorder: Recorder,
        rng: Random,
    ) -> Client:
        match plan:
            case SendClients(client="confluent-kafka"):
                return ConfluentSender(plan, select_topics(plan.topics, topics), access_of(plan.group), recorder, rng)
            case SendClients(client="aiokafka"):
                return AioSender(plan, select_topics(plan.topics, topics), access_of(plan.group), recorder, rng)
            case SendClients():
                return RawSender(plan, select_topics(plan.topics, topics), access_of(plan.group), recorder, rng)
            case AssignClients(client="confluent-kafka"):
                return ConfluentReader(plan, select_topics(plan.topics, topics), access_of(plan.group), recorder, rng)
            case AssignClients():
                return AioReader(plan, select_topics(plan.topics, topics), access_of(plan.group), recorder, rng)
            case AdminClients():
                admin = Administrator(plan, access_of(plan.group), recorder, rng)
                self.admins.append(admin)
                return admin
            case SubscribeClients():
                return SubscribedReader(plan, select_topics(plan.topics, topics), access_of(plan.group), recorder, rng)
            case WorkerClients():
                return Worker(plan, access_of(plan.group), recorder, rng)
            case TransactionClients():
                return TransactionalSender(
                    plan, select_topics(plan.topics, topics), access_of(plan.group), recorder, rng
                )
            case _:
                assert_never(plan)

    def start(self) -> None:
        """Start all."""
        for group, client in self._clients:
            with self._within(group):
                client.start()

    def stop(self) -> None:
        """Stop all clients from starting operations, and wait for pending ones."""
        for _, client in self._clients:
            client.stop()
        for _, client in self._clients:
            client.join()
