"""Metrics of a mirror: lag and rates by partition, in Prometheus' text format, over HTTP if configured."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from kvorum.pipelines.mirror.offset_map import Place
from kvorum.pipelines.mirror.spec import MirrorSpec


@dataclass(slots=True)
class Figures:
    """Counters of the mirror's loop and batches. Each field is replaced, never modified."""

    source_ends: Mapping[Place, int] = field(default_factory=dict)
    """Where the source's partitions end."""
    mirrored: Mapping[Place, int] = field(default_factory=dict)
    """Up to which source offset records are on the target."""
    batches: int = 0
    batch_seconds: float = 0.0
    """How long the last batch took."""
    last_batch: float = 0.0
    """When it ended; wall clock."""
    groups: int = 0
    """Groups with a checkpoint so far."""
    groups_active: int = 0
    """Groups in use on the target."""
    groups_held: int = 0
    """Groups whose translated offset is before a record of the target that they have not read."""
    configs_changed: int = 0
    errors: int = 0
    """Rounds of following that failed, and were tried again later."""

    def lag(self) -> dict[Place, int]:
        """Return by how many offsets the target is behind."""
        mirrored = self.mirrored
        return {place: max(0, end - mirrored.get(place, 0)) for place, end in self.source_ends.items()}


def text(spec: MirrorSpec, figures: Figures) -> str:
    """Return the figures in Prometheus' text format."""
    both = {"mirror": spec.name, "source": spec.source.alias, "target": spec.target.alias}
    lines: list[str] = []

    def tell(name: str, kind: str, what: str, values: Mapping[tuple[tuple[str, str], ...], float]) -> None:
        lines.extend((f"# HELP kvorum_mirror_{name} {what}", f"# TYPE kvorum_mirror_{name} {kind}"))
        for labels, value in values.items():
            told = ",".join(f'{key}="{_escaped(label)}"' for key, label in (*both.items(), *labels))
            lines.append(
                f"kvorum_mirror_{name}{{{told}}} {value:g}"
                if value % 1
                else f"kvorum_mirror_{name}{{{told}}} {int(value)}"
            )

    lag = figures.lag()
    of: dict[Place, tuple[tuple[str, str], ...]] = {
        place: (("topic", place.topic), ("partition", str(place.partition))) for place in lag
    }
    tell(
        "lag_records",
        "gauge",
        "Offsets the target is behind.",
        {of[place]: float(count) for place, count in lag.items()},
    )
    tell("lag_records_total", "gauge", "The sum of all partitions' lag.", {(): float(sum(lag.values()))})
    ends = {of[place]: float(figures.mirrored.get(place, 0)) for place in lag}
    tell("mirrored_offset", "gauge", "Up to which source offset records are on the target.", ends)
    tell("batches_total", "counter", "Batches since the start.", {(): float(figures.batches)})
    tell("batch_seconds", "gauge", "How long the last batch took.", {(): figures.batch_seconds})
    tell("last_batch_timestamp_seconds", "gauge", "When the last batch ended.", {(): figures.last_batch})
    tell("groups", "gauge", "Groups with a checkpoint.", {(): float(figures.groups)})
    tell("groups_active", "gauge", "Groups that are used on the target.", {(): float(figures.groups_active)})
    tell("groups_held", "gauge", "Groups held before unread records of the target.", {(): float(figures.groups_held)})
    tell("configs_changed_total", "counter", "Topics whose configs were changed.", {(): float(figures.configs_changed)})
    tell("errors_total", "counter", "Rounds of following that failed.", {(): float(figures.errors)})
    return "\n".join(lines) + "\n"


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class Listener:
    """Serves a text on /metrics."""

    def __init__(self, address: str, told: Callable[[], str]) -> None:
        """Listen at HOST:PORT, port 0 for any, in a thread of its own."""
        host, _, port = address.rpartition(":")

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = told().encode() if self.path.split("?")[0] in ("/metrics", "/") else b""
                self.send_response(200 if body else 404)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """Log nothing: a scrape is not an event."""

        self._server = ThreadingHTTPServer((host, int(port)), Handler)
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, name="mirror-metrics", daemon=True).start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()


def now() -> float:
    """Return the wall clock's time."""
    return time.time()
