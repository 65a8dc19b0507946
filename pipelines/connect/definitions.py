"""Configuration keys as Connect describes them: what all connectors share is a table, the rest a plugin's model."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from pydantic import BaseModel

from kvorum.pipelines.connect.records import Json, compact

Type = Literal["STRING", "INT", "LONG", "DOUBLE", "BOOLEAN", "LIST", "PASSWORD", "CLASS"]
TYPES: Final[Mapping[str, Type]] = {"boolean": "BOOLEAN", "integer": "LONG", "number": "DOUBLE", "array": "LIST"}
"""{JSON schema's type: Connect's}."""
SECRET: Final = re.compile(r"password|passwd|secret|token|credential|sasl\.jaas\.config|private[._]?key", re.IGNORECASE)
HIDDEN: Final = "[hidden]"
REFERENCE: Final = re.compile(r"\$\{(env|file|directory|dir):[^{}]*\}")
COMMON: Final = "Common"
TRANSFORMS: Final = "Transforms"
PREDICATES: Final = "Predicates"
ERRORS: Final = "Error Handling"
PIPELINE: Final = "Pipeline"


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One key; the fields are those of Connect's ConfigKeyInfo."""

    name: str
    type: Type = "STRING"
    required: bool = False
    default: str | None = None
    importance: Literal["HIGH", "MEDIUM", "LOW"] = "MEDIUM"
    documentation: str = ""
    group: str = COMMON
    display: str = ""
    recommended: Sequence[str] = field(default=())

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


def shown(name: str, value: str | None) -> str | None:
    """Return a value as a validation shows it: of a secret its references, or that it is hidden."""
    if value is None or not SECRET.search(name):
        return value
    return value if REFERENCE.search(value) and not REFERENCE.sub("", value).strip() else HIDDEN


EVERY: Final = (
    Key(
        name="name", required=True, importance="HIGH", display="Connector name",
        documentation="Unique among the connectors of this manager.",
    ),
    Key(
        name="connector.class", required=True, importance="HIGH", display="Connector class",
        documentation="A plugin's name such as JdbcSource, or the class of Connect's that it stands for.",
    ),
    Key(
        name="tasks.max", type="INT", default="1", importance="HIGH", display="Tasks max",
        documentation="How many of Spark's tasks the pipeline has at most.",
    ),
    Key(
        name="key.converter", type="CLASS", importance="LOW", display="Key converter class",
        documentation="How keys are written in topics: a format's name, or the class of Connect's converter.",
    ),
    Key(
        name="value.converter", type="CLASS", importance="LOW", display="Value converter class",
        documentation="How values are written in topics: a format's name, or the class of Connect's converter.",
    ),
    Key(
        name="transforms", type="LIST", default="", importance="LOW", group=TRANSFORMS, display="Transforms",
        documentation="Names of the steps between source and sink, in order; transforms.NAME.type says what each is.",
    ),
    Key(
        name="predicates", type="LIST", default="", importance="LOW", group=PREDICATES, display="Predicates",
        documentation="Names of the conditions that transforms refer to.",
    ),
    Key(
        name="errors.tolerance", default="none", group=ERRORS, recommended=("none", "all"),
        display="Error Tolerance",
        documentation="none: a record that fails fails the pipeline; all: it is left out, or becomes a dead letter.",
    ),
    Key(
        name="kvorum.trigger", group=PIPELINE, documentation="When a micro-batch begins: 1s, once, available-now."
    ),
    Key(
        name="kvorum.delivery", group=PIPELINE, default="exactly_once", recommended=("exactly_once", "at_least_once"),
        documentation="What holds for records written to topics.",
    ),
    Key(
        name="kvorum.checkpoint", group=PIPELINE, importance="LOW",
        documentation="The folder that keeps positions; by default one below the manager's.",
    ),
    Key(
        name="kvorum.connector", group=PIPELINE, default="auto", importance="LOW",
        recommended=("auto", "spark", "kvorum"), documentation="Who reads and writes topics.",
    ),
    Key(name="kvorum.description", group=PIPELINE, importance="LOW", documentation="For people."),
)  # fmt: skip
OF_SINKS: Final = (
    Key(
        name="topics", type="LIST", default="", importance="HIGH", display="Topics",
        documentation="Where records come from. Either this or topics.regex.",
    ),
    Key(
        name="topics.regex", default="", importance="HIGH", display="Topics regex",
        documentation="Topics whose whole name matches.",
    ),
    Key(
        name="errors.deadletterqueue.topic.name", default="", group=ERRORS, display="Dead Letter Queue Topic Name",
        documentation="With errors.tolerance=all: where the records go that fail.",
    ),
    Key(
        name="errors.deadletterqueue.context.headers.enable", type="BOOLEAN", default="false", group=ERRORS,
        display="Enable Error Context Headers", documentation="Whether a dead letter's headers say what went wrong.",
    ),
)  # fmt: skip
OF_SOURCES: Final = (
    Key(name="topic", importance="HIGH", documentation="Where records go that do not say it themselves."),
    Key(
        name="exactly.once.support", default="requested", recommended=("requested", "required"),
        group="Exactly Once Support", display="Exactly once support",
        documentation="Either value is exactly-once delivery.",
    ),
)  # fmt: skip
OF_PIPELINES: Final = (
    Key(name="source.type", required=True, importance="HIGH", documentation="The source's plugin: topics, jdbc..."),
    Key(name="sink.type", required=True, importance="HIGH", documentation="The sink's plugin: topics, files..."),
)


def of_model(model: type[BaseModel], group: str) -> list[Key]:
    """Return the keys of a plugin's options, by their JSON schema."""
    schema = model.model_json_schema()
    required = schema.get("required", ())
    found = []
    for name, data in schema["properties"].items():
        variants = [each for each in data.get("anyOf", [data]) if each.get("type") != "null"]
        one = variants[0] if len(variants) == 1 else {}
        default = data.get("default")
        listed = ",".join(map(str, default)) if isinstance(default, list) else default
        found.append(
            Key(
                name=name,
                type="PASSWORD" if SECRET.search(name) else TYPES.get(one.get("type", ""), "STRING"),
                required=name in required,
                default=listed if isinstance(listed, str | None) else compact(listed),
                importance="HIGH" if name in required else "MEDIUM",
                documentation=data.get("description", ""),
                group=group,
                recommended=choices(data),
            )
        )
    return found


def choices(schema: Json) -> tuple[str, ...]:
    """Return the values that a JSON schema allows, or its variants or items."""
    own = schema.get("enum", [schema["const"]] if "const" in schema else [])
    inner = [*schema.get("anyOf", ()), schema.get("items", {})]
    return (*map(str, own), *(each for variant in inner for each in choices(variant))) if own or any(inner) else ()
