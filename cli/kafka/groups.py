"""`kafka-groups` (KIP-1043). Source: Kafka's GroupsCommand."""

from typing import TYPE_CHECKING

import click

from kvorum.cli.kafka.common import Connection, connection_options
from kvorum.cli.kafka.option_checks import one_action
from kvorum.cli.output import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvorum.client.values.group import GroupListing
    from kvorum.client.wire.cluster_client import ClusterClient

WIDTH_MIN = 20
GROUP_TYPES = ("classic", "consumer", "share", "streams")


@click.command("kafka-groups")
@click.option("--list", "listing", is_flag=True)
@click.option("--group-type", type=click.Choice(GROUP_TYPES, case_sensitive=False))
@click.option("--protocol", help="Only groups of this protocol.")
@click.option("--consumer", is_flag=True, help="Consumer groups of both protocols.")
@click.option("--share", is_flag=True, help="Share groups.")
@click.option("--streams", is_flag=True, help="Streams groups.")
@connection_options()
def groups(
    connection: Connection,
    listing: bool,
    group_type: str | None,
    protocol: str | None,
    consumer: bool,
    share: bool,
    streams: bool,
) -> None:
    """List groups of all types.

    \b
    kvorum kafka-groups --bootstrap-server localhost:9092 --list
    """
    one_action({"list": listing})
    if sum((consumer, share, streams, group_type is not None or protocol is not None)) > 1:
        raise click.UsageError("give one of --consumer, --share, --streams, or --group-type and --protocol")
    wanted = "share" if share else "streams" if streams else group_type

    async def work(cluster: "ClusterClient") -> "Sequence[GroupListing]":
        from kvorum.client.namespaces.groups import Groups

        return await Groups(cluster).list()

    rows = [["GROUP", "TYPE", "PROTOCOL"]]
    for each in connection.run(work):
        if (
            (wanted is None or each.type == wanted.casefold())
            and (protocol is None or each.protocol_type == protocol)
            and (not consumer or each.has_consumers)
        ):
            rows.append([each.group_id, each.type.capitalize(), each.protocol_type])
    widths = [max(WIDTH_MIN, *(len(row[index]) for row in rows)) for index in range(3)]
    for row in rows:
        say(" ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)))
