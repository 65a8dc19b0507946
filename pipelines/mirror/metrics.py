"""Metrics of a mirror: lag and rates by partition, in Prometheus' text format, over HTTP if configured."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from kvorum.pipelines.bridge.offsets import TopicPartition
from kvorum.pipelines.mirror.spec import MirrorSpec


@dataclass(slots=True)
class Figures:
    """Counters of the mirror's loop and batches. Each field is replaced, never modified."""

    source_ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Where the source's partitions end."""
    mirrored: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Up to which source offset records are on the target."""
    batches: int = 0
    batch_seconds: float = 0.0
    last_batch: float = 0.0
    """When it ended; wall clock."""
    groups: int = 0
    groups_active: int = 0
    groups_held: int = 0
    configs_changed: int = 0
    errors: int = 0

    def lag(self) -> dict[TopicPartition, int]:
        """Return by how many offsets the target is behind."""
        mirrored = self.mirrored
        return {place: max(0, end - mirrored.get(place, 0)) for place, end in self.source_ends.items()}


SINGLE: Final = (
    ("batches_total", "counter", "Batches since the start.", "batches"),
    ("batch_seconds", "gauge", "How long the last batch took.", "batch_seconds"),
    ("last_batch_timestamp_seconds", "gauge", "When the last batch ended.", "last_batch"),
    ("groups", "gauge", "Groups that are translated.", "groups"),
    ("groups_active", "gauge", "Groups that are used on the target.", "groups_active"),
    ("groups_held", "gauge", "Groups held before unread records of the target.", "groups_held"),
    ("configs_changed_total", "counter", "Topics whose configs were changed.", "configs_changed"),
    ("errors_total", "counter", "Rounds of following that failed, and were repeated later.", "errors"),
)
"""Name, type, help and field of the metrics without a partition."""

ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def text(spec: MirrorSpec, figures: Figures) -> str:
    """Return the figures in Prometheus' text format."""
    mirror = {"mirror": spec.name, "source": spec.source.alias, "target": spec.target.alias}
    lag = figures.lag()
    mirrored = {place: figures.mirrored.get(place, 0) for place in lag}
    lines: list[str] = []

    def add(name: str, kind: str, what: str, values: Mapping[Any, float]) -> None:
        lines.extend((f"# HELP kvorum_mirror_{name} {what}", f"# TYPE kvorum_mirror_{name} {kind}"))
        for place, value in values.items():
            of = {} if place is None else {"topic": place.topic, "partition": str(place.partition)}
            labels = ",".join(f'{key}="{label.translate(ESCAPES)}"' for key, label in (mirror | of).items())
            lines.append(f"kvorum_mirror_{name}{{{labels}}} {value}")

    add("lag_records", "gauge", "Offsets the target is behind.", lag)
    add("lag_records_total", "gauge", "The sum of all partitions' lag.", {None: sum(lag.values())})
    add("mirrored_offset", "gauge", "Up to which source offset records are on the target.", mirrored)
    for name, kind, what, of in SINGLE:
        add(name, kind, what, {None: getattr(figures, of)})
    return "\n".join(lines) + "\n"


def listen(address: str, metrics: Callable[[], str]) -> ThreadingHTTPServer:
    """Return a server of /metrics at HOST:PORT, port 0 for any, in a thread of its own; shutdown() ends it."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = metrics().encode() if self.path.split("?")[0] in ("/metrics", "/") else b""
            self.send_response(200 if body else 404)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Log nothing: a scrape is not an event."""

    host, _, port = address.rpartition(":")
    server = ThreadingHTTPServer((host, int(port)), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="mirror-metrics", daemon=True).start()
    return server
