"""`kafka-configs --describe`. Source: Kafka's ConfigCommand (describeResourceConfig, describeQuotaConfigs)."""

from typing import TYPE_CHECKING

from kvorum.cli.kafka.common import Connection
from kvorum.cli.kafka.entity_options import EntityError
from kvorum.cli.kafka.java_numbers import java_double
from kvorum.cli.output import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvorum.client.values.config import Config, ConfigSynonym
    from kvorum.client.values.quota import Quota
    from kvorum.client.values.user import User
    from kvorum.client.wire.cluster_client import ClusterClient

ADMIN_NAMES = {
    "CLIENT_METRICS_CONFIG": "DYNAMIC_CLIENT_METRICS_CONFIG",
    "GROUP_CONFIG": "DYNAMIC_GROUP_CONFIG",
}
"""Sources whose name in Kafka's ConfigEntry differs from that in DescribeConfigsResponse."""
SHOWN_KIND = {"user": "user-principal"}


def describe_entity(connection: Connection, entity: dict[str, str | None], everything: bool) -> None:
    """Print the configs of an entity, or of each of a type."""
    from kvorum.cli.kafka.entities import RESOURCES, entity_names, entity_quotas, is_listed, resource_configs

    kind, name = next(iter(entity.items()))
    if (kind, name) == ("broker-loggers", None):
        raise EntityError("An entity name must be specified with --describe of broker-loggers")
    if kind not in RESOURCES:
        from kvorum.cli.kafka.scram_configs import described_users, user_line

        async def quotas_and_users(cluster: "ClusterClient") -> "tuple[Sequence[Quota], Sequence[User]]":
            is_user = entity.keys() == {"users"} and name != ""
            return await entity_quotas(cluster, entity), await described_users(cluster, name) if is_user else ()

        quotas, users = connection.run(quotas_and_users)
        for line in (*map(quota_line, quotas), *map(user_line, users)):
            say(line)
        return

    async def work(cluster: "ClusterClient") -> "dict[str, Sequence[Config]] | None":
        if name is not None and not everything and not await is_listed(cluster, kind, name):
            return None
        found = [name] if name is not None else await entity_names(cluster, kind)
        return {each: await resource_configs(cluster, kind, each, everything=everything) for each in found}

    found = connection.run(work)
    if found is None:
        say(f"The {kind[:-1]} '{name}' doesn't exist and doesn't have dynamic config.")
        return
    for each, configs in found.items():
        if each:
            say(f"{'All' if everything else 'Dynamic'} configs for {kind[:-1]} {each} are:")
        else:
            say(f"Default configs for {kind} in the cluster are:")
        for config in configs:
            synonyms = ", ".join(map(synonym_text, config.synonyms))
            sensitive = str(config.is_sensitive).lower()
            say(f"  {config.name}={text_or_null(config.value)} sensitive={sensitive} synonyms={{{synonyms}}}")


def synonym_text(synonym: "ConfigSynonym") -> str:
    """Return SOURCE:name=value."""
    source = ADMIN_NAMES.get(synonym.source, synonym.source)
    return f"{source}:{synonym.name}={text_or_null(synonym.value)}"


def text_or_null(value: str | None) -> str:
    """Return a value as Java prints it."""
    return "null" if value is None else value


def quota_line(quotas: "Quota") -> str:
    """Return the line of one entity's quotas."""
    parts = []
    for kind, name in sorted(quotas.entity.items(), reverse=True):  # the user before the client id
        shown = SHOWN_KIND.get(kind, kind)
        parts.append(f"the default {shown}" if name is None else f"{shown} '{name}'")
    values = ", ".join(f"{key}={java_double(value)}" for key, value in quotas.values.items())
    return f"Quota configs for {', '.join(parts)} are {values}"
