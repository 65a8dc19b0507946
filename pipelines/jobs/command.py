"""`kvorum pipelines archive | replay`: batch jobs over topics."""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TypeVar

import click
from pyspark.sql import SparkSession

from kvorum.pipelines.bridge.lookup import TopicMissing
from kvorum.pipelines.bridge.sink import Delivery
from kvorum.pipelines.jobs.archive import Archiving, verify
from kvorum.pipelines.jobs.archive import archive as take
from kvorum.pipelines.jobs.manifest import ArchiveError
from kvorum.pipelines.jobs.reading import Cluster
from kvorum.pipelines.jobs.replay import FromArchive, FromTopic, Replay
from kvorum.pipelines.jobs.replay import replay as write_again
from kvorum.pipelines.session.build import SessionSettings, build

F = TypeVar("F", bound=Callable[..., Any])


def shared(command: F) -> F:
    """Add the options that all jobs have."""
    for option in (
        click.option("--memory", default="1g", show_default=True, help="Heap of the driver."),
        click.option("--master", help="Spark's master: spark://HOST:PORT, k8s://..., yarn, local[2]."),
        click.option("--option", "options", multiple=True, metavar="KEY=VALUE", help="kafka.* options of the clients."),
    ):
        command = option(command)
    return command


bootstrap_option = click.option("--bootstrap", "-b", required=True, help="HOST:PORT,HOST:PORT of the cluster.")


def moment(context: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    """Return milliseconds since 1970 of 2026-01-31, 2026-01-31T07:00 (UTC unless it says otherwise) or a number."""
    if value is None:
        return None
    if value.isdecimal():
        return int(value)
    try:
        at = datetime.fromisoformat(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is not a time such as 2026-01-31T07:00") from None
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


def cluster_of(bootstrap: str, options: tuple[str, ...]) -> Cluster:
    """Return the cluster that options describe."""
    pairs = [option.partition("=") for option in options]
    wrong = [key for key, equals, _ in pairs if not equals]
    if wrong:
        raise click.UsageError(f"--option {wrong[0]}: write KEY=VALUE")
    return Cluster(bootstrap=bootstrap, options={key: value for key, _, value in pairs})


@contextmanager
def session(name: str, master: str | None, memory: str) -> Iterator[SparkSession]:
    """Give a session; errors of an archive or a topic are printed in one line, with exit code 1."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    spark = build(name, SessionSettings(master=master, memory=memory, connector="kvorum")).spark
    try:
        yield spark
    except (ArchiveError, TopicMissing) as error:
        click.echo(str(error), err=True)
        sys.exit(1)
    finally:
        spark.stop()


@click.command()
@click.argument("topic")
@click.argument("path")
@bootstrap_option
@click.option("--by", type=click.Choice(("hour", "day")), default="hour", show_default=True)
@click.option(
    "--run-records", default=5_000_000, show_default=True, help="Offsets per run; a run is the unit of repetition."
)
@click.option("--allow-gaps", is_flag=True, help="Continue although records were deleted before they were archived.")
@click.option("--verify", "only_verify", is_flag=True, help="Verify the files instead of archiving.")
@shared
def archive(
    topic: str,
    path: str,
    bootstrap: str,
    by: Any,
    run_records: int,
    allow_gaps: bool,
    only_verify: bool,
    options: tuple[str, ...],
    master: str | None,
    memory: str,
) -> None:
    """Archive TOPIC to Parquet files below PATH; later calls archive new records.

    \b
    kvorum pipelines archive orders /archive -b localhost:9092
    kvorum pipelines archive orders /archive -b localhost:9092 --verify
    """
    with session(f"archive-{topic}", master, memory) as spark:
        if only_verify:
            problems = verify(spark, path, topic)
            click.echo("\n".join(problems) or "every file is what was written")
            sys.exit(1 if problems else 0)
        wanted = Archiving(
            cluster=cluster_of(bootstrap, options),
            topic=topic,
            path=path,
            by=by,
            records_max=run_records,
            allow_gaps=allow_gaps,
        )
        runs = take(spark, wanted)
        files = sum(len(run.files) for run in runs)
        click.echo(f"{topic}: {sum(run.count for run in runs)} records in {files} files, {len(runs)} runs")


@click.command()
@click.argument("name")
@click.option("--archive", "path", help="Read records from the archive in this folder.")
@click.option("--from-topic", required=True, help="Topic whose records are replayed.")
@click.option("--from-bootstrap", help="Cluster of --from-topic without --archive (default: the target's).")
@click.option("--to", "topic", required=True, help="Target topic.")
@click.option("--state", required=True, help="State folder of this replay.")
@bootstrap_option
@click.option("--since", callback=moment, help="Records of this time and later: 2026-01-31T07:00, or milliseconds.")
@click.option("--until", callback=moment, help="Records before this time.")
@click.option("--partitions", type=click.Choice(("keep", "by-key")), default="keep", show_default=True)
@click.option("--timestamps", type=click.Choice(("keep", "now")), default="keep", show_default=True)
@click.option(
    "--delivery", type=click.Choice([each.value for each in Delivery]), default="exactly_once", show_default=True
)
@shared
def replay(
    name: str,
    path: str | None,
    from_topic: str,
    from_bootstrap: str | None,
    topic: str,
    state: str,
    bootstrap: str,
    since: int | None,
    until: int | None,
    partitions: Any,
    timestamps: Any,
    delivery: str,
    options: tuple[str, ...],
    master: str | None,
    memory: str,
) -> None:
    """Write the records of an archive or a topic to a topic. NAME names the replay.

    \b
    kvorum pipelines replay r1 --archive /archive --from-topic orders --to orders-2 --state /tmp/r1 -b localhost:9092
    kvorum pipelines replay r2 --from-topic orders --to test --since 2026-01-31 --state /tmp/r2 -b localhost:9092
    """
    target = cluster_of(bootstrap, options)
    here = target if from_bootstrap is None else cluster_of(from_bootstrap, options)
    source = FromTopic(cluster=here, topic=from_topic) if path is None else FromArchive(path=path, topic=from_topic)
    wanted = Replay(
        name=name,
        source=source,
        target=target,
        topic=topic,
        state=state,
        since_ms=since,
        until_ms=until,
        partitions=partitions,
        timestamps=timestamps,
        delivery=Delivery(delivery),
    )
    with session(f"replay-{name}", master, memory) as spark:
        click.echo(f"{write_again(spark, wanted)} records are in {topic}")
