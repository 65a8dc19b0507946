"""Places of groups as CSV, as Kafka's kafka-consumer-groups exports and reads them. Sans-IO.

    orders,0,1200              of one group: topic, partition, offset
    payments,orders,0,1200     of several: the group first

Source: Kafka's ConsumerGroupCommand (parseResetPlan), CsvUtils.
"""

import csv
import io
from collections.abc import Iterable, Mapping
from typing import Final

from kvorum.client.groups.offset_reset import ResetError
from kvorum.protocol.topic_partition import TopicPartition

PARTITION_MAX: Final = 2**31 - 1
OFFSET_MAX: Final = 2**63 - 1


def parse_plan(text: str, group_id: str | None, *, once: bool = False) -> dict[str, dict[TopicPartition, int]]:
    """Read lines of TOPIC,PARTITION,OFFSET, or GROUP,TOPIC,PARTITION,OFFSET where several groups are meant.

    The first has the offsets below `group_id`. With `once` a partition may be there only once; else the last line
    counts, as with Kafka's tool. Raises ResetError with the number of the line.
    """
    found: dict[str, dict[TopicPartition, int]] = {}
    number = 0
    try:
        for number, row in enumerate(csv.reader(io.StringIO(text)), start=1):
            if not row:
                continue
            group, place, offset = _line(row, number, group_id)
            places = found.setdefault(group, {})
            if once and place in places:
                raise ResetError(f"line {number}: duplicate {place}")
            places[place] = offset
    except csv.Error as error:
        raise ResetError(f"line {number + 1} is not CSV: {error}") from None
    return found


def _line(row: list[str], number: int, group_id: str | None) -> tuple[str, TopicPartition, int]:
    """Return group, partition and offset of a line. Raises ResetError."""
    cells = [cell.strip() for cell in row]
    try:
        if len(cells) == 3 and group_id is not None:
            cells.insert(0, group_id)
        group, topic, partition, offset = cells
        place, at = TopicPartition(topic, int(partition)), int(offset)
        if not 0 <= place.partition <= PARTITION_MAX or not 0 <= at <= OFFSET_MAX:
            raise ValueError("a partition or an offset is out of range")
    except ValueError:
        shape = "TOPIC,PARTITION,OFFSET" if group_id is not None else "GROUP,TOPIC,PARTITION,OFFSET"
        raise ResetError(f"line {number} is not {shape}: {','.join(row)[:200]}") from None
    return group, place, at


def format_plan(offsets: Iterable[tuple[str, Mapping[TopicPartition, int]]], *, with_group: bool) -> str:
    """Write what `parse_plan` reads."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for group_id, rows in offsets:
        for place, offset in rows.items():
            writer.writerow([*([group_id] if with_group else []), place.topic, place.partition, offset])
    return text.getvalue()
