"""`kvorum reassign`: what Kafka's kafka-reassign-partitions.sh does, with its files and options (KIP-455, KIP-73)."""

import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kvorum.cli.client import bootstrap_option, with_cluster
from kvorum.cli.output import Exit, fail, output_option, show
from kvorum.cli.progress import bar

if TYPE_CHECKING:
    from kvorum.admin.client import ClusterClient
    from kvorum.admin.log_dir_moves import Replica, Started
    from kvorum.admin.places import Place
    from kvorum.admin.reassignments import Assignment, Reassignments

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., object])
TIMEOUT_MS = 10_000
WAIT_PAUSE_SECONDS = 1.0
LIST_COLUMNS = ("topic", "partition", "replicas", "adding", "removing")
VERIFY_COLUMNS = ("topic", "partition", "state", "replicas", "target")


@click.group()
def reassign() -> None:
    """Move partitions to other brokers while they are written to and read.

    \b
    kvorum reassign generate --topics-to-move-json-file topics.json --broker-list 2,3,4 -o json > plan.json
    kvorum reassign execute --reassignment-json-file plan.json --throttle 50000000
    kvorum reassign verify --reassignment-json-file plan.json     until all is completed: it takes the throttle off
    kvorum reassign list
    """


def with_reassignments(bootstrap: str, work: Callable[["Reassignments"], Awaitable[T]]) -> T:
    """Run `work` on a cluster's reassignments."""

    async def run(cluster: "ClusterClient") -> T:
        from kvorum.admin.reassignments import Reassignments

        return await work(Reassignments(cluster))

    return with_cluster(bootstrap, run)


def file_option(command: F) -> F:
    """Add --reassignment-json-file, required."""
    return click.option(
        "--reassignment-json-file",
        "path",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        required=True,
        help="Partitions and their replicas, as `generate` writes them.",
    )(command)


def preserve_option(command: F) -> F:
    """Add --preserve-throttles."""
    return click.option("--preserve-throttles", is_flag=True, help="Leave the throttles as they are.")(command)


def timeout_option(command: F) -> F:
    """Add --timeout."""
    return click.option(
        "--timeout", "timeout_ms", type=click.IntRange(1), default=TIMEOUT_MS, show_default=True, help="ms."
    )(command)


def assignment_in(path: Path) -> "Assignment":
    """Read a file of partitions; what is wrong with it ends the command."""
    from kvorum.admin.reassignments import read_assignment

    try:
        return read_assignment(path.read_text())
    except ValueError as error:
        raise click.BadParameter(f"{path}: {error}", param_hint="--reassignment-json-file") from error


def moves_in(path: Path) -> "dict[Replica, str]":
    """Return where a file that assignment_in took has replicas lie."""
    from kvorum.admin.reassignments import read_moves

    return read_moves(path.read_text())


def fail_if_refused(refused: "Mapping[Place, str] | Mapping[Replica, str]", what: str) -> None:
    """End with an error if partitions or replicas were refused, a line each."""
    if refused:
        fail("\n".join([f"{what}:", *sorted(f"{place}: {why}" for place, why in refused.items())]))


@reassign.command()
@click.option(
    "--topics-to-move-json-file",
    "path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    required=True,
    help='{"version": 1, "topics": [{"topic": "orders"}]}',
)
@click.option("--broker-list", required=True, metavar="ID,ID,...", help="Who is to have them.")
@click.option("--disable-rack-aware", is_flag=True, help="Do not spread replicas over racks.")
@click.option("--keep", "kept", is_flag=True, help="Move as few replicas as it takes: what is on these brokers stays.")
@bootstrap_option
@output_option
def generate(path: Path, broker_list: str, disable_rack_aware: bool, kept: bool, bootstrap: str, output: str) -> None:
    """Propose replicas for all partitions of some topics, spread over some brokers as new topics are.

    -o json writes the proposal alone, for `execute`.

    \b
    kvorum reassign generate --topics-to-move-json-file topics.json --broker-list 2,3,4
    """
    from kvorum.admin.proposals import check_racks, keep
    from kvorum.admin.reassignments import as_file, read_topics
    from kvorum.protocol.errors import ErrorCode, KafkaError

    try:
        wanted = [int(each) for each in broker_list.split(",")]
        topics = read_topics(path.read_text())
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if len(set(wanted)) != len(wanted):
        raise click.BadParameter("a broker is there more than once", param_hint="--broker-list")

    async def work(found: "Reassignments") -> "tuple[Assignment, dict[int, str | None]]":
        return await found.current(topics), await found.brokers()

    current, racks = with_reassignments(bootstrap, work)
    for missing in sorted(set(topics) - {place.topic for place in current}):
        fail(f"topic {missing!r} is not there", Exit.NOT_FOUND)
    unknown = [broker for broker in wanted if broker not in racks]
    if unknown:
        fail(f"there is no broker {unknown[0]}", Exit.NOT_FOUND)
    chosen = {broker: None if disable_rack_aware else racks[broker] for broker in wanted}
    try:
        check_racks(chosen)
        proposed = keep(current, chosen) if kept else placed(current, chosen)
    except KafkaError as error:
        aside = error.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
        fail(f"{error.message}{'; --disable-rack-aware leaves racks aside' if aside else ''}")
    if output == "json":
        click.echo(json.dumps(as_file(proposed)))
        return
    click.echo(f"Current partition replica assignment\n{json.dumps(as_file(current))}\n")
    click.echo(f"Proposed partition reassignment configuration\n{json.dumps(as_file(proposed))}")


