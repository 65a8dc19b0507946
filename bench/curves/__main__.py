"""Throughput and CPU as functions of one quantity, on Kvorum and on Apache Kafka: `make bench-curves`.

    python -m bench.curves [--only partitions,idle] [--rounds 1] [--system kvorum|kafka] [--scale 1] [--out FOLDER]

Each curve's points are written to build/bench/curves/NAME.json one by one, and drawn in NAME.svg. Without java or
Kafka's jars only Kvorum is measured. Exit code 1: a point failed.
"""

import argparse
import contextlib
import os
import resource
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from bench import tools
from bench.__main__ import ROOT, commit
from bench.apache_kafka import VERSION
from bench.beds import Bed
from bench.curves import at_rest, data_path
from bench.curves.curve import Curve, Drawn
from bench.machine import machine
from bench.run import alternating, limited
from bench.scale import Scale
from bench.systems import MAKERS, formatted

CURVES = (*data_path.CURVES, *at_rest.CURVES)
OUT = ROOT / "build/bench/curves"


def options_of(arguments: list[str] | None = None) -> argparse.Namespace:
    """Return the command-line options."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.curves", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", metavar="NAME,...", help=f"of {', '.join(each.name for each in CURVES)}")
    parser.add_argument("--system", choices=sorted(MAKERS), help="one of the two")
    parser.add_argument("--rounds", type=int, default=1, help="runs of each point; the median is drawn")
    parser.add_argument("--scale", type=float, default=1.0, help="of all counts and times; 0.001 shows that it runs")
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds after which a point counts as stalled")
    parser.add_argument("--out", type=Path, default=OUT, help="the folder for points and drawings")
    options = parser.parse_args(arguments)
    named = set(filter(None, options.only.split(",")))
    if unknown := named - {each.name for each in CURVES}:
        parser.error(f"there is no curve {', '.join(sorted(unknown))}")
    options.curves = [each for each in CURVES if not named or each.name in named]
    return options


def kinds_of(system: str | None) -> list[str]:
    """Return the systems to measure: without Java, Kvorum alone."""
    kinds = [system] if system else list(MAKERS)
    if "kafka" in kinds and (without := tools.missing()):
        print(f"without Apache Kafka: {without}", flush=True)
        kinds.remove("kafka")
    return kinds


class Cluster:
    """The cluster of a system that the next point needs: the one before, where that will do."""

    def __init__(self, kind: str, curve: Curve, scale: Scale) -> None:
        self._kind, self._curve, self._scale = kind, curve, scale
        self._stack = contextlib.ExitStack()
        self._bed: Bed | None = None

    def bed(self, place: int) -> Bed:
        """Return it, ready."""
        nodes = self._curve.nodes(place)
        if self._bed is not None and self._bed.nodes == nodes and not self._curve.fresh:
            return self._bed
        self.close()
        system = self._stack.enter_context(formatted(self._kind, max(1, nodes), self._curve.settings))
        if nodes:
            system.start()
            system.wait_ready()
        self._bed = Bed(self._kind, system, nodes, self._scale)
        return self._bed

    def close(self) -> None:
        """End it."""
        self._bed = None
        self._stack.close()


def points(kinds: Sequence[str], places: Sequence[int], rounds: int) -> Iterator[tuple[int, str]]:
    """Yield (x, system) in the order of measurement: all points of one system, then those of the other."""
    for _, kind in alternating(kinds, rounds):
        for place in places:
            yield place, kind


def measure(curve: Curve, kinds: Sequence[str], options: argparse.Namespace, say: Callable[[str], None]) -> Drawn:
    """Find all points of a curve; write and draw them as they come."""
    scale = Scale(options.scale)
    facts = {"kvorum": commit(), "kafka": VERSION, "machine": machine(), "scale": scale.factor}
    drawn, own = Drawn(curve, facts), [kind for kind in kinds if kind in curve.kinds]
    clusters = {kind: Cluster(kind, curve, scale) for kind in own}
    before = ""
    try:
        for place, kind in points(own, curve.places_at(scale), options.rounds):
            if before not in ("", kind):
                clusters[before].close()  # an idle cluster of many nodes would be in the other's way
            before = kind
            try:
                with limited(options.timeout):
                    bed = clusters[kind].bed(place)
                    os.sync()  # pending writes must not be written during another point
                    figures = curve.run(bed, place)
            except Exception as error:  # any error belongs to this point only: the others continue
                drawn.failures.append(f"{curve.name}, {kind}, {place}: {type(error).__name__}: {error}")
                say(f"  FAILED {drawn.failures[-1]}")
                clusters[kind].close()
            else:
                drawn.add(kind, place, figures)
                text = "; ".join(f"{each.name} {figures[each.name]:,.3f} {each.unit}" for each in curve.series)
                say(f"  {kind:7} {place:>9,}: {text}   (load {os.getloadavg()[0]:.2f})")
            drawn.write(options.out)
    finally:
        for cluster in clusters.values():
            cluster.close()
    return drawn


def allow_connections() -> None:
    """Raise the open files limit of this process, and of the clusters that it starts, to the machine's maximum."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def main() -> None:
    """Measure and draw the selected curves."""
    options = options_of()
    kinds = kinds_of(options.system)
    allow_connections()
    failures = []
    for curve in options.curves:
        print(f"{curve.name}: {curve.title}", flush=True)
        failures += measure(curve, kinds, options, lambda line: print(line, flush=True)).failures
    print(f"points and drawings: {options.out}")
    if failures or not kinds:
        sys.exit("\n".join(["what came to nothing:", *failures]))


if __name__ == "__main__":
    main()
