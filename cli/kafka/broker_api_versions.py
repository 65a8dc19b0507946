"""`kafka-broker-api-versions`. Source: Kafka's BrokerApiVersionsCommand, NodeApiVersions."""

from typing import TYPE_CHECKING

import click

from kvorum.cli.kafka.common import Connection, connection_options
from kvorum.cli.output import say

if TYPE_CHECKING:
    from kvorum.client.wire.cluster_client import ClusterClient
    from kvorum.protocol.api import ApiKey
    from kvorum.protocol.messages.api_versions import ApiVersion


@click.command("kafka-broker-api-versions")
@connection_options()
def broker_api_versions(connection: Connection) -> None:
    """Print the APIs and versions of each broker, and which of them this Kvorum can use.

    \b
    kvorum kafka-broker-api-versions --bootstrap-server localhost:9092
    """
    from kvorum.protocol.errors import KafkaError

    async def work(cluster: "ClusterClient") -> list[str]:
        from kvorum.client.features import ask_versions
        from kvorum.client.wire.cluster_client import Unreachable, refuse
        from kvorum.protocol.api import BROKER_APIS, ApiKey

        telemetry = (ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY)  # offered with a plugin only
        lines = []
        for broker in sorted((await cluster.metadata([])).brokers, key=lambda broker: broker.node_id):
            name = f"{broker.host}:{broker.port} (id: {broker.node_id} rack: {broker.rack or 'null'} isFenced: false)"
            try:
                answer = await ask_versions(cluster, (broker.host, broker.port))
                refuse(answer.error_code, "ApiVersions")
            except (Unreachable, KafkaError) as error:
                lines.append(f"{name} -> ERROR: {error}")
                continue
            apis = {each.api_key: api_text(each) for each in answer.api_keys}
            apis = {key: f"{name_of(key)}({int(key)}): UNSUPPORTED" for key in (*BROKER_APIS, *telemetry)} | apis
            text = ",\n\t".join(apis[key] for key in sorted(apis))
            lines.append(f"{name} -> (\n\t{text}\n)")
        return lines

    for line in connection.run(work):
        say(line)


def api_text(api: "ApiVersion") -> str:
    """Return an API as Produce(0): 3 to 13 [usable: 13]."""
    from kvorum.protocol.api import ApiKey
    from kvorum.protocol.codec import message_class

    try:
        key = ApiKey(api.api_key)
        first, last = message_class(key, "Request").VERSIONS
    except (ValueError, KeyError, ModuleNotFoundError):
        return f"UNKNOWN({api.api_key}): {versions_text(api)}"
    name = name_of(key)
    if last < api.min_version:
        usable = "[unusable: node too new]"
    elif api.max_version < first:
        usable = "[unusable: node too old]"
    else:
        usable = f"[usable: {min(last, api.max_version)}]"
    return f"{name}({api.api_key}): {versions_text(api)} {usable}"


def name_of(key: "ApiKey") -> str:
    """Return an API's name as Kafka writes it: DescribeLogDirs."""
    return "".join(part.capitalize() for part in key.name.split("_"))


def versions_text(api: "ApiVersion") -> str:
    """Return 3 to 13, or the one version there is."""
    return str(api.min_version) if api.min_version == api.max_version else f"{api.min_version} to {api.max_version}"
