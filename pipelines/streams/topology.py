"""A topology that was built and planned: what Streams runs, and what describe() draws."""

from dataclasses import dataclass

from kvorum.pipelines.streams.describe import described
from kvorum.pipelines.streams.nodes import Dag
from kvorum.pipelines.streams.plan import Query, planned


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """The nodes, and the queries they run in."""

    dag: Dag
    queries: tuple[Query, ...]

    @classmethod
    def of(cls, dag: Dag) -> "Topology":
        """Plan what was built. Raises TopologyError."""
        cut, queries = planned(dag)
        return cls(dag=cut, queries=queries)

    def describe(self) -> str:
        """Draw it as Kafka Streams' Topology#describe does."""
        return described(self.dag)
