"""A pipeline as configuration: the shape of its file.

Keys are as the file writes them (`dead-letter`, `available-now`); unknown ones are refused. What depends on a plugin
(a source's, a sink's, a format's, a transform's own options) stands in `settings` as it was written, and is held
against the plugin's model by `Pipeline.validate_with`, with places as everything else.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, model_validator

from kvorum.pipelines.spec.problems import Loc, Places, Problem, SpecError, from_pydantic, meant

NAME: Final = r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,199}$"
"""A pipeline's name is a folder's, a query's and a group's."""
PARALLELISM_MAX: Final = 10_000
UNITS_MS: Final = {
    "ms": 1, "millisecond": 1, "s": 1000, "second": 1000, "m": 60_000, "minute": 60_000,
    "h": 3_600_000, "hour": 3_600_000, "d": 86_400_000, "day": 86_400_000,
}  # fmt: skip
FORMS: Final = ("$Key", "$Value")
KINDS: Final = ("source", "sink", "transform", "predicate", "format")


def duration_ms(text: str) -> int:
    """Return the milliseconds of `500ms`, `10s`, `1 minute`, `2 hours`. Raises ValueError."""
    matched = re.fullmatch(r"\s*(\d+)\s*([a-zA-Z]+)\s*", text)
    unit = matched.group(2).lower() if matched else ""
    unit = unit.removesuffix("s") if len(unit) > 2 else unit
    if matched is None or (unit not in UNITS_MS and f"{unit}s" not in UNITS_MS):
        raise ValueError(f"{text!r} is not a duration such as 500ms, 10s, 5m or 1h")
    return int(matched.group(1)) * (UNITS_MS.get(unit) or UNITS_MS[f"{unit}s"])


def _checked_duration(text: str) -> str:
    duration_ms(text)
    return text


Duration = Annotated[str, AfterValidator(_checked_duration)]


class Model(BaseModel):
    """What all parts share: frozen, nothing unknown."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_by_name=True, validate_by_alias=True)


class Open(Model):
    """A part whose further keys are a plugin's."""

    settings: dict[str, Any] = Field(default_factory=dict, exclude=True)
    """What the file says besides the keys named here."""

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, data: Any) -> Any:
        if not isinstance(data, Mapping) or isinstance(data.get("settings"), _Settings):
            return data
        own = {key for name, info in cls.model_fields.items() for key in (name, info.alias or name)} - {"settings"}
        settings = _Settings({key: value for key, value in data.items() if key not in own})
        return {**{key: value for key, value in data.items() if key in own}, "settings": settings}


class _Settings(dict[str, Any]):
    """Marks settings that were gathered."""


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


class Transform(Open):
    """One step between source and sink."""

    type: str
    """InsertField$Value, or Connect's full class name."""
    name: str | None = None
    predicate: str | None = None
    negate: bool = False

    @property
    def plain(self) -> str:
        """Return the type without package and $Key or $Value: the plugin's name."""
        return plain(self.type)

    @property
    def part(self) -> Literal["key", "value"] | None:
        """Return what the type's form names."""
        return "key" if self.type.endswith("$Key") else "value" if self.type.endswith("$Value") else None


class Predicate(Open):
    """A condition that transforms name."""

    type: str

    @property
    def plain(self) -> str:
        """Return the type without package."""
        return plain(self.type)


def plain(name: str) -> str:
    """Return `InsertField` for `org.apache.kafka.connect.transforms.InsertField$Value`; other packages stay."""
    for form in FORMS:
        name = name.removesuffix(form)
    if re.match(r"org\.apache\.kafka\.connect\.transforms\.(predicates\.)?[A-Z]\w*$", name):
        return name.rpartition(".")[2]
    return name


