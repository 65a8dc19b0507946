"""Changes of metadata by confluent-kafka's AdminClient: topics created, grown, configured and deleted under faults.

A name is used once. At the end every topic that was certainly created and without a requested deletion must exist, and
one that was certainly deleted must not.
"""

import threading
from random import Random
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it means to export all of them
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)

from kvorum.chaos.client_access import ClientAccess
from kvorum.chaos.history import Ok, OperationValue
from kvorum.chaos.workload.classify import classify_change_error, kafka_name
from kvorum.chaos.workload.libraries import CONFLUENT
from kvorum.chaos.workload.plan import AdminClients
from kvorum.chaos.workload.recorder import Recorder
from kvorum.chaos.workload.threads import client_thread

REQUEST_SECONDS: Final = 10.0
ANSWER_SECONDS: Final = 30.0
PREFIX: Final = "extra-"
RETENTIONS: Final = ("3600000", "7200000", "86400000")


def admin_client(access: ClientAccess) -> AdminClient:
    """Return an admin client. It has to be held until its requests are done."""
    return AdminClient(
        {
            **access.librdkafka(),
            "client.id": "kvorum-chaos-admin",
            "socket.timeout.ms": round(REQUEST_SECONDS * 1000),
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 500,
            "log_level": 0,
        }
    )


class Administrator:
    """A thread that changes something now and then."""

    def __init__(self, plan: AdminClients, access: ClientAccess, recorder: Recorder, rng: Random) -> None:
        """Create it; `start` starts it."""
        self._plan = plan
        self._access = access
        self._recorder = recorder
        self._rng = rng
        self._count = 0
        self._topics: dict[str, int] = {}
        """{topic: number of partitions it may be grown to}: topics that may exist and without a requested deletion."""
        self.created: set[str] = set()
        self.deleted: set[str] = set()
        """Certainly so."""
        self._stop = threading.Event()
        self._thread = client_thread("chaos-admin", self._run, recorder)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Change nothing more."""
        self._stop.set()

    def join(self) -> None:
        """Wait for the last answer."""
        self._thread.join()

    def _run(self) -> None:
        process = self._recorder.process(f"{CONFLUENT} admin")
        client = admin_client(self._access)
        while not self._stop.wait(self._plan.every * (0.5 + self._rng.random())):
            chance = self._rng.random()
            if chance < 0.4 or not self._topics:
                self._create(client, process)
            elif chance < 0.6:
                self._alter(client, process)
            elif chance < 0.8:
                self._grow(client, process)
            else:
                self._delete(client, process)

    def _create(self, client: AdminClient, process: int) -> None:
        self._count += 1
        name = f"{PREFIX}{process}-{self._count}"
        topic = NewTopic(name, self._plan.partitions, self._plan.replication_factor)
        self._topics[name] = self._plan.partitions
        value: OperationValue = ["create", name]
        if self._ask(process, value, lambda: client.create_topics([topic], request_timeout=REQUEST_SECONDS)):
            self.created.add(name)

    def _alter(self, client: AdminClient, process: int) -> None:
        name, to = self._rng.choice(sorted(self._topics)), self._rng.choice(RETENTIONS)
        entry = ConfigEntry("retention.ms", to, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=[entry])
        value: OperationValue = ["alter", name, "retention.ms", to]
        self._ask(process, value, lambda: client.incremental_alter_configs([resource], request_timeout=REQUEST_SECONDS))

    def _grow(self, client: AdminClient, process: int) -> None:
        name = self._rng.choice(sorted(self._topics))
        self._topics[name] += 1
        value: OperationValue = ["grow", name, self._topics[name]]
        grown = NewPartitions(name, self._topics[name])
        self._ask(process, value, lambda: client.create_partitions([grown], request_timeout=REQUEST_SECONDS))

    def _delete(self, client: AdminClient, process: int) -> None:
        name = self._rng.choice(sorted(self._topics))
        del self._topics[name]
        was_there = name in self.created
        self.created.discard(name)
        value: OperationValue = ["delete", name]
        done = self._ask(process, value, lambda: client.delete_topics([name], request_timeout=REQUEST_SECONDS))
        if done and was_there:
            self.deleted.add(name)

    def _ask(self, process: int, value: OperationValue, request: Any) -> bool:
        """Execute one change; return whether it certainly happened."""
        op = self._recorder.invoke(process, "admin", value)
        try:
            (future,) = request().values()
            future.result(ANSWER_SECONDS)
        except KafkaException as refused:
            name = refused.args[0].name()
            self._recorder.complete(op, classify_change_error(name), error=kafka_name(name))
            return False
        except TimeoutError:
            self._recorder.complete(op, classify_change_error("TIMED_OUT"), error="TIMED_OUT")
            return False
        self._recorder.complete(op, Ok)
        return True

    def verify(self, existing: set[str]) -> None:
        """Compare the final topics of the cluster with the responses."""
        for name in sorted(self.created - existing):
            self._recorder.problem(f"topic {name} was created but does not exist")
        for name in sorted(self.deleted & existing):
            self._recorder.problem(f"topic {name} was deleted but still exists")
