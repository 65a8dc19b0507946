"""Message for a topic that does not exist: its name, and a similar one."""

import difflib
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from kvorum.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kvorum.client.wire.cluster_client import ClusterClient

NAMED: Final = re.compile(
    r"(?:(?:The )?topic )?(?P<quote>'?)(?P<name>[a-zA-Z0-9._-]+?)(?P=quote)(?: does not exist\.?)?"
)
"""Messages of brokers and of the client about a missing topic."""


def no_topic(name: str, known: Iterable[str]) -> str:
    """Return one line on a topic that does not exist."""
    close = difflib.get_close_matches(name, [each for each in known if not each.startswith("__")], n=1)
    return f"no topic {name}" + (f"; did you mean {close[0]}?" if close else "")


async def explain_error(cluster: "ClusterClient", error: KafkaError) -> str:
    """Return an error as a line; for a missing topic with a suggestion."""
    found = NAMED.fullmatch(error.message or "")
    if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or found is None:
        return str(error)
    known = [topic.name or "" for topic in (await cluster.metadata()).topics if not topic.error_code]
    name = found["name"]
    if name in known or name.rpartition("-")[0] in known:
        return str(error)  # the topic exists, a partition does not
    return no_topic(name, known)
