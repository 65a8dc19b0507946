"""`kvorum log-dirs`: what Kafka's kafka-log-dirs.sh does."""

from typing import TYPE_CHECKING, Any

import click

from kvorum.cli.connection.client import bootstrap_option, with_cluster
from kvorum.cli.output import fail, output_option, show

if TYPE_CHECKING:
    from kvorum.client.values.log_dir import LogDir
    from kvorum.client.wire.cluster_client import ClusterClient

VOLUME_COLUMNS = ("broker", "log_dir", "partitions", "size", "total", "usable", "error")
COLUMNS = ("broker", "log_dir", "partition", "size", "offset_lag", "future")


def numbers(text: str | None, option: str) -> list[int]:
    """Read 1,2,3."""
    try:
        return [int(part) for part in (text or "").split(",") if part.strip()]
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a list of numbers", param_hint=option) from None


@click.command("log-dirs")
@click.argument("topics", nargs=-1)
@click.option("--brokers", metavar="1,2,3", help="Only these brokers (default: all).")
@click.option("--volumes", is_flag=True, help="One row per directory: partitions and free space of its volume.")
@bootstrap_option
@output_option
def log_dirs(topics: tuple[str, ...], brokers: str | None, volumes: bool, bootstrap: str, output: str) -> None:
    """Show the partitions in brokers' log directories, with their size in bytes. TOPICS: only these.

    \b
    kvorum log-dirs orders --brokers 1,2
    kvorum log-dirs --volumes
    kvorum log-dirs -o json
    """
    wanted = numbers(brokers, "--brokers")
    if brokers is not None and not wanted:
        raise click.BadParameter(f"{brokers!r} contains no broker", param_hint="--brokers")

    async def work(cluster: "ClusterClient") -> "dict[int, list[LogDir]]":
        from kvorum.client.partitions.log_dirs import describe_log_dirs

        return await describe_log_dirs(cluster, wanted)

    found = with_cluster(bootstrap, work)
    if volumes:
        show(volume_rows(found, set(topics)), output, VOLUME_COLUMNS)
    else:
        show(rows_of(found, set(topics)), output, COLUMNS)
    offline = [f"broker {broker}: {each.path}" for broker, dirs in found.items() for each in dirs if each.error]
    if offline:
        fail(f"offline: {', '.join(offline)}")


def rows_of(found: "dict[int, list[LogDir]]", topics: set[str]) -> list[dict[str, Any]]:
    """Return one row per partition."""
    rows = [
        {
            "broker": broker,
            "log_dir": directory.path,
            "partition": str(row.topic_partition),
            "size": row.size_bytes,
            "offset_lag": row.offset_lag,
            "future": row.is_future,
        }
        for broker, directories in found.items()
        for directory in directories
        for row in directory.replicas
        if not topics or row.topic in topics
    ]
    return sorted(rows, key=lambda row: (row["broker"], row["log_dir"], row["partition"]))


def volume_rows(found: "dict[int, list[LogDir]]", topics: set[str]) -> list[dict[str, Any]]:
    """Return a row per directory, with the size of its volume, which an older broker does not return."""
    rows: list[dict[str, Any]] = []
    for broker, directories in sorted(found.items()):
        for each in sorted(directories, key=lambda each: each.path):
            sizes = [row.size_bytes for row in each.replicas if not topics or row.topic in topics]
            rows.append(
                {
                    "broker": broker,
                    "log_dir": each.path,
                    "partitions": len(sizes),
                    "size": sum(sizes),
                    "total": each.total_bytes,
                    "usable": each.usable_bytes,
                    "error": None if each.error is None else each.error.name,
                }
            )
    return rows