def placed(current: "Assignment", racks: dict[int, str | None]) -> "Assignment":
    """Return new replicas for these partitions on these brokers, by the rule that new topics are placed with."""
    from kvorum.admin.proposals import spread
    from kvorum.protocol.errors import KafkaError
    from kvorum.runtime.chance import new_random

    try:
        return spread(current, racks, new_random())
    except KafkaError as error:
        fail(error.message or error.code.name)


@reassign.command()
@file_option
@click.option("--throttle", type=click.IntRange(1), help="Bytes a second each broker moves at the most.")
@click.option(
    *("--replica-alter-log-dirs-throttle", "log_dirs_throttle"),
    type=click.IntRange(1),
    help="Bytes a second each broker copies at the most between its log directories.",
)
@click.option("--additional", is_flag=True, help="Also while others are under way; or to change the throttle.")
@click.option("--disallow-replication-factor-change", "same_size", is_flag=True, help="No more and no fewer replicas.")
@timeout_option
@bootstrap_option
def execute(
    path: Path,
    throttle: int | None,
    log_dirs_throttle: int | None,
    additional: bool,
    same_size: bool,
    timeout_ms: int,
    bootstrap: str,
) -> None:
    """Begin to move partitions to the replicas that a file names, and replicas to the log directories it names.

    \b
    kvorum reassign execute --reassignment-json-file plan.json
    kvorum reassign execute --reassignment-json-file plan.json --throttle 100000000 --additional
    """
    from kvorum.admin.reassignments import as_file, moves_of

    wanted, moves = assignment_in(path), moves_in(path)

    async def work(found: "Reassignments") -> "dict[Place, str]":
        under_way = await found.under_way()
        if under_way and not additional:
            fail(
                "there are reassignments under way; --additional begins this one beside them (or, with the file of "
                "what is under way, changes its throttle)"
            )
        unknown = {broker for replicas in wanted.values() for broker in replicas}.difference(await found.brokers())
        if unknown:
            fail(f"there is no broker {min(unknown)}", Exit.NOT_FOUND)
        current = await found.current({place.topic for place in wanted})
        for place in wanted:
            if place not in current:
                fail(f"there is no partition {place}", Exit.NOT_FOUND)
        before = {place: current[place] for place in wanted}
        click.echo(f"Current partition replica assignment\n\n{json.dumps(as_file(before))}\n")
        click.echo("Save this to use as the --reassignment-json-file option during rollback")
        if throttle is not None or log_dirs_throttle is not None:
            click.echo("Warning: run `kvorum reassign verify` until all is completed, or the throttle stays.")
        if throttle is not None:
            await found.throttle(moves_of(under_way, current, wanted), throttle)
            click.echo(f"The inter-broker throttle limit was set to {throttle} B/s")
        if log_dirs_throttle is not None:
            await found.moves.throttle({replica.broker for replica in moves}, log_dirs_throttle)
            click.echo(f"The replica-alter-dir throttle limit was set to {log_dirs_throttle} B/s")
        return await found.alter(dict(wanted), timeout_ms, may_resize=not same_size)

    fail_if_refused(with_reassignments(bootstrap, work), "Error reassigning partition(s)")
    click.echo(f"Successfully started partition reassignment{plural(wanted)} for {told(wanted)}")
    if moves:
        begin_moves(moves, timeout_ms, bootstrap)


def begin_moves(moves: "dict[Replica, str]", timeout_ms: int, bootstrap: str) -> None:
    """Have replicas move between log directories, new ones once they are there."""
    begun, absent, refused = with_reassignments(bootstrap, lambda found: found.moves.begin(moves, timeout_ms))
    for each in begun:
        place = f"{each.topic}-{each.partition}"
        click.echo(
            f"Successfully started moving log directory to {moves[each]} for replica {place} with broker {each.broker}"
        )
    fail_if_refused(refused, "Failed to alter dir")
    if absent:
        fail(f"Timed out before log directory move{plural(absent)} could be started for: {told(absent)}")


