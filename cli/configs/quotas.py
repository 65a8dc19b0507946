"""`kvorum quotas`: how much clients may, by user, client id or address (KIP-13, 124, 546, 599, 612)."""

from typing import TYPE_CHECKING, Any

import click

from kvorum.cli.connection.client import bootstrap_option, with_cluster
from kvorum.cli.output import output_option, pairs, show, tell

if TYPE_CHECKING:
    from kvorum.client.wire.cluster_client import ClusterClient

COLUMNS = ("user", "client", "ip", "quota", "value")
KINDS = (("user", "users"), ("client", "clients"), ("ip", "ips"))


@click.group()
def quotas() -> None:
    """Show, set and remove quotas of clients.

    \b
    kvorum quotas list
    kvorum quotas set --user alice --client app producer_byte_rate=1048576 consumer_byte_rate=2097152
    kvorum quotas set --user-default request_percentage=50
    kvorum quotas delete --ip 10.0.0.7 connection_creation_rate
    """


def entity_options(command: Any) -> Any:
    """Add the options of the quota entity."""
    for kind, what in (("ip", "address"), ("client", "client id"), ("user", "user")):
        command = click.option(f"--{kind}-default", is_flag=True, help=f"Every {what} without its own quotas.")(command)
        command = click.option(f"--{kind}", help=f"Quotas of this {what}.")(command)
    return command


def entity_of(options: dict[str, Any]) -> dict[str, str]:
    """Return {type: name}, with "" for a default; what cannot be ends the command."""
    entity: dict[str, str] = {}
    for kind, plural in KINDS:
        name, is_default = options[kind], options[f"{kind}_default"]
        if name is not None and is_default:
            raise click.UsageError(f"give --{kind} or --{kind}-default, not both")
        if name == "":
            raise click.BadParameter("must not be empty", param_hint=f"--{kind}")
        if name is not None or is_default:
            entity[plural] = name or ""
    if "ips" in entity and len(entity) > 1:
        raise click.UsageError("--ip cannot be combined with a user or a client id")
    return entity


def format_entity(entity: dict[str, str]) -> str:
    """Return a quota entity as a text."""
    return ", ".join(f"{kind} {name or '<default>'}" for kind, name in entity.items())


@quotas.command("list")
@entity_options
@bootstrap_option
@output_option
def list_(bootstrap: str, output: str, **options: Any) -> None:
    """List all quotas, or those of a user, client id or IP address.

    \b
    kvorum quotas list
    kvorum quotas list --user alice -o json
    """
    entity = entity_of(options)

    async def work(cluster: "ClusterClient") -> list[dict[str, Any]]:
        from kvorum.cli.configs.commands import quota_rows

        wanted: list[dict[str, str | None]] = [dict(entity)]
        if not entity:
            wanted = [{"users": None}, {"clients": None}, {"users": None, "clients": None}, {"ips": None}]
        return [row for each in wanted for row in await quota_rows(cluster, each)]

    show(with_cluster(bootstrap, work), output, COLUMNS)


@quotas.command("set")
@click.argument("values", nargs=-1, required=True, metavar="QUOTA=NUMBER...")
@entity_options
@click.option("--dry-run", is_flag=True, help="Validate only.")
@bootstrap_option
@output_option
def set_(values: tuple[str, ...], dry_run: bool, bootstrap: str, output: str, **options: Any) -> None:
    """Set quotas. They apply once the brokers have the metadata.

    QUOTA is producer_byte_rate, consumer_byte_rate, request_percentage or controller_mutation_rate; for an IP address
    connection_creation_rate.

    \b
    kvorum quotas set --client app producer_byte_rate=1048576
    """
    change(entity_of(options), pairs(values, "QUOTA=NUMBER"), (), dry_run, bootstrap, output)


@quotas.command()
@click.argument("keys", nargs=-1, required=True, metavar="QUOTA...")
@entity_options
@click.option("--dry-run", is_flag=True, help="Validate only.")
@bootstrap_option
@output_option
def delete(keys: tuple[str, ...], dry_run: bool, bootstrap: str, output: str, **options: Any) -> None:
    """Remove quotas.

    \b
    kvorum quotas delete --client app producer_byte_rate
    """
    change(entity_of(options), {}, keys, dry_run, bootstrap, output)


def change(
    entity: dict[str, str], values: dict[str, str], deleted: tuple[str, ...], dry_run: bool, bootstrap: str, output: str
) -> None:
    """Change the quotas of one entity."""
    from kvorum.cli.configs.entities import Changes, EntityError, alter_entity_quotas

    if not entity:
        raise click.UsageError("give --user, --client, --ip, or the default of one of them")
    changes = Changes(values=values, deleted=deleted)

    async def work(cluster: "ClusterClient") -> None:
        await alter_entity_quotas(cluster, entity, changes, validate_only=dry_run)

    try:
        with_cluster(bootstrap, work)
    except EntityError as error:
        raise click.UsageError(str(error)) from None
    found = {"entity": entity, "set": values, "deleted": list(deleted), "changed": not dry_run}
    tell(found, output, f"{format_entity(entity)}: {'would be changed' if dry_run else 'changed'}")
