"""Acceptance 3: kill -9 of the active controller while topics are created, small ones and some of several batches."""

import os
import random
import threading
import time

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from kvorum.quorum.batches import BATCH_RECORDS_MAX
from tests.cluster.clients import DEADLINE_SECONDS, eventually
from tests.cluster.conftest import Start, logs_of
from tests.cluster.nodes import active_controller, restart
from tests.cluster.topics import Plan, assert_all_topics_whole

ROUNDS = int(os.environ.get("KVORUM_ROUNDS", "2"))
"""Kills in a row; `make acceptance` does five."""
SEED = int(os.environ.get("KVORUM_SEED", "3"))
SMALL = Plan(3, 3)
LARGE = Plan(BATCH_RECORDS_MAX + 20, 2)
"""Its records do not fit one batch: the metadata log gets a transaction of several."""
REQUEST_SECONDS = 5


class Creator:
    """Creates topics in a thread until told to stop: small ones, and a large one when it is asked for."""

    def __init__(self, bootstrap: str) -> None:
        self.planned: dict[str, Plan] = {}
        self.created: list[str] = []
        self.refused: list[str] = []
        self._wants_large = threading.Event()
        self._large_began = threading.Event()
        self.large_seconds: list[float] = []
        """How long those took that were acknowledged."""
        self._bootstrap = bootstrap
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="topic-creator")

    def __enter__(self) -> "Creator":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        admin = AdminClient({"bootstrap.servers": self._bootstrap, "log_level": 0})
        while not self._stop.is_set():
            plan = LARGE if self._wants_large.is_set() else SMALL
            name = f"topic-{len(self.planned)}-of-{plan.partitions}"
            self.planned[name] = plan
            began = time.monotonic()
            try:
                future = admin.create_topics([NewTopic(name, *plan)], request_timeout=REQUEST_SECONDS)[name]
                if plan is LARGE:
                    self._wants_large.clear()
                    self._large_began.set()
                future.result(30)
            except KafkaException as error:
                self.refused.append(str(error))  # or unknown: only what was acknowledged has to be there
                # librdkafka waits for the controller it knew and does not ask anew who it is: a new client does.
                admin = AdminClient({"bootstrap.servers": self._bootstrap, "log_level": 0})
                continue
            self.created.append(name)
            if plan is LARGE:
                self.large_seconds.append(time.monotonic() - began)

    def wait_for_more(self, topics: int) -> None:
        """Wait until so many more topics are acknowledged."""
        wanted = len(self.created) + topics
        eventually(lambda: len(self.created) >= wanted, lambda: f"{topics} topics; refusals: {self.refused[-3:]}")

    def begin_large(self) -> None:
        """Have a large topic requested, and return when its request is on its way."""
        self._large_began.clear()
        self._wants_large.set()
        assert self._large_began.wait(DEADLINE_SECONDS)


def test_kill_9_of_the_active_controller_while_topics_are_created(start_cluster: Start) -> None:
    """The kill comes at a drawn moment of a large creation, or just after it."""
    cluster = start_cluster()
    rng = random.Random(SEED)
    with Creator(cluster.plan.bootstrap) as creator:
        creator.begin_large()
        eventually(lambda: creator.large_seconds, lambda: logs_of(cluster, creator.refused))
        for _ in range(ROUNDS):
            creator.wait_for_more(3)
            name = active_controller(cluster)
            creator.begin_large()
            threading.Event().wait(rng.uniform(0, creator.large_seconds[0]))
            cluster.kill(name)
            creator.wait_for_more(3)
            restart(cluster, name)
    there = assert_all_topics_whole(cluster, creator.planned, acknowledged=creator.created)
    assert sum(creator.planned[name] is LARGE for name in there) >= 1
    assert len(creator.created) >= 6 * ROUNDS
