"""Cost of the checker: wall time and peak memory for 100,000 and for 1,000,000 operations, each in its own process.

python -m bench.checker [--operations 100000 1000000] [--bad] [--keep FOLDER]

The history is that of a busy run: 8 idempotent producers and 4 consumers over 24 partitions, pipelined sends that are
acknowledged while polls wait for them, an unknown outcome now and then, faults and ISR changes, final reads at the end.
With --bad it has many violations: repeated offsets, lost values, flapping ISRs and nodes that lose their data.
"""

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from kvorum.chaos.checker import check
from kvorum.chaos.history import (
    ClusterShape,
    Fault,
    HistoryReader,
    HistoryWriter,
    Info,
    Invoke,
    Metadata,
    NodeShape,
    Ok,
    Process,
    Start,
)

PARTITIONS = 24
PRODUCERS = 8
CONSUMERS = 4
FACTOR_MAX = 12.0


class Run:
    """Writes a history of about so many operations: three sends to one poll."""

    shrink_every = 20_000
    lossy = False

    def __init__(self, writer: HistoryWriter, operations: int) -> None:
        self.writer = writer
        self.operations = operations
        self.random = random.Random(operations)
        self.names = [f"bench-{index}" for index in range(PARTITIONS)]
        self.logs: list[list[int]] = [[] for _ in self.names]
        self.places = [[0] * PARTITIONS for _ in range(CONSUMERS)]
        self.pending: list[tuple[int, int, int, int]] = []
        self.t = 0.0
        self.op = 0

    def write(self) -> None:
        shape = ClusterShape(nodes={f"node-{id}": NodeShape(id=id, roles=["broker"]) for id in (1, 2, 3)})
        self.writer.write(Start(t=0.0, cluster=shape))
        for process in range(PRODUCERS + CONSUMERS + 1):
            self.writer.write(Process(t=0.0, process=process, client="bench"))
        self.topics()
        polls = {consumer: self.begin_poll(consumer) for consumer in range(CONSUMERS)}
        while self.op < self.operations:
            self.t += 0.0002
            self.send()
            while len(self.pending) > 16:
                self.answer(self.pending.pop(0))
            if self.op % 4 == 0:
                consumer = self.random.randrange(CONSUMERS)
                self.end_poll(polls[consumer], consumer)
                polls[consumer] = self.begin_poll(consumer)
            if self.op % self.shrink_every == 0:
                self.shrink()
        for sent in self.pending:
            self.answer(sent)
        self.final()

    def topics(self) -> None:
        self.offset = 1
        self.writer.write(Metadata(t=0.0, offset=1, record={"type": "Topic", "name": "bench", "topic_id": "T"}))
        for index in range(PARTITIONS):
            self.metadata(type="Partition", partition_id=index, isr=[1, 2, 3], replicas=[1, 2, 3], leader=1)

    def metadata(self, **record: object) -> None:
        self.offset += 1
        self.writer.write(Metadata(t=self.t, offset=self.offset, record={"topic_id": "T", **record}))

    def shrink(self) -> None:
        fault = Fault(t=self.t, fault="kill", id=self.op, phase="begin", targets=["node-3"], lossy=self.lossy)
        self.writer.write(fault)
        for isr in ([1, 2], [1, 2, 3]):
            for index in range(PARTITIONS):
                self.metadata(type="PartitionChange", partition_id=index, isr=isr)
        self.writer.write(Fault(t=self.t, fault="kill", id=self.op, phase="end", targets=["node-3"]))

    def send(self) -> None:
        self.op += 1
        index, process = self.random.randrange(PARTITIONS), self.random.randrange(PRODUCERS)
        step: list[str | int | dict[str, list[list[int]]] | None] = ["send", self.names[index], self.op]
        self.writer.write(Invoke(t=self.t, op=self.op, process=process, f="send", value=[step]))
        self.logs[index].append(self.op)
        self.pending.append((self.op, process, index, len(self.logs[index]) - 1))

    def answer(self, sent: tuple[int, int, int, int]) -> None:
        op, process, index, offset = sent
        if op % 1000 == 0:
            self.writer.write(
                Info(
                    t=self.t,
                    op=op,
                    process=process,
                    f="send",
                    value=[["send", self.names[index], op]],
                    error="TIMED_OUT",
                )
            )
            return
        step: list[str | int | dict[str, list[list[int]]] | None] = [
            "send",
            self.names[index],
            op,
            self.acknowledged_offset(op, offset),
        ]
        self.writer.write(Ok(t=self.t, op=op, process=process, f="send", value=[step]))

    def acknowledged_offset(self, op: int, offset: int) -> int:
        """Return the acknowledged offset of a send."""
        return offset

    def kept(self, value: int) -> bool:
        """Return whether the final reads have a value."""
        return True

    def begin_poll(self, consumer: int) -> int:
        self.op += 1
        self.writer.write(Invoke(t=self.t, op=self.op, process=PRODUCERS + consumer, f="poll", value=[["poll"]]))
        return self.op

    def end_poll(self, op: int, consumer: int) -> None:
        places = self.places[consumer]
        records = {}
        for index in range(consumer % 2, PARTITIONS, 2):
            log = self.logs[index]
            if places[index] < len(log):
                records[self.names[index]] = [[at, log[at]] for at in range(places[index], len(log))]
                places[index] = len(log)
        self.writer.write(Ok(t=self.t, op=op, process=PRODUCERS + consumer, f="poll", value=[["poll", records]]))

    def final(self) -> None:
        process = PRODUCERS + CONSUMERS
        self.op += 1
        self.writer.write(Invoke(t=self.t, op=self.op, process=process, f="assign", value=[*self.names], final=True))
        self.writer.write(
            Ok(
                t=self.t,
                op=self.op,
                process=process,
                f="assign",
                value=[*self.names],
                final=True,
                seek_to_beginning=True,
            )
        )
        for name, log in zip(self.names, self.logs, strict=True):
            for first in range(0, len(log), 500):
                self.op += 1
                self.t += 0.001
                self.writer.write(Invoke(t=self.t, op=self.op, process=process, f="poll", value=[["poll"]], final=True))
                records = {
                    name: [[at, log[at]] for at in range(first, min(len(log), first + 500)) if self.kept(log[at])]
                }
                self.writer.write(
                    Ok(t=self.t, op=self.op, process=process, f="poll", value=[["poll", records]], final=True)
                )


