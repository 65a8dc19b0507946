"""JSON files that name partitions, as Kafka's tools read them: {"partitions": [{"topic": ..., "partition": ...}]}."""

import json
from pathlib import Path
from typing import Any

from kvorum.protocol.topic_partition import TopicPartition


class PartitionFileError(ValueError):
    """An invalid file of partitions; the message has the reason."""


def partition_rows(path: str) -> list[tuple[TopicPartition, dict[str, Any]]]:
    """Return each partition with its entry in the file. Raises PartitionFileError: invalid JSON, duplicates."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise PartitionFileError(f"{path} is not valid JSON: {error}") from None
    if not isinstance(data, dict) or not isinstance(data.get("partitions"), list):
        raise PartitionFileError(f'{path}: missing "partitions" field')
    if data.get("version", 1) != 1:
        raise PartitionFileError(f"{path}: not supported version field value {data['version']}")
    found: dict[TopicPartition, dict[str, Any]] = {}
    for row in data["partitions"]:
        if not isinstance(row, dict) or not isinstance(row.get("topic"), str) or type(row.get("partition")) is not int:
            raise PartitionFileError(f"{path}: {json.dumps(row)} has no topic and partition")
        place = TopicPartition(row["topic"], row["partition"])
        if place in found:
            raise PartitionFileError(f"{path} contains duplicate topic partitions: {place}")
        found[place] = row
    return list(found.items())


def offsets_of(path: str) -> dict[TopicPartition, int]:
    """Return {partition: its offset}, as kafka-delete-records reads them. Raises PartitionFileError."""
    found = {}
    for place, row in partition_rows(path):
        if type(row.get("offset")) is not int:
            raise PartitionFileError(f"{path}: {place} has no offset")
        found[place] = row["offset"]
    return found
