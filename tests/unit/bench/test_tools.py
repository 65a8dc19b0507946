"""What Kafka's tools print is read as they print it; what processes take is theirs and their children's."""

import os
import subprocess
import sys

import pytest

from bench import tools
from bench.processes import TICKS, cpu_seconds, memory_mib, tree
from bench.quantiles import quantile
from bench.scale import Scale
from bench.stalled import StalledError

PRODUCED = """\
Warmup first 30000 records. Steady state results will print after the complete test summary.
100000 records sent, 39463.299132 records/sec (3.76 MB/sec), 120.85 ms avg latency, 622.00 ms max latency, \
113 ms 50th, 250 ms 95th, 290 ms 99th, 307 ms 99.9th.
70000 steady state records sent, 59221.658206 records/sec (5.65 MB/sec), 147.01 ms avg latency, 308.00 ms max latency, \
136 ms 50th, 266 ms 95th, 290 ms 99th, 307 ms 99.9th.
"""
CONSUMED = (
    "2026-11-22 20:24:15:380, 2026-11-22 20:24:20:318, 9.5367, 1.9313, 100000, 20251.1138, 4126, 812, 11.7448, 123152.7"
)
END_TO_END = "0\t147.3\n1000\t0.81\nAvg latency: 1.6999 ms\nPercentiles: 50th = 0, 99th = 12, 99.9th = 124\n"


def test_the_producers_steady_state_is_read_where_it_had_a_warm_up() -> None:
    assert tools.produced_of(PRODUCED, 100_000, 30_000) == tools.Produced(59221.658206, 147.01, 290)
    assert tools.produced_of(PRODUCED, 100_000, 0).records_per_second == 39463.299132
    with pytest.raises(StalledError, match="not all 100001"):
        tools.produced_of(PRODUCED, 100_001, 0)


def test_the_consumers_rate_is_that_without_its_groups_wait() -> None:
    assert tools.consumed_of(CONSUMED, 100_000) == tools.Consumed(123152.7, 11.7448)
    with pytest.raises(StalledError, match="not all 100001"):
        tools.consumed_of(CONSUMED, 100_001)


def test_the_end_to_end_tool_is_read() -> None:
    assert tools.end_to_end_of(END_TO_END) == tools.EndToEnd(1.6999, 0, 12, 124)
    with pytest.raises(StalledError):
        tools.end_to_end_of("")


def test_a_process_is_charged_with_its_children_dead_and_alive() -> None:
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}]); print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        assert cpu_seconds([parent.pid]) >= 0.3 - 4 / TICKS, "each of the four sums is cut to whole ticks"
        assert parent.pid in tree([os.getpid()]) and parent.pid not in tree([1_000_000_000])
        resident, proportional = memory_mib([parent.pid])
        assert 0 < proportional <= resident
        parent.communicate(b"\n")
    assert cpu_seconds([parent.pid]) == 0


def test_quantiles_are_of_ranked_values() -> None:
    assert [quantile([3, 1, 2, 4], share) for share in (0.0, 0.5, 0.99)] == [1, 3, 4]


def test_scales_have_a_lower_end() -> None:
    assert Scale(0.001).count(2_000_000) == 2_000 and Scale(0.001).count(10, 4) == 4
    assert Scale().seconds(3.0) == 3.0 and Scale(0.001).seconds(3.0) == 0.2
