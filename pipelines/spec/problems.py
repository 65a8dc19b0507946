"""Errors in a pipeline's file, each with its line, its path, and a suggestion."""

import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError

from kvorum.pipelines.faults import meant

Loc = tuple[str | int, ...]


class Place(NamedTuple):
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

    def __str__(self) -> str:
        """Return `file:line:column: path: message`, without what is not known."""
        at = f":{self.place.line}:{self.place.column}" if self.place else ""
        path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.path).removeprefix(".")
        return f"{self.file or '<pipeline>'}{at}: {path}{': ' if path else ''}{self.message}"


class SpecError(Exception):
    """A pipeline's file is not right: everything that is wrong with it at once, in the order of its lines."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        """Keep the problems sorted; the message has one a line."""
        found = sorted(problems, key=lambda problem: problem.place or (0, 0))
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

    def has(self, path: Loc) -> bool:
        """Return whether a path of the pipeline stands in the file."""
        return path in self.at or path in self.aliases

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

    def shown(self, path: Loc) -> Loc:
        """Return a path as the file has it, also of something that is not in the file."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.aliases:
                return (*self.aliases[path[:length]], *path[length:])
        return path


def from_pydantic(
    error: ValidationError, model: type[BaseModel], places: Places, *, under: Loc = (), beside: Iterable[str] = ()
) -> list[Problem]:
    """Return what pydantic found, with places.

    `under` is where in the file the model's data stand; `beside` are keys that may stand there, too, but are not the
    model's: what is misspelt may be one of them.
    """
    problems = list[Problem]()
    for found in error.errors(include_url=False):
        loc, inner = found["loc"], model_at(model, found["loc"][:-1])
        path = (*under, *loc)
        if inner is not None and not places.has(path):
            path = _as_given(path, inner, places)
        if found["type"] not in ("missing", "extra_forbidden"):
            # Without what pydantic added to it: the member of a union that it tried.
            while path and not places.has(path) and isinstance(path[-1], str) and places.at:
                path = path[:-1]
        problems.append(places.problem(path, _message(found, inner, beside if len(loc) == 1 else ())))
    # One problem per place: each member of a union reports its own.
    return list({(problem.path, problem.message): problem for problem in problems}.values())


def _as_given(path: Loc, model: type[BaseModel], places: Places) -> Loc:
    """Return the path with the key that the file has: pydantic names a field by its alias, however it was written."""
    if not path:
        return path
    shorts = [short for short, full in shorts_of(model).items() if full == path[-1]]
    names = [name for name, info in model.model_fields.items() if (info.alias or name) == path[-1]]
    given = ((*path[:-1], other) for other in (*shorts, *names))
    # What is missing has no key yet: the short one is what a file of ours would have, Connect's has the full one.
    otherwise = (*path[:-1], shorts[0]) if shorts and not places.aliases else path
    return next(filter(places.has, given), otherwise)


def _message(found: Mapping[str, Any], model: type[BaseModel] | None, beside: Iterable[str]) -> str:
    known, name, given = keys_of(model) if model else [], str(found["loc"][-1]) if found["loc"] else "", found["input"]
    match found["type"]:
        case "missing":
            is_open = model is not None and model.model_config.get("extra") == "allow"
            others = [key for key in given if key not in known] if is_open else []
            return f"is missing{meant(name, others, said='is it what {} is meant to be?')}"
        case "extra_forbidden":
            return f"unknown key{meant(name, [*known, *beside])}"
        case "literal_error" | "enum":
            expected = str(found["ctx"]["expected"])
            names = [part.strip().strip("'") for part in expected.replace(" or ", ", ").split(",")]
            return f"{given!r} is not one of {expected}{meant(given, names) if isinstance(given, str) else ''}"
        case "value_error":
            return str(found["ctx"]["error"])
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


def model_at(model: type[BaseModel] | None, loc: Loc) -> type[BaseModel] | None:
    """Return the model that stands at a path inside another one."""
    for part in loc:
        fields = model.model_fields.items() if model is not None else ()
        by_key = {info.alias or name: info.annotation for name, info in fields}
        if part in by_key:
            model = _model_in(by_key[part])
    return model


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the first model inside an annotation: M | None, tuple[M, ...], dict[str, M], Annotated[M, ...]."""
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        return annotation if issubclass(annotation, BaseModel) else None
    for inner in typing.get_args(annotation):
        found = _model_in(inner)
        if found is not None:
            return found
    return None
