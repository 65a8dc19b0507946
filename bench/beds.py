"""One system during one measure: its cluster, topics that are deleted after use, and values kept for later cases."""

import contextlib
import itertools
from collections.abc import Iterator, Mapping

from confluent_kafka import KafkaException

from bench.scale import Scale
from bench.systems import System
from bench.topics import DEADLINE_SECONDS, admin_of, make_topic


class Bed:
    """Arguments of a run. Not shared between systems."""

    def __init__(
        self, kind: str, system: System, nodes: int, scale: Scale, maxima: dict[str, float] | None = None
    ) -> None:
        self.kind = kind
        self.system = system
        self.nodes = nodes
        self.scale = scale
        self.notes: dict[str, float] = {}
        """Values found once and needed again."""
        self.maxima = {} if maxima is None else maxima
        """{kind: measured rate} of all systems of the measure so far, to load them equally."""
        self._numbers = itertools.count(1)

    @contextlib.contextmanager
    def topic(self, partitions: int = 1, configs: Mapping[str, str] | None = None) -> Iterator[str]:
        """A new topic on all nodes (at most 3 replicas), deleted afterwards."""
        name = self.make_topic(partitions, configs)
        yield name
        self.drop_topic(name)

    def new_name(self) -> str:
        """Return a name that nothing had here."""
        return f"bench-{next(self._numbers)}"

    def make_topic(self, partitions: int = 1, configs: Mapping[str, str] | None = None) -> str:
        """Make a topic under a name that no other had; it stays. Raises StalledError."""
        name = self.new_name()
        make_topic(self.system, name, partitions, min(3, self.nodes), configs)
        return name

    def drop_topic(self, name: str) -> None:
        """Delete a topic, to free disk space."""
        for done in admin_of(self.system).delete_topics([name], operation_timeout=DEADLINE_SECONDS).values():
            with contextlib.suppress(KafkaException):  # the measurement is already complete
                done.result(DEADLINE_SECONDS)
