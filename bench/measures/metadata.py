"""Metadata changes with three controllers, one after the other: each is committed before the next is sent.

A change is one record: IncrementalAlterConfigs of one topic's config, sent to the active controller's own listener; the
response follows the commit. Kvorum's controllers also report the time of a commit without the request.
A new topic's leader gets ListOffsets as soon as CreateTopics is answered, and again until it serves the topic.
"""

import contextlib
import time

from bench.asker import Asker, active_controller
from bench.beds import Bed
from bench.measures.produce import THREE
from bench.own_metrics import metric_values
from bench.quantiles import quantile
from bench.rows import Case, Figures, Measure, less, more
from bench.stalled import StalledError
from kvorum.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from kvorum.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kvorum.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kvorum.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kvorum.protocol.schema import Message
from kvorum.runtime.metric_names import RAFT_COMMIT_LATENCY_AVG
from tests.cluster.wire.raw import Raw

CHANGES, TOPICS, SERVED_TOPICS, WARM_UP_SHARE = 2_000, 500, 100, 10
NODES = (1, 2, 3)
TOPIC_RESOURCE, SET = 2, 0
TIMEOUT_MS = 10_000
COMMIT = "metadata commit, one at a time, 3 controllers"
OWN = "metadata commit, 3 controllers, as Kvorum's active controller tells it: mean of the last minute"
CREATED = "topics created one at a time, 1 partition, RF 3, through a broker"
REFUSED = "new topics whose leader refuses the first ListOffsets, RF 3"
SERVED = "from CreateTopics' answer to its topic's offsets from the leader, RF 3"


def change(topic: str, number: int) -> IncrementalAlterConfigsRequest:
    """Return a change that is another one each time."""
    config = AlterableConfig(name="retention.ms", config_operation=SET, value=str(3_600_000 + number))
    resource = AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=topic, configs=[config])
    return IncrementalAlterConfigsRequest(resources=[resource])


def call(raw: Raw, request: Message, version: int) -> Message:
    """Return the answer. Raises StalledError."""
    answer = raw.ask(request, version)
    if answer is None:
        raise StalledError(f"{type(request).__name__} is not answered: the connection was closed")
    return answer


def commits(bed: Bed) -> Figures:
    """Change a topic's config so many times; the first do not count."""
    asker = Asker(bed.system, 1)
    controller = active_controller(asker)
    asker.close()
    count = bed.scale.count(CHANGES, 20)
    times = []
    with bed.topic() as topic, Raw(*bed.system.controller(controller)) as raw:
        for number in range(count + count // WARM_UP_SHARE):
            began = time.perf_counter()
            answer = call(raw, change(topic, number), 1)
            times.append((time.perf_counter() - began) * 1000)
            if answer.responses[0].error_code:  # type: ignore[attr-defined]
                raise StalledError(f"change {number} is answered with an error: {answer}")
        own = metric_values(bed.system.metrics_urls("controller")[controller - 1 : controller], RAFT_COMMIT_LATENCY_AVG)
    counted = times[-count:]
    figures = {f"{COMMIT}, p50": quantile(counted, 0.5), f"{COMMIT}, p99": quantile(counted, 0.99)}
    return figures | ({OWN: own[0]} if own else {})


def created(bed: Bed) -> Figures:
    """Create topics, each when the one before is answered; delete them together."""
    names = [bed.new_name() for _ in range(bed.scale.count(TOPICS, 5))]
    with Raw(*bed.system.address(1)) as raw:
        began = time.perf_counter()
        for name in names:
            topic = CreatableTopic(name=name, num_partitions=1, replication_factor=3)
            answer = call(raw, CreateTopicsRequest(topics=[topic], timeout=TIMEOUT_MS), 7)
            if answer.topics[0].error_code:  # type: ignore[attr-defined]
                raise StalledError(f"{name} is not made: {answer}")
        elapsed = time.perf_counter() - began
        states = [DeleteTopicState(name=name) for name in names]
        call(raw, DeleteTopicsRequest(topics=states, timeout=TIMEOUT_MS), 6)
    return {CREATED: len(names) / elapsed}


def served(bed: Bed) -> Figures:
    """Create topics with leaders on each broker in turn; request offsets from each leader until it responds."""
    names = [bed.new_name() for _ in range(bed.scale.count(SERVED_TOPICS, 6))]
    refused, times = 0, []
    with contextlib.ExitStack() as stack:
        raws = {node: stack.enter_context(Raw(*bed.system.address(node))) for node in NODES}
        for number, name in enumerate(names):
            replicas = [NODES[(number + place) % len(NODES)] for place in range(len(NODES))]
            assigned = [CreatableReplicaAssignment(partition_index=0, broker_ids=replicas)]
            topic = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=assigned)
            call(
                raws[NODES[number // len(NODES) % len(NODES)]],
                CreateTopicsRequest(topics=[topic], timeout=TIMEOUT_MS),
                7,
            )
            began = time.perf_counter()
            looks = 1
            while offsets_code(raws[replicas[0]], name):
                looks += 1
            refused += looks > 1
            times.append((time.perf_counter() - began) * 1000)
        call(raws[1], DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in names]), 6)
    figures = {f"{SERVED}, {text}": quantile(times, share) for text, share in (("p50", 0.5), ("p99", 0.99))}
    return {REFUSED: 100 * refused / len(names), **figures}


def offsets_code(raw: Raw, name: str) -> int:
    """Return the error code of ListOffsets for partition 0."""
    partition = ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=-1)
    topic = ListOffsetsTopic(name=name, partitions=[partition])
    answer = call(raw, ListOffsetsRequest(replica_id=-1, topics=[topic]), 7)
    return int(answer.topics[0].partitions[0].error_code)  # type: ignore[attr-defined]


MEASURE = Measure(
    name="metadata",
    nodes=3,
    settings=THREE,
    cases=(
        Case(
            name=COMMIT,
            rows=(
                less(f"{COMMIT}, p50", "ms", 1.0, 0.6, "own"),
                less(f"{COMMIT}, p99", "ms", 10.0, 3.0, "own"),
                less(OWN, "ms"),
            ),
            run=commits,
        ),
        Case(name=CREATED, rows=(more(CREATED, "topics/s"),), run=created),
        Case(
            name=SERVED,
            rows=(less(REFUSED, "%"), less(f"{SERVED}, p50", "ms"), less(f"{SERVED}, p99", "ms")),
            run=served,
        ),
    ),
)
