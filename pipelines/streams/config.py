"""How a topology runs: Kafka Streams' settings that mean something here, under their names."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kvorum.pipelines.plugins import Delivery, Trigger
from kvorum.pipelines.session.build import SessionSettings
from kvorum.pipelines.streams.compile import OnBadRecord

INTERNAL_PARTITIONS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsConfig:
    """Settings of one application."""

    application_id: str
    """Names its queries, transactions, internal topics and folder of state; the only one of this name on a cluster."""
    bootstrap_servers: str
    state_dir: Path | str
    """Location of checkpoints and state: a folder per query, in a folder per application."""
    delivery: Delivery = "exactly_once"
    """exactly_once is Kafka Streams' exactly_once_v2."""
    trigger: Trigger = field(default_factory=Trigger)
    """When a micro-batch begins; Trigger(arguments={"processingTime": "1 second"}) is what a commit interval is."""
    on_bad_record: OnBadRecord = "fail"
    """What is done with a record that its serde cannot read: LogAndFail's, or LogAndContinue's."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Of the client, as kafka.security.protocol; they go to sources and sinks."""
    source_options: Mapping[str, str] = field(default_factory=dict)
    """Of sources alone, as maxOffsetsPerTrigger."""
    session: SessionSettings = field(default_factory=SessionSettings)
    """Spark's master, memory and settings, if Streams gets no session."""
    internal_partitions: int = INTERNAL_PARTITIONS
    """Of topics of the application's own, unless repartition() says more."""

    def checkpoint(self, query: str) -> str:
        """Return a query's folder."""
        return str(Path(self.state_dir) / self.application_id / query)

    def internal_topic(self, suffix: str) -> str:
        """Return the name of a topic of the application's own."""
        return f"{self.application_id}-{suffix}-repartition"
