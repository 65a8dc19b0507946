"""Configuration keys as Connect describes them: what all connectors share is a table, the rest a plugin's model."""

import ast
import functools
import inspect
import itertools
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from kvorum.pipelines.connect.records import Json

Type = Literal["STRING", "INT", "LONG", "DOUBLE", "BOOLEAN", "LIST", "PASSWORD", "CLASS"]
PLAIN: Final[Mapping[type, Type]] = {bool: "BOOLEAN", int: "LONG", float: "DOUBLE"}
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
    """Return the keys of a plugin's options."""
    documented = attribute_docs(model)
    found = []
    for name, info in model.model_fields.items():
        key = info.alias or name
        found.append(
            Key(
                name=key,
                type="PASSWORD" if SECRET.search(key) else type_of(info.annotation),
                required=info.is_required(),
                default=default_of(info),
                importance="HIGH" if info.is_required() else "MEDIUM",
                documentation=info.description or documented.get(name, ""),
                group=group,
                recommended=choices(info.annotation),
            )
        )
    return found


def type_of(annotation: Any) -> Type:
    """Return Connect's type for a field's."""
    inner = [each for each in get_args(annotation) if each is not NoneType]
    origin = get_origin(annotation)
    if origin in (Union, UnionType):
        return type_of(inner[0]) if len(inner) == 1 else "STRING"
    if origin is Annotated:
        return type_of(inner[0])
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return "LIST"
    return PLAIN.get(annotation, "STRING") if isinstance(annotation, type) else "STRING"


def choices(annotation: Any) -> tuple[str, ...]:
    """Return the values that a Literal allows."""
    if get_origin(annotation) is Literal:
        return tuple(str(each) for each in get_args(annotation))
    return tuple(each for inner in get_args(annotation) for each in choices(inner))


def default_of(info: FieldInfo) -> str | None:
    """Return a default as Connect writes it."""
    if info.is_required() or info.default_factory is not None or info.default is None:
        return None
    value = info.default
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)


@functools.cache
def attribute_docs(model: type[BaseModel]) -> Mapping[str, str]:
    """Return what stands below the fields of a model in its source: {field: text}."""
    found: dict[str, str] = {}
    for each in reversed(model.__mro__):
        if not issubclass(each, BaseModel) or each is BaseModel:
            continue
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(each))).body[0]
        except (OSError, TypeError, SyntaxError):
            continue  # made at run time, or shipped without source
        body = tree.body if isinstance(tree, ast.ClassDef) else []
        for said, doc in itertools.pairwise(body):
            if not (isinstance(said, ast.AnnAssign) and isinstance(said.target, ast.Name)):
                continue
            if isinstance(doc, ast.Expr) and isinstance(doc.value, ast.Constant) and isinstance(doc.value.value, str):
                found[said.target.id] = inspect.cleandoc(doc.value.value)
    return found
