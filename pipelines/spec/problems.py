"""Errors in a pipeline's file, each with its line, its path, and a suggestion."""

import re
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import BaseModel, ValidationError

from kvorum.pipelines.faults import Fault, TextError, meant

Loc = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where something stands; both count from one, as editors do."""

    line: int
    column: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong."""

    message: str
    path: Loc = ()
    """("transforms", 0, "type")."""
    place: Place | None = None
    file: str = ""

    @property
    def line(self) -> int | None:
        """Return the line, where the file is known."""
        return self.place.line if self.place else None

    def __str__(self) -> str:
        """Return `file:line:column: path: message`, without what is not known."""
        at = f":{self.place.line}:{self.place.column}" if self.place else ""
        where = f"{self.file or '<pipeline>'}{at}: "
        path = dotted(self.path)
        return f"{where}{path}: {self.message}" if path else f"{where}{self.message}"


class SpecError(Exception):
    """A pipeline's file is not right: everything that is wrong with it at once, in the order of its lines."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        """Keep the problems sorted; the message has one a line."""
        found = sorted(problems, key=lambda problem: (problem.line or 0, problem.place.column if problem.place else 0))
        self.problems: Sequence[Problem] = tuple(found)
        super().__init__("\n".join(map(str, found)))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by the problems."""
        return SpecError, (self.problems,)


@dataclass(slots=True)
class Places:
    """Where each path of a file stands."""

    file: str = ""
    at: dict[Loc, Place] = field(default_factory=dict)
    aliases: dict[Loc, Loc] = field(default_factory=dict)
    """{path in the pipeline: path in the file}, where the file has another shape (Connect's flat one)."""
    texts: dict[Loc, tuple[Place, str]] = field(default_factory=dict)
    """{path in the file: (where it begins, as it stands there)} of values that are written over several lines."""

    def place(self, path: Loc) -> Place | None:
        """Return the place of a path, or of the nearest thing above it that stands in the file."""
        for length in range(len(path), -1, -1):
            part = path[:length]
            found = self.at.get(self.aliases.get(part, part))
            if found is not None:
                return found
        return None

    def problem(self, path: Loc, message: str) -> Problem:
        """Return a problem with its place."""
        return Problem(file=self.file, place=self.place(path), path=self.shown(path), message=message)

    def fault(self, path: Loc, text: str, found: Fault) -> Problem:
        """Return a problem within a value's text, with its line where the file writes the value over several."""
        problem = self.problem(path, found.message)
        given = self.texts.get(self.aliases.get(path, path))
        if not found.word or given is None:
            return problem
        begin, written = given
        # How lines are joined differs between YAML's styles; the words keep their order in all of them.
        before = len(re.findall(re.escape(found.word), text[: found.position]))
        for index, matched in enumerate(re.finditer(re.escape(found.word), written)):
            if index == before:
                lines, at = written.count("\n", 0, matched.start()), matched.start()
                column = at - written.rfind("\n", 0, at) if lines else begin.column + at
                return replace(problem, place=Place(line=begin.line + lines, column=column))
        return problem

    def shown(self, path: Loc) -> Loc:
        """Return a path as the file has it, also of something that is not in the file."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.aliases:
                return (*self.aliases[path[:length]], *path[length:])
        return path


def dotted(path: Loc) -> str:
    """Return `transforms[0].type`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def from_pydantic(
    error: ValidationError, model: type[BaseModel], places: Places, *, under: Loc = (), beside: Iterable[str] = ()
) -> list[Problem]:
    """Return what pydantic found, with places.

    `under` is where in the file the model's data stand; `beside` are keys that may stand there, too, but are not the
    model's: what is misspelt may be one of them.
    """
    problems = list[Problem]()
    for found in error.errors(include_url=False):
        loc = found["loc"]
        path = (*under, *loc)
        if path not in places.at and path not in places.aliases:
            path = _as_given(path, model_at(model, loc[:-1]), places)
        path = _in_file(path, found["type"], places)
        wrong = found.get("ctx", {}).get("error")
        if isinstance(wrong, TextError):
            problems += [places.fault(path, wrong.text, fault) for fault in wrong.faults]
        else:
            others = beside if len(loc) == 1 else ()
            problems.append(places.problem(path, _message(found, loc, model, others)))
    # One problem a place: each member of a union says why it is not the one.
    return list({(problem.path, problem.message): problem for problem in problems}.values())


