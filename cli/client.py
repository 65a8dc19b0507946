"""What commands that speak to a cluster share: --bootstrap, and errors said in one line."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kvorum.cli.output import Exit, fail

if TYPE_CHECKING:
    from kvorum.admin.client import ClusterClient

C = TypeVar("C")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., object])
DEFAULT = "127.0.0.1:9092"


def bootstrap_option(command: F) -> F:
    """Add -b/--bootstrap (Kafka's --bootstrap-server is understood too)."""
    return click.option(
        "-b",
        "--bootstrap",
        "--bootstrap-server",
        "bootstrap",
        default=lambda: os.environ.get("KVORUM_BOOTSTRAP", DEFAULT),
        show_default=f"$KVORUM_BOOTSTRAP, else {DEFAULT}",
        help="HOST:PORT of one or more brokers.",
    )(command)


def with_cluster(bootstrap: str, work: Callable[["ClusterClient"], Awaitable[T]]) -> T:
    """Run `work` with a connection to the cluster; a refusal ends the command with its reason."""
    from kvorum.admin.client import ClusterClient, Unreachable, parse_bootstrap
    from kvorum.protocol.errors import ErrorCode, KafkaError
    from kvorum.runtime.chance import new_random

    try:
        addresses = parse_bootstrap(bootstrap)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--bootstrap") from None

    async def run() -> T:
        cluster = ClusterClient(addresses, client_id="kvorum-cli", chance=new_random())
        try:
            return await work(cluster)
        finally:
            await cluster.close()

    try:
        return asyncio.run(run())
    except Unreachable as error:
        fail(f"no broker could be reached: {error}", Exit.UNREACHABLE)
    except KafkaError as error:
        missing = error.code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
        fail(str(error), Exit.NOT_FOUND if missing else Exit.FAILED)


def client_of(make: Callable[[dict[str, Any]], C], options: dict[str, Any]) -> C:
    """Make an unmodified client; a property it does not take (-X) ends the command with the reason."""
    from confluent_kafka import KafkaException

    try:
        return make(options)
    except KafkaException as error:
        raise click.UsageError(str(error.args[0].str())) from error
