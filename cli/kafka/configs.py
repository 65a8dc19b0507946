"""`kafka-configs`. Source: Kafka's ConfigCommand."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from kvorum.cli.kafka.common import (
    ARGUMENTS_KEY,
    Connection,
    Files,
    Remembering,
    connected,
    invalid_beside,
    one_action,
    read_properties,
)
from kvorum.cli.output import say, warn
from kvorum.cli.perf.java_numbers import java_double
from kvorum.cli.text_values import UNSET_HINT

if TYPE_CHECKING:
    from kvorum.cli.configs.entities import Changes, ConfigRow
    from kvorum.client.quotas import Quotas
    from kvorum.client.wire.cluster_client import ClusterClient

TYPES = ("topics", "brokers", "broker-loggers", "groups", "client-metrics", "users", "clients", "ips")
QUOTA_TYPES = ("users", "clients", "ips")
OWN_OPTIONS = {
    "topic": "topics",
    "client": "clients",
    "user": "users",
    "broker": "brokers",
    "broker_logger": "broker-loggers",
    "ip": "ips",
    "group": "groups",
    "client_metrics": "client-metrics",
}
DEFAULT_OPTIONS = {
    "client_defaults": "clients",
    "user_defaults": "users",
    "broker_defaults": "brokers",
    "ip_defaults": "ips",
}
SHOWN_KIND = {"user": "user-principal"}


@click.command("kafka-configs", cls=Remembering)
@click.option("--describe", is_flag=True)
@click.option("--alter", is_flag=True)
@click.option("--all", "everything", is_flag=True, help="Include static configs and defaults.")
@click.option("--entity-type", "types", multiple=True, type=click.Choice(TYPES))
@click.option("--entity-name", "names", multiple=True)
@click.option("--entity-default", "defaults", is_flag=True)
@click.option("--topic")
@click.option("--client")
@click.option("--client-defaults", is_flag=True)
@click.option("--user")
@click.option("--user-defaults", is_flag=True)
@click.option("--broker")
@click.option("--broker-defaults", is_flag=True)
@click.option("--broker-logger")
@click.option("--ip")
@click.option("--ip-defaults", is_flag=True)
@click.option("--group")
@click.option("--client-metrics")
@click.option("--add-config", metavar="k1=v1,k2=[v1,v2]")
@click.option("--add-config-file", type=Files)
@click.option("--delete-config", "deleted", multiple=True, metavar="k1,k2")
@connected(controller=True)
def configs(
    connection: Connection,
    describe: bool,
    alter: bool,
    everything: bool,
    types: tuple[str, ...],
    names: tuple[str, ...],
    defaults: bool,
    add_config: str | None,
    add_config_file: str | None,
    deleted: tuple[str, ...],
    **named: Any,
) -> None:
    """Describe and alter configs of topics, brokers, groups, client metrics, and quotas of users, clients, ips.

    \b
    kvorum kafka-configs --bootstrap-server localhost:9092 --describe --entity-type topics --entity-name orders
    kvorum kafka-configs --bootstrap-server localhost:9092 --alter --topic orders --add-config retention.ms=3600000
    """
    from kvorum.cli.configs.entities import Changes, EntityError, check_entity, check_keys, parse_additions

    action = one_action({"describe": describe, "alter": alter})
    entity = entity_of(types, names, defaults, named)
    try:
        for kind, name in entity.items():
            check_entity(kind, name)
        if action == "describe":
            invalid_beside("describe", {"add-config": add_config, "delete-config": deleted})
            if "broker-loggers" in entity and entity["broker-loggers"] is None:
                raise EntityError("An entity name must be specified with --describe of broker-loggers")
            describe_entity(connection, entity, everything)
            return
        if add_config is not None and add_config_file is not None:
            raise EntityError("Only one of --add-config or --add-config-file must be specified")
        if any(name is None for name in entity.values()):
            raise EntityError(f"An entity name must be specified with --alter of {','.join(entity)}")
        values = parse_additions(add_config) if add_config is not None else read_properties(add_config_file)
        check_keys(values)
        removed = [key.strip() for each in deleted for key in each.split(",") if key.strip()]
        if not values and not removed:
            raise EntityError(
                "At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter"
            )
        changes = Changes(values=values, deleted=removed)
        for kind in defaults_by_empty_name(entity, names, named):
            warn(f"an empty name means the default of all {kind}, as in Kafka; {UNSET_HINT}")
        alter_entity(connection, {kind: name for kind, name in entity.items() if name is not None}, changes)
    except EntityError as error:
        raise click.UsageError(str(error)) from None


def defaults_by_empty_name(
    entity: Mapping[str, str | None], names: tuple[str, ...], named: Mapping[str, Any]
) -> list[str]:
    """Return the types whose default is meant because --entity-name, --user, ... is empty."""
    own = {OWN_OPTIONS[key] for key in OWN_OPTIONS if named[key] == ""}
    return [kind for kind, name in entity.items() if name == "" and ("" in names or kind in own)]


def entity_of(
    types: tuple[str, ...], names: tuple[str, ...], defaults: bool, named: Mapping[str, Any]
) -> dict[str, str | None]:
    """Return {type: name}, "" for a default and None for all of a type."""
    own: dict[str, str | None] = {OWN_OPTIONS[key]: named[key] for key in OWN_OPTIONS if named[key] is not None}
    own |= {DEFAULT_OPTIONS[key]: "" for key in DEFAULT_OPTIONS if named[key]}
    if own and (types or names or defaults):
        raise click.UsageError(
            "--entity-{type,name,default} should not be used in conjunction with specific entity flags"
        )
    if not own:
        if len(set(types)) != len(types):
            raise click.UsageError(f"Duplicate entity type(s) specified: {','.join(types)}")
        if len(names) + defaults > len(types):
            raise click.UsageError("More entity names specified than entity types")
        own = dict(zip(types, [*names, *([""] * defaults), *([None] * len(types))], strict=False))
        own = ordered_as_given(types, own, names, defaults)
    if not own:
        raise click.UsageError("At least one entity type must be specified")
    if len(own) > 1 and own.keys() != {"users", "clients"}:
        raise click.UsageError("Only 'users' and 'clients' entity types may be specified together")
    return {kind: own[kind] for kind in TYPES if kind in own}


def ordered_as_given(
    types: tuple[str, ...], entity: dict[str, str | None], names: tuple[str, ...], defaults: bool
) -> dict[str, str | None]:
    """Give --entity-default its place among the names, by the order of the words: of two types one may be either."""
    if len(types) < 2 or not (names and defaults):
        return entity
    words = click.get_current_context().meta[ARGUMENTS_KEY]
    arguments = [word for word in words if word.split("=")[0] in ("--entity-name", "--entity-default")]
    if arguments and arguments[0] == "--entity-default":
        return {types[0]: "", types[1]: names[0]}
    return {types[0]: names[0], types[1]: ""}


def describe_entity(connection: Connection, entity: dict[str, str | None], everything: bool) -> None:
    """Print the configs of an entity, or of each of a type."""
    from kvorum.cli.configs.entities import QUOTA_ENTITIES, entity_names, resource_configs
    from kvorum.client.quotas import describe_quotas

    ((kind, name),) = list(entity.items())[:1]
    if kind in QUOTA_TYPES:
        wanted = {QUOTA_ENTITIES[each]: given for each, given in entity.items()}

        async def quotas(cluster: "ClusterClient") -> "list[Quotas]":
            return await describe_quotas(cluster, wanted)

        for found in connection.run(quotas):
            say(quota_line(found))
        return

    async def work(cluster: "ClusterClient") -> "dict[str, list[ConfigRow]] | None":
        if name is not None and not everything and not await is_listed(cluster, kind, name):
            return None
        found = [name] if name is not None else await entity_names(cluster, kind)
        return {each: await resource_configs(cluster, kind, each, everything=everything) for each in found}

    described = connection.run(work)
    if described is None:
        say(f"The {kind[:-1]} '{name}' doesn't exist and doesn't have dynamic config.")
        return
    for each, rows in described.items():
        if each:
            say(f"{'All' if everything else 'Dynamic'} configs for {kind[:-1]} {each} are:")
        else:
            say(f"Default configs for {kind} in the cluster are:")
        for row in rows:
            value = "null" if row.value is None else row.value
            synonyms = ", ".join(row.synonyms)
            say(f"  {row.name}={value} sensitive={str(row.sensitive).lower()} synonyms={{{synonyms}}}")


async def is_listed(cluster: "ClusterClient", kind: str, name: str) -> bool:
    """Return whether an entity of this name exists, if listed: controllers list none of these."""
    from kvorum.cli.configs.entities import entity_names
    from kvorum.protocol.errors import ErrorCode, KafkaError

    if kind == "brokers" and not name:
        return True
    try:
        return name in await entity_names(cluster, kind)
    except KafkaError as error:
        if error.code is not ErrorCode.UNSUPPORTED_VERSION:
            raise
        return True


def quota_line(quotas: "Quotas") -> str:
    """Return the line of one entity's quotas."""
    parts = []
    for kind, name in sorted(quotas.entity.items(), reverse=True):  # the user before the client id
        shown = SHOWN_KIND.get(kind, kind)
        parts.append(f"the default {shown}" if name is None else f"{shown} '{name}'")
    values = ", ".join(f"{key}={java_double(value)}" for key, value in quotas.values.items())
    return f"Quota configs for {', '.join(parts)} are {values}"


def alter_entity(connection: Connection, entity: dict[str, str], changes: "Changes") -> None:
    """Change the configs of an entity."""
    from kvorum.cli.configs.entities import alter_entity_quotas, alter_resource

    kind, name = next(iter(entity.items()))

    async def work(cluster: "ClusterClient") -> None:
        if kind in QUOTA_TYPES:
            await alter_entity_quotas(cluster, entity, changes)
        else:
            await alter_resource(cluster, kind, name, changes)

    connection.run(work)
    if name:
        say(f"Completed updating config for {kind[:-1]} {name}.")
    else:
        say(f"Completed updating default config for {kind} in the cluster.")
