"""Groups of Kvorum and of Apache Kafka 4.3.0 on this machine, in turn: heartbeats, rebalances, offset commits.

    python -m bench.groups [--rounds 3] [--only kafka|kvorum] [--skip heartbeats|rebalance|commits ...] [--groups 1000]

Prints a table for docs/measurements.md. One node each, with its defaults. Heartbeats and commits come from a driver of
our own (bench/members.py), the same for both; who rebalances, and commits one at a time, is confluent-kafka.
"""

import argparse
from collections.abc import Callable, Mapping

from bench.commits import Commits, measure_commits
from bench.heartbeats import Load, measure_heartbeats
from bench.rebalance import Rebalances, measure_rebalances
from bench.report import Report, add_options, compare


def main() -> None:
    """Measure what was asked for and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--skip", choices=("heartbeats", "rebalance", "commits"), action="append", default=[])
    parser.add_argument("--groups", type=int, default=Load().groups, help="of 3 members each")
    parser.add_argument("--connections", type=int, default=0, help="for their heartbeats; one each unless told")
    parser.add_argument("--seconds", type=float, default=Load().seconds, help="of heartbeats, and of commits")
    parser.add_argument("--members", type=int, default=Rebalances().members, help="of the group that rebalances")
    parser.add_argument("--repeats", type=int, default=Rebalances().repeats, help="joins and leaves a run")
    options = parser.parse_args()
    connections = options.connections or 3 * options.groups
    load = Load(groups=options.groups, connections=connections, seconds=options.seconds, warm_up=options.seconds / 2)
    rebalances = Rebalances(members=options.members, repeats=options.repeats)
    commits = Commits(seconds=options.seconds / 3, warm_up=options.seconds / 3)
    steps: Mapping[str, Callable[[str, Report], None]] = {
        "heartbeats": lambda kind, report: measure_heartbeats(kind, load, report),
        "rebalance": lambda kind, report: measure_rebalances(kind, rebalances, report),
        "commits": lambda kind, report: measure_commits(kind, commits, report),
    }
    compare(options, {name: step for name, step in steps.items() if name not in options.skip})


if __name__ == "__main__":
    main()
