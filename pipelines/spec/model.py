"""A pipeline as configuration: the shape of its file, its parts that plugins read, and how it is loaded.

Keys are as the file writes them (`dead-letter`, `available-now`); unknown ones are refused. What depends on a plugin
(its own options) stands in `settings` as it was written; `Parts.wrong_settings` holds it against the plugin's model.

`load` makes a pipeline or raises all that is wrong with the file. A caller with further checks takes the draft, adds
the problems it finds, and calls `finished`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, model_validator

from kvorum.pipelines.faults import meant
from kvorum.pipelines.spec import connect, document
from kvorum.pipelines.spec.problems import Loc, Places, Problem, SpecError, from_pydantic, keys_of

NAME: Final = r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,199}$"
"""A pipeline's name is a folder's, a query's and a group's."""
PARALLELISM_MAX: Final = 10_000
UNITS_MS: Final = {
    "ms": 1, "millisecond": 1, "s": 1000, "second": 1000, "m": 60_000, "minute": 60_000,
    "h": 3_600_000, "hour": 3_600_000, "d": 86_400_000, "day": 86_400_000,
}  # fmt: skip


def duration_ms(text: str) -> int:
    """Return the milliseconds of `500ms`, `10s`, `1 minute`, `2 hours`. Raises ValueError."""
    matched = re.fullmatch(r"\s*(\d+)\s*([a-zA-Z]+)\s*", text)
    unit = matched.group(2).lower() if matched else ""
    unit = unit.removesuffix("s") if len(unit) > 2 else unit
    if matched is None or unit not in UNITS_MS:
        raise ValueError(f"{text!r} is not a duration such as 500ms, 10s, 5m or 1h")
    return int(matched.group(1)) * UNITS_MS[unit]


def _duration(text: str) -> str:
    duration_ms(text)
    return text


Duration = Annotated[str, AfterValidator(_duration)]


class Model(BaseModel):
    """Base of all parts: frozen, unknown keys are rejected."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_by_name=True, validate_by_alias=True)


class Open(Model):
    """A part whose further keys are a plugin's."""

    model_config = ConfigDict(extra="allow")

    @property
    def settings(self) -> dict[str, Any]:
        """Return the keys that are not fields of the model."""
        return dict(self.model_extra or {})


class Format(Open):
    """How a key or a value is written in bytes."""

    format: str


class Endpoint(Open):
    """A source or a sink."""

    type: str
    key: Format | None = None
    value: Format | None = None

    @model_validator(mode="before")
    @classmethod
    def _short(cls, data: Any) -> Any:
        """Take `value: json` for `value: {format: json}`."""
        if not isinstance(data, Mapping):
            return data
        return {
            **data,
            **{part: {"format": data[part]} for part in ("key", "value") if isinstance(data.get(part), str)},
        }


class Predicate(Open):
    """A condition that transforms name. Its plugin, as a transform's, may be written as Connect's full class name."""

    type: str

    @property
    def plain(self) -> str:
        """Return the type without Connect's package and $Key or $Value: the plugin's name. Other packages stay."""
        name = self.type.removesuffix("$Key").removesuffix("$Value")
        is_connects = re.match(r"org\.apache\.kafka\.connect\.transforms\.(predicates\.)?[A-Z]\w*$", name)
        return name.rpartition(".")[2] if is_connects else name


class Transform(Predicate):
    """One step between source and sink."""

    name: str | None = None
    predicate: str | None = None
    negate: bool = False

    @property
    def part(self) -> Literal["key", "value"] | None:
        """Return what the type's form names."""
        return "key" if self.type.endswith("$Key") else "value" if self.type.endswith("$Value") else None


class Errors(Model):
    """Treatment of failed records."""

    tolerance: Literal["fail", "skip", "dead-letter"] = "fail"
    topic: str | None = Field(default=None, min_length=1)
    """Of the dead letters."""
    bootstrap: str | None = Field(default=None, min_length=1)
    """Where that topic is; None: where the pipeline's topics are."""
    headers: bool = True
    """Write what went wrong into headers, under Connect's names."""
    options: dict[str, str | int | float | bool] = Field(default_factory=dict)
    """Of the producer: kafka.*"""

    @model_validator(mode="after")
    def _topic_is_named(self) -> Self:
        if self.tolerance == "dead-letter" and not self.topic:
            raise ValueError("dead-letter needs a topic")
        return self


