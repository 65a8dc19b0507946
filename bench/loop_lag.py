"""Delay of each process's event loop while its node is idle, receives records, cleans, creates topics, restarts.

    python -m bench.loop_lag [--only rest,produce,cleaner,topics,restart,scrape] [--scale 1]

Only Kvorum, from its processes' own metric (kvorum_event_loop_lag_seconds). One line per process: the 99th
percentile and the maximum over the time of the case; for a process started during the case, since its start.
"""

import argparse
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from bench import cleaner_pacing, own_metrics, tools
from bench.asker import Asker, create_topic
from bench.beds import Bed
from bench.measures import many_topics, start
from bench.measures.produce import SMALL, THREE
from bench.scale import Scale
from bench.systems import Kvorum, System, formatted
from kvorum.protocol.compression import Codec
from tests.cluster.wire.raw import Raw

SECONDS = 30.0
RECORDS = 4_000_000
KEYED_RECORDS, BATCH = 1_200_000, 100
KEYED_RECORDS_LEAST = 300_000
"""More than the segment that is written to, which is not cleaned."""
CLEANED_SECONDS_MAX = 120.0
CROWD_TOPICS, CROWD_PARTITIONS = 10, 1_000
SCRAPES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """`prepare` is the unmeasured part, `run` the measured one, both on one or three running nodes unless `fresh`."""

    run: Callable[[Bed], object]
    prepare: Callable[[Bed], object] = lambda bed: None
    nodes: int = 1
    settings: Mapping[str, str] = field(default_factory=dict)
    fresh: bool = False


def rest(bed: Bed) -> None:
    """Do nothing."""
    time.sleep(bed.scale.seconds(SECONDS))


def produce(bed: Bed) -> None:
    """Produce small records as fast as they are taken."""
    with bed.topic(6) as topic:
        tools.produce(bed.system.bootstrap, topic, bed.scale.count(RECORDS, 1_000), SMALL, {"acks": "all"}, warm_up=0)


def fill(bed: Bed) -> None:
    """Write the records to clean."""
    asker = Asker(bed.system, 1)
    create_topic(asker, "dirty", 1)
    asker.close()
    raw = Raw(*bed.system.address(1))
    cleaner_pacing.fill(raw, ["dirty"], bed.scale.count(KEYED_RECORDS, KEYED_RECORDS_LEAST), BATCH, Codec.NONE)
    raw.close()


def clean(bed: Bed) -> None:
    """Start the cleaner, and wait for its end."""
    assert isinstance(bed.system, Kvorum)
    over = cleaner_pacing.Over(bed.system.data(1) / "cleaner-offset-checkpoint", "dirty")
    cleaner_pacing.set_policy(bed.system, "dirty", "compact")
    end = time.monotonic() + CLEANED_SECONDS_MAX
    while not over.is_so:
        assert time.monotonic() < end, "it was not cleaned"
        time.sleep(cleaner_pacing.LOOK_SECONDS)
        over.look(time.perf_counter())


def crowd(bed: Bed) -> None:
    """Make many partitions."""
    for _ in range(bed.scale.count(CROWD_TOPICS)):
        bed.make_topic(bed.scale.count(CROWD_PARTITIONS, 10))


def scrape(bed: Bed) -> None:
    """Request the metrics of all processes: with many partitions a long page."""
    for _ in range(SCRAPES):
        own_metrics.look(bed.system)


CASES: Mapping[str, Case] = {
    "rest": Case(run=rest),
    "produce": Case(run=produce),
    "cleaner": Case(run=clean, prepare=fill, settings=cleaner_pacing.SETTINGS),
    "topics": Case(run=many_topics.many, nodes=3, settings=THREE),
    "restart": Case(run=start.restart, fresh=True),
    "crowd": Case(run=crowd),
    "scrape": Case(run=scrape, prepare=crowd),
}


def measure(case: Case, scale: Scale) -> dict[str, own_metrics.Lag]:
    """Run a case; return {process: delays of its loop}."""
    with formatted("kvorum", case.nodes, case.settings) as system:
        bed = Bed("kvorum", system, case.nodes, scale)
        if not case.fresh:
            system.start()
            system.wait_ready()
        case.prepare(bed)
        before = own_metrics.look(system)
        case.run(bed)
        found = own_metrics.lags_between(before, own_metrics.look(system))
        return {name: found[url] for url, name in processes(system).items() if url in found}


def processes(system: System) -> dict[str, str]:
    """Return {URL of its metrics: a name} of each process that has one."""
    roles = ("broker", "controller")
    return {url: f"{role} {node}" for role in roles for node, url in enumerate(system.metrics_urls(role), start=1)}


def main() -> None:
    """Run the selected cases, and print each result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(CASES))
    parser.add_argument("--scale", type=float, default=1.0)
    options = parser.parse_args()
    for name in options.only.split(","):
        began = time.monotonic()
        for process, lag in measure(CASES[name], Scale(options.scale)).items():
            print(f"{name}, {process}: p99 {lag.p99_ms:.1f} ms, at most {lag.greatest_ms:.0f} ms", flush=True)
        print(f"  {time.monotonic() - began:.0f} s in all, load {os.getloadavg()[0]:.1f}", flush=True)


if __name__ == "__main__":
    main()
