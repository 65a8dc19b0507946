"""`kvorum log-dirs`: what Kafka's kafka-log-dirs.sh does."""

from typing import TYPE_CHECKING, Any

import click

from kvorum.cli.connection.client import bootstrap_option, with_cluster
from kvorum.cli.output import fail, output_option, show

if TYPE_CHECKING:
    from kvorum.client.wire.cluster_client import ClusterClient
    from kvorum.protocol.messages.describe_log_dirs import DescribeLogDirsResult

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

    async def work(cluster: "ClusterClient") -> "dict[int, list[DescribeLogDirsResult]]":
        from kvorum.client.partitions.log_dirs import describe_log_dirs

        return await describe_log_dirs(cluster, wanted)

    found = with_cluster(bootstrap, work)
    if volumes:
        show(volume_rows(found, set(topics)), output, VOLUME_COLUMNS)
    else:
        show(rows_of(found, set(topics)), output, COLUMNS)
    offline = [f"broker {broker}: {each.log_dir}" for broker, dirs in found.items() for each in dirs if each.error_code]
    if offline:
        fail(f"offline: {', '.join(offline)}")


def rows_of(found: "dict[int, list[DescribeLogDirsResult]]", topics: set[str]) -> list[dict[str, Any]]:
    """Return one row per partition."""
    rows = [
        {
            "broker": broker,
            "log_dir": directory.log_dir,
            "partition": f"{topic.name}-{row.partition_index}",
            "size": row.partition_size,
            "offset_lag": row.offset_lag,
            "future": row.is_future_key,
        }
        for broker, directories in found.items()
        for directory in directories
        for topic in directory.topics
        for row in topic.partitions
        if not topics or topic.name in topics
    ]
    return sorted(rows, key=lambda row: (row["broker"], row["log_dir"], row["partition"]))


def volume_rows(found: "dict[int, list[DescribeLogDirsResult]]", topics: set[str]) -> list[dict[str, Any]]:
    """Return a row per directory, with the size of its volume, which an older broker does not return."""
    from kvorum.client.wire.cluster_client import code_of

    rows: list[dict[str, Any]] = []
    for broker, directories in sorted(found.items()):
        for each in sorted(directories, key=lambda each: each.log_dir):
            chosen = [topic for topic in each.topics if not topics or topic.name in topics]
            sizes = [row.partition_size for topic in chosen for row in topic.partitions]
            rows.append(
                {
                    "broker": broker,
                    "log_dir": each.log_dir,
                    "partitions": len(sizes),
                    "size": sum(sizes),
                    "total": each.total_bytes if each.total_bytes >= 0 else None,
                    "usable": each.usable_bytes if each.usable_bytes >= 0 else None,
                    "error": code_of(each.error_code).name if each.error_code else None,
                }
            )
    return rows