class Trigger(Model):
    """When a micro-batch begins; by default when the last one is done."""

    interval: Duration | None = None
    once: bool = False
    available_now: bool = Field(default=False, alias="available-now")
    """What is there now, in as many batches as it takes; then the pipeline is finished."""

    @model_validator(mode="before")
    @classmethod
    def _short(cls, data: Any) -> Any:
        """Take `trigger: once`, `trigger: available-now` and `trigger: 1s`."""
        if not isinstance(data, str):
            return data
        return {data: True} if data in ("once", "available-now") else {"interval": data}

    @model_validator(mode="after")
    def _one(self) -> Self:
        if len(self.arguments()) > 1:
            raise ValueError("give one of interval, once and available-now")
        return self

    def arguments(self) -> dict[str, str | bool]:
        """Return what DataStreamWriter.trigger is called with; empty: leave the call out."""
        named = {"once": self.once, "availableNow": self.available_now}
        made: dict[str, str | bool] = {name: True for name, is_given in named.items() if is_given}
        return made | ({"processingTime": f"{duration_ms(self.interval)} milliseconds"} if self.interval else {})


class Pipeline(Model):
    """A pipeline's file."""

    name: str = Field(pattern=NAME)
    description: str = ""
    source: Endpoint
    transforms: tuple[Transform, ...] = ()
    predicates: dict[str, Predicate] = Field(default_factory=dict)
    sink: Endpoint
    errors: Errors = Errors()
    trigger: Trigger = Trigger()
    delivery: Literal["exactly_once", "at_least_once"] = "exactly_once"
    checkpoint: str | None = Field(default=None, min_length=1)
    """None: a folder of the pipeline's in the state folder of who runs it."""
    parallelism: int | None = Field(default=None, ge=1, le=PARALLELISM_MAX)
    """Tasks at most, as Connect's tasks.max."""
    connector: Literal["auto", "spark", "kvorum"] = "auto"
    """Who reads and writes topics."""
    isolation: Literal["shared", "process"] = "shared"
    """For connectors: whether its process and Spark context are shared with others."""
    spark: dict[str, str | int | float | bool] = Field(default_factory=dict)
    """Settings of the Spark session."""
    _places: Places = PrivateAttr(default_factory=Places)

    @property
    def places(self) -> Places:
        """Return where the parts stand in the file, as far as it is known."""
        return self._places

    @property
    def parts(self) -> "Parts":
        """Return what plugins read."""
        return Parts.lenient(self.model_dump(by_alias=True))

    def as_data(self) -> dict[str, Any]:
        """Return the file's data: JSON values that `load` accepts."""
        return self.model_dump(mode="json", by_alias=True, exclude_defaults=True)


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
        """Return the valid parts of a file's data, so that one mistake does not hide the next one."""

        def valid(model: type[P], given: Any) -> P | None:
            try:
                return model.model_validate(given)
            except ValidationError:
                return None

        def endpoint(given: Any) -> Endpoint | None:
            # Without its formats if it is they that are wrong.
            given = given if isinstance(given, Mapping) else {}
            for wrong in ((), ("key",), ("value",), ("key", "value")):
                made = valid(Endpoint, {key: value for key, value in given.items() if key not in wrong})
                if made is not None:
                    return made
            return None

        steps, conditions = data.get("transforms"), data.get("predicates")
        listed = enumerate(steps if isinstance(steps, list | tuple) else ())
        named = conditions.items() if isinstance(conditions, Mapping) else ()
        return cls(
            source=endpoint(data.get("source")),
            sink=endpoint(data.get("sink")),
            transforms={index: made for index, each in listed if (made := valid(Transform, each))},
            predicates={str(name): one for name, each in named if (one := valid(Predicate, each))},
        )

    def each(self) -> Iterator[tuple[str, str, Loc, dict[str, Any]]]:
        """Yield each part that a plugin reads: kind (of OWN), the plugin's name, where it stands, its settings."""
        for kind, end in (("source", self.source), ("sink", self.sink)):
            if end is not None:
                yield kind, end.type, (kind,), end.settings
                for part, converter in (("key", end.key), ("value", end.value)):
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
            wanted, at = transform.predicate, ("transforms", index, "predicate")
            if wanted is None and transform.negate:
                problems.append(places.problem(at, "negate without a predicate"))
            elif wanted is not None and wanted not in self.predicates:
                problems.append(places.problem(at, f"there is no predicate {wanted!r}{meant(wanted, self.predicates)}"))
        return problems

    def wrong_settings(self, models: Mapping[str, type[BaseModel]], places: Places) -> list[Problem]:
        """Hold the settings of each part against its plugin's model, and return what is wrong.

        `models` has `source.topics`, `sink.files`, `transform.InsertField`, `predicate.HasHeaderKey`, `format.json`...
        Of a kind that it has nothing of, nothing is checked; of the others, a name it does not have is a problem.
        """
        problems = list[Problem]()
        for kind, name, at, settings in self.each():
            names = [key.partition(".")[2] for key in models if key.startswith(f"{kind}.")]
            if name in names:
                model = models[f"{kind}.{name}"]
                try:
                    model.model_validate(settings)
                except ValidationError as error:
                    problems += from_pydantic(error, model, places, under=at, beside=keys_of(OWN[kind]))
            elif names:
                at = (*at, "format" if kind == "format" else "type")
                problems.append(places.problem(at, f"there is no {kind} {name!r}{meant(name, names)}"))
        return problems


