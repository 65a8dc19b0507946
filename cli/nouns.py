"""The nouns of `kvorum` whose commands are made from the table of operations."""

from collections.abc import Mapping
from typing import Final

from kvorum.cli.operations import OperationGroup

BY_HAND: Final[Mapping[str, tuple[str, str]]] = {
    "topics alter": ("cli.topics.alter:alter", "up to three operations in one, all validated before the first"),
}
"""{command: (module:attribute, why it is more than an operation)}."""

quotas: Final = OperationGroup(
    "quotas", "Manage client quotas by user, client id or IP address.", ("cluster.quota_routes",), BY_HAND
)
topics: Final = OperationGroup(
    "topics",
    "Create, list, describe, alter and delete topics.",
    ("topics.topic_list", "topics.topic_routes", "topics.topic_clone", "topics.topic_group_routes"),
    BY_HAND,
)
