"""300 topics of 10 partitions, made with one request and deleted with another, until all of the cluster has done so."""

import time

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from bench.asker import Asker
from bench.beds import Bed
from bench.measures.produce import THREE
from bench.rows import Case, Figures, Measure, less
from bench.topics import DEADLINE_SECONDS
from kvorum.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kvorum.protocol.messages.metadata import MetadataRequest, MetadataResponseTopic

TOPICS, PARTITIONS, REPLICAS = 300, 10, 3
MUST, AIM = 1.0, 0.5
MADE = f"{TOPICS} topics x {PARTITIONS} partitions x RF {REPLICAS} made: each leads, each ISR is full"
DELETED = f"{TOPICS} topics x {PARTITIONS} partitions x RF {REPLICAS} deleted: no broker names one"
LATEST = -1
LIST_OFFSETS_VERSION, METADATA_VERSION = 7, 12
Led = dict[int, dict[str, list[int]]]
"""{leader: {topic: partitions}}."""


def topics_of(asker: Asker) -> list[MetadataResponseTopic]:
    """Return all topics as a broker knows them."""
    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    return asker.ask(request, METADATA_VERSION).topics  # type: ignore[attr-defined,no-any-return]


def led(topics: list[MetadataResponseTopic], names: set[str]) -> Led | None:
    """Return the leaders; None while a partition is missing, has no leader or has replicas out of sync."""
    found: Led = {}
    known = [topic for topic in topics if topic.name in names]
    rows = [(topic.name or "", row) for topic in known for row in topic.partitions]
    if len(known) < len(names) or len(rows) < len(names) * PARTITIONS:
        return None
    for name, row in rows:
        if row.leader_id < 0 or len(row.isr_nodes) < REPLICAS:
            return None
        found.setdefault(row.leader_id, {}).setdefault(name, []).append(row.partition_index)
    return found


def wait_leading(asker: Asker, led_here: dict[str, list[int]]) -> None:
    """Request the log end of a broker's partitions until it leads all of them."""
    waiting = led_here
    while waiting:
        request = [
            ListOffsetsTopic(
                name=name,
                partitions=[ListOffsetsPartition(partition_index=index, timestamp=LATEST) for index in indexes],
            )
            for name, indexes in waiting.items()
        ]
        answer = asker.ask(ListOffsetsRequest(replica_id=-1, topics=request), LIST_OFFSETS_VERSION)
        waiting = {
            topic.name: [row.partition_index for row in topic.partitions if row.error_code]
            for topic in answer.topics  # type: ignore[attr-defined]
            if any(row.error_code for row in topic.partitions)
        }
        if waiting:
            asker.wait()


def make(bed: Bed, admin: AdminClient, names: list[str]) -> None:
    """Make all, and wait."""
    wanted = [NewTopic(name, PARTITIONS, REPLICAS) for name in names]
    for done in admin.create_topics(
        wanted, operation_timeout=DEADLINE_SECONDS, request_timeout=DEADLINE_SECONDS
    ).values():
        done.result(DEADLINE_SECONDS)
    first = Asker(bed.system, 1)
    while (found := led(topics_of(first), set(names))) is None:
        first.wait()
    first.close()
    for node, led_here in found.items():
        asker = Asker(bed.system, node)
        wait_leading(asker, led_here)
        asker.close()


def delete(bed: Bed, admin: AdminClient, names: list[str]) -> None:
    """Delete all, and wait."""
    for done in admin.delete_topics(
        names, operation_timeout=DEADLINE_SECONDS, request_timeout=DEADLINE_SECONDS
    ).values():
        done.result(DEADLINE_SECONDS)
    for node in range(1, bed.nodes + 1):
        asker = Asker(bed.system, node)
        while {topic.name for topic in topics_of(asker)} & set(names):
            asker.wait()
        asker.close()


def many(bed: Bed) -> Figures:
    """Do both."""
    admin = AdminClient({"bootstrap.servers": bed.system.bootstrap, "log_level": 0})
    names = [bed.new_name() for _ in range(bed.scale.count(TOPICS, 3))]
    began = time.perf_counter()
    make(bed, admin, names)
    made = time.perf_counter()
    delete(bed, admin, names)
    return {MADE: made - began, DELETED: time.perf_counter() - made}


MEASURE = Measure(
    name="many-topics",
    nodes=3,
    settings=THREE,
    cases=(Case(name=MADE, rows=(less(MADE, "s", MUST, AIM), less(DELETED, "s", MUST, AIM)), run=many),),
)