@reassign.command()
@file_option
@preserve_option
@click.option("--wait", "seconds", type=click.FloatRange(0), default=0, help="Until it is done, so many seconds long.")
@bootstrap_option
@output_option
def verify(path: Path, preserve_throttles: bool, seconds: float, bootstrap: str, output: str) -> None:
    """Say how far the partitions of a file are; once nothing is under way any more, take the throttles off.

    Exit code 1 while some are not where the file wants them.

    \b
    kvorum reassign verify --reassignment-json-file plan.json
    kvorum reassign verify --reassignment-json-file plan.json --wait 3600
    """
    from kvorum.admin.reassignments import states_of

    wanted, moves = assignment_in(path), moves_in(path)

    async def work(found: "Reassignments") -> list[dict[str, Any]]:
        if seconds:
            await wait_for(found, wanted, seconds)
        under_way = await found.under_way()
        current = await found.current({place.topic for place in wanted})
        states = states_of(under_way, current, wanted)
        rows: list[dict[str, Any]] = []
        for (place, target), state in zip(sorted(wanted.items()), states, strict=True):
            row = {"topic": place.topic, "partition": place.partition, "state": state.value}
            rows.append({**row, "replicas": current.get(place, []), "target": target})
        moving = await found.moves.states(moves)
        for replica, each in moving.items():
            row = {"topic": replica.topic, "partition": replica.partition, "state": each.state}
            rows.append({**row, "replicas": f"{replica.broker}: {each.current}", "target": each.target})
        is_moving = any(each.future is not None for each in moving.values())
        if not under_way and not is_moving and not preserve_throttles:
            await say_unthrottled(found, wanted)
        return rows

    rows = with_reassignments(bootstrap, work)
    show(rows, output, VERIFY_COLUMNS)
    if any(row["state"] != "completed" for row in rows):
        raise SystemExit(Exit.FAILED)


async def wait_for(found: "Reassignments", wanted: "Assignment", seconds: float) -> None:
    """Return once nothing of the file is under way, or when so many seconds are over."""
    import asyncio

    deadline, left = time.monotonic() + seconds, len(wanted)
    with bar(left, "moved") as moved:
        while True:
            now_left = len(wanted.keys() & (await found.under_way()).keys())
            moved(left - now_left)
            left = now_left
            if not left or time.monotonic() >= deadline:
                return
            await asyncio.sleep(WAIT_PAUSE_SECONDS)  # a cluster tells nobody of its own accord


async def say_unthrottled(found: "Reassignments", wanted: "Assignment") -> None:
    """Take throttles off, and say so where it does not mix with what programs read."""
    brokers, topics = await found.unthrottle(wanted)
    click.echo(f"Cleared throttles on brokers {','.join(map(str, brokers))} and topics {','.join(topics)}", err=True)


@reassign.command()
@file_option
@preserve_option
@timeout_option
@bootstrap_option
def cancel(path: Path, preserve_throttles: bool, timeout_ms: int, bootstrap: str) -> None:
    """Cancel what is under way of the partitions of a file: they go back to the replicas they had.

    \b
    kvorum reassign cancel --reassignment-json-file plan.json
    """
    wanted, moves = assignment_in(path), moves_in(path)

    async def work(found: "Reassignments") -> "tuple[list[Place], dict[Place, str], Started]":
        active = [place for place in await found.under_way() if place in wanted]
        refused = await found.alter(dict.fromkeys(active), timeout_ms) if active else {}
        stopped = await found.moves.cancel(moves)
        if not refused and not preserve_throttles:
            await say_unthrottled(found, wanted)
        return active, refused, stopped

    active, refused, stopped = with_reassignments(bootstrap, work)
    fail_if_refused(refused, "Error cancelling partition reassignment(s)")
    if active:
        click.echo(f"Successfully cancelled partition reassignment{plural(active)} for: {told(active)}")
    else:
        click.echo("None of the specified partition reassignments are active.")
    fail_if_refused(stopped.refused, "Failed to alter dir")
    if stopped.begun:
        click.echo(f"Successfully cancelled log directory move{plural(stopped.begun)} for: {told(stopped.begun)}")
    elif moves:
        click.echo("None of the specified partition moves are active.")


@reassign.command("list")
@bootstrap_option
@output_option
def list_(bootstrap: str, output: str) -> None:
    """List the reassignments that are under way.

    \b
    kvorum reassign list
    kvorum reassign list -o json
    """

    async def work(found: "Reassignments") -> list[dict[str, Any]]:
        return [
            {
                "topic": place.topic,
                "partition": place.partition,
                "replicas": each.replicas,
                "adding": each.adding,
                "removing": each.removing,
            }
            for place, each in (await found.under_way()).items()
        ]

    rows = with_reassignments(bootstrap, work)
    if not rows and output == "table":
        click.echo("No partition reassignments found.")
        return
    show(rows, output, LIST_COLUMNS)


def plural(places: "Assignment | Sequence[Place] | Sequence[Replica]") -> str:
    """Return the ending of a word that counts these."""
    return "" if len(places) == 1 else "s"


def told(places: "Assignment | Sequence[Place] | Sequence[Replica]") -> str:
    """Return the partitions, or replicas, in a line."""
    return ",".join(str(place) for place in sorted(places))
