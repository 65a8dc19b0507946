"""Configurations held against their connector: keys as Connect describes them, ConfigInfos, and what is wrong.

What all connectors share is a table of keys, the rest a plugin's model.
"""

import asyncio
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final, Literal

from pydantic import BaseModel

from kvorum.pipelines import plugins
from kvorum.pipelines.connect.catalogue import (
    FILE_STREAM,
    PIPELINE,
    ConnectorPlugin,
    connectors,
    find,
    pipeline_of,
)
from kvorum.pipelines.connect.errors import ConnectError, bad_request
from kvorum.pipelines.connect.state import Json, compact
from kvorum.pipelines.faults import separated
from kvorum.pipelines.plugins import PluginError
from kvorum.pipelines.run import compile as compiling
from kvorum.pipelines.spec import Problem, SpecError
from kvorum.pipelines.spec.document import VARIABLE, resolve
from kvorum.pipelines.spec.problems import Places

Type = Literal["STRING", "INT", "LONG", "DOUBLE", "BOOLEAN", "LIST", "PASSWORD", "CLASS"]
TYPES: Final[Mapping[str, Type]] = {"boolean": "BOOLEAN", "integer": "LONG", "number": "DOUBLE", "array": "LIST"}
"""{JSON schema's type: Connect's}."""
SECRET: Final = re.compile(r"password|passwd|secret|token|credential|sasl\.jaas\.config|private[._]?key", re.IGNORECASE)
SECRET_CHARACTERS_MIN: Final = 4
"""Shorter secrets cannot be hidden: any word may have them."""
HIDDEN: Final = "[hidden]"
VALUE_CHARACTERS_MAX: Final = 100
"""Of a value in a message."""
COMMON: Final = "Common"
TRANSFORMS: Final = "Transforms"
PREDICATES: Final = "Predicates"
ERRORS: Final = "Error Handling"
OF_PIPELINE: Final = "Pipeline"
EITHER_TOPICS: Final = ("topics", "topics.regex")


@dataclass(frozen=True, slots=True)
class Key:
    """One key; the fields are those of Connect's ConfigKeyInfo."""

    name: str
    documentation: str = ""
    importance: Literal["HIGH", "MEDIUM", "LOW"] = "MEDIUM"
    group: str = COMMON
    display: str = ""
    type: Type = "STRING"
    required: bool = False
    default: str | None = None
    recommended: Sequence[str] = ()

    def definition(self, order: int) -> Json:
        """Return it as Connect answers it."""
        return {
            "name": self.name,
            "type": self.type,
            "required": self.required,
            "default_value": self.default,
            "importance": self.importance,
            "documentation": self.documentation,
            "group": self.group,
            "width": "MEDIUM",
            "display_name": self.display or self.name,
            "dependents": [],
            "order_in_group": order,
        }


CONVERTER: Final = "are written in topics: a format's name, or the class of Connect's converter."
EVERY: Final = (
    Key("name", "Unique among the connectors of this manager.", "HIGH", COMMON, "Connector name", required=True),
    Key("connector.class", "A plugin's name such as JdbcSource, or the class of Connect's that it stands for.",
        "HIGH", COMMON, "Connector class", required=True),
    Key("tasks.max", "How many of Spark's tasks the pipeline has at most.", "HIGH", COMMON, "Tasks max", "INT",
        default="1"),
    Key("key.converter", f"How keys {CONVERTER}", "LOW", COMMON, "Key converter class", "CLASS"),
    Key("value.converter", f"How values {CONVERTER}", "LOW", COMMON, "Value converter class", "CLASS"),
    Key("transforms", "Names of the steps between source and sink, in order; transforms.NAME.type says what each is.",
        "LOW", TRANSFORMS, "Transforms", "LIST", default=""),
    Key("predicates", "Names of the conditions that transforms refer to.", "LOW", PREDICATES, "Predicates", "LIST",
        default=""),
    Key("errors.tolerance",
        "none: a record that fails fails the pipeline; all: it is left out, or becomes a dead letter.", "MEDIUM",
        ERRORS, "Error Tolerance", default="none", recommended=("none", "all")),
    Key("kvorum.trigger", "When a micro-batch begins: 1s, once, available-now.", group=OF_PIPELINE),
    Key("kvorum.delivery", "What holds for records written to topics.", group=OF_PIPELINE, default="exactly_once",
        recommended=("exactly_once", "at_least_once")),
    Key("kvorum.checkpoint", "The folder that keeps positions; by default one below the manager's.", "LOW",
        OF_PIPELINE),
    Key("kvorum.connector", "Who reads and writes topics.", "LOW", OF_PIPELINE, default="auto",
        recommended=("auto", "spark", "kvorum")),
    Key("kvorum.description", "For people.", "LOW", OF_PIPELINE),
)  # fmt: skip
OF_SINKS: Final = (
    Key("topics", "Where records come from. Either this or topics.regex.", "HIGH", COMMON, "Topics", "LIST",
        default=""),
    Key("topics.regex", "Topics whose whole name matches.", "HIGH", COMMON, "Topics regex", default=""),
    Key("errors.deadletterqueue.topic.name", "With errors.tolerance=all: where the records go that fail.", "MEDIUM",
        ERRORS, "Dead Letter Queue Topic Name", default=""),
    Key("errors.deadletterqueue.context.headers.enable", "Whether a dead letter's headers say what went wrong.",
        "MEDIUM", ERRORS, "Enable Error Context Headers", "BOOLEAN", default="false"),
)  # fmt: skip
OF_SOURCES: Final = (
    Key("topic", "Where records go that do not say it themselves.", "HIGH"),
    Key("exactly.once.support", "Either value is exactly-once delivery.", "MEDIUM", "Exactly Once Support",
        "Exactly once support", default="requested", recommended=("requested", "required")),
)  # fmt: skip
OF_PIPELINES: Final = (
    Key("source.type", "The source's plugin: topics, jdbc...", "HIGH", required=True),
    Key("sink.type", "The sink's plugin: topics, files...", "HIGH", required=True),
)


