"""Pages of sorted lists: the next page starts after the key of the last row.

So a page neither repeats nor omits a row because others were added or removed between two requests. The parameter of
the next page is in the response's Link (operations.Rows), or in its `next`.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from urllib.parse import urlencode

from kvorum.admin.http.operations import Call
from kvorum.admin.http.parameters import INT32_MAX, BadInput, Parameter, number_of
from kvorum.protocol.topic_partition import TopicPartition

T = TypeVar("T")
K = TypeVar("K", bound=Any)


def behind(rows: Sequence[T], key: Callable[[T], K], after: K | None, limit: int) -> tuple[list[T], bool]:
    """Return the rows of a page, and whether more come. `rows` are sorted by `key`; `after` None: from the first on."""
    begin = 0 if after is None else bisect_right(rows, after, key=key)
    return list(rows[begin : begin + limit]), len(rows) > begin + limit


def next_query(call: Call[Any], after: str) -> str:
    """Return the query of the next page: that of this one, after a row."""
    return urlencode({**call.query, "after": after})


def parse_place(name: str, text: str) -> TopicPartition:
    """Read TOPIC:PARTITION. Raises BadInput."""
    topic, colon, number = text.rpartition(":")
    if not colon:
        raise BadInput(name, "expected TOPIC:PARTITION")
    return TopicPartition(topic, number_of(name, number, 0, INT32_MAX))


def place_text(place: TopicPartition) -> str:
    """Return what `parse_place` reads: a topic's name may have a dash, and no colon."""
    return f"{place.topic}:{place.partition}"


AFTER_PARTITION: Parameter[TopicPartition | None] = Parameter(
    name="after",
    doc="start after this partition, as orders:3",
    schema={"type": "string"},
    parse=parse_place,
    default=None,
)
