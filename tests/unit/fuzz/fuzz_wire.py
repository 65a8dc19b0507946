"""The fuzzer: mutated real frames of every API and version into decoder and connection; batches into the validator.

    python -m tests.unit.fuzz.fuzz_wire --seconds 120 [--seed N] [--keep]

An input that leads to an outcome not seen before joins the pool that is mutated further. `--keep` writes the shortest
input of each outcome to corpus/ (at most KEPT_MAX a target), which every later run starts from; an input that breaks a
promise is written to corpus/broken.txt at once and fails the run. Every line of the corpus: target, a blank, hex.
"""

import argparse
import asyncio
import random
import resource
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kvorum.protocol.codec import encode_bytes
from kvorum.runtime import logs
from tests.unit.fuzz import mutate, targets

CORPUS = Path(__file__).parent / "corpus"
BROKEN = CORPUS / "broken.txt"
KEPT_MAX = 150
KEPT_BYTES_MAX = 1000
POOL_MAX = 5_000
RUNS = 10_000
"""Inputs that `make test` tries after the corpus."""
MEMORY_BYTES = 1 << 30
"""What the run may reserve beyond what the process has: an input that makes it reserve more raises MemoryError."""


class Broken(Exception):
    """A promise was broken; the text tells by which input."""


class Fuzzer:
    """Pools of inputs by target, grown by outcome."""

    def __init__(self, seed: int, loop: asyncio.AbstractEventLoop) -> None:
        """Start from the corpus."""
        self._unexpected: list[BaseException] = []
        loop.set_exception_handler(self._unhandled)
        self.rng = random.Random(seed)
        self.seed = seed
        self.targets = self.make_targets(loop)
        self.pools: dict[str, list[bytes]] = {name: [] for name in self.targets}
        self.outcomes: dict[str, dict[str, bytes]] = {name: {} for name in self.targets}
        self.runs = 0

    def make_targets(self, loop: asyncio.AbstractEventLoop) -> dict[str, Callable[[bytes], str]]:
        """Return the targets by name."""
        return {
            "request": targets.decoder("Request"),
            "response": targets.decoder("Response"),
            "connection": targets.Connections(loop).target,
            "validator": targets.validator,
            "replicated": targets.replicated,
        }

    def _unhandled(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self._unexpected.append(context.get("exception") or AssertionError(str(context)))

    def replay(self) -> int:
        """Feed every line of the corpus for these targets; return how many there were. Raises Broken."""
        count = 0
        for name, data in corpus():
            if name in self.targets:
                self.feed(name, data)
                count += 1
        return count

    def run(self, runs: int, seconds: float) -> None:
        """Mutate so many inputs, and further ones until the time is over. Raises Broken."""
        end, runs_end = time.monotonic() + seconds, self.runs + runs
        names = list(self.targets)
        while self.runs < runs_end or time.monotonic() < end:
            for name in names:
                self.feed(name, self.make(name))

    def make(self, name: str) -> bytes:
        """Return the next input of a target."""
        rng = self.rng
        pool = self.pools[name]
        data = rng.choice(pool) if pool and rng.random() < 0.5 else self.fresh(name)
        if rng.random() < 0.95:
            data = mutate.mutate(rng, data, rng.choice(pool) if pool else data)
        if name == "validator" and rng.random() < 0.8:
            data = data[:1] + targets.with_crc(data[1:])
        return data

    def fresh(self, name: str) -> bytes:
        """Return a valid input."""
        rng = self.rng
        match name:
            case "request" | "response":
                message, version = mutate.random_message(rng, name.capitalize())
                return message.API_KEY.to_bytes(2, "big") + version.to_bytes(2, "big") + encode_bytes(message, version)
            case "connection":
                frames = [self.frame() for _ in range(rng.randrange(1, 6))]
                return b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)
            case "validator":
                return bytes([rng.randrange(4)]) + mutate.random_batch(rng)
        return b"".join(mutate.random_batch(rng) for _ in range(rng.randrange(1, 4)))

    def frame(self) -> bytes:
        """Return a request, in half of the cases spoiled inside a right frame."""
        frame = mutate.random_request(self.rng)
        return mutate.mutate(self.rng, frame, frame) if self.rng.random() < 0.5 else frame

    def feed(self, name: str, data: bytes) -> None:
        """Give one input to its target. Raises Broken."""
        self.runs += 1
        try:
            with logs.observe_unexpected(lambda where, error: self._unexpected.append(error)):
                outcome = self.targets[name](data)
            if self._unexpected:
                raise self._unexpected[0]
        except Exception as error:  # anything at all is a finding
            line = f"{name} {data.hex()}"
            raise Broken(f"{type(error).__name__}: {error} (seed {self.seed}, run {self.runs})\n{line}") from error
        known = self.outcomes[name]
        if outcome not in known:
            if len(self.pools[name]) < POOL_MAX:
                self.pools[name].append(data)
            known[outcome] = data
        elif len(data) < len(known[outcome]):
            known[outcome] = data

    def keep(self) -> None:
        """Write the shortest input of each outcome."""
        for name, known in self.outcomes.items():
            chosen = sorted((data for data in known.values() if len(data) <= KEPT_BYTES_MAX), key=len)
            step = max(1, -(-len(chosen) // KEPT_MAX))
            lines = [f"{name} {data.hex()}\n" for data in chosen[::step]]
            (CORPUS / f"{name}.txt").write_text("".join(lines))


def corpus() -> Iterator[tuple[str, bytes]]:
    """Yield (target, input) of every line kept."""
    for path in sorted(CORPUS.glob("*.txt")):
        for line in path.read_text().splitlines():
            name, _, text = line.partition(" ")
            yield name, bytes.fromhex(text)


def limit_memory() -> tuple[int, int]:
    """Let the process reserve MEMORY_BYTES more than it has; return the limits as they were."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY_BYTES, before[1]))
    return before


def fuzz(runs: int, seed: int, *, seconds: float = 0.0, keep: bool = False, kind: type[Fuzzer] = Fuzzer) -> Fuzzer:
    """Replay the corpus, then try so many inputs, and further ones until the time is over. Raises Broken."""
    level, before = logs._OUTPUT.level, limit_memory()
    logs.set_level(logs.Level.ERROR)
    loop = asyncio.new_event_loop()
    try:
        fuzzer = kind(seed, loop)
        fuzzer.replay()
        fuzzer.run(runs, seconds)
        if keep:
            fuzzer.keep()
        return fuzzer
    finally:
        loop.close()
        resource.setrlimit(resource.RLIMIT_AS, before)
        logs.set_level(level)


def main(kind: type[Fuzzer] = Fuzzer, description: str | None = __doc__) -> int:
    """Fuzz from the command line."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    try:
        fuzzer = fuzz(RUNS, options.seed, seconds=options.seconds, keep=options.keep, kind=kind)
    except Broken as broken:
        print(broken, file=sys.stderr)
        with BROKEN.open("a") as file:
            file.write(str(broken).splitlines()[-1] + "\n")
        raise
    seen = ", ".join(f"{name}: {len(known)} outcomes" for name, known in fuzzer.outcomes.items())
    print(f"{fuzzer.runs} inputs; {seen}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
