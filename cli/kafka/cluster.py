"""`kafka-cluster`. Source: Kafka's ClusterTool."""

from typing import TYPE_CHECKING

import click

from kvorum.cli.kafka.common import Connection, connection_options
from kvorum.cli.output import say

if TYPE_CHECKING:
    from kvorum.client.values.cluster import ClusterDescription
    from kvorum.client.wire.cluster_client import ClusterClient


@click.group("kafka-cluster")
def cluster() -> None:
    """The cluster's id and endpoints; brokers that are gone for good.

    \b
    kvorum kafka-cluster cluster-id --bootstrap-server localhost:9092
    """


@cluster.command("cluster-id")
@connection_options(controller=True, short=True)
def cluster_id(connection: Connection) -> None:
    """Print the cluster's id.

    \b
    kvorum kafka-cluster cluster-id --bootstrap-server localhost:9092
    """
    say(f"Cluster ID: {describe(connection, fenced=False).cluster_id}")


def describe(connection: Connection, *, fenced: bool) -> "ClusterDescription":
    """Return the brokers' description of the cluster, or the controllers' through --bootstrap-controller."""
    from kvorum.client.namespaces.metadata import Metadata

    return connection.run(lambda client: Metadata(client).cluster(fenced=fenced))


@cluster.command()
@click.option("-i", "--id", "broker_id", type=click.IntRange(0), required=True)
@connection_options(controller=True, short=True)
def unregister(connection: Connection, broker_id: int) -> None:
    """Forget a broker that is gone for good.

    \b
    kvorum kafka-cluster unregister --bootstrap-server localhost:9092 --id 3
    """

    async def work(client: "ClusterClient") -> None:
        from kvorum.client.wire.cluster_client import refuse
        from kvorum.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

        answer = await client.ask(UnregisterBrokerRequest(broker_id=broker_id), UnregisterBrokerResponse)
        refuse(answer.error_code, answer.error_message or f"broker {broker_id}")

    connection.run(work)
    say(f"Broker {broker_id} is no longer registered.")


@cluster.command("list-endpoints")
@click.option("--include-fenced-brokers", is_flag=True)
@connection_options(controller=True, short=True)
def list_endpoints(connection: Connection, include_fenced_brokers: bool) -> None:
    """List where brokers, or controllers, are.

    \b
    kvorum kafka-cluster list-endpoints --bootstrap-server localhost:9092 --include-fenced-brokers
    """
    found = describe(connection, fenced=include_fenced_brokers)
    kind, with_state = ("controller", False) if found.is_of_controllers else ("broker", True)
    rows = [["ID", "HOST", "PORT", "RACK", *(["STATE"] if with_state else []), "ENDPOINT_TYPE"]]
    for each in found.brokers:
        state = ["fenced" if each.is_fenced else "unfenced"] if with_state else []
        rows.append([str(each.id), each.host, str(each.port), each.rack or "null", *state, kind])
    hosts, racks = (max(len(row[column]) for row in rows) for column in (1, 3))
    widths = [10, hosts, 10, max(10, racks), *([10] if with_state else []), 15]
    for row in rows:
        say(" ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)))
