"""Compares Kvorum and Apache Kafka 4.3.0 on this machine, alternately, with the same unmodified clients: `make bench`.

    python -m bench [--only produce,consume] [--rounds 5] [--system kvorum|kafka] [--scale 1] [--out FILE] [--keep]
                    [--peer]

Needs java, and Maven the first time (bench/apache_kafka.py); without them measures with Kafka's tools are skipped, and
only Kvorum is measured. With --peer some measures also run on a third system, which cargo builds the first time
(bench/peer.py). Figures go to build/bench/results.json, measure by measure, and a table is printed at the end.
Exit code 1: a measure failed.
"""

import argparse
import subprocess
import sys
from pathlib import Path

from bench import peer, tools
from bench.apache_kafka import VERSION
from bench.limits import limits
from bench.machine import machine
from bench.registry import MEASURES, chosen
from bench.results import Results, read, write
from bench.rows import Measure
from bench.run import Plan, run_measure
from bench.scale import Scale
from bench.systems import MAKERS, PEER
from bench.table import lag_table, table

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "build/bench/results.json"


def options_of(arguments: list[str] | None = None) -> argparse.Namespace:
    """Return the command-line options."""
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", metavar="NAME,...", help="these measures; --list names all")
    parser.add_argument("--system", choices=sorted(MAKERS), help="one of the two")
    parser.add_argument(
        "--peer", action="store_true", help=f"{peer.TITLE} beside them, in {', '.join(sorted(peer.MEASURES))}"
    )
    parser.add_argument("--rounds", type=int, default=5, help="runs of each figure, the systems alternating")
    parser.add_argument("--scale", type=float, default=1.0, help="of all counts and times; 0.001 shows that it runs")
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds after which a run counts as stalled")
    parser.add_argument("--no-warm-up", action="store_true", help="count the first runs, too")
    parser.add_argument("--out", type=Path, default=RESULTS, help="the file for all figures")
    parser.add_argument("--keep", action="store_true", help="keep what the file has of other measures")
    parser.add_argument("--list", action="store_true", help="name the measures and their rows, and end")
    options = parser.parse_args(arguments)
    try:
        options.measures = chosen(options.only)
    except ValueError as error:
        parser.error(str(error))
    return options


def listed(measures: list[Measure]) -> str:
    """Return the measures with the targets of their rows."""
    lines = []
    for measure in measures:
        lines.append(measure.name)
        lines += [f"  {row.what}, {row.unit}: must {row.must}, aim {row.aim}" for row in measure.rows]
    return "\n".join(lines)


def commit() -> str:
    """Return the commit that is measured; with "+" if the checkout has uncommitted changes."""
    done = subprocess.run(
        ["git", "-C", str(ROOT), "describe", "--always", "--dirty=+", "--exclude=*"],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or "unknown"


def plan_of(options: argparse.Namespace) -> Plan:
    """Return how it is run: without Java, Kvorum alone."""
    without_java = tools.missing()
    kinds = [options.system] if options.system else list(MAKERS)
    if without_java and "kafka" in kinds:
        print(f"without Apache Kafka: {without_java}", flush=True)
        kinds.remove("kafka")
    if not kinds:
        sys.exit(1)
    if options.peer:
        try:
            peer.build()
        except peer.PeerUnavailableError as error:
            sys.exit(str(error))
        kinds.append(PEER)
    return Plan(
        kinds=kinds,
        rounds=options.rounds,
        scale=Scale(options.scale),
        seconds_max=options.timeout,
        warm_up=not options.no_warm_up,
        without_java=without_java,
    )


def main() -> None:
    """Run the measures and print the table."""
    options = options_of()
    if options.list:
        print(listed(options.measures))
        return
    plan, order = plan_of(options), [measure.name for measure in MEASURES]
    results = read(options.out) if options.keep and options.out.exists() else Results()
    results.facts = {"kvorum": commit(), "kafka": VERSION, "machine": machine()}
    print(f"before: {machine()}", flush=True)
    results.limits = limits(plan.scale)
    for what, figure in results.limits.items():
        print(f"  {what}: {figure:,.2f}", flush=True)
    for measure in options.measures:
        print(measure.name, flush=True)
        result = run_measure(measure, plan, lambda line: print(line, flush=True))
        result.facts |= {"commit": results.facts["kvorum"], "machine": machine()}
        if any(row.peer for row in result.rows):
            result.facts["peer"] = peer.TITLE
        results.put(result, order)
        write(results, options.out)
    print(f"\nafter: {machine()}\n\n{table(results, every=True)}\n\n{lag_table(results)}\n\nall figures: {options.out}")
    failures = [failure for name in options.measures for failure in results.of(name.name).failures]
    if failures:
        sys.exit("\n".join(["what came to nothing:", *failures]))


if __name__ == "__main__":
    main()
