"""`kafka-client-metrics` (KIP-714). Source: Kafka's ClientMetricsCommand."""

from typing import TYPE_CHECKING

import click

from kvorum.cli.kafka.common import Connection, connection_options
from kvorum.cli.kafka.option_checks import invalid_beside, one_action
from kvorum.cli.output import say

if TYPE_CHECKING:
    from kvorum.client.wire.cluster_client import ClusterClient

KIND = "client-metrics"
KEYS = {"interval": "interval.ms", "match": "match", "metrics": "metrics"}


@click.command("kafka-client-metrics")
@click.option("--list", "listing", is_flag=True)
@click.option("--describe", is_flag=True)
@click.option("--alter", is_flag=True)
@click.option("--delete", is_flag=True)
@click.option("--name")
@click.option("--generate-name", is_flag=True, help="With --alter: use a random UUID as the name.")
@click.option("--interval", metavar="MS", help="An empty value resets the config.")
@click.option("--match", metavar="k1=v1,k2=v2")
@click.option("--metrics", metavar="m1,m2")
@connection_options()
def client_metrics(
    connection: Connection,
    listing: bool,
    describe: bool,
    alter: bool,
    delete: bool,
    name: str | None,
    generate_name: bool,
    interval: str | None,
    match: str | None,
    metrics: str | None,
) -> None:
    """List, describe, alter and delete the subscriptions to clients' metrics.

    \b
    kvorum kafka-client-metrics --bootstrap-server localhost:9092 --alter --name all --metrics '*' --interval 60000
    """
    import secrets

    from kvorum.protocol.uuids import Uuid

    action = one_action({"alter": alter, "delete": delete, "describe": describe, "list": listing})
    given = {"interval": interval, "match": match, "metrics": metrics}
    if action != "alter":
        named: dict[str, object] = {"name": name} if action == "list" else {}
        invalid_beside(action, {**named, "generate-name": generate_name, **given})
    if action == "alter":
        if (name is None) != generate_name:
            raise click.UsageError("One of --name or --generate-name must be specified with --alter.")
        if interval and not interval.isdecimal():
            raise click.UsageError("Invalid interval value. Enter an integer, or leave empty to reset.")
        change(connection, str(Uuid(secrets.token_bytes(16))) if name is None else name, given)
        return
    if action == "delete":
        if name is None:
            raise click.UsageError("A client metrics resource name must be specified with --delete.")
        remove(connection, name)
        return
    if action == "list":
        list_all(connection)
    else:
        describe_all(connection, name)


def change(connection: Connection, name: str, given: dict[str, str | None]) -> None:
    """Set the given configs; empty values delete a config."""
    from kvorum.cli.kafka.entities import Changes, alter_resource

    changes = Changes(
        values={KEYS[key]: value for key, value in given.items() if value},
        deleted=[KEYS[key] for key, value in given.items() if value == ""],
    )
    connection.run(lambda cluster: alter_resource(cluster, KIND, name, changes))
    say(f"Altered client metrics config for {name}.")


def remove(connection: Connection, name: str) -> None:
    """Delete all configs of a subscription, and with them itself."""
    from kvorum.cli.kafka.entities import Changes, alter_resource, resource_configs

    async def work(cluster: "ClusterClient") -> None:
        there = [row.name for row in await resource_configs(cluster, KIND, name, everything=False)]
        if there:
            await alter_resource(cluster, KIND, name, Changes(deleted=there))

    connection.run(work)
    say(f"Deleted client metrics config for {name}.")


def list_all(connection: Connection) -> None:
    """Print the names; an empty line without any."""
    from kvorum.cli.kafka.entities import entity_names

    say("\n".join(connection.run(lambda cluster: entity_names(cluster, KIND))))


def describe_all(connection: Connection, name: str | None) -> None:
    """Print the configs of one, or of all."""
    from kvorum.cli.kafka.entities import entity_names, resource_configs

    async def work(cluster: "ClusterClient") -> dict[str, list[str]]:
        there = await entity_names(cluster, KIND)
        return {
            each: [f"  {row.name}={row.value}" for row in await resource_configs(cluster, KIND, each, everything=True)]
            for each in there
            if name in (None, each)
        }

    found = connection.run(work)
    if name is not None and not found:
        say(f"The client metric resource {name} doesn't exist and doesn't have dynamic config.")
    for each, lines in found.items():
        say(f"Client metrics configs for {each} are:")
        for line in lines:
            say(line)