class BadRun(Run):
    """The same, but every tenth send gets another's offset, and every fiftieth value is finally lost."""

    shrink_every = 1_000
    lossy = True

    def acknowledged_offset(self, op: int, offset: int) -> int:
        """Return the acknowledged offset of a send."""
        return max(0, offset - 3) if op % 10 == 1 else offset

    def kept(self, value: int) -> bool:
        """Return whether the final reads have a value."""
        return value % 50 != 2


def measure(path: Path, *, bad: bool) -> None:
    """Check one file and print the cost; runs in its own process."""
    began, cpu = time.perf_counter(), time.process_time()
    verdict = check(HistoryReader().read(path))
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    assert verdict.valid is not bad, verdict.violations
    operations = sum(sum(counts.values()) for counts in verdict.figures.operations.values())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    figures = {
        "operations": operations,
        "records_read": verdict.figures.records_read,
        "seconds": seconds,
        "cpu": cpu,
        "mib": peak,
    }
    print(json.dumps(figures))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operations", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--bad", action="store_true", help="a history full of violations")
    parser.add_argument("--keep", type=Path, help="leave the histories in this folder")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(options.measure, bad=options.bad)
        return 0
    measured: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        for operations in options.operations:
            path = folder / f"history-{operations}.jsonl"
            with HistoryWriter(path) as writer:
                (BadRun if options.bad else Run)(writer, operations).write()
            command = [sys.executable, "-m", "bench.checker", "--measure", str(path), *["--bad"] * options.bad]
            measured.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
            figures = measured[-1]
            print(
                f"{figures['operations']:>9,.0f} operations, {figures['records_read']:>9,.0f} records read: "
                f"{figures['seconds']:6.2f} s ({figures['cpu']:6.2f} s of processor), "
                f"{figures['mib']:6.0f} MiB at most"
            )
    if len(measured) < 2:
        return 0
    factor = measured[-1]["cpu"] / measured[0]["cpu"]
    size = measured[-1]["mib"] / measured[0]["mib"]
    print(f"{factor:.1f} times the processor time (at most {FACTOR_MAX:.0f}), {size:.1f} times the memory")
    return int(factor > FACTOR_MAX)


if __name__ == "__main__":
    sys.exit(main())
