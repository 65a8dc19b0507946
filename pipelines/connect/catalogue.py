"""Which connectors there are, under which class names, and the pipeline that a connector's configuration makes."""

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel

from kvorum.pipelines import plugins
from kvorum.pipelines.connect import definitions, mirroring
from kvorum.pipelines.connect.definitions import Key
from kvorum.pipelines.connect.errors import RunnerError
from kvorum.pipelines.connect.offsets import FILENAME, POSITION
from kvorum.pipelines.connect.records import Json
from kvorum.pipelines.connect.state import Start
from kvorum.pipelines.plugins import Kind, PluginError
from kvorum.pipelines.run import compile as compiling
from kvorum.pipelines.spec import Pipeline, Problem, SpecError, from_connect, from_data
from kvorum.pipelines.spec.connect import ConnectorClass, split
from kvorum.pipelines.spec.problems import Places
from kvorum.pipelines.spec.resolve import resolve

Type = Literal["source", "sink"]
SHORT: Final = 3
"""Secrets of so few characters cannot be hidden: any word may have them."""
PIPELINE: Final = "Pipeline"
ALIASES: Final[Mapping[str, ConnectorClass]] = {
    "TopicSource": ConnectorClass(role="source", type="topics"),
    "TopicSink": ConnectorClass(role="sink", type="topics"),
}
FILE_STREAM: Final = "file-stream"
KNOWN: Final[Mapping[str, tuple[Kind, str]]] = {
    "org.apache.kafka.connect.file.FileStreamSourceConnector": (Kind.SOURCE, FILE_STREAM),
    "org.apache.kafka.connect.file.FileStreamSinkConnector": (Kind.SINK, FILE_STREAM),
    "io.confluent.connect.jdbc.JdbcSourceConnector": (Kind.SOURCE, "jdbc"),
    "io.confluent.connect.jdbc.JdbcSinkConnector": (Kind.SINK, "jdbc"),
    "io.debezium.connector.postgresql.PostgresConnector": (Kind.SOURCE, "postgresql"),
    mirroring.CLASS: (Kind.SOURCE, "topics"),
}
"""Connect's well-known classes that we have an equivalent of."""
REQUIRED: Final[Mapping[str, tuple[str, ...]]] = {"FileStreamSource": ("topic",)}
"""Keys that a class must have although the plugin behind it can do without."""
TABLE: Final = "table.name.format"
TOPIC: Final = "${topic}"
"""What a JDBC sink calls its table if nothing else is said; it has one table here, and so one topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorPlugin:
    """A class that connector.class may name."""

    cls: str
    type: Type
    version: str
    plugin: str
    """The plugin's name, of the kind that the type says; empty for Pipeline."""

    def as_json(self) -> Json:
        """Return it as Connect lists it."""
        return {"class": self.cls, "type": self.type, "version": self.version}

    @property
    def kind(self) -> Kind:
        """Return the plugin's kind."""
        return Kind.SOURCE if self.type == "source" else Kind.SINK

    def names(self) -> set[str]:
        """Return the accepted names: the class, with or without package and Connector."""
        return {self.cls, alias_of(self.cls), self.cls.rpartition(".")[2]}


def alias_of(cls: str) -> str:
    """Return a class's last name without Connector."""
    return re.split(r"[.$]", cls)[-1].removesuffix("Connector")


def class_name(kind: Kind, plugin: str) -> str:
    """Return `MyTypeSource` for the source my-type."""
    words = "".join(word[:1].upper() + word[1:] for word in plugin.split("-"))
    return words + ("Source" if kind is Kind.SOURCE else "Sink")


@functools.cache
def connectors() -> tuple[ConnectorPlugin, ...]:
    """Return all connectors, by class; what is installed later is seen by the next process.

    Raises PluginError when packages contradict each other.
    """
    found: list[ConnectorPlugin] = []
    versions: dict[tuple[Kind, str], str] = {}
    for plugin in plugins.plugins(Kind.SOURCE, Kind.SINK):
        versions[plugin.kind, plugin.name] = plugin.version
        found.append(_listed(class_name(plugin.kind, plugin.name), plugin.kind, plugin.name, plugin.version))
    for cls, (kind, name) in KNOWN.items():
        if (kind, name) in versions:
            found.append(_listed(cls, kind, name, versions[kind, name]))
    found.append(ConnectorPlugin(cls=PIPELINE, type="source", version=plugins.own_version(), plugin=""))
    return tuple(sorted(found, key=lambda each: (each.type, each.cls)))


