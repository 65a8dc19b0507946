"""A connector's configuration in Connect's flat form, as the pipeline that does the same.

`connector.class` names one of CLASSES, or a plugin by its type: `JdbcSink`, `any.package.FilesSourceConnector`,
`my-type-sink`. `Pipeline` stands for both ends at once: `source.type`, `source.topics`, `sink.type`... Keys of ours
that Connect has no word for begin with `kvorum.` (OWN). What Connect's worker would do and a pipeline has no part for
is in IGNORED; any other key is the connector's own.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, Literal

from kvorum.pipelines.faults import as_texts, meant, separated
from kvorum.pipelines.spec.problems import Loc, Places, Problem, SpecError

Role = Literal["source", "sink", "both"]


CLASSES: Final[Mapping[str, tuple[Role, str]]] = {
    "Pipeline": ("both", ""),
    "Postgres": ("source", "postgresql"),
    "TopicSource": ("source", "topics"),
    "TopicSink": ("sink", "topics"),
}
"""{a class's last name without Connector: (role, plugin)}; a name that ends in Source or Sink needs no entry."""

KAFKA_CONVERTERS: Final = "org.apache.kafka.connect.converters."
CONVERTERS: Final[Mapping[str, str]] = {
    "org.apache.kafka.connect.storage.StringConverter": "string",
    "org.apache.kafka.connect.json.JsonConverter": "json",
    "io.confluent.connect.avro.AvroConverter": "avro",
    "io.confluent.connect.protobuf.ProtobufConverter": "protobuf",
    f"{KAFKA_CONVERTERS}ByteArrayConverter": "bytes",
    **{f"{KAFKA_CONVERTERS}{kind}Converter": kind.lower() for kind in ("Short", "Integer", "Long", "Float", "Double")},
}
IGNORED: Final = re.compile(
    r"name|config\.action\.reload|tasks\.max\.enforce|header\.converter(\..*)?|.*plugin\.version|"
    r"errors\.(retry\.timeout|retry\.delay\.max\.ms|log\.enable|log\.include\.messages)|"
    r"errors\.deadletterqueue\.topic\.replication\.factor|topic\.creation\..*|transaction\.boundary.*|"
    r"offsets\.storage\.topic|admin\.override\..*|kafka\.bootstrap\.servers"
)
OWN: Final = ("trigger", "delivery", "checkpoint", "connector", "description", "isolation")
"""Keys of a pipeline, here with `kvorum.` before them."""
END_PARTS: Final = ("key", "value", "options")
"""Keys of an end that have keys of their own: source.value.format."""


def converted(
    name: str,
    properties: Mapping[str, Any],
    *,
    places: Places,
    under: Loc = (),
    bootstrap: str | None = None,
) -> tuple[dict[str, Any], list[Problem]]:
    """Return a configuration in a pipeline's shape, and what is wrong with it so far; see from_connect.

    Raises SpecError for a class that is neither source nor sink.
    """
    flat = as_texts({str(key): value for key, value in properties.items() if value is not None})
    work = _Conversion(flat=flat, places=places, under=under)
    role, plugin = work.kind()
    work.put(("name",), "name", name or flat.get("name", ""))
    work.common()
    if role == "both":
        for end in ("source", "sink"):
            work.end(end, bootstrap)
    else:
        work.topics_end(role, flat.get("kafka.bootstrap.servers", bootstrap))
        work.plugin_end(role, plugin)
    return work.data, work.problems


@dataclass(slots=True, kw_only=True)
class _Conversion:
    """A configuration being taken apart: `used` keys have found their part."""

    flat: Mapping[str, str]
    places: Places
    under: Loc
    data: dict[str, Any] = field(default_factory=dict)
    used: set[str] = field(default_factory=lambda: {"connector.class"})
    problems: list[Problem] = field(default_factory=list)

    def put(self, path: Loc, key: str, value: Any) -> None:
        """Set a part of the pipeline, and record the key that it comes from."""
        part: Any = self.data
        for step, follows in pairwise(path):
            if isinstance(step, int):
                part += [{} for _ in range(len(part), step + 1)]
                part = part[step]
            else:
                part = part.setdefault(step, [] if isinstance(follows, int) else {})
        part[path[-1]] = value
        self.places.aliases[path] = (*self.under, key)
        self.used.add(key)

    def take(self, key: str, *path: str) -> None:
        """Set a part of the pipeline to the value of a key, if it is given."""
        if key in self.flat:
            self.put(path, key, separated(self.flat[key]) if path[-1] == "topics" else self.flat[key])

    def problem(self, key: str, message: str) -> None:
        self.problems.append(self.places.problem((*self.under, key), message))

    def kind(self) -> tuple[Role, str]:
        """Return what `connector.class` names."""
        given = self.flat.get("connector.class", "")
        last = re.split(r"[.$]", given)[-1].removesuffix("Connector")
        if last in CLASSES:
            return CLASSES[last]
        matched = re.fullmatch(r"(.+?)-?(Source|Sink|source|sink)", last)
        if matched is None:
            self.problem("connector.class", f"{given!r} ends neither in Source nor in Sink{meant(last, CLASSES)}")
            raise SpecError(self.problems)
        kebab = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", matched.group(1)).lower()
        return ("source" if matched.group(2).lower() == "source" else "sink"), kebab

    def common(self) -> None:
        """Take what all connectors share."""
        self.take("tasks.max", "parallelism")
        for own in OWN:
            self.take(f"kvorum.{own}", own)
        for key, rest in self.prefixed("kvorum.spark."):
            self.take(key, "spark", rest)
        if "exactly.once.support" in self.flat:
            required = self.flat["exactly.once.support"].lower() in ("required", "requested")
            self.put(("delivery",), "exactly.once.support", "exactly_once" if required else "at_least_once")
        self.errors()
        self.chain("transforms", "transform")
        self.chain("predicates", "predicate")

    def errors(self) -> None:
        """Take what becomes of bad records: tolerance none, all without and all with a dead-letter topic."""
        tolerance, topic = "errors.tolerance", "errors.deadletterqueue.topic.name"
        headers = "errors.deadletterqueue.context.headers.enable"
        given = self.flat.get(tolerance, "none")
        self.used |= {tolerance, topic, headers}
        if given not in ("none", "all"):
            self.problem(tolerance, f"{given!r} is not one of 'none' or 'all'")
        if given == "all":
            has_topic = bool(self.flat.get(topic))
            self.put(("errors", "tolerance"), tolerance, "dead-letter" if has_topic else "skip")
            if has_topic:
                self.put(("errors", "topic"), topic, self.flat[topic])
                self.put(("errors", "headers"), headers, self.flat.get(headers, "false"))

    def chain(self, word: str, single: str) -> None:
        """Take `transforms: a,b` with `transforms.a.type` and so on; or predicates."""
        names = separated(self.flat.get(word, ""))
        self.used.add(word)
        for index, name in enumerate(names):
            at: Loc = (word, index if word == "transforms" else name)
            if word == "transforms":
                self.put((*at, "name"), word, name)
            self.places.aliases[at] = (*self.under, f"{word}.{name}")
            for key, rest in self.prefixed(f"{word}.{name}."):
                self.put((*at, rest), key, self.flat[key])
        for key, rest in self.prefixed(f"{word}."):
            if key not in self.used:
                self.problem(key, f"there is no {single} {rest.partition('.')[0]!r} in {word}")

    def converters(self, end: str) -> None:
        """Take key.converter and value.converter as the formats of the end that is topics."""
        known = {**CONVERTERS, **{full.rpartition(".")[2]: short for full, short in CONVERTERS.items()}}
        for part in ("key", "value"):
            key = f"{part}.converter"
            if key not in self.flat:
                continue
            form = known.get(self.flat[key], self.flat[key])
            self.put((end, part, "format"), key, form)
            if form == "json":  # Connect's JsonConverter has the envelope by default, `format: json` has not
                self.put((end, part, "schemas.enable"), key, True)
            for full, rest in self.prefixed(f"{key}."):
                self.take(full, end, part, rest)

    def topics_end(self, role: Role, bootstrap: str | None) -> None:
        """Make the end that Connect itself is: where a sink reads from, where a source writes to."""
        end, client = ("source", "consumer") if role == "sink" else ("sink", "producer")
        self.put((end, "type"), "connector.class", "topics")
        if bootstrap:
            self.put((end, "bootstrap"), "kafka.bootstrap.servers", bootstrap)
        self.converters(end)
        if role == "sink":
            self.take("topics", end, "topics")
            self.take("topics.regex", end, "pattern")
            if ("topics" in self.flat) == ("topics.regex" in self.flat):
                self.problem("topics", "a sink needs one of topics and topics.regex")
            reset = "consumer.override.auto.offset.reset"
            self.put((end, "startingOffsets"), reset, self.flat.get(reset, "earliest"))
        else:
            self.take("topic", end, "topic")
        for key, rest in self.prefixed(f"{client}.override."):
            if key not in self.used:
                self.take(key, end, "options", f"kafka.{rest}")

    def plugin_end(self, role: Role, plugin: str) -> None:
        """Make the connector's own end from the keys that are left."""
        self.put((role, "type"), "connector.class", plugin)
        self.places.aliases[(role,)] = self.under
        for key in self.rest():
            self.put((role, key), key, self.flat[key])

    def end(self, end: str, bootstrap: str | None) -> None:
        """Make an end of `source.` or `sink.` keys."""
        for key, rest in self.prefixed(f"{end}."):
            first, _, inner = rest.partition(".")
            self.take(key, end, *((first, inner) if inner and first in END_PARTS else (rest,)))
        ours = self.data.get(end, {})
        if ours.get("type") == "topics" and "bootstrap" not in ours and bootstrap:
            self.put((end, "bootstrap"), "kafka.bootstrap.servers", bootstrap)
        for key in self.rest() if end == "sink" else ():
            self.problem(key, "unknown key")

    def rest(self) -> list[str]:
        """Return the keys that found no part yet, without those that are ignored."""
        return [key for key in self.flat if key not in self.used and not IGNORED.fullmatch(key)]

    def prefixed(self, prefix: str) -> Iterator[tuple[str, str]]:
        """Yield the keys that begin with a prefix, whole and without it."""
        yield from ((key, key.removeprefix(prefix)) for key in self.flat if key.startswith(prefix))
