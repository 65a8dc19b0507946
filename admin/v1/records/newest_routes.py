"""The newest records of a topic over HTTP, wherever they are; and those before them."""

import asyncio

from kvorum.admin.http.operations import Call, NoBody, Operation, Reply
from kvorum.admin.http.parameters import TOPIC_NAME, BadInput
from kvorum.admin.v1.records.browse_query import (
    NARROWED,
    PARTITIONS,
    filter_of,
    limit_parameters,
    limits_of,
    offsets,
    partitions_of,
    reader_of,
    view_of,
)
from kvorum.admin.v1.records.message_models import MessagePage
from kvorum.admin.v1.records.message_routes import BROWSE, BROWSE_MAX, MESSAGES, page_text
from kvorum.client.records.newest_search import NewestSearch
from kvorum.runtime import blocking

BEFORE = offsets("before", "only below these offsets, as PARTITION:OFFSET,...; only these partitions")


async def browse_newest(call: Call[NoBody]) -> Reply:
    """Return the newest matching records of all partitions, oldest first.

    The partitions are read backwards from their ends, only as far as necessary. The response has the reason why it
    ended (`limit`: there are older ones), the position of older records (`before`) and of newer ones (`next`).
    """
    view, limits = view_of(call), limits_of(call, BROWSE, BROWSE_MAX)
    looked_for, reader = filter_of(call), reader_of(call, call.cluster)
    before = BEFORE.of(call)
    requested = PARTITIONS.of(call)
    if before is not None and requested is not None:
        raise BadInput("partitions", "before already selects the partitions: leave partitions out")
    named = None if before is None and requested is None else sorted(before or requested or ())
    earliest, ends = await reader.ends(await partitions_of(call, reader, named, looked_for.key))
    below = {each: min(max((before or ends)[each], earliest[each]), end) for each, end in ends.items()}
    wanted = None if looked_for.is_of_all else looked_for
    newest = NewestSearch(reader, limits, call.clock, earliest, below, wanted)
    found = await newest.find()
    text = await blocking.run(asyncio.get_running_loop(), page_text, found, view, newest.progress, below)
    return Reply(status=200, text=text)


OPERATIONS = [
    Operation.get(
        f"{MESSAGES}/newest",
        "Get the newest records of a topic",
        browse_newest,
        MessagePage,
        large=True,
        parameters=(TOPIC_NAME, BEFORE, *NARROWED, *limit_parameters(BROWSE, BROWSE_MAX)),
    ),
]