class Errors(Model):
    """What becomes of records that fail."""

    tolerance: Literal["fail", "skip", "dead-letter"] = "fail"
    topic: str | None = None
    """Of the dead letters."""
    bootstrap: str | None = None
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
    """When a micro-batch begins. Nothing said: when the last one is done."""

    interval: Duration | None = None
    once: bool = False
    available_now: bool = Field(default=False, alias="available-now")
    """What is there now, in as many batches as it takes; then the pipeline is finished."""
    real_time: Duration | None = Field(default=None, alias="real-time")
    """Records go on at once; positions are kept that often."""

    @model_validator(mode="before")
    @classmethod
    def _short(cls, data: Any) -> Any:
        """Take `trigger: once`, `trigger: available-now` and `trigger: 1s`."""
        if not isinstance(data, str):
            return data
        return {data: True} if data in ("once", "available-now") else {"interval": data}

    @model_validator(mode="after")
    def _one(self) -> Self:
        if sum(map(bool, (self.interval, self.once, self.available_now, self.real_time))) > 1:
            raise ValueError("one of interval, once, available-now and real-time")
        return self

    def arguments(self) -> dict[str, str | bool]:
        """Return what DataStreamWriter.trigger is called with; empty: leave the call out."""
        if self.once:
            return {"once": True}
        if self.available_now:
            return {"availableNow": True}
        if self.real_time:
            return {"realTime": f"{duration_ms(self.real_time)} milliseconds"}
        return {"processingTime": f"{duration_ms(self.interval)} milliseconds"} if self.interval else {}


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
    checkpoint: str | None = None
    """None: a folder of the pipeline's in the state folder of who runs it."""
    parallelism: int | None = Field(default=None, ge=1, le=PARALLELISM_MAX)
    """Tasks at most, as Connect's tasks.max."""
    connector: Literal["auto", "spark", "kvorum"] = "auto"
    """Who reads and writes topics."""
    spark: dict[str, str | int | float | bool] = Field(default_factory=dict)
    """Settings of the Spark session."""

    _places: Places = PrivateAttr(default_factory=Places)

    @property
    def places(self) -> Places:
        """Return where the parts stand in the file, as far as it is known."""
        return self._places

    def parts(self) -> Iterator[tuple[str, str, Loc, dict[str, Any]]]:
        """Yield each part that a plugin reads: kind (of KINDS), the plugin's name, where it stands, its settings."""
        for kind, endpoint in (("source", self.source), ("sink", self.sink)):
            yield kind, endpoint.type, (kind,), endpoint.settings
            for part, converter in (("key", endpoint.key), ("value", endpoint.value)):
                if converter is not None:
                    yield "format", converter.format, (kind, part), converter.settings
        for index, transform in enumerate(self.transforms):
            yield "transform", transform.plain, ("transforms", index), transform.settings
        for name, predicate in self.predicates.items():
            yield "predicate", predicate.plain, ("predicates", name), predicate.settings

    def validate_with(self, models: Mapping[str, type[BaseModel]]) -> None:
        """Hold the settings of each part against its plugin's model.

        `models` has `source.topics`, `sink.files`, `transform.InsertField`, `predicate.HasHeaderKey`, `format.json`...
        Of a kind that it has nothing of, nothing is checked; of the others, a name it does not have is a problem.
        Raises SpecError with all that is wrong.
        """
        problems = list[Problem]()
        kinds = {key.partition(".")[0] for key in models}
        for kind, name, at, settings in self.parts():
            model = models.get(f"{kind}.{name}")
            if model is not None:
                try:
                    model.model_validate(settings)
                except ValidationError as error:
                    problems += from_pydantic(error, model, self._places, under=at)
            elif kind in kinds:
                names = [key.partition(".")[2] for key in models if key.startswith(f"{kind}.")]
                at = (*at, "format" if kind == "format" else "type")
                problems.append(self._places.problem(at, f"there is no {kind} {name!r}{meant(name, names)}"))
        if problems:
            raise SpecError(problems)

    def as_data(self) -> dict[str, Any]:
        """Return what a file would say: JSON values that `load` takes again."""
        data = self.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        for _, _, at, settings in self.parts():
            part: Any = data
            for step in at:
                part = part[step]
            part.update(settings)
        return data


def pipeline(data: Mapping[str, Any], places: Places | None = None) -> Pipeline:
    """Return the pipeline that data describe. Raises SpecError."""
    places = places or Places()
    try:
        made = Pipeline.model_validate(data)
    except ValidationError as error:
        raise SpecError(from_pydantic(error, Pipeline, places)) from error
    problems = [
        places.problem(("transforms", index, "predicate"), message)
        for index, transform in enumerate(made.transforms)
        if (message := _predicate_problem(transform, made.predicates))
    ]
    if problems:
        raise SpecError(problems)
    made._places = places
    return made


def _predicate_problem(transform: Transform, predicates: Mapping[str, Predicate]) -> str | None:
    if transform.predicate is None:
        return "negate without a predicate" if transform.negate else None
    if transform.predicate in predicates:
        return None
    return f"there is no predicate {transform.predicate!r}{meant(transform.predicate, predicates)}"
