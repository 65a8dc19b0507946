"""Which connectors there are, under which class names, and the pipeline that a connector's configuration makes."""

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from kvorum.pipelines import plugins
from kvorum.pipelines.connect.errors import RunnerError
from kvorum.pipelines.connect.state import FILENAME, POSITION, Connector, Json
from kvorum.pipelines.faults import separated
from kvorum.pipelines.plugins import Kind, PluginError
from kvorum.pipelines.spec import Pipeline, SpecError, from_connect, from_data
from kvorum.pipelines.spec.problems import Places

PIPELINE: Final = "Pipeline"
FILE_STREAM: Final = "file-stream"
KNOWN: Final[Mapping[str, tuple[Kind, str]]] = {
    "org.apache.kafka.connect.file.FileStreamSourceConnector": (Kind.SOURCE, FILE_STREAM),
    "org.apache.kafka.connect.file.FileStreamSinkConnector": (Kind.SINK, FILE_STREAM),
    "io.confluent.connect.jdbc.JdbcSourceConnector": (Kind.SOURCE, "jdbc"),
    "io.confluent.connect.jdbc.JdbcSinkConnector": (Kind.SINK, "jdbc"),
    "io.debezium.connector.postgresql.PostgresConnector": (Kind.SOURCE, "postgresql"),
}
"""Connect's well-known classes that we have an equivalent of."""
TABLE: Final = "table.name.format"
TOPIC: Final = "${topic}"
"""Default table name of a JDBC sink. A sink has one table here, and so one topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorPlugin:
    """A class that connector.class may name."""

    cls: str
    kind: Kind
    version: str
    plugin: str
    """The plugin's name; empty for Pipeline."""

    @property
    def type(self) -> Literal["source", "sink"]:
        """Return Connect's word for its kind."""
        return "source" if self.kind is Kind.SOURCE else "sink"

    def as_json(self) -> Json:
        """Return it as Connect lists it."""
        return {"class": self.cls, "type": self.type, "version": self.version}


def alias_of(cls: str) -> str:
    """Return a class's last name without Connector."""
    return re.split(r"[.$]", cls)[-1].removesuffix("Connector")


@functools.cache
def connectors() -> tuple[ConnectorPlugin, ...]:
    """Return all connectors, by class; what is installed later is seen by the next process.

    The source my-type is `MyTypeSource`. Raises PluginError when packages contradict each other.
    """
    found = [ConnectorPlugin(cls=PIPELINE, kind=Kind.SOURCE, version=plugins.own_version(), plugin="")]
    for each in plugins.plugins(Kind.SOURCE, Kind.SINK):
        words = "".join(word[:1].upper() + word[1:] for word in each.name.split("-"))
        own = words + ("Source" if each.kind is Kind.SOURCE else "Sink")
        for cls in (own, *(cls for cls, known in KNOWN.items() if known == (each.kind, each.name))):
            found.append(ConnectorPlugin(cls=cls, kind=each.kind, version=each.version, plugin=each.name))
    return tuple(sorted(found, key=lambda each: (each.type, each.cls)))


def others() -> list[Json]:
    """Return the plug-ins that are not connectors, as Connect lists them with connectorsOnly=false."""
    from kvorum.pipelines import formats, transforms

    models = sorted({**formats.models(), **transforms.models()})
    found = []
    for kind, prefix in (("converter", "format."), ("transformation", "transform."), ("predicate", "predicate.")):
        names = [name.removeprefix(prefix) for name in models if name.startswith(prefix)]
        found += [{"class": name, "type": kind, "version": plugins.own_version()} for name in names]
    return found


def find(cls: str) -> ConnectorPlugin | None:
    """Return the connector that a class or an alias names: the class, with or without package and Connector."""
    own = re.sub(r"^Topic(?=Source$|Sink$)", "Topics", alias_of(cls))
    exact = [each for each in connectors() if each.cls == cls]
    near = [each for each in connectors() if own in (each.cls, alias_of(each.cls), each.cls.rpartition(".")[2])]
    return next(iter([*exact, *near]), None)


def type_of(properties: Mapping[str, str]) -> str:
    """Return source, sink or unknown."""
    cls = properties.get("connector.class", "")
    if alias_of(cls) == PIPELINE:
        # A pipeline that reads topics is what Connect calls a sink: its positions are offsets of topics.
        return "sink" if properties.get("source.type") == "topics" else "source"
    found = find(cls)
    return "unknown" if found is None else found.type


def offsets_of(properties: Mapping[str, str]) -> Literal["sink", "file", "source"]:
    """Return whose offsets a connector's are: a sink's are those of topics, a file's is its position."""
    if type_of(properties) == "sink":
        return "sink"
    found = find(properties.get("connector.class", ""))
    return "file" if found is not None and (found.type, found.plugin) == ("source", FILE_STREAM) else "source"


def pipeline_of(name: str, properties: Mapping[str, str], bootstrap: str, places: Places | None = None) -> Pipeline:
    """Return the pipeline of a configuration. Raises SpecError in terms of its keys."""
    known = dict(properties)
    cls, topics = alias_of(known.get("connector.class", "")), separated(known.get("topics", ""))
    if cls == "JdbcSink" and len(topics) == 1:
        known[TABLE] = known.get(TABLE, TOPIC).replace(TOPIC, topics[0])
    made = from_connect(name, known, bootstrap=bootstrap, places=places or Places())
    listed = made.source.settings.get("topics") if made.source.type == "topics" else None
    if not isinstance(listed, str):
        return made
    data = made.as_data()
    data["source"]["topics"] = separated(listed)
    return from_data(data)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The manager's own cluster, in which pipelines have their topics unless they name another one."""

    bootstrap: str
    client: Mapping[str, str] = field(default_factory=dict)
    """Settings of its clients; secrets as references."""


def checkpoint_of_run(checkpoint: str, run: int) -> str:
    """Return the checkpoint of a run when the configuration names one."""
    return f"{checkpoint.rstrip('/')}-{run}" if run else checkpoint


def runnable(connector: Connector, cluster: Cluster, checkpoint: str) -> Pipeline:
    """Return what a worker is started with; references to secrets stay what they are. Raises RunnerError.

    An end that is topics of the manager's own cluster has the settings of its clients. A run without a
    checkpoint begins at `connector.start`.
    """
    start = connector.start
    try:
        data: dict[str, Any] = pipeline_of(connector.name, connector.properties, cluster.bootstrap).as_data()
        source, own = data["source"], data.get("checkpoint")
        ours = {f"kafka.{key}": value for key, value in cluster.client.items()}
        for end in (source, data["sink"]):
            if ours and end["type"] == "topics" and end.get("bootstrap") == cluster.bootstrap:
                end["options"] = {**ours, **end.get("options", {})}
        data["checkpoint"] = checkpoint if own is None else checkpoint_of_run(own, start.run)
        by_topic: dict[str, dict[str, int]] = {}
        for partition, offset in start.offsets:
            if source["type"] == "topics":
                number = -2 if offset is None else int(offset["kafka_offset"])  # -2: Spark's word for the earliest
                by_topic.setdefault(str(partition["kafka_topic"]), {})[str(partition["kafka_partition"])] = number
                source["startingOffsets"] = by_topic
            elif source["type"] == FILE_STREAM and offset is not None:
                is_own = Path(str(partition[FILENAME])).absolute() == Path(source["file"]).absolute()
                source |= {"position": offset[POSITION]} if is_own else {}
        return from_data(data)
    except (SpecError, PluginError) as error:
        raise RunnerError(str(error)) from error
