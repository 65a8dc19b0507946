"""`kvorum chaos run` and `list`: scenarios, run one after the other, with live progress and a verdict for CI."""

import shlex
import shutil
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvorum.cli.completion import scenario_names
from kvorum.cli.connection.client import read_properties
from kvorum.cli.connection.unreachable import no_address_works
from kvorum.cli.local.folders import end_command
from kvorum.cli.output import Exit, fail, install_hint, output_option, show

if TYPE_CHECKING:
    from kvorum.chaos.client_access import ClientAccess
    from kvorum.chaos.scenario.models import Scenario
    from kvorum.chaos.scenario.outcome import Outcome
    from kvorum.chaos.scenario.runner import Watch

PLAIN_SECONDS = 5.0
LIVE_SECONDS = 0.5
VIOLATIONS_SHOWN = 5


@click.command("list")
@output_option
def list_command(output: str) -> None:
    """List the shipped scenarios and their cells.

    \b
    kvorum chaos list
    """
    from kvorum.chaos.scenario.files import ScenarioError, find, shipped_scenarios

    rows = []
    for name in shipped_scenarios():
        try:
            rows += [{"scenario": run.name, "seconds": f"{run.duration:g}", "what": run.title} for run in find(name)]
        except ScenarioError as error:
            fail(str(error), Exit.USAGE)
    show(rows, output, ("scenario", "seconds", "what"))


@click.command()
@click.argument("scenarios", nargs=-1, metavar="SCENARIO...", shell_complete=scenario_names)
@click.option("--all", "every", is_flag=True, help="Every shipped scenario.")
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of all random choices.")
@click.option("--duration", type=click.FloatRange(min=0, min_open=True), help="Seconds of faults; schedules repeat.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Keep histories, reports, logs here.")
@click.option("--junit", type=click.Path(dir_okay=False, path_type=Path), help="Write the outcome as JUnit XML.")
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Write the (last) run's report here.")
@click.option("--keep-data", is_flag=True, help="Keep the nodes' data too.")
@click.option("--quiet", is_flag=True, help="Print the result only.")
@click.option("--bootstrap", metavar="HOST:PORT,...", help="Run against this cluster instead of a lab cluster.")
@click.option(
    "--command-config",
    type=click.Path(exists=True, dir_okay=False),
    help="With --bootstrap: properties file with the security of clients, by Java's names or librdkafka's.",
)
@click.option("--kill-hook", metavar="COMMAND", help="Shell command that kills {node} (node-ID) or {id}.")
@click.option("--start-hook", metavar="COMMAND", help="Shell command that starts a node.")
@click.option("--pause-hook", metavar="COMMAND", help="Shell command that pauses a node.")
@click.option("--resume-hook", metavar="COMMAND", help="Shell command that resumes a node.")
@click.option("--keep-topics", is_flag=True, help="With --bootstrap: do not delete the run's topics at the end.")
def run(
    scenarios: tuple[str, ...],
    every: bool,
    seed: int,
    duration: float | None,
    out: Path | None,
    junit: Path | None,
    html: Path | None,
    keep_data: bool,
    quiet: bool,
    bootstrap: str | None,
    command_config: str | None,
    keep_topics: bool,
    **hooks: str | None,
) -> None:
    """Run scenarios: shipped ones by name (kvorum chaos list), one cell as NAME/CELL, or the path of a file.

    Exit code 0: passed; 1: a violation or a failed expectation; 2: a run was not possible; 3: no broker is reachable.

    \b
    kvorum chaos run n-minus-one frozen-leader
    kvorum chaos run random --seed 7 --duration 300 --out chaos-out
    kvorum chaos run load --bootstrap kafka:9092 --duration 60
    kvorum chaos run n-minus-one/rf3-min2 --bootstrap kafka:9092 \\
        --kill-hook 'docker kill kafka-{id}' --start-hook 'docker start kafka-{id}'
    """
    import tempfile

    try:
        from kvorum.chaos.report.files import REPORT
        from kvorum.chaos.scenario.files import ScenarioError, find, shipped_scenarios
        from kvorum.chaos.scenario.runner import Run, Watch
        from kvorum.chaos.scenario.systems import ExternalAddresses
    except ModuleNotFoundError as error:
        fail(f"{error.name} is not installed; {install_hint('chaos')}", Exit.USAGE)

    if not scenarios and not every:
        raise click.UsageError("give a scenario (kvorum chaos list), or --all")
    try:
        chosen = [(name, each) for name in (shipped_scenarios() if every else scenarios) for each in find(name)]
    except ScenarioError as error:
        fail(str(error), Exit.USAGE)
    commands = {name.removesuffix("_hook"): command for name, command in hooks.items() if command}
    if commands and bootstrap is None:
        raise click.UsageError("hooks need --bootstrap: they act on a cluster that Kvorum did not start")
    access = access_of(bootstrap, command_config)
    elsewhere = ExternalAddresses(access=access, hooks=commands, keep_topics=keep_topics) if access else None
    check_outputs(out, junit, html)
    given = {"--duration": duration, "--bootstrap": bootstrap, "--command-config": command_config}
    given, outcomes = given | {f"--{name}-hook": command for name, command in commands.items()}, []
    with tempfile.TemporaryDirectory(prefix="kvorum-chaos-") as scratch:
        base = out or Path(scratch)
        for name, each in chosen:
            watch = Watch() if quiet else Watch(on_line=on_line)
            folder = base / each.name.replace("/", "-")
            job = Run(each, folder, seed, duration=duration, elsewhere=elsewhere, watch=watch, keep_data=keep_data)
            job.command = command_line(name, each, seed, given)
            if not quiet:
                click.echo(f"{each.name}: {each.title} (seed {seed})")
            outcome = run_with_display(job.run, watch, quiet, job.stop)
            outcomes.append(outcome)
            tell(each, outcome)
            if html is not None and outcome.verdict is not None:
                html.write_bytes((Path(outcome.folder) / REPORT).read_bytes())
            if job.stop.is_set():
                break
    conclude(outcomes, junit)
    sys.exit(exit_code(outcomes))


