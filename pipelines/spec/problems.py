"""What is wrong with a pipeline's file, each with its line, its path, and what was probably meant."""

import difflib
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import BaseModel, ValidationError

Loc = tuple[str | int, ...]

ALIKE: Final = 0.6
"""From which likeness on (difflib's ratio) a name is offered as what was meant."""


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


def dotted(path: Loc) -> str:
    """Return `transforms[0].type`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def meant(name: str, names: Iterable[str]) -> str:
    """Return `; did you mean ...?`, or nothing when no name is like it."""
    folded = {other.replace("_", "-").lower(): other for other in names}
    close = difflib.get_close_matches(name.replace("_", "-").lower(), list(folded), n=1, cutoff=ALIKE)
    return f"; did you mean {folded[close[0]]!r}?" if close else ""


def from_pydantic(error: ValidationError, model: type[BaseModel], places: Places, *, under: Loc = ()) -> list[Problem]:
    """Return what pydantic found, with places. `under` is where in the file the model's data stand."""
    problems = []
    for found in error.errors(include_url=False):
        loc = found["loc"]
        path = (*under, *loc)
        problems.append(places.problem(_in_file(path, found["type"], places), _message(found, loc, model)))
    return _without_echoes(problems)


def _in_file(path: Loc, kind: str, places: Places) -> Loc:
    """Return the path without what pydantic added to it (the member of a union that it tried)."""
    if kind in ("missing", "extra_forbidden"):
        return path
    while path and path not in places.at and path not in places.aliases and isinstance(path[-1], str) and places.at:
        path = path[:-1]
    return path


def _without_echoes(problems: list[Problem]) -> list[Problem]:
    """Return one problem a place: each member of a union says why it is not the one."""
    seen = dict[tuple[Loc, str], Problem]()
    for problem in problems:
        seen.setdefault((problem.path, problem.message), problem)
    return list(seen.values())


def _message(found: Mapping[str, Any], loc: Loc, model: type[BaseModel]) -> str:
    context = found.get("ctx", {})
    match found["type"]:
        case "missing":
            return "is missing"
        case "extra_forbidden":
            inner = model_at(model, loc[:-1])
            return f"unknown key{meant(str(loc[-1]), keys_of(inner) if inner else ())}"
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
    """Return the keys a model takes, as a file writes them."""
    return [info.alias or name for name, info in model.model_fields.items()]


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