def _listed(cls: str, kind: Kind, name: str, version: str) -> ConnectorPlugin:
    role: Type = "source" if kind is Kind.SOURCE else "sink"
    return ConnectorPlugin(cls=cls, type=role, version=version, plugin=name)


def others() -> list[Json]:
    """Return the plug-ins that are not connectors, as Connect lists them with connectorsOnly=false."""
    from kvorum.pipelines import formats, transforms

    version = plugins.own_version()
    named = {
        "converter": sorted(name.removeprefix("format.") for name in formats.models()),
        "transformation": sorted(n.partition(".")[2] for n in transforms.models() if n.startswith("transform.")),
        "predicate": sorted(n.partition(".")[2] for n in transforms.models() if n.startswith("predicate.")),
    }
    found = [{"class": name, "type": kind, "version": version} for kind, names in named.items() for name in names]
    for plugin in plugins.plugins(Kind.TRANSFORM, Kind.CONVERTER):
        kind = "transformation" if plugin.kind is Kind.TRANSFORM else "converter"
        found.append({"class": plugin.name, "type": kind, "version": plugin.version})
    return found


def find(cls: str) -> ConnectorPlugin | None:
    """Return the connector that a class or an alias names."""
    there = connectors()
    own = alias_of(cls)
    if own in ALIASES:
        own = class_name(Kind.SOURCE if ALIASES[own].role == "source" else Kind.SINK, ALIASES[own].type)
    exact = [each for each in there if each.cls == cls]
    near = [each for each in there if own in each.names()]
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


def model_of(plugin: ConnectorPlugin) -> type[BaseModel]:
    """Return a connector's own options. Raises PluginError."""
    model: type[BaseModel] = plugins.find(plugin.kind, plugin.plugin).load().Options
    return model


def keys_of(plugin: ConnectorPlugin) -> list[Key]:
    """Return the keys a connector takes, what all share first. Raises PluginError."""
    if plugin.cls == PIPELINE:
        return [*definitions.EVERY, *definitions.OF_PIPELINES]
    if plugin.cls == mirroring.CLASS:
        return [*definitions.EVERY, *mirroring.KEYS]
    shared = [*definitions.EVERY, *(definitions.OF_SINKS if plugin.type == "sink" else definitions.OF_SOURCES)]
    own = definitions.of_model(model_of(plugin), plugin.plugin.title())
    names = {key.name for key in shared}
    return [*shared, *(key for key in own if key.name not in names)]


def pipeline_of(name: str, properties: Mapping[str, str], bootstrap: str, places: Places | None = None) -> Pipeline:
    """Return the pipeline of a configuration. Raises SpecError in terms of its keys."""
    known = dict(properties)
    topics = split(known.get("topics", ""))
    if alias_of(known.get("connector.class", "")) == "JdbcSink" and len(topics) == 1:
        known[TABLE] = known.get(TABLE, TOPIC).replace(TOPIC, topics[0])
    made = from_connect(
        name, mirroring.rewritten(known), bootstrap=bootstrap, classes=ALIASES, places=places or Places()
    )
    listed = made.source.settings.get("topics") if made.source.type == "topics" else None
    if not isinstance(listed, str):
        return made
    data = made.as_data()
    data["source"]["topics"] = split(listed)
    return from_data(data)


def checkpoint_of_run(checkpoint: str, run: int) -> str:
    """Return the checkpoint of a run when the configuration names one."""
    return f"{checkpoint.rstrip('/')}-{run}" if run else checkpoint


def started_at(pipeline: Pipeline, checkpoint: str, start: Start) -> Pipeline:
    """Return the pipeline with where it begins: its checkpoint, and for a run without one the offsets set by hand."""
    data: dict[str, Any] = pipeline.as_data()
    own = pipeline.checkpoint
    data["checkpoint"] = checkpoint if own is None else checkpoint_of_run(own, start.run)
    if start.offsets and pipeline.source.type == "topics":
        by_topic: dict[str, dict[str, int]] = {}
        for partition, offset in start.offsets:
            number = -2 if offset is None else int(offset["kafka_offset"])  # -2: Spark's word for the earliest
            by_topic.setdefault(str(partition["kafka_topic"]), {})[str(partition["kafka_partition"])] = number
        data["source"]["startingOffsets"] = by_topic
    for partition, offset in start.offsets if pipeline.source.type == FILE_STREAM else ():
        if offset is not None and Path(str(partition[FILENAME])).absolute() == Path(data["source"]["file"]).absolute():
            data["source"]["position"] = offset[POSITION]
    return from_data(data)