def keys_of(plugin: ConnectorPlugin) -> list[Key]:
    """Return the keys a connector takes, what all share first. Raises ConnectError if the plugin cannot be loaded."""
    if plugin.cls == PIPELINE:
        return [*EVERY, *OF_PIPELINES]
    shared = [*EVERY, *(OF_SINKS if plugin.type == "sink" else OF_SOURCES)]
    try:
        model: type[BaseModel] = plugins.find(plugin.kind, plugin.plugin).load().Options
    except PluginError as error:
        raise ConnectError(500, str(error)) from error
    names = {key.name for key in shared}
    return [*shared, *(key for key in _of_model(model, plugin.plugin.title()) if key.name not in names)]


def _of_model(model: type[BaseModel], group: str) -> list[Key]:
    """Return the keys of a plugin's options, by their JSON schema."""
    schema = model.model_json_schema()
    found = []
    for name, data in schema["properties"].items():
        kinds = [each.get("type", "") for each in data.get("anyOf", [data]) if each.get("type") != "null"]
        type_ = TYPES.get(kinds[0], "STRING") if len(kinds) == 1 else "STRING"
        default = data.get("default")
        default = ",".join(map(str, default)) if isinstance(default, list) else default
        found.append(
            Key(
                name,
                data.get("description", ""),
                "HIGH" if name in schema.get("required", ()) else "MEDIUM",
                group,
                type="PASSWORD" if SECRET.search(name) else type_,
                required=name in schema.get("required", ()),
                default=default if isinstance(default, str | None) else compact(default),
                recommended=_choices(data),
            )
        )
    return found


def _choices(schema: Json) -> tuple[str, ...]:
    """Return the values that a JSON schema allows, or its variants or items."""
    own = schema.get("enum", [schema["const"]] if "const" in schema else [])
    inner = [*schema.get("anyOf", ()), schema.get("items", {})]
    return (*map(str, own), *(each for variant in inner for each in _choices(variant))) if own or any(inner) else ()


def definitions_of(keys: Sequence[Key]) -> list[Json]:
    """Return keys as Connect's ConfigKeyInfo, numbered per group."""
    orders: defaultdict[str, count[int]] = defaultdict(lambda: count(1))
    return [key.definition(next(orders[key.group])) for key in keys]


def without_secrets(text: str, properties: Mapping[str, str]) -> str:
    """Return a text without the secrets of a configuration: values of password keys, what references stand for.

    Passwords in URLs are hidden as well. References may lead nowhere.
    """
    found = {value for key, value in properties.items() if SECRET.search(key)}
    for key, value in properties.items():
        try:
            found |= {str(each) for each in resolve({key: value}, Places()).values() if each != value}
        except SpecError:
            continue
    for secret in sorted(found, key=len, reverse=True):
        if len(secret) >= SECRET_CHARACTERS_MIN:
            text = text.replace(secret, HIDDEN)
    return re.sub(r"(://[^\s:/@]+:)[^\s@/]+@", rf"\1{HIDDEN}@", text)


def check(name: str, properties: Mapping[str, str], bootstrap: str) -> list[tuple[str, str]]:
    """Return what is wrong with a configuration: (key, message) each. Secrets are in no message."""
    places, wrong = Places(), list[tuple[str, str]]()
    try:
        compiling.validate(pipeline_of(name, resolve(dict(properties), places), bootstrap, places))
    except SpecError as error:
        wrong = [(_key(problem, properties, places), problem.message) for problem in error.problems]
    except PluginError as error:
        wrong = [("connector.class", str(error))]
    return [(key, without_secrets(message, properties)) for key, message in wrong]