def from_data(data: Mapping[str, Any], places: Places | None = None) -> Pipeline:
    """Return the pipeline of a file's data (`Pipeline.as_data`), variables replaced. Raises SpecError."""
    places = places or Places()
    problems = Parts.lenient(data).wrong_predicates(places)
    try:
        made = Pipeline.model_validate(data)
    except ValidationError as error:
        raise SpecError([*from_pydantic(error, Pipeline, places), *problems]) from error
    if problems:
        raise SpecError(problems)
    made._places = places
    return made


def from_connect(
    name: str, properties: Mapping[str, Any], *, places: Places | None = None, bootstrap: str | None = None
) -> Pipeline:
    """Return the pipeline of a connector's configuration. Raises SpecError, in terms of Connect's keys.

    `bootstrap` is the cluster of the worker (Connect's `bootstrap.servers`).
    """
    places = places or Places()
    data, problems = connect.converted(name, properties, places=places, bootstrap=bootstrap)
    if problems:
        raise SpecError(problems)
    return from_data(data, places)


@dataclass(slots=True, kw_only=True)
class Draft:
    """A pipeline's file, right or not: what can be made of it, and everything that is wrong with it."""

    places: Places
    parts: Parts
    problems: list[Problem] = field(default_factory=list)
    pipeline: Pipeline | None = None
    """None where its shape is not right."""
    unknown: frozenset[Loc] = frozenset()
    """Paths whose values are not known: no further problems of them are reported."""

    def add(self, problems: Iterable[Problem]) -> None:
        """Note what is wrong, once each."""
        for problem in problems:
            there = {(each.path, each.message) for each in self.problems}
            if problem.path not in self.unknown and (problem.path, problem.message) not in there:
                self.problems.append(problem)

    def finished(self) -> Pipeline:
        """Return the pipeline. Raises SpecError with all that is wrong."""
        if self.problems or self.pipeline is None:
            raise SpecError(self.problems)
        return self.pipeline


def load(path: str | Path) -> Pipeline:
    """Return the pipeline of a file: YAML, JSON, or a connector's configuration (JSON or .properties).

    Raises SpecError.
    """
    return draft(path).finished()


def loads(text: str, *, form: str = "yaml") -> Pipeline:
    """Return the pipeline of a text."""
    return _draft(document.parse(text, form=form)).finished()


def draft(path: str | Path) -> Draft:
    """Return the draft of a file; see load. Raises SpecError for what cannot be read at all."""
    return _draft(document.read(Path(path)))


def _draft(read: document.Document) -> Draft:
    data, missing = document.resolved_as_far(read.data, read.places)
    problems, wrong = [*read.problems, *missing], list[Problem]()
    name, config, under = str(data.get("name", "")), data, tuple[str, ...]()
    if "connector.class" not in data and isinstance(data.get("config"), dict):
        config, under = data["config"], ("config",)
    if "connector.class" in config:
        try:
            data, wrong = connect.converted(name, config, places=read.places, under=under)
        except SpecError as error:  # an unknown class cannot be checked further
            raise SpecError([*problems, *error.problems]) from error
    problems += wrong
    unknown = frozenset(problem.path for problem in problems)
    made = Draft(places=read.places, parts=Parts.lenient(data), problems=problems, unknown=unknown)
    try:
        made.pipeline = from_data(data, read.places)
    except SpecError as error:
        made.add(error.problems)
    if wrong:  # a missing end follows from that, and is reported for Connect's keys already
        made.unknown |= {("source",), ("sink",)}
    return made
