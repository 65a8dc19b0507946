"""`kafka-configs`. Source: Kafka's ConfigCommand."""

from typing import TYPE_CHECKING, Any

import click

from kvorum.cli.connection.client import read_properties
from kvorum.cli.kafka.common import Connection, Files, OrderedCommand, connection_options
from kvorum.cli.kafka.configs_describe import describe_entity
from kvorum.cli.kafka.entity_options import (
    TYPES,
    EntityError,
    check_entity,
    check_keys,
    defaults_by_empty_name,
    entity_of,
    parse_additions,
)
from kvorum.cli.kafka.option_checks import invalid_beside, one_action
from kvorum.cli.output import say, warn
from kvorum.cli.text_values import UNSET_HINT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvorum.client.wire.cluster_client import ClusterClient


@click.command("kafka-configs", cls=OrderedCommand)
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
@connection_options(controller=True)
def configs(
    connection: Connection,
    describe: bool,
    alter: bool,
    everything: bool,
    types: tuple[str, ...],
    names: tuple[str, ...],
    defaults: bool,
    **options: Any,
) -> None:
    """Describe and alter configs of topics, brokers, ..., quotas of users, clients, ips, and users' SCRAM credentials.

    \b
    kvorum kafka-configs --bootstrap-server localhost:9092 --describe --entity-type topics --entity-name orders
    kvorum kafka-configs --bootstrap-server localhost:9092 --alter --topic orders --add-config retention.ms=3600000
    """
    action = one_action({"describe": describe, "alter": alter})
    entity = entity_of(types, names, defaults, options)
    try:
        for kind, name in entity.items():
            check_entity(kind, name)
        if action == "describe":
            invalid_beside("describe", {"add-config": options["add_config"], "delete-config": options["deleted"]})
            describe_entity(connection, entity, everything)
        else:
            alter_entity(connection, entity, options, defaults_by_empty_name(entity, names, options))
    except EntityError as error:
        raise click.UsageError(str(error)) from None


def alter_entity(
    connection: Connection, entity: dict[str, str | None], options: dict[str, Any], defaults: "Sequence[str]"
) -> None:
    """Change the configs of an entity; `defaults`: types whose default is meant by an empty name."""
    from kvorum.cli.kafka.entities import RESOURCES, Changes, alter_entity_quotas, alter_resource
    from kvorum.cli.kafka.scram_configs import ScramChange, alter_user, check_scram_entity, scram_change, scram_names

    text, file = options["add_config"], options["add_config_file"]
    if text is not None and file is not None:
        raise EntityError("Only one of --add-config or --add-config-file must be specified")
    named = {kind: name for kind, name in entity.items() if name is not None}
    if len(named) < len(entity):
        raise EntityError(f"An entity name must be specified with --alter of {','.join(entity)}")
    values = parse_additions(text) if text is not None else read_properties(file)
    check_keys(values)
    removed = [key.strip() for each in options["deleted"] for key in each.split(",") if key.strip()]
    if not values and not removed:
        raise EntityError(
            "At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter"
        )
    for kind in defaults:
        warn(f"an empty name means the default of all {kind}, as in Kafka; {UNSET_HINT}")
    changes, (kind, name) = Changes(values=values, deleted=removed), next(iter(named.items()))
    credentials: list[ScramChange] = []
    is_scram = kind in ("users", "clients") and bool(scram_names([*values, *removed]))
    if is_scram:
        check_scram_entity(named, values, removed)
        credentials = [scram_change(key, value) for key, value in values.items()]

    async def work(cluster: "ClusterClient") -> None:
        if kind in RESOURCES:
            await alter_resource(cluster, kind, name, changes)
        elif is_scram:
            await alter_user(cluster, name, credentials, removed)
        else:
            await alter_entity_quotas(cluster, named, changes)

    connection.run(work)
    if name:
        say(f"Completed updating config for {kind[:-1]} {name}.")
    else:
        say(f"Completed updating default config for {kind} in the cluster.")
