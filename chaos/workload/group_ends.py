"""Checks after healing, without active clients: stable offsets, and committed offsets of groups."""

import time
from collections.abc import Mapping, Sequence
from typing import Final

from confluent_kafka import Consumer, TopicPartition

from kvorum.chaos.client_access import ClientAccess
from kvorum.chaos.history import Stable
from kvorum.chaos.workload.libraries import CONFLUENT
from kvorum.chaos.workload.members import fetch_committed_offsets
from kvorum.chaos.workload.recorder import Recorder, split_partition

LOOK_SECONDS: Final = 0.5
OFFSET_SECONDS: Final = 10.0
SLACK_SECONDS: Final = 25.0
"""Added to the transactions' timeout: Kafka checks every 10 s for those that take too long."""
TRIES: Final = 20


def wait_for_stable(recorder: Recorder, access: ClientAccess, partitions: Sequence[str], timeout: float) -> None:
    """Wait until no transaction is open, at most for a transaction's timeout; write the observed state then.

    Raises KafkaException.
    """
    deadline = time.monotonic() + timeout + SLACK_SECONDS
    ends: dict[str, tuple[int, int]] = {}
    settings = {**access.librdkafka(), "group.id": "kvorum-chaos-stable", "log_level": 0}
    committed, all_records = (
        Consumer({**settings, "isolation.level": level}) for level in ("read_committed", "read_uncommitted")
    )
    try:
        while True:
            for name in partitions:
                at = TopicPartition(*split_partition(name))
                stable, high = (
                    each.get_watermark_offsets(at, timeout=OFFSET_SECONDS, cached=False)[1]
                    for each in (committed, all_records)
                )
                ends[name] = stable, high
            if time.monotonic() >= deadline or all(stable >= high for stable, high in ends.values()):
                break
            time.sleep(LOOK_SECONDS)
    finally:
        committed.close()
        all_records.close()
    for name, (stable, high) in ends.items():
        recorder.write(
            lambda t, name=name, stable=stable, high=high: Stable(  # type: ignore[misc]  # bound now
                t=t, partition=name, last_stable_offset=stable, high_watermark=high
            )
        )


def final_offsets(recorder: Recorder, access: ClientAccess, groups: Mapping[str, Sequence[str]]) -> list[str]:
    """Fetch the groups' committed offsets of these partitions; return the partitions for which this failed."""
    silent: list[str] = []
    for group, names in groups.items():
        process = recorder.process(CONFLUENT, isolation="read_committed")
        consumer = Consumer(
            {**access.librdkafka(), "group.id": group, "isolation.level": "read_committed", "log_level": 0}
        )
        try:
            for _ in range(TRIES):
                found = fetch_committed_offsets(consumer, group, list(names), process, recorder, final=True)
                if len(found) == len(names):
                    break
            else:
                silent.append(group)
        finally:
            consumer.close()
    return silent
