"""`kvorum bench`: measures a cluster on this machine in less than a minute."""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from kvorum.cli.output import Exit, fail, output_option, show

if TYPE_CHECKING:
    from kvorum.cluster.local.local import LocalCluster
    from kvorum.runtime.cluster_file import ClusterSpec

START_SECONDS = 60.0
COLUMNS = ("what", "records", "seconds", "records_per_second", "mib_per_second", "p50_ms", "p99_ms", "max_ms")


@click.command()
@click.option("-n", "--nodes", type=click.IntRange(1, 100), help="Number of brokers to start (default 1).")
@click.option(
    "-b",
    "--bootstrap",
    "--bootstrap-server",
    "bootstrap",
    metavar="HOST:PORT,...",
    help="Use a running cluster instead of a temporary one.",
)
@click.option(
    "--records",
    type=click.IntRange(1),
    default=500_000,
    show_default=True,
    help="Number of records to produce and consume.",
)
@click.option(
    "--size",
    type=click.IntRange(1, 1_000_000),
    default=100,
    show_default=True,
    help="Size of a record's value in bytes.",
)
@output_option
def bench(nodes: int | None, bootstrap: str | None, records: int, size: int, output: str) -> None:
    """Measure produce and consume throughput and latency with one client (librdkafka) on this machine.

    Starts a temporary cluster unless --bootstrap names a running one; the topic is deleted afterwards. Produces
    with acks=all to 6 partitions. The latency is from produce() to the record's arrival at a consumer, one record
    after the other. Each of the three parts ends after 15 seconds, with the records until then.

    \b
    kvorum bench
    kvorum bench --nodes 3 --records 1000000 --size 1024
    kvorum bench --bootstrap-server 127.0.0.1:9092 -o json
    """
    from kvorum.cli.connection.unreachable import unreachable
    from kvorum.cli.perf.loads import LoadError, Unreachable, run

    if bootstrap is not None and nodes is not None:
        raise click.UsageError("--nodes starts a cluster and cannot be combined with --bootstrap")
    with contextlib.ExitStack() as stack:
        servers = bootstrap or stack.enter_context(started(nodes or 1))
        try:
            rows = run(servers, records, size)
        except Unreachable as error:
            fail(unreachable(servers, str(error)), Exit.UNREACHABLE)
        except LoadError as error:
            fail(str(error))
    show(rows, output, COLUMNS)


@contextlib.contextmanager
def started(nodes: int) -> Iterator[str]:
    """A cluster in a temporary folder; its bootstrap servers. Its processes die with this one."""
    import tempfile

    from kvorum.cli.local.folders import made_cluster
    from kvorum.runtime.cluster_file import dev_cluster

    def read(place: str) -> "ClusterSpec":
        return dev_cluster(nodes, 0, place, ())

    with (
        tempfile.TemporaryDirectory(prefix="kvorum-bench-", ignore_cleanup_errors=True) as folder,
        made_cluster(folder, read) as cluster,
    ):
        try:
            start(cluster)
            yield cluster.plan.bootstrap
        finally:
            for node in cluster.plan.nodes:
                cluster.kill(node.name)


def start(cluster: "LocalCluster") -> None:
    """Start all nodes, or print the reason and end."""
    from kvorum.cli.local.dev import report_start

    outcome = cluster.start(timeout_seconds=START_SECONDS)
    if any(each != "ready" for each in outcome.values()):
        report_start(cluster, outcome)
        raise SystemExit(Exit.FAILED)
