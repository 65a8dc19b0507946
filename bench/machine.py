"""Description of the machine."""

import os
import sys
from pathlib import Path

import kvorum.storage.log
from kvorum.runtime.compiled import is_compiled


def machine() -> str:
    """Say it."""
    models = [line.partition(":")[2].strip() for line in read_lines("/proc/cpuinfo") if line.startswith("model name")]
    memory = next(int(line.split()[1]) for line in read_lines("/proc/meminfo") if line.startswith("MemTotal"))
    load = ", ".join(f"{each:.2f}" for each in os.getloadavg())
    model = models[0] if models else "unknown"
    version = sys.version.split()[0]
    kind = "compiled" if is_compiled(kvorum.storage.log.__name__) else "Python alone"
    return f"{os.cpu_count()} cores ({model}), {memory / 2**20:.0f} GiB, Python {version}, Kvorum {kind}; load {load}"


def read_lines(path: str) -> list[str]:
    """Return a file's lines."""
    return Path(path).read_text().splitlines()
