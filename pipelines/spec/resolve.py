"""Values from elsewhere: `${env:NAME}`, `${file:/path:key}`, `${directory:/path:key}`, as Connect's config providers.

So a password stands in no pipeline's file. `${env:NAME:-default}` has a default. Any other `${...}` is left alone
(TimestampRouter's `${topic}`); a value is looked at once, so what comes from elsewhere is never looked at again.
"""

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from kvorum.pipelines.spec import document
from kvorum.pipelines.spec.problems import Loc, Places, Problem, SpecError

VARIABLE: Final = re.compile(r"\$\{(env|file|directory|dir):([^{}]*)\}")


class _Missing(Exception):
    """A variable that a provider could not resolve, with the reason."""


def resolve(data: Mapping[str, Any], places: Places, environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return data with all variables in strings replaced. Raises SpecError with the position of each."""
    resolved, problems = resolved_as_far(data, places, environment)
    if problems:
        raise SpecError(problems)
    return resolved


def resolved_as_far(
    data: Mapping[str, Any], places: Places, environment: Mapping[str, str] | None = None
) -> tuple[dict[str, Any], list[Problem]]:
    """Return data with the variables replaced that there are, and what is wrong with the others, which become empty."""
    problems = list[Problem]()
    environment = os.environ if environment is None else environment

    def walk(value: Any, at: Loc) -> Any:
        match value:
            case Mapping():
                return {key: walk(inner, (*at, key)) for key, inner in value.items()}
            case list():
                return [walk(inner, (*at, index)) for index, inner in enumerate(value)]
            case str():
                return VARIABLE.sub(lambda matched: one(matched, at), value)
            case _:
                return value

    def one(matched: re.Match[str], at: Loc) -> str:
        provider, argument = matched.groups()
        try:
            return PROVIDERS[provider](argument, environment)
        except _Missing as error:
            problems.append(places.problem(at, f"{matched.group()}: {error}"))
            return ""

    return {key: walk(value, (key,)) for key, value in data.items()}, problems


def _from_environment(argument: str, environment: Mapping[str, str]) -> str:
    name, has_default, default = argument.partition(":-")
    if name in environment:
        return environment[name]
    if has_default:
        return default
    raise _Missing("not set in the environment")


def _from_file(argument: str, environment: Mapping[str, str]) -> str:
    path, _, key = argument.rpartition(":")
    if not path:
        raise _Missing("write ${file:path:key}")
    try:
        found = document.parse(Path(path).read_text(encoding="utf-8"), file=path, form="properties").data
    except (OSError, UnicodeDecodeError) as error:
        raise _Missing(f"{path} cannot be read") from error
    if key not in found:
        raise _Missing(f"{path} has no {key!r}")
    return str(found[key])


def _from_directory(argument: str, environment: Mapping[str, str]) -> str:
    path, _, key = argument.rpartition(":")
    if not path or "/" in key or key in ("", ".", ".."):
        raise _Missing("write ${directory:path:file}")
    try:
        return (Path(path) / key).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _Missing(f"{Path(path) / key} cannot be read") from error


PROVIDERS: Final[Mapping[str, Callable[[str, Mapping[str, str]], str]]] = {
    "env": _from_environment,
    "file": _from_file,
    "directory": _from_directory,
    "dir": _from_directory,
}
