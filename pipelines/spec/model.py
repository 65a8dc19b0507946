"""A pipeline as configuration: the shape of its file.

Keys are as the file writes them (`dead-letter`, `available-now`); unknown ones are refused. What plugins read of it is
in `parts`.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, Field, PrivateAttr, ValidationError, model_validator

from kvorum.pipelines.spec.parts import Endpoint, Model, Parts, Predicate, Transform
from kvorum.pipelines.spec.problems import Places, Problem, SpecError, from_pydantic

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


def _checked_duration(text: str) -> str:
    duration_ms(text)
    return text


Duration = Annotated[str, AfterValidator(_checked_duration)]


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
            raise ValueError("give one of interval, once, available-now and real-time")
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
    def parts(self) -> Parts:
        """Return what plugins read."""
        return Parts(
            source=self.source,
            sink=self.sink,
            transforms=dict(enumerate(self.transforms)),
            predicates=self.predicates,
        )

    def validate_with(self, models: Mapping[str, type[BaseModel]]) -> None:
        """Hold the settings of each part against its plugin's model. Raises SpecError with all that is wrong."""
        problems = self.parts.wrong_settings(models, self._places)
        if problems:
            raise SpecError(problems)

    def as_data(self) -> dict[str, Any]:
        """Return what a file would say: JSON values that `load` takes again."""
        return self.model_dump(mode="json", by_alias=True, exclude_defaults=True)


def from_data(data: Mapping[str, Any], places: Places | None = None) -> Pipeline:
    """Return the pipeline of a file's data (`Pipeline.as_data`), variables replaced. Raises SpecError."""
    places = places or Places()
    problems, made = list[Problem](), None
    try:
        made = Pipeline.model_validate(data)
    except ValidationError as error:
        problems += from_pydantic(error, Pipeline, places)
    problems += Parts.lenient(data).wrong_predicates(places)
    if problems or made is None:
        raise SpecError(problems)
    made._places = places
    return made
