"""Files of kafka-reassign-partitions.sh: topics to move, and the replicas of partitions. Sans-IO.

    {"version": 1, "topics": [{"topic": "orders"}]}                                               topics to move
    {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2],
                                   "log_dirs": ["any", "any"]}]}                                  target replicas

A path among `log_dirs` is the directory of a replica on its broker (log_dir_moves).
Source: Kafka's ReassignPartitionsCommand.
"""

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeGuard

from kvorum.client.values.log_dir import TopicPartitionReplica
from kvorum.client.values.reassignment import Assignment
from kvorum.protocol.topic_partition import TopicPartition

VERSION: Final = 1
ANY_LOG_DIR: Final = "any"
NO_LOG_DIRS: Final[Mapping[tuple[TopicPartition, int], str]] = MappingProxyType({})


def read_assignment(text: str) -> Assignment:
    """Read a file of partitions and their replicas. Raises ValueError with the reason."""
    found: Assignment = {}
    for each in _rows(text, "partitions"):
        topic, partition, replicas = each.get("topic"), each.get("partition"), each.get("replicas")
        if not isinstance(topic, str) or not _is_id(partition) or not isinstance(replicas, list):
            raise ValueError(f"not a topic, a partition and its replicas: {json.dumps(each)}")
        place = TopicPartition(topic, partition)
        if not replicas or not all(_is_id(replica) for replica in replicas):
            raise ValueError(f"{place}: replicas must contain at least one broker id")
        if len(set(replicas)) != len(replicas):
            raise ValueError(f"{place}: duplicate broker in {replicas}")
        log_dirs = each.get("log_dirs", [ANY_LOG_DIR] * len(replicas))
        if not isinstance(log_dirs, list) or len(log_dirs) != len(replicas):
            raise ValueError(f"{place}: log_dirs and replicas must have the same length")
        if not all(isinstance(log_dir, str) and log_dir for log_dir in log_dirs):
            raise ValueError(f'{place}: log_dirs must be paths or "any"')
        if place in found:
            raise ValueError(f"duplicate partition {place}")
        found[place] = replicas
    if not found:
        raise ValueError("it contains no partition")
    return found


def read_log_dirs(text: str) -> dict[TopicPartitionReplica, str]:
    """Return the directories of the replicas in a file that read_assignment accepted."""
    return {
        TopicPartitionReplica(each["topic"], each["partition"], broker): log_dir
        for each in _rows(text, "partitions")
        for broker, log_dir in zip(each["replicas"], each.get("log_dirs", ()), strict=False)
        if log_dir != ANY_LOG_DIR
    }


def read_topics(text: str) -> list[str]:
    """Read a file of topics. Raises ValueError."""
    names = [each.get("topic") for each in _rows(text, "topics")]
    if not names or not all(isinstance(name, str) for name in names):
        raise ValueError("expected a list of topic names")
    if len(set(names)) != len(names):
        raise ValueError("duplicate topic")
    return [str(name) for name in names]


def _rows(text: str, key: str) -> list[dict[str, Any]]:
    try:
        found = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from error
    if not isinstance(found, dict) or found.get("version", VERSION) != VERSION:
        raise ValueError(f"expected an object of version {VERSION}")
    rows = found.get(key, [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError(f"{key} must be a list of objects")
    return rows


def _is_id(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def assignment_json(
    assignment: Mapping[TopicPartition, Sequence[int]], log_dirs: Mapping[tuple[TopicPartition, int], str] = NO_LOG_DIRS
) -> dict[str, Any]:
    """Return the content of a file with this assignment, sorted; with log directories where they are known."""
    rows = [
        {
            "topic": place.topic,
            "partition": place.partition,
            "replicas": list(replicas),
            "log_dirs": [log_dirs.get((place, broker), ANY_LOG_DIR) for broker in replicas],
        }
        for place, replicas in sorted(assignment.items())
    ]
    return {"version": VERSION, "partitions": rows}
