"""`kvorum chaos mutants`: known protocol mistakes, put in one at a time; does the simulation find each of them?"""

import sys
from pathlib import Path

import click

from kvorum.cli.output import Exit

SEEDS = 100
FILE = click.Path(dir_okay=False, writable=True, path_type=Path)


@click.command()
@click.option("--only", metavar="NAME", multiple=True, help="This mutant alone; may be given again.")
@click.option("--seeds", default=SEEDS, show_default=True, type=click.IntRange(1), help="Seeds to try with each.")
@click.option("--first", default=1, show_default=True, type=click.IntRange(0), help="The first seed.")
@click.option("--json", "json_file", type=FILE, help="Also write the table as JSON.")
def mutants(only: tuple[str, ...], seeds: int, first: int, json_file: Path | None) -> None:
    """Put known protocol mistakes into the code, one at a time, and let the simulation find them.

    Prints which were caught, by what, after how many seeds. Exit code 0: all of them; 1: some were not.

    \b
    kvorum chaos mutants
    kvorum chaos mutants --only guard-off --seeds 20
    """
    from kvorum.chaos.mutants.catalogue import MUTANTS
    from kvorum.chaos.mutants.hunt import hunt
    from kvorum.chaos.report.tables import mutant_table, mutants_json

    unknown = [name for name in only if name not in MUTANTS]
    if unknown:
        raise click.BadParameter(f"{unknown[0]} is none of {', '.join(MUTANTS)}", param_hint="--only")
    results = []
    for name in only or MUTANTS:
        result = hunt(MUTANTS[name], range(first, first + seeds))
        results.append(result)
        click.echo(f"{name}: {result.caught_by or 'not caught'}", err=True)
    click.echo(mutant_table(results), nl=False)
    if json_file is not None:
        json_file.write_text(mutants_json(results))
    sys.exit(Exit.DONE if all(result.caught_by for result in results) else Exit.FAILED)