def secured(pipeline: Pipeline, bootstrap: str, client: Mapping[str, str]) -> Pipeline:
    """Return the pipeline with the clients' settings at each end that is topics of the manager's own cluster."""
    data: dict[str, Any] = pipeline.as_data()
    ours = {f"kafka.{key}": value for key, value in client.items()}
    for end in (data["source"], data["sink"]):
        if ours and end["type"] == "topics" and end.get("bootstrap") == bootstrap:
            end["options"] = {**ours, **end.get("options", {})}
    return from_data(data)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The manager's own cluster, in which pipelines have their topics unless they name another one."""

    bootstrap: str
    client: Mapping[str, str] = field(default_factory=dict)
    """Settings of its clients; secrets as references."""


def runnable(name: str, properties: Mapping[str, str], *, cluster: Cluster, checkpoint: str, start: Start) -> Pipeline:
    """Return what a worker is started with; references to secrets stay what they are. Raises RunnerError."""
    try:
        made = secured(pipeline_of(name, properties, cluster.bootstrap), cluster.bootstrap, cluster.client)
        return started_at(made, checkpoint, start)
    except (SpecError, PluginError) as error:
        raise RunnerError(str(error)) from error


def check(name: str, properties: Mapping[str, str], bootstrap: str) -> list[tuple[str, str]]:
    """Return what is wrong with a configuration: (key, message) each. Secrets are in no message."""
    places = Places()
    try:
        resolved = resolve(dict(properties), places)
        secrets = Secrets.of(properties, resolved)
        made = pipeline_of(name, resolved, bootstrap, places)
    except SpecError as error:
        return [(_key(problem, properties, places), problem.message) for problem in error.problems]
    try:
        compiling.validate(made)
    except SpecError as error:
        problems = error.problems
        return [(_key(p, properties, places), secrets.hidden(p.message)) for p in problems]
    except PluginError as error:
        return [("connector.class", secrets.hidden(str(error)))]
    return []


def _key(problem: Problem, properties: Mapping[str, str], places: Places) -> str:
    """Return the key of a configuration that a problem is about."""
    said = places.aliases.get(problem.path)
    if said is not None:
        return str(said[-1])
    if len(problem.path) > 2 and problem.path[0] == "transforms" and isinstance(problem.path[1], int):
        name = split(properties.get("transforms", ""))[problem.path[1]]
        return ".".join(["transforms", name, *map(str, problem.path[2:])])
    last = str(problem.path[-1]) if problem.path else "connector.class"
    if problem.path in (("source",), ("sink",)):
        return "connector.class"
    if len(problem.path) == 1 or last in properties:
        return last
    if problem.path[0] in ("source", "sink"):
        return last if len(problem.path) == 2 else ".".join(map(str, problem.path[1:]))
    return ".".join(map(str, problem.path))


@dataclass(frozen=True, slots=True)
class Secrets:
    """Values that are in no answer and in no log: what references stand for, and what password keys say."""

    texts: tuple[str, ...] = ()

    @staticmethod
    def of(properties: Mapping[str, str], resolved: Mapping[str, Any]) -> "Secrets":
        """Return those of a configuration."""
        changed = {str(value) for key, value in resolved.items() if properties.get(key) != value}
        plain = {value for key, value in properties.items() if definitions.SECRET.search(key)}
        return Secrets(tuple(sorted((t for t in changed | plain if len(t) > SHORT), key=len, reverse=True)))

    @staticmethod
    def in_configuration(properties: Mapping[str, str]) -> "Secrets":
        """Return those of a configuration whose references may lead nowhere."""
        resolved: dict[str, Any] = {}
        for key, value in properties.items():
            try:
                resolved |= resolve({key: value}, Places())
            except SpecError:
                resolved[key] = value
        return Secrets.of(properties, resolved)

    def hidden(self, text: str) -> str:
        """Return a text without them, and without passwords in URLs."""
        for secret in self.texts:
            text = text.replace(secret, definitions.HIDDEN)
        return re.sub(r"(://[^\s:/@]+:)[^\s@/]+@", rf"\1{definitions.HIDDEN}@", text)