def conclude(outcomes: "list[Outcome]", junit: Path | None) -> None:
    """Print the table of all runs, and write the file for CI."""
    from kvorum.chaos.report.junit import write_junit
    from kvorum.chaos.report.tables import scenario_table

    results = [outcome.result() for outcome in outcomes]
    if len(results) > 1:
        click.echo("\n" + scenario_table(results), nl=False)
    if junit is not None:
        write_junit(junit, results)


def access_of(bootstrap: str | None, command_config: str | None) -> "ClientAccess | None":
    """Return how clients reach a cluster that is not the lab's, None for the lab's.

    An invalid file, or an address that cannot be a broker's, ends the command before the run.
    """
    if command_config is not None and bootstrap is None:
        raise click.UsageError("--command-config needs --bootstrap; a scenario has a secure cluster with secure: true")
    if bootstrap is None:
        return None
    check_reachable(bootstrap)
    from kvorum.chaos.client_access import ClientAccess
    from kvorum.runtime.config import ConfigError
    from kvorum.security.librdkafka import librdkafka_security

    try:
        return ClientAccess(bootstrap, librdkafka_security(read_properties(command_config), command_config or ""))
    except ConfigError as error:
        fail(str(error), Exit.USAGE)


def check_reachable(bootstrap: str) -> None:
    """End the command before the run if no address can be a broker's."""
    try:
        problem = no_address_works(bootstrap)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--bootstrap") from error
    if problem is not None:
        fail(problem, Exit.UNREACHABLE)


def check_outputs(out: Path | None, junit: Path | None, html: Path | None) -> None:
    """Make the folder of --out; end the command before the run if its results could not be written after it."""
    try:
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        end_command(error, str(out))
    check_file(junit, "--junit")
    check_file(html, "--html")


def check_file(path: Path | None, option: str) -> None:
    """End the command before the run for a file that could not be written after it."""
    if path is None:
        return
    if not path.resolve().parent.is_dir():
        raise click.BadParameter(f"there is no folder {path.resolve().parent}", param_hint=option)
    is_new = not path.exists()
    try:
        with path.open("ab"):
            pass
    except OSError as error:
        end_command(error, str(path))
    if is_new:
        path.unlink()


def command_line(name: str, scenario: "Scenario", seed: int, given: Mapping[str, object]) -> str:
    """Return the command that runs this one scenario again, found by `name`: a cell of it alone."""
    _, slash, cell = scenario.name.rpartition("/")
    target = f"{name}/{cell}" if slash and not name.endswith(f"/{cell}") else name
    words = ["kvorum", "chaos", "run", target, "--seed", str(seed)]
    for option, value in given.items():
        if value is not None:
            words += [option, f"{value:g}" if isinstance(value, float) else str(value)]
    return shlex.join(words)


