"""From a file to a pipeline: read, replace variables, turn Connect's shape into ours, validate.

`load` makes a pipeline or raises all that is wrong with the file. A caller with further checks takes the draft, adds
the problems it finds, and calls `finished`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kvorum.pipelines.spec import connect, document
from kvorum.pipelines.spec.model import Pipeline, from_data
from kvorum.pipelines.spec.parts import Parts
from kvorum.pipelines.spec.problems import Loc, Places, Problem, SpecError
from kvorum.pipelines.spec.resolve import resolved_as_far


@dataclass(slots=True, kw_only=True)
class Draft:
    """A pipeline's file, right or not: what can be made of it, and everything that is wrong with it."""

    places: Places
    parts: Parts
    problems: list[Problem] = field(default_factory=list)
    pipeline: Pipeline | None = None
    """None where its shape is not right."""
    unknown: frozenset[Loc] = frozenset()
    """Paths whose values are not known: nothing more is said of them."""

    def add(self, problems: Iterable[Problem]) -> None:
        """Note what is wrong, once each."""
        there = {(problem.path, problem.message) for problem in self.problems}
        for problem in problems:
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


def loads(text: str, *, form: str = "yaml", environment: Mapping[str, str] | None = None) -> Pipeline:
    """Return the pipeline of a text. `environment` is what `${env:...}` sees (None: the process's)."""
    return _draft(document.parse(text, form=form), environment).finished()


def draft(path: str | Path) -> Draft:
    """Return the draft of a file; see load. Raises SpecError for what cannot be read at all."""
    return _draft(document.read(Path(path)), None)


def _draft(read: document.Document, environment: Mapping[str, str] | None) -> Draft:
    data, missing = resolved_as_far(read.data, read.places, environment)
    problems, wrong = [*read.problems, *missing], list[Problem]()
    name, config, under = str(data.get("name", "")), data, tuple[str, ...]()
    if "connector.class" not in data and isinstance(data.get("config"), dict):
        config, under = data["config"], ("config",)
    if "connector.class" in config:
        try:
            data, wrong = connect.converted(name, config, places=read.places, under=under)
        except SpecError as error:  # of a class that is not known nothing more can be said
            raise SpecError([*problems, *error.problems]) from error
    problems += wrong
    unknown = frozenset(problem.path for problem in problems)
    made = Draft(places=read.places, parts=Parts.lenient(data), problems=problems, unknown=unknown)
    try:
        made.pipeline = from_data(data, read.places)
    except SpecError as error:
        made.add(error.problems)
    if wrong:  # what an end lacks as a whole follows from that, and is said in Connect's words already
        made.unknown |= {("source",), ("sink",)}
    return made
