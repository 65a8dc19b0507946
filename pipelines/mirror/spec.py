"""A mirror's file: which cluster, where to, what of it. YAML or JSON, `kind: mirror`. Names of what it mirrors.

Names follow MirrorMaker's policies. `default` puts the source's alias in front: `orders` of cluster `a` is `a.orders`
on `b`. A topic that has the target's alias among its prefixes came from there, and is not sent back. `identity` keeps
names; there every record says in a header which clusters it has passed, and one that has passed the target is dropped.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, Field, ValidationError, model_validator

from kvorum.pipelines.bridge.offsets import TopicPartition
from kvorum.pipelines.faults import as_texts
from kvorum.pipelines.spec import document
from kvorum.pipelines.spec.document import resolve
from kvorum.pipelines.spec.model import NAME, Duration, Model, Trigger, duration_ms
from kvorum.pipelines.spec.problems import SpecError, from_pydantic

PROVENANCE: Final = "kvorum-mirror-source"
"""The header's key; its value is the alias of the cluster the record was read from. One header a hop."""

INTERNAL: Final = (r"__.*", r".*[-.]internal", r".*\.replica", r"mm2-.*", r"kvorum-offset-map\..*", "heartbeats")
"""Never mirrored: what clusters and mirrors keep for themselves."""

CONFIGS_EXCLUDED: Final = (
    *(r"follower\.replication\.throttled\.replicas", r"leader\.replication\.throttled\.replicas"),
    r"message\.timestamp\.(difference\.max|before\.max|after\.max)\.ms",
    *(r"message\.timestamp\.type", r"log\.message\.timestamp\.(before|after)\.max\.ms"),
    *(r"unclean\.leader\.election\.enable", r"min\.insync\.replicas"),
)
"""Configs that are not copied, as in MirrorMaker: those of one cluster, and those that would change timestamps."""

GROUPS_EXCLUDED: Final = (r"console-consumer-.*", r"connect-.*", r"__.*", r"spark-.*", r"kvorum-sink-.*")
"""MirrorMaker's, and groups that Spark's readers and the exactly-once sink use."""


def _is_pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"{text!r} is not a regular expression: {error}") from None
    return text


Pattern = Annotated[str, AfterValidator(_is_pattern)]
Alias = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,60}$")]


def any_of(patterns: Sequence[str]) -> str:
    """Return a regular expression that matches what one of these matches; nothing without any."""
    return "|".join(f"(?:{each})" for each in patterns) or r"(?!)"


class Cluster(Model):
    """One of the two clusters."""

    alias: Alias
    """Its name in topics, headers and metrics."""
    bootstrap: str
    """HOST:PORT,HOST:PORT"""
    options: dict[str, str | int | float | bool] = Field(default_factory=dict)
    """Clients' settings: kafka.security.protocol and so on."""

    def settings(self) -> dict[str, str]:
        """Return the options of Spark's readers and writers for this cluster."""
        return {"kafka.bootstrap.servers": self.bootstrap} | as_texts(self.options)


class Sync(Model):
    """What is synchronised besides records, and how often."""

    interval: Duration = "10s"
    configs: bool = True
    """Topic configs, except configs_exclude."""
    configs_exclude: Sequence[Pattern] = CONFIGS_EXCLUDED
    groups: bool = True
    """Translate the offsets of groups, and commit them for groups without members on the target."""
    refine_max: int = Field(default=200_000, ge=0, le=10_000_000)
    """How many records of a partition are read to place an offset inside a batch; 0: only where batches end."""


class MirrorSpec(Model):
    """A mirror's file."""

    kind: Literal["mirror"] = "mirror"
    name: str = Field(pattern=NAME)
    """Unique among the mirrors into the target: groups and transactional ids are made from it."""
    description: str = ""
    source: Cluster
    target: Cluster
    topics: Annotated[Sequence[Pattern], Field(min_length=1)]
    exclude: Sequence[Pattern] = ()
    groups: Sequence[Pattern] = (r".*",)
    groups_exclude: Sequence[Pattern] = GROUPS_EXCLUDED
    policy: Literal["default", "identity"] = "default"
    separator: Annotated[str, Field(min_length=1, max_length=3, pattern=r"^[._-]+$")] = "."
    provenance: bool | None = None
    """Whether records say in a header where they came from; None: with policy identity only, whose loops it stops."""
    starting_offsets: Literal["earliest", "latest"] = Field(default="earliest", alias="startingOffsets")
    replication_factor: int | None = Field(default=None, ge=1, le=32767)
    """Of topics made on the target; None: what its brokers have as default."""
    delivery: Literal["exactly_once", "at_least_once"] = "exactly_once"
    fail_on_data_loss: bool = Field(default=True, alias="failOnDataLoss")
    max_offsets_per_trigger: int = Field(default=500_000, ge=1, alias="maxOffsetsPerTrigger")
    trigger: Trigger = Trigger()
    checkpoint: str
    sync: Sync = Sync()
    metrics: str | None = Field(default=None, pattern=r"^[^:]+:\d+$")
    """HOST:PORT that exposes the lag in Prometheus' text format."""

    @model_validator(mode="after")
    def _two_clusters(self) -> Self:
        if self.source.alias == self.target.alias:
            raise ValueError("source and target have the same alias")
        if self.policy == "identity" and self.source.bootstrap == self.target.bootstrap:
            raise ValueError("policy identity would write each topic into itself")
        return self

    @property
    def marks_records(self) -> bool:
        """Return whether records get the provenance header, and those from the target are dropped by it."""
        return self.policy == "identity" if self.provenance is None else self.provenance

    @property
    def interval_seconds(self) -> float:
        """Return how often topics and groups are looked at."""
        return duration_ms(self.sync.interval) / 1000

    @property
    def prefix(self) -> str:
        """Return the text in front of a topic's name on the target."""
        return "" if self.policy == "identity" else f"{self.source.alias}{self.separator}"

    def there(self, place: TopicPartition) -> TopicPartition:
        """Return a partition by its name on the target."""
        return TopicPartition(f"{self.prefix}{place.topic}", place.partition)

    @property
    def map_topic(self) -> str:
        """Return the topic (on the target) that keeps which source offset is which target offset."""
        return f"kvorum-offset-map.{self.source.alias}.internal"

    @property
    def opposite_map_topic(self) -> str:
        """Return the topic (on the source) where mirrors from the target to the source keep theirs."""
        return f"kvorum-offset-map.{self.target.alias}.internal"

    @property
    def topic_pattern(self) -> str:
        """Return what matches exactly the whole names of the topics to mirror. Python's re and Java's both read it."""
        unwanted = [*INTERNAL, *self.exclude]
        if self.policy == "default":
            separator, target = re.escape(self.separator), re.escape(self.target.alias)
            # Any of its prefixes is the target: it has been there. (MirrorMaker's isCycle.)
            unwanted.append(rf"(?:.*{separator})?{target}{separator}.*")
        return f"(?!(?:{any_of(unwanted)})$)(?:{any_of(self.topics)})"

    @property
    def group_pattern(self) -> str:
        """Return what matches the whole names of the groups to follow."""
        return f"(?!(?:{any_of(self.groups_exclude)})$)(?:{any_of(self.groups)})"


def load(path: str | Path) -> MirrorSpec:
    """Return the mirror of a file. Raises SpecError with every problem and its line."""
    read = document.read(Path(path))
    data: dict[str, Any] = resolve(read.right().data, read.places)
    try:
        return MirrorSpec.model_validate(data)
    except ValidationError as error:
        raise SpecError(from_pydantic(error, MirrorSpec, read.places)) from error
