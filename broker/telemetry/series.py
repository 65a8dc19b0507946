"""Current clients' metrics by client instance: last values, and sums of deltas. Sans-IO.

Bounded: SERIES_PER_CLIENT_MAX numbers of one client, SERIES_MAX in all. Further ones are left out and counted.
"""

from collections.abc import Iterator
from typing import Final, TypeAlias

from kvorum.broker.telemetry.otlp import Point

SERIES_PER_CLIENT_MAX: Final = 500
"""Also the points read of one push: a few milliseconds. A Java producer has about 150, and ten more per topic."""
SERIES_MAX: Final = 10_000
"""Limit of all clients together: each scrape writes them in one step."""

Labels: TypeAlias = tuple[str, str]
"""(metric, its attributes as `key=value,...`)."""


class ClientSeries:
    """The numbers of all client instances."""

    __slots__ = ("_clients", "_count", "dropped")

    def __init__(self) -> None:
        """Start with none."""
        self._clients: dict[str, tuple[str, dict[Labels, float]]] = {}
        self._count = 0
        self.dropped = 0
        """Points dropped because of a limit so far."""

    def take(self, instance_id: str, client_id: str, points: list[Point]) -> None:
        """Add the points of an instance."""
        _, values = self._clients.setdefault(instance_id, (client_id, {}))
        for point in points:
            labels = (point.name, ",".join(f"{key}={value}" for key, value in point.attributes))
            known = values.get(labels)
            if known is None:
                if len(values) >= SERIES_PER_CLIENT_MAX or self._count >= SERIES_MAX:
                    self.dropped += 1
                    continue
                self._count += 1
            values[labels] = point.value + known if point.is_delta and known is not None else point.value

    def forget(self, instance_id: str) -> None:
        """Remove an instance's numbers. Idempotent."""
        found = self._clients.pop(instance_id, None)
        if found is not None:
            self._count -= len(found[1])

    def __len__(self) -> int:
        """Return how many numbers there are."""
        return self._count

    def rows(self) -> Iterator[tuple[tuple[str, str, str, str], float]]:
        """Yield ((client id, instance id, metric, attributes), value)."""
        for instance_id, (client_id, values) in self._clients.items():
            for (metric, attributes), value in values.items():
                yield (client_id, instance_id, metric, attributes), value
