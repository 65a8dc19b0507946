"""`python -m sim.mutants`: inserts known protocol mistakes, one at a time, and checks that tests find them."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvorum.cli.output import Exit, fail, install_hint
from kvorum.cli.progress import bar

if TYPE_CHECKING:
    from kvorum.chaos.report.results import MutantResult

SEEDS = 100
FILE = click.Path(dir_okay=False, writable=True, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)


@click.command()
@click.option("--only", metavar="NAME", multiple=True, help="Only this mutant. Repeatable.")
@click.option("--seeds", default=SEEDS, show_default=True, type=click.IntRange(1), help="Seeds per mutant.")
@click.option("--first", default=1, show_default=True, type=click.IntRange(0), help="The first seed.")
@click.option("--swarm", is_flag=True, help="Random plans only, no directed ones.")
@click.option("--real", is_flag=True, help="On real processes with a short scenario, where possible.")
@click.option("--out", type=FOLDER, help="With --real: keep histories, reports, logs here.")
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(1, 64), help="Mutants in parallel.")
@click.option("--json", "json_file", type=FILE, help="Also write the table as JSON.")
def mutants(
    only: tuple[str, ...],
    seeds: int,
    first: int,
    swarm: bool,
    real: bool,
    out: Path | None,
    jobs: int,
    json_file: Path | None,
) -> None:
    """Insert known protocol mistakes into the code, one at a time, and check that tests find them.

    Prints which were caught, by which check, after how many seeds. Exit code 0: all caught; 1: not all.

    \b
    python -m sim.mutants
    python -m sim.mutants --only guard-off --seeds 20
    python -m sim.mutants --real --only ignore-min-isr
    """
    from kvorum.chaos.report.tables import mutant_table, mutants_json
    from kvorum.runtime.compiled import compiled_count
    from sim.mutants.catalogue import HUNTED, MUTANTS

    if compiled_count():
        fail("mutants replace parts of modules, but the modules are compiled: use a pure-Python installation")
    unknown = [name for name in only if name not in MUTANTS]
    if unknown:
        raise click.BadParameter(f"{unknown[0]} is not one of {', '.join(MUTANTS)}", param_hint="--only")
    if real and (swarm or jobs > 1):
        raise click.UsageError("with --real mutants run sequentially, by scenario")
    if not real and any(name not in HUNTED for name in only):
        raise click.UsageError(
            f"{next(n for n in only if n not in HUNTED)} is not detectable by simulation: use --real"
        )
    found = on_processes(only, first, out) if real else hunt_all(only or HUNTED, seeds, first, swarm, jobs)
    results = []
    total = 0 if real else len(only or HUNTED)  # how many scenarios show a mutant on processes is known as they come
    with bar(total, "mutants", beside_output=True) as done:
        for result in found:
            results.append(result)
            done(1 if total else 0)
            if not total or not sys.stderr.isatty() or sys.stdout.isatty():  # no line through the bar
                click.echo(f"{result.name}: {result.caught_by or 'not caught'}", err=True)
    click.echo(mutant_table(results), nl=False)
    if json_file is not None:
        json_file.write_text(mutants_json(results))
    sys.exit(Exit.DONE if all(result.caught_by for result in results) else Exit.FAILED)


def hunt_all(names: tuple[str, ...], seeds: int, first: int, swarm: bool, jobs: int) -> "Iterator[MutantResult]":
    """Hunt mutants with simulations and unit tests."""
    import multiprocessing
    import os
    from functools import partial

    from kvorum.runtime.process import die_with_parent
    from sim.mutants.hunt import hunt_named

    work = partial(hunt_named, first=first, seeds=seeds, swarm=swarm)
    if jobs == 1:
        yield from map(work, names)
        return
    with multiprocessing.get_context("spawn").Pool(jobs, die_with_parent, (os.getpid(),)) as pool:
        yield from pool.imap(work, names, chunksize=1)


def on_processes(only: tuple[str, ...], seed: int, out: Path | None) -> "Iterator[MutantResult]":
    """Hunt mutants with scenarios on real processes."""
    import tempfile

    try:
        from sim.mutants.real import NoVerdict, hunt_real
        from sim.mutants.scenarios import SHOWN, scenarios_of
    except ModuleNotFoundError as error:
        fail(f"{error.name} is not installed; {install_hint('chaos')}", Exit.USAGE)
    without = [name for name in only if name not in SHOWN]
    if without:
        raise click.BadParameter(f"{without[0]} has no scenario; use one of {', '.join(SHOWN)}", param_hint="--only")
    with tempfile.TemporaryDirectory(prefix="kvorum-mutants-") as scratch:
        for name in only or SHOWN:
            for scenario in scenarios_of(name):
                folder = (out or Path(scratch)) / name / scenario.name.replace("/", "-")
                try:
                    yield hunt_real(name, folder, seed=seed, scenario=scenario)
                except NoVerdict as error:
                    fail(f"{name}, {scenario.name}: not run: {error}", Exit.USAGE)


if __name__ == "__main__":
    mutants()
