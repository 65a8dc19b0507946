"""`python -m sim`: whole clusters under deterministic simulation, seed after seed."""

from typing import TYPE_CHECKING

import click

from kvorum.cli.progress import bar

if TYPE_CHECKING:
    from typing import BinaryIO

    from sim.campaign import Result

PROGRESS_S = 5.0


POSITIVE = click.FloatRange(min=0, min_open=True)


@click.command()
@click.option("--seeds", metavar="A-B", help="Seeds from A to B (default: from 1, without end).")
@click.option("--seed", type=int, help="One seed, with a complete report.")
@click.option("--schedule", type=click.File("rb"), help="Replay one saved schedule (JSON).")
@click.option("--seconds", type=POSITIVE, default=60.0, show_default=True, help="Virtual seconds of load per seed.")
@click.option("--time", "time_s", type=POSITIVE, help="Stop after this many seconds of real time.")
@click.option("--jobs", type=click.IntRange(1), help="Number of processes (default: one per core).")
@click.option("--kind", type=click.Choice(["quorum", "voters", "cluster", "all"]), default="cluster", show_default=True)
@click.option("--shrink/--no-shrink", default=True, show_default=True, help="Shrink failing schedules.")
@click.option("--keep-going", is_flag=True, help="Continue after a violation.")
@click.option("--save", type=click.Path(file_okay=False), help="Save failing schedules into this folder.")
def sim(
    seeds: str | None,
    seed: int | None,
    schedule: "BinaryIO | None",
    seconds: float,
    time_s: float | None,
    jobs: int | None,
    kind: str,
    shrink: bool,
    keep_going: bool,
    save: str | None,
) -> None:
    """Run production brokers and controllers in virtual time, with faults drawn from each seed.

    A seed is reproducible. A violation ends the run with exit code 1 and prints its seed, its options and a shrunk
    report; --save stores the schedule for --schedule.

    \b
    python -m sim --seeds 1-100 --jobs 2
    python -m sim --seed 4711
    python -m sim --kind all --time 1800 --keep-going --save failing
    """
    import itertools
    import os
    import time

    from sim import campaign

    if schedule is not None:
        try:
            plan = campaign.read_plan(schedule.read())
        except ValueError as error:  # msgspec's errors are such
            raise click.BadParameter(
                f"{schedule.name} is not a saved schedule: {error}", param_hint="--schedule"
            ) from error
        raise SystemExit(tell_alone(campaign.plan_result(plan)))
    kinds = {"all": (campaign.CLUSTER, campaign.QUORUM, campaign.VOTERS)}.get(kind, (kind,))
    if seed is not None:
        results = [campaign.run_one((each, seed), seconds=seconds, shrinks=shrink) for each in kinds]
        for result in results:
            keep(result, save)
        raise SystemExit(max(tell_alone(result) for result in results))
    first, last = seeds_of(seeds) if seeds is not None else (1, None)
    numbers = itertools.count(first) if last is None else iter(range(first, last + 1))
    end = time.monotonic() + time_s if time_s is not None else float("inf")
    tally, reported_at = campaign.Tally(), [time.monotonic()]
    total = 0 if last is None else (last - first + 1) * len(kinds)

    def on_result(result: "Result") -> bool:
        """Record a seed's result; return whether to continue."""
        tally.add(result)
        done(1 if total else 0)
        if result.failure is not None:
            keep(result, save)
            tell(result)
        if time.monotonic() - reported_at[0] >= PROGRESS_S:
            reported_at[0] = time.monotonic()
            click.echo(tally.line())
        return (result.failure is None or keep_going) and time.monotonic() < end

    with bar(total, "seeds", beside_output=True) as done:
        campaign.run_campaign(
            campaign.jobs_of(kinds, numbers),
            on_result,
            workers=jobs or os.cpu_count() or 1,
            seconds=seconds,
            shrinks=shrink,
        )
    click.echo(f"{tally.line()}\nfaults: {tally.faults_line()}")
    raise SystemExit(1 if tally.failures else 0)


def seeds_of(text: str) -> tuple[int, int]:
    """Read A-B, or a single seed. Raises click.BadParameter."""
    first, _, last = text.partition("-")
    if not first.isdecimal() or not (last or first).isdecimal() or int(last or first) < int(first):
        raise click.BadParameter(f"{text!r} is not A-B", param_hint="--seeds")
    return int(first), int(last or first)


def keep(result: "Result", folder: str | None) -> None:
    """Save a failing schedule."""
    if folder is None or not result.schedule:
        return
    from pathlib import Path

    Path(folder).mkdir(parents=True, exist_ok=True)
    path = Path(folder) / f"{result.kind}-{result.seed}.json"
    path.write_bytes(result.schedule)
    click.echo(f"schedule saved: {path}")


def tell(result: "Result") -> None:
    """Write a failure: seed, options, story."""
    click.echo(f"VIOLATION with seed {result.seed} ({result.kind}): {result.failure}")
    if result.options:
        click.echo(f"  {result.options}")
    for line in result.story:
        click.echo(line)
    click.echo(f"  again: python -m sim --kind {result.kind} --seed {result.seed}")


def tell_alone(result: "Result") -> int:
    """Write one seed's result; return the exit code."""
    if result.failure is not None:
        tell(result)
        return 1
    rate = result.virtual_s / max(result.cpu_s, 1e-3)
    click.echo(
        f"seed {result.seed} ({result.kind}): no violation in {result.virtual_s:.1f} virtual s "
        f"({result.cpu_s:.1f} s of CPU, {rate:.0f} x); {result.acked} acknowledged, {result.losses} legal losses"
    )
    click.echo(f"  {result.options}" if result.options else "", nl=bool(result.options))
    faults = ", ".join(f"{name} {count}" for name, count in sorted(result.faults.items()))
    click.echo(f"  faults: {faults or 'none'}")
    return 0


if __name__ == "__main__":
    sim()