def _as_given(path: Loc, model: type[BaseModel] | None, places: Places) -> Loc:
    """Return the path with the key that the file has: pydantic names a field by its alias, however it was written."""
    if not path or model is None:
        return path
    info = {info.alias or name: name for name, info in model.model_fields.items()}
    shorts = [short for short, full in shorts_of(model).items() if full == path[-1]]
    others = [*shorts, *filter(None, [info.get(str(path[-1]))])]
    given = ((*path[:-1], other) for other in others)
    # What is missing has no key yet: the short one is what a file of ours would have, Connect's has the full one.
    otherwise = (*path[:-1], shorts[0]) if shorts and not places.aliases else path
    return next((other for other in given if other in places.at or other in places.aliases), otherwise)


def _in_file(path: Loc, kind: str, places: Places) -> Loc:
    """Return the path without what pydantic added to it (the member of a union that it tried)."""
    if kind in ("missing", "extra_forbidden"):
        return path
    while path and path not in places.at and path not in places.aliases and isinstance(path[-1], str) and places.at:
        path = path[:-1]
    return path


def _message(found: Mapping[str, Any], loc: Loc, model: type[BaseModel], beside: Iterable[str]) -> str:
    context, inner = found.get("ctx", {}), model_at(model, loc[:-1])
    known = keys_of(inner) if inner else []
    match found["type"]:
        case "missing":
            is_open = inner is not None and inner.model_config.get("extra") == "allow"
            others = [key for key in found["input"] if key not in known] if is_open else []
            return f"is missing{meant(str(loc[-1]), others, said='is it what {} is meant to be?')}"
        case "extra_forbidden":
            return f"unknown key{meant(str(loc[-1]), [*known, *beside])}"
        case "literal_error" | "enum":
            expected = str(context["expected"])
            names = [part.strip().strip("'") for part in expected.replace(" or ", ", ").split(",")]
            given = found["input"]
            return f"{given!r} is not one of {expected}{meant(given, names) if isinstance(given, str) else ''}"
        case "value_error":
            return str(context["error"])
        case _:
            text = str(found["msg"])
            return text[0].lower() + text[1:]


def keys_of(model: type[BaseModel]) -> list[str]:
    """Return the keys a model takes, as a file writes them, short ones first."""
    return [*shorts_of(model), *(info.alias or name for name, info in model.model_fields.items())]


def shorts_of(model: type[BaseModel]) -> Mapping[str, str]:
    """Return {short: key} of a model that takes short words for some of its keys."""
    found: Mapping[str, str] = getattr(model, "SHORT", {})
    return found


def model_at(model: type[BaseModel], loc: Loc) -> type[BaseModel] | None:
    """Return the model that stands at a path inside another one."""
    current: Any = model
    for part in loc:
        if isinstance(part, int):
            continue
        if isinstance(current, type) and issubclass(current, BaseModel):
            by_key = {info.alias or name: info.annotation for name, info in current.model_fields.items()}
            if part not in by_key:
                continue
            current = _model_in(by_key[part])
        if current is None:
            return None
    return current if isinstance(current, type) and issubclass(current, BaseModel) else None


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the first model inside an annotation: M | None, tuple[M, ...], dict[str, M], Annotated[M, ...]."""
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        return annotation if issubclass(annotation, BaseModel) else None
    for inner in typing.get_args(annotation):
        found = _model_in(inner)
        if found is not None:
            return found
    return None
