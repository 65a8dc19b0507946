"""The nouns of `kvorum` whose commands are made from the table of operations.

A noun has the modules of admin/v1 whose operations name it, so that a command imports no others.
"""

from collections.abc import Mapping
from typing import Final

from kvorum.cli.commands import COMMANDS
from kvorum.cli.operations import OperationGroup

BY_HAND: Final[Mapping[str, tuple[str, str]]] = {
    "topics alter": ("cli.topics.alter:alter", "up to three operations in one, all validated before the first"),
    "groups reset-offsets": ("cli.groups.reset:reset_offsets", "files of Kafka's tool; several groups; dry run first"),
    "configs validate": ("cli.configs.validation:validate", "a file, no cluster"),
    "configs render": ("cli.configs.rendering:render", "a file, no cluster"),
    "features version-mapping": ("cli.configs.features:version_mapping", "no cluster"),
    "features dependencies": ("cli.configs.features:dependencies", "no cluster"),
    "brokers list": ("cli.reassign.brokers:list_", "administrative state of all brokers; /v1 has it of one"),
    "brokers maintenance": ("cli.reassign.brokers:maintenance", "waits, with progress"),
    "brokers decommission": ("cli.reassign.brokers:decommission", "waits, with progress"),
    "users create": ("cli.users.create:create", "prompts for the password or reads it from a file"),
    "quorum add-controller": ("cli.metadata.quorum_voters:add_controller", "reads the controller's own files"),
    "quorum readmit": ("cli.metadata.quorum:readmit", "changes files of a stopped controller"),
    "reassign generate": ("cli.reassign.commands:generate", "files of Kafka's tool"),
    "reassign execute": ("cli.reassign.commands:execute", "files of Kafka's tool; several steps"),
    "reassign verify": ("cli.reassign.verify:verify", "files of Kafka's tool; waits"),
    "reassign cancel": ("cli.reassign.commands:cancel", "files of Kafka's tool"),
}
"""{command: (module:attribute, why it is more than an operation)}."""


def noun(name: str, *modules: str) -> OperationGroup:
    """Return the group of a noun."""
    return OperationGroup(name, COMMANDS[name][1], modules, BY_HAND)


topics: Final = noun(
    "topics",
    *("topics.topic_list", "topics.topic_routes", "topics.topic_clone", "topics.topic_group_routes"),
)
partitions: Final = noun(
    "partitions",
    *("partitions.partition_routes", "partitions.leader_routes", "topics.topic_routes", "cluster.cluster_routes"),
)
groups: Final = noun("groups", "groups.groups_routes")
configs: Final = noun(
    "configs",
    *("topics.topic_routes", "cluster.cluster_routes", "cluster.logger_routes", "cluster.resource_config_routes"),
)
quotas: Final = noun("quotas", "cluster.quota_routes")
users: Final = noun("users", "cluster.user_routes")
tokens: Final = noun("tokens", "cluster.token_routes")
features: Final = noun("features", "cluster.feature_routes")
log_dirs: Final = noun("log-dirs", "partitions.partition_routes", "partitions.log_dir_routes")
transactions: Final = noun("transactions", "transactions.transaction_routes")
brokers: Final = noun("brokers", "cluster.broker_admin_state_routes")
quorum: Final = noun("quorum", "cluster.cluster_routes", "cluster.voter_routes")
reassign: Final = noun("reassign", "reassignments.reassignment_routes")
