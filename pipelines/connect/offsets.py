"""Positions in Connect's shape: {partition, offset} each.

    topics    {"kafka_topic": "orders", "kafka_partition": 0}    {"kafka_offset": 17}     as Connect's sinks
    a file    {"filename": "/data/in.txt"}                       {"position": 6}          as Connect's FileStreamSource
    others    {"source": "NAME", "number": 0}                    what Spark's checkpoint says, e.g. {"logOffset": 3}

Positions are in the checkpoint of a pipeline; they are read there, and never edited: see state.Start.
"""

from collections.abc import Mapping
from typing import Any, Literal

from kvorum.pipelines.connect.errors import bad_request
from kvorum.pipelines.connect.state import Json, Offsets, compact
from kvorum.pipelines.run.progress import topic_offsets

TOPIC, PARTITION, OFFSET = "kafka_topic", "kafka_partition", "kafka_offset"
FILENAME, POSITION = "filename", "position"


def of_answer(answer: Mapping[str, Any], name: str) -> list[tuple[Json, Json]]:
    """Return the positions in a worker's answer: {"sources": [offset...]}."""
    found: list[tuple[Json, Json]] = []
    for number, source in enumerate(answer.get("sources") or ()):
        by_partition = topic_offsets(source) if source else None
        if by_partition:
            listed = sorted((topic, int(partition), offset) for (topic, partition), offset in by_partition.items())
            found += [({TOPIC: topic, PARTITION: number}, {OFFSET: offset}) for topic, number, offset in listed]
        elif isinstance(source, dict) and source.keys() >= {FILENAME, POSITION}:
            found.append(({FILENAME: source[FILENAME]}, {POSITION: source[POSITION]}))
        elif source is not None and source != {}:
            found.append(
                ({"source": name, "number": number}, source if isinstance(source, dict) else {"offset": source})
            )
    return found


def merged(before: Offsets, wanted: Offsets) -> list[tuple[Json, Json | None]]:
    """Return the positions with those in their place that were set by hand."""
    table = {compact(partition): (partition, offset) for partition, offset in (*before, *wanted)}
    return [table[key] for key in sorted(table)]


def requested(body: Any, type_: Literal["sink", "file", "source"]) -> Offsets:
    """Return the positions of a request: {"offsets": [{"partition", "offset"}]}. Raises ConnectError.

    Of sources, only a file's position can be set.
    """
    listed = body.get("offsets") if isinstance(body, dict) else None
    if not isinstance(listed, list) or not listed:
        raise bad_request("Partitions / offsets need to be provided for an alter offsets request")
    if type_ == "source":
        raise bad_request("source offsets of this connector are in its checkpoint: they can be reset, but not altered")
    return [_of_file(each) if type_ == "file" else _of_topic(each) for each in listed]


def _of_file(each: Any) -> tuple[Json, Json | None]:
    """Return a position as FileStreamSourceConnector accepts it. Connect answers 500 to the others."""
    partition, offset = (each.get("partition"), each.get("offset")) if isinstance(each, dict) else (None, {})
    if not isinstance(partition, dict):
        raise bad_request("Partition objects cannot be null")
    if offset is None:
        return partition, None
    if not isinstance(offset, dict) or POSITION not in offset:
        raise bad_request(f"Offset objects should either be null or contain the key '{POSITION}'")
    if type(offset[POSITION]) is not int:
        raise bad_request(f"The value for the '{POSITION}' key in the offset is expected to be a Long value")
    if offset[POSITION] < 0:
        raise bad_request(f"The value for the '{POSITION}' key in the offset should be a non-negative value")
    if FILENAME not in partition:
        raise bad_request(f"Partition objects should contain the key '{FILENAME}'")
    return {FILENAME: str(partition[FILENAME])}, {POSITION: offset[POSITION]}


def _of_topic(each: Any) -> tuple[Json, Json | None]:
    partition = each.get("partition") if isinstance(each, dict) else None
    if not isinstance(partition, dict) or set(partition) != {TOPIC, PARTITION}:
        raise bad_request(
            f"The partition for a sink connector offset must contain the keys '{TOPIC}' and '{PARTITION}'"
        )
    number, offset = _integer(partition[PARTITION], "Kafka partition", "Partition"), each.get("offset")
    place: Json = {TOPIC: str(partition[TOPIC]), PARTITION: number}
    if offset is None:
        return place, None
    if not isinstance(offset, dict) or set(offset) != {OFFSET}:
        raise bad_request(f"The offset for a sink connector should either be null or contain the key '{OFFSET}'")
    return place, {OFFSET: _integer(offset[OFFSET], "Kafka offset", "Offset")}


def _integer(value: Any, what: str, word: str) -> int:
    """Return a number that may have been written as text. Raises ConnectError."""
    try:
        number = int(value)
    except (TypeError, ValueError):
        number = -1
    if number < 0 or isinstance(value, bool):
        raise bad_request(
            f"Failed to parse the following {what} value in the provided offsets: '{value}'. "
            f"{word} values for sink connectors need to be integers."
        )
    return number


def topics_of(properties: Mapping[str, str], found: Offsets) -> set[str]:
    """Return the topics a connector uses: those it reads, or the one it writes to."""
    read = {str(partition[TOPIC]) for partition, _ in found if TOPIC in partition}
    named = properties.get("topic") or properties.get("sink.topic")
    return read or ({named} if named else set())
