"""A pipeline's file, right or not: what can be made of it, and everything that is wrong with it.

`load` makes a pipeline or raises what is wrong with the file's shape. Who wants to know of all mistakes at once, those
in plugins' options as well, takes a draft, adds what he finds, and asks for the pipeline at the end.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kvorum.pipelines.spec.model import Pipeline, pipeline
from kvorum.pipelines.spec.parts import Parts
from kvorum.pipelines.spec.problems import Loc, Places, Problem, SpecError


@dataclass(slots=True, kw_only=True)
class Draft:
    """A pipeline's file during its parsing."""

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


def made(data: Mapping[str, Any], places: Places, problems: Iterable[Problem] = ()) -> Draft:
    """Return the draft of data in a pipeline's shape. `problems` are those of reading it: variables, keys twice."""
    found = list(problems)
    draft = Draft(places=places, parts=Parts.lenient(data), unknown=frozenset(problem.path for problem in found))
    draft.problems += found
    try:
        draft.pipeline = pipeline(data, places)
    except SpecError as error:
        draft.add(error.problems)
    return draft
