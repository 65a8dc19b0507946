"""The parts of a pipeline's file that plugins read: both ends, their formats, transforms, predicates.

What depends on the plugin (its own options) stands in `settings` as it was written; `wrong_settings` holds it against
the plugin's model. `Parts.lenient` takes of a file what is right, so that one mistake does not hide the next.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from kvorum.pipelines.faults import meant
from kvorum.pipelines.spec.problems import Loc, Places, Problem, from_pydantic, keys_of


class Model(BaseModel):
    """Base of all parts: frozen, unknown keys are rejected."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_by_name=True, validate_by_alias=True)


class Open(Model):
    """A part whose further keys are a plugin's."""

    model_config = ConfigDict(extra="allow")

    @property
    def settings(self) -> dict[str, Any]:
        """Return what the file says besides the keys named here."""
        return dict(self.model_extra or {})


class Format(Open):
    """How a key or a value is written in bytes."""

    format: str


class Endpoint(Open):
    """Where records come from, or go to."""

    type: str
    key: Format | None = None
    value: Format | None = None

    @model_validator(mode="before")
    @classmethod
    def _short(cls, data: Any) -> Any:
        """Take `value: json` for `value: {format: json}`."""
        if not isinstance(data, Mapping):
            return data
        shorts = {part: {"format": data[part]} for part in ("key", "value") if isinstance(data.get(part), str)}
        return {**data, **shorts}


class Named(Open):
    """A part whose plugin may be written as Connect's full class name."""

    type: str

    @property
    def plain(self) -> str:
        """Return the type without Connect's package and $Key or $Value: the plugin's name. Other packages stay."""
        name = self.type.removesuffix("$Key").removesuffix("$Value")
        is_connects = re.match(r"org\.apache\.kafka\.connect\.transforms\.(predicates\.)?[A-Z]\w*$", name)
        return name.rpartition(".")[2] if is_connects else name


class Transform(Named):
    """One step between source and sink."""

    name: str | None = None
    predicate: str | None = None
    negate: bool = False

    @property
    def part(self) -> Literal["key", "value"] | None:
        """Return what the type's form names."""
        return "key" if self.type.endswith("$Key") else "value" if self.type.endswith("$Value") else None


class Predicate(Named):
    """A condition that transforms name."""


OWN: Final[Mapping[str, type[Open]]] = {
    "source": Endpoint,
    "sink": Endpoint,
    "format": Format,
    "transform": Transform,
    "predicate": Predicate,
}
"""The part's model by the kind of its plugin."""

P = TypeVar("P", bound=Open)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Plug-in references of a file, as far as they are valid."""

    source: Endpoint | None = None
    sink: Endpoint | None = None
    transforms: Mapping[int, Transform] = field(default_factory=dict)
    """By their place in the file."""
    predicates: Mapping[str, Predicate] = field(default_factory=dict)

    @classmethod
    def lenient(cls, data: Mapping[str, Any]) -> Self:
        """Return the valid parts of a file's data; the caller reports the others."""
        steps, conditions = data.get("transforms"), data.get("predicates")
        made = {i: _made(Transform, each) for i, each in enumerate(steps if isinstance(steps, list | tuple) else ())}
        named = conditions if isinstance(conditions, Mapping) else {}
        given = {str(name): _made(Predicate, each) for name, each in named.items()}
        return cls(
            source=_endpoint(data.get("source")),
            sink=_endpoint(data.get("sink")),
            transforms={index: each for index, each in made.items() if each is not None},
            predicates={name: each for name, each in given.items() if each is not None},
        )

    def each(self) -> Iterator[tuple[str, str, Loc, dict[str, Any]]]:
        """Yield each part that a plugin reads: kind (of OWN), the plugin's name, where it stands, its settings."""
        for kind, endpoint in (("source", self.source), ("sink", self.sink)):
            if endpoint is None:
                continue
            yield kind, endpoint.type, (kind,), endpoint.settings
            for part, converter in (("key", endpoint.key), ("value", endpoint.value)):
                if converter is not None:
                    yield "format", converter.format, (kind, part), converter.settings
        for index, transform in self.transforms.items():
            yield "transform", transform.plain, ("transforms", index), transform.settings
        for name, predicate in self.predicates.items():
            yield "predicate", predicate.plain, ("predicates", name), predicate.settings

    def wrong_predicates(self, places: Places) -> list[Problem]:
        """Return what is wrong with the predicates that transforms name."""
        problems = list[Problem]()
        for index, transform in self.transforms.items():
            wanted, message = transform.predicate, ""
            if wanted is None and transform.negate:
                message = "negate without a predicate"
            elif wanted is not None and wanted not in self.predicates:
                message = f"there is no predicate {wanted!r}{meant(wanted, self.predicates)}"
            if message:
                problems.append(places.problem(("transforms", index, "predicate"), message))
        return problems

    def wrong_settings(self, models: Mapping[str, type[BaseModel]], places: Places) -> list[Problem]:
        """Hold the settings of each part against its plugin's model, and return what is wrong.

        `models` has `source.topics`, `sink.files`, `transform.InsertField`, `predicate.HasHeaderKey`, `format.json`...
        Of a kind that it has nothing of, nothing is checked; of the others, a name it does not have is a problem.
        """
        problems = list[Problem]()
        kinds = {key.partition(".")[0] for key in models}
        for kind, name, at, settings in self.each():
            model = models.get(f"{kind}.{name}")
            if model is not None:
                try:
                    model.model_validate(settings)
                except ValidationError as error:
                    problems += from_pydantic(error, model, places, under=at, beside=keys_of(OWN[kind]))
            elif kind in kinds:
                names = [key.partition(".")[2] for key in models if key.startswith(f"{kind}.")]
                at = (*at, "format" if kind == "format" else "type")
                problems.append(places.problem(at, f"there is no {kind} {name!r}{meant(name, names)}"))
        return problems


def _made(model: type[P], data: Any) -> P | None:
    try:
        return model.model_validate(data)
    except ValidationError:
        return None


def _endpoint(data: Any) -> Endpoint | None:
    """Return an end without its formats if it is they that are wrong."""
    if not isinstance(data, Mapping):
        return None
    for without in ((), ("key",), ("value",), ("key", "value")):
        made = _made(Endpoint, {key: value for key, value in data.items() if key not in without})
        if made is not None:
            return made
    return None
