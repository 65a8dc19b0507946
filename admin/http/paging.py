"""Pages of sorted lists: the next page starts after the key of the last row.

So a page neither repeats nor omits a row because others were added or removed between two requests. The parameter of
the next page is in the response's Link (operations.Rows), or in its `next`.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from urllib.parse import urlencode

from kvorum.admin.http.operations import BadInput, Call, number_of
from kvorum.admin.http.parameters import Count
from kvorum.protocol.topic_partition import TopicPartition

ROWS = Count(what="rows per page", default=10_000, most=10_000)

INT32_MAX = 2**31 - 1

T = TypeVar("T")
K = TypeVar("K", bound=Any)


def behind(rows: Sequence[T], key: Callable[[T], K], after: K | None, limit: int) -> tuple[list[T], bool]:
    """Return the rows of a page, and whether more come. `rows` are sorted by `key`; `after` None: from the first on."""
    begin = 0 if after is None else bisect_right(rows, after, key=key)
    return list(rows[begin : begin + limit]), len(rows) > begin + limit


def following(call: Call[Any], after: str) -> str:
    """Return the query of the next page: that of this one, after a row."""
    return urlencode({**call.query, "after": after})


def place_after(call: Call[Any]) -> TopicPartition | None:
    """Return the partition that the page begins behind, None from the first on. Raises BadInput."""
    text = call.query.get("after")
    if text is None:
        return None
    topic, colon, number = text.rpartition(":")
    if not colon:
        raise BadInput("after", "expected TOPIC:PARTITION")
    return TopicPartition(topic, number_of("after", number, 0, INT32_MAX))


def place_text(place: TopicPartition) -> str:
    """Return what `place_after` reads: a topic's name may have a dash, and no colon."""
    return f"{place.topic}:{place.partition}"
