"""`kvorum configs`: the functions of Kafka's kafka-configs.sh, and the validation of files."""

from typing import TYPE_CHECKING, Any

import click

from kvorum.cli.configs.validation import validate
from kvorum.cli.connection.client import bootstrap_option, with_cluster
from kvorum.cli.output import output_option, pairs, show, tell

if TYPE_CHECKING:
    from kvorum.client.wire.cluster_client import ClusterClient

# As cli/configs/entities has them; named here so that help needs no import of the client.
RESOURCE_TYPES = ("topics", "brokers", "broker-loggers", "groups", "client-metrics")
QUOTA_TYPES = ("users", "clients", "ips")
COLUMNS = ("type", "name", "config", "value", "source")
QUOTA_COLUMNS = ("user", "client", "ip", "quota", "value")
DEFAULT_NAME = "<default>"


@click.group()
def configs() -> None:
    """Describe and alter the configs of topics, brokers, groups and more, and the quotas of clients; validate files.

    `kvorum config` is an alias.

    \b
    kvorum configs describe topics orders
    kvorum configs alter brokers --default --set log.retention.ms=3600000
    kvorum configs alter users alice --client app --set producer_byte_rate=1048576
    kvorum configs validate cluster.yaml
    """


configs.add_command(validate)


def entity_options(command: Any) -> Any:
    """Add the arguments and options of the entity."""
    command = click.option("--client-default", is_flag=True, help="With users: every client id of the user.")(command)
    command = click.option("--client", help="With users: this client id of the user.")(command)
    command = click.option("--default", "is_default", is_flag=True, help="Default for all brokers, users, ...")(command)
    command = click.argument("name", required=False)(command)
    return click.argument("kind", type=click.Choice([*RESOURCE_TYPES, *QUOTA_TYPES]), metavar="TYPE")(command)


def entity_of(
    kind: str, name: str | None, is_default: bool, client: str | None, client_default: bool
) -> dict[str, str | None]:
    """Return {type: name}, with "" for a default and None for all. Raises UsageError."""
    from kvorum.cli.configs.entities import EntityError, check_entity

    if is_default and name is not None:
        raise click.UsageError("give a NAME or --default, not both")
    if (client is not None or client_default) and kind != "users":
        raise click.UsageError("--client and --client-default require users")
    if client is not None and client_default:
        raise click.UsageError("give --client or --client-default, not both")
    wanted = "" if is_default else name
    try:
        check_entity(kind, wanted)
    except EntityError as error:
        raise click.UsageError(str(error)) from None
    entity = {kind: wanted}
    if client is not None or client_default:
        entity["clients"] = "" if client_default else client
    return entity


@configs.command()
@entity_options
@click.option("--all", "everything", is_flag=True, help="Include defaults.")
@bootstrap_option
@output_option
def describe(
    kind: str,
    name: str | None,
    is_default: bool,
    client: str | None,
    client_default: bool,
    everything: bool,
    bootstrap: str,
    output: str,
) -> None:
    """Show the configs of one topic, broker, ... or of all of a TYPE.

    TYPE is one of topics, brokers, broker-loggers, groups, client-metrics, users, clients, ips.

    \b
    kvorum configs describe topics orders --all
    kvorum configs describe brokers 1 -o json
    kvorum configs describe users alice --client app
    """
    entity = entity_of(kind, name, is_default, client, client_default)

    async def work(cluster: "ClusterClient") -> list[dict[str, Any]]:
        if kind in QUOTA_TYPES:
            return await quota_rows(cluster, entity)
        return await config_rows(cluster, kind, entity[kind], everything)

    columns = QUOTA_COLUMNS if kind in QUOTA_TYPES else COLUMNS
    show(with_cluster(bootstrap, work), output, columns)


async def config_rows(cluster: "ClusterClient", kind: str, name: str | None, everything: bool) -> list[dict[str, Any]]:
    """Return a row a config."""
    from kvorum.cli.configs.entities import entity_names, resource_configs

    names = [name] if name is not None else await entity_names(cluster, kind)
    return [
        {
            "type": kind,
            "name": each or DEFAULT_NAME,
            "config": row.name,
            "value": row.value,
            "source": row.source,
            "read_only": row.read_only,
            "sensitive": row.sensitive,
            "synonyms": row.synonyms,
        }
        for each in names
        for row in await resource_configs(cluster, kind, each, everything=everything)
    ]


async def quota_rows(cluster: "ClusterClient", entity: dict[str, str | None]) -> list[dict[str, Any]]:
    """Return a row a quota."""
    from kvorum.cli.configs.entities import QUOTA_ENTITIES
    from kvorum.client.quotas import CLIENT_ID, IP, USER, describe_quotas

    wanted = {QUOTA_ENTITIES[kind]: name for kind, name in entity.items()}
    rows = []
    for each in await describe_quotas(cluster, wanted):
        names = {kind: DEFAULT_NAME if name is None else name for kind, name in each.entity.items()}
        for key, value in each.values.items():
            rows.append(
                {
                    "user": names.get(USER),
                    "client": names.get(CLIENT_ID),
                    "ip": names.get(IP),
                    "quota": key,
                    "value": value,
                }
            )
    return rows


@configs.command()
@entity_options
@click.option("-s", "--set", "values", multiple=True, metavar="KEY=VALUE", help="Repeatable.")
@click.option("--delete", "deleted", multiple=True, metavar="KEY", help="Reset a config. Repeatable.")
@click.option("--dry-run", is_flag=True, help="Validate only.")
@bootstrap_option
@output_option
def alter(
    kind: str,
    name: str | None,
    is_default: bool,
    client: str | None,
    client_default: bool,
    values: tuple[str, ...],
    deleted: tuple[str, ...],
    dry_run: bool,
    bootstrap: str,
    output: str,
) -> None:
    """Set and delete configs of a topic, broker, ..., or quotas of users, clients, ips.

    \b
    kvorum configs alter topics orders --set retention.ms=3600000 --delete cleanup.policy
    kvorum configs alter brokers --default --set log.retention.ms=3600000
    kvorum configs alter users --default --client-default --set consumer_byte_rate=1048576
    """
    from kvorum.cli.configs.entities import Changes, EntityError, alter_entity_quotas, alter_resource

    entity = entity_of(kind, name, is_default, client, client_default)
    if any(each is None for each in entity.values()):
        raise click.UsageError("give a NAME" + (", or --default" if kind in ("brokers", *QUOTA_TYPES) else ""))
    changes = Changes(values=pairs(values, "--set"), deleted=deleted)
    if not changes.values and not changes.deleted:
        raise click.UsageError("nothing to change: give --set or --delete")
    named = {each: found or "" for each, found in entity.items()}

    async def work(cluster: "ClusterClient") -> None:
        if kind in QUOTA_TYPES:
            await alter_entity_quotas(cluster, named, changes, validate_only=dry_run)
        else:
            await alter_resource(cluster, kind, named[kind], changes, validate_only=dry_run)

    try:
        with_cluster(bootstrap, work)
    except EntityError as error:
        raise click.UsageError(str(error)) from None
    whose = ", ".join(f"{each} {found or DEFAULT_NAME}" for each, found in named.items())
    found = {"entity": {each: name or DEFAULT_NAME for each, name in named.items()}, "changed": not dry_run}
    found |= {"set": changes.values, "deleted": list(changes.deleted)}
    tell(found, output, f"{whose}: {'would be changed' if dry_run else 'changed'}")