def on_line(text: str) -> None:
    """Print a line of the run, above the live line where there is one."""
    if sys.stdout.isatty():
        click.echo("\r\x1b[K", nl=False)
    click.echo(f"  {text}")


def run_with_display(job: "Callable[[], Outcome]", watch: "Watch", quiet: bool, stop: threading.Event) -> "Outcome":
    """Run a job in a thread and show how it goes; Ctrl-C ends its schedule, and it still heals and checks."""
    done: list[Outcome | BaseException] = []

    def work() -> None:
        try:
            done.append(job())
        except BaseException as error:
            done.append(error)

    thread = threading.Thread(target=work, name="chaos-run")
    thread.start()
    live = sys.stdout.isatty()
    shown = time.monotonic()
    while thread.is_alive():
        try:
            thread.join(LIVE_SECONDS)
        except KeyboardInterrupt:
            click.echo("  stopping: the rest of the schedule is skipped", err=True)
            stop.set()
        if not quiet and time.monotonic() - shown >= (LIVE_SECONDS if live else PLAIN_SECONDS):
            shown = time.monotonic()
            line = progress(watch)
            width = shutil.get_terminal_size().columns - 1
            click.echo(f"\r\x1b[K{line[:width]}" if live else f"  {line}", nl=not live)
    if live and not quiet:
        click.echo("\r\x1b[K", nl=False)
    (result,) = done
    if isinstance(result, BaseException):
        raise result
    return result


def progress(watch: "Watch") -> str:
    """Return how a run goes in one line: phase, counts, the rate of acknowledgements, faults in force."""
    recorder = watch.recorder
    if recorder is None:
        return f"[{watch.phase}]"
    now = recorder.seconds()
    sent = recorder.counts.invoked["send"]
    acked = recorder.acked
    recent = sum(1 for each in acked[-2000:] if each.completed > now - 1.0)
    unknown = recorder.counts.completed["send", "info"] + recorder.counts.completed["send", "fail"]
    force = "; ".join(list(watch.in_force.values())) or "none"
    return (
        f"[{watch.phase}] {now:6.1f} s  sent {sent}  acked {len(acked)} ({recent}/s)  not acked {unknown}  "
        f"read {recorder.counts.records_read}  in force: {force}"
    )


def tell(scenario: "Scenario", outcome: "Outcome") -> None:
    """Print one run's outcome."""
    from kvorum.chaos.report.gaps import worst_gap

    if outcome.could_not_run:
        click.echo(f"{scenario.name}: could not run: {outcome.could_not_run}", err=True)
    if outcome.skipped:
        click.echo(f"{scenario.name}: skipped: {outcome.skipped}", err=True)
    verdict = outcome.verdict
    if verdict is None:
        return
    for violation in verdict.violations[:VIOLATIONS_SHOWN]:
        where = f" in {violation.partition}" if violation.partition else ""
        click.echo(f"  VIOLATION {violation.anomaly}{where} x {violation.count}: {violation.reason}")
        for sentence in violation.story:
            click.echo(f"      {sentence}")
    if len(verdict.violations) > VIOLATIONS_SHOWN:
        click.echo(f"  ... and {len(verdict.violations) - VIOLATIONS_SHOWN} more violations")
    for failure in outcome.failures:
        click.echo(f"  UNEXPECTED {failure}")
    figures = verdict.figures
    for sentence in figures.not_judged:
        click.echo(f"  not judged: {sentence}")
    kinds = ", ".join(f"{kind} {count}" for kind, count in figures.faults_by_kind.items()) or "none"
    legal = f", {figures.lost_legally} of them legally" if figures.lost_legally else ""
    click.echo(
        f"{scenario.name}: {outcome.result().outcome} in {outcome.seconds:.0f} s; faults: {kinds}; "
        f"{figures.acked} of {figures.sends} sends acknowledged, {figures.lost} lost{legal}; "
        f"worst gap under a fault {worst_gap(figures).seconds:.2f} s"
    )


def exit_code(outcomes: "list[Outcome]") -> int:
    """Return the exit code: 1 for a violation, else 2 where a run was not possible, else 0."""
    if any(outcome.verdict is not None and not outcome.valid for outcome in outcomes):
        return Exit.FAILED
    return Exit.USAGE if any(outcome.could_not_run for outcome in outcomes) else Exit.DONE
