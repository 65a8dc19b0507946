"""MirrorMaker's source connector as a pipeline from topics to topics: its keys, and what they become.

What it copies are records: key, value, headers and timestamp, to topics named by its replication policy. Configurations
of topics and offsets of groups are followed by Kvorum's own mirror (docs/pipelines/mirror.md), not by a connector.
"""

import re
from collections.abc import Mapping
from typing import Final

from kvorum.pipelines.connect.definitions import Key

CLASS: Final = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
IDENTITY: Final = "IdentityReplicationPolicy"
GROUP: Final = "Mirror"
KEYS: Final = (
    Key(
        name="source.cluster.alias", required=True, importance="HIGH", group=GROUP,
        documentation="The source's name; it begins the names of its topics in the target.",
    ),
    Key(name="target.cluster.alias", importance="HIGH", group=GROUP, documentation="The target's name, for people."),
    Key(
        name="source.cluster.bootstrap.servers", required=True, importance="HIGH", group=GROUP,
        documentation="host:port of the source.",
    ),
    Key(
        name="target.cluster.bootstrap.servers", group=GROUP,
        documentation="host:port of the target; by default the manager's cluster.",
    ),
    Key(name="topics", type="LIST", default=".*", importance="HIGH", group=GROUP, documentation="Names or patterns."),
    Key(
        name="replication.policy.class", type="CLASS", default="DefaultReplicationPolicy", group=GROUP,
        documentation="DefaultReplicationPolicy puts the alias before a name, IdentityReplicationPolicy keeps it.",
    ),
    Key(name="replication.policy.separator", default=".", group=GROUP, documentation="Between alias and name."),
)  # fmt: skip
STEPPED_OVER: Final = re.compile(
    r"(sync|emit|refresh)\..*|replication\.factor|offset-syncs\..*|(topics|groups|config\.property)\.exclude|groups|"
    r"(source|target)\.cluster\..*|replication\.policy\..*|topics|connector\.class|(key|value|header)\.converter|consumer\..*|producer\..*|admin\..*"
)


def rewritten(properties: Mapping[str, str]) -> Mapping[str, str]:
    """Return a mirror's configuration as a Pipeline's; any other one as it is."""
    given = properties.get("connector.class", "")
    if given not in (CLASS, "MirrorSourceConnector", "MirrorSource"):
        return properties
    alias, separator = properties.get("source.cluster.alias", ""), properties.get("replication.policy.separator", ".")
    topics = [each.strip() for each in properties.get("topics", ".*").split(",") if each.strip()]
    copied = {key: value for key, value in properties.items() if not STEPPED_OVER.fullmatch(key)}
    own = {
        "connector.class": "Pipeline",
        "source.type": "topics",
        "source.pattern": "|".join(_pattern(topic, alias + separator) for topic in topics),
        "sink.type": "topics",
    }
    for end, prefix in (("source", "source.cluster."), ("sink", "target.cluster.")):
        for key, value in properties.items():
            if key == f"{prefix}bootstrap.servers":
                own[f"{end}.bootstrap"] = value
            elif key.startswith(prefix) and key != f"{prefix}alias":
                own[f"{end}.options.kafka.{key.removeprefix(prefix)}"] = value
    if not properties.get("replication.policy.class", "").endswith(IDENTITY):
        names = ",".join(part for part in (copied.get("transforms"), "mirrorName") if part)
        own |= {
            "transforms": names,
            "transforms.mirrorName.type": "RegexRouter",
            "transforms.mirrorName.regex": "(.+)",
            "transforms.mirrorName.replacement": f"{alias}{separator}$1",
        }
    return copied | own


def _pattern(topic: str, prefix: str) -> str:
    """Return a pattern that leaves out Kafka's own topics and what has the prefix: it would come back for ever."""
    return rf"(?!__|connect-|mm2-|{re.escape(prefix)})({topic})"