def _key(problem: Problem, properties: Mapping[str, str], places: Places) -> str:
    """Return the key of a configuration that a problem is about."""
    path = problem.path
    alias = places.aliases.get(path)
    if alias is not None:
        return str(alias[-1])
    if len(path) > 2 and path[0] == "transforms" and isinstance(path[1], int):
        name = separated(properties.get("transforms", ""))[path[1]]
        return ".".join(["transforms", name, *map(str, path[2:])])
    if path in ((), ("source",), ("sink",)):
        return "connector.class"
    last = str(path[-1])
    if len(path) == 1 or last in properties or (len(path) == 2 and path[0] in ("source", "sink")):
        return last
    return ".".join(map(str, path[1:] if path[0] in ("source", "sink") else path))


def validated(properties: Mapping[str, str], bootstrap: str) -> Json:
    """Return Connect's ConfigInfos. Raises ConnectError. It may import plugins: not for the event loop."""
    plugin = _plugin_of(properties)
    keys = keys_of(plugin)
    wrong = _wrong(plugin, properties, bootstrap)
    unknown = sorted({*properties, *wrong} - {key.name for key in keys})
    keys += [Key(given, group=_group(given)) for given in unknown]
    values = [
        {
            "name": key.name,
            "value": _shown(key.name, properties.get(key.name, key.default)),
            "recommended_values": list(key.recommended),
            "errors": wrong.get(key.name, []),
            "visible": True,
        }
        for key in keys
    ]
    pairs = zip(definitions_of(keys), values, strict=True)
    return {
        "name": properties["connector.class"],
        "error_count": sum(map(len, wrong.values())),
        "groups": list(dict.fromkeys(key.group for key in keys)),
        "configs": [{"definition": definition, "value": value} for definition, value in pairs],
    }


def _plugin_of(properties: Mapping[str, str]) -> ConnectorPlugin:
    cls = properties.get("connector.class")
    if not cls:
        raise bad_request(f"Connector config with keys {', '.join(sorted(properties))} contains no connector type")
    found = find(cls)
    if found is None:
        there = ", ".join(each.cls for each in connectors())
        raise bad_request(
            f"Failed to find any class that implements Connector and which name matches {cls}, "
            f"available connectors are: {there}"
        )
    return found


def _wrong(plugin: ConnectorPlugin, properties: Mapping[str, str], bootstrap: str) -> dict[str, list[str]]:
    """Return what is wrong with a configuration by its keys, in Connect's words."""
    name = properties.get("name", "")
    required = ("topic",) if plugin.type == "source" and plugin.plugin == FILE_STREAM else ()
    wrong = {needed: [_missing(needed)] for needed in ("name", *required) if needed not in properties}
    if properties.get("name") == "":
        wrong["name"] = ["Invalid value  for configuration name: String may not be empty"]
    given = [key for key in EITHER_TOPICS if properties.get(key)]
    if plugin.type == "sink" and len(given) != 1:
        message = "Must configure one of topics or topics.regex"
        if given:
            message = "topics and topics.regex are mutually exclusive options, but both are set."
        wrong |= {key: [message] for key in EITHER_TOPICS}
    for about, message in check(name or "unnamed", properties, bootstrap):
        if (about not in required or about in properties) and about not in EITHER_TOPICS:
            text = _missing(about) if message == "is missing" else _invalid_value(about, properties, message)
            wrong.setdefault(about, []).append(text)
    return wrong


def _missing(key: str) -> str:
    return f'Missing required configuration "{key}" which has no default value.'


def _invalid_value(key: str, properties: Mapping[str, str], message: str) -> str:
    value = _shown(key, properties.get(key))
    if value is None:
        return f"{key}: {message}"
    value = " ".join(without_secrets(value, properties).split())
    value = value if len(value) <= VALUE_CHARACTERS_MAX else value[:VALUE_CHARACTERS_MAX] + "..."
    return f"Invalid value {value} for configuration {key}: {message}"


def _shown(name: str, value: str | None) -> str | None:
    """Return a value as a validation shows it: of a secret its references, or that it is hidden."""
    if value is None or not SECRET.search(name):
        return value
    return value if VARIABLE.search(value) and not VARIABLE.sub("", value).strip() else HIDDEN


def _group(key: str) -> str:
    for prefix, group in (("transforms.", TRANSFORMS), ("predicates.", PREDICATES)):
        if key.startswith(prefix):
            return f"{group}: {key.removeprefix(prefix).partition('.')[0]}"
    return COMMON


async def accepted(name: str, properties: Mapping[str, str], bootstrap: str) -> None:
    """Check a configuration before it is taken. Raises ConnectError with all that is wrong."""
    found = await asyncio.to_thread(validated, properties, bootstrap)
    wrong = [message for config in found["configs"] for message in config["value"]["errors"]]
    if wrong:
        raise invalid(wrong)


def invalid(wrong: Sequence[str]) -> ConnectError:
    """Return the error for a configuration with something wrong in it."""
    listed = "\n".join(wrong)
    return bad_request(
        f"Connector configuration is invalid and contains the following {len(wrong)} error(s):\n{listed}\n"
        "You can also find the above list of errors at the endpoint "
        "`/connector-plugins/{connectorType}/config/validate`"
    )
