"""Scenario files: found by name or path, parsed, their matrix expanded, errors with their positions.

Shipped scenarios are in configs/chaos and run by name: `n-minus-one`, or one cell of it `n-minus-one/rf3-min2`.
"""

import difflib
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import ValidationError

from kvorum.chaos.scenario.models import Scenario

SHIPPED: Final = Path(__file__).resolve().parent.parent.parent / "configs" / "chaos"
SUFFIX: Final = ".yaml"
TITLES: Final = ("name", "title")
A_PATH: Final = re.compile(r"(?P<path>.+\.ya?ml)(/(?P<cell>[^/]+))?")


class ScenarioError(Exception):
    """An invalid scenario: the position of the error, and a suggestion."""


def shipped_scenarios() -> list[str]:
    """Return the names of the shipped scenario files."""
    return sorted(path.stem for path in SHIPPED.glob(f"*{SUFFIX}"))


def find(name: str) -> list[Scenario]:
    """Return the runs of a name: a shipped scenario, a path of a file, or one cell (`NAME/CELL`).

    A file elsewhere is named by its path, a cell of it as `PATH/CELL`. Raises ScenarioError.
    """
    path, cell = _path_of(name)
    runs = load(path)
    if not cell:
        return runs
    chosen = [run for run in runs if run.name.rpartition("/")[2] == cell]
    if not chosen:
        cells = ", ".join(run.name.rpartition("/")[2] for run in runs)
        raise ScenarioError(f"{path.stem} has no cell {cell!r}; its cells: {cells}")
    return chosen


def _path_of(name: str) -> tuple[Path, str]:
    given = A_PATH.fullmatch(name)
    if given is not None:
        return Path(given["path"]), given["cell"] or ""
    stem, _, cell = name.partition("/")
    path = SHIPPED / f"{stem}{SUFFIX}"
    if path.exists():
        return path, cell
    near = difflib.get_close_matches(stem, shipped_scenarios(), n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise ScenarioError(f"scenario {stem!r} does not exist{hint} (see `kvorum chaos list`, or give a path)")


def load(path: Path) -> list[Scenario]:
    """Read a file: one scenario, or one for each cell of its matrix. Raises ScenarioError."""
    try:
        content = yaml.safe_load(path.read_text())
    except OSError as error:
        raise ScenarioError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ScenarioError(f"{path} is not UTF-8: {error}") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f":{mark.line + 1}:{mark.column + 1}"
        raise ScenarioError(f"{path}{where}: not YAML: {getattr(error, 'problem', None) or error}") from error
    if not isinstance(content, dict):
        raise ScenarioError(f"{path}: a scenario must be a mapping with name, title, topics, workload, ...")
    cells = content.get("matrix")
    if not cells:
        return [_scenario(path, content)]
    if not isinstance(cells, list) or not all(isinstance(each, dict) and "name" in each for each in cells):
        raise ScenarioError(f"{path}: matrix must be a list of cells, each with a name and its changes")
    plain = {key: value for key, value in content.items() if key != "matrix"}
    return [_cell(path, plain, each) for each in cells]


def _cell(path: Path, plain: dict[str, Any], cell: dict[str, Any]) -> Scenario:
    change = {key: value for key, value in cell.items() if key not in TITLES}
    whole = merge(plain, change)
    whole["name"] = f"{plain.get('name', path.stem)}/{cell['name']}"
    whole["title"] = cell.get("title", plain.get("title", ""))
    return _scenario(path, whole)


def merge(base: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """Return a mapping with another one's changes: mappings key by key, all else replaced."""
    found = dict(base)
    for key, value in change.items():
        before = found.get(key)
        found[key] = merge(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return found


def _scenario(path: Path, content: dict[str, Any]) -> Scenario:
    try:
        # As JSON: strict, and yet lists are tuples there.
        return Scenario.model_validate_json(json.dumps(content, default=str))
    except ValidationError as error:
        name = content.get("name", path.stem)
        raise ScenarioError(f"{path} ({name}):\n" + "\n".join(_error_lines(error, content))) from error


def _error_lines(error: ValidationError, content: dict[str, Any]) -> Iterable[str]:
    """Yield one line per error: its position, the error, a suggestion."""
    for slip in error.errors():
        place = ".".join(str(each) for each in slip["loc"]) or "scenario"
        message = slip["msg"].removeprefix("Value error, ")
        wrong, known = str(slip["input"]), list[str]()
        if slip["type"] == "extra_forbidden":
            message, wrong, known = "unknown key", str(slip["loc"][-1]), _known_keys()
        elif slip["type"] == "unknown_key":
            wrong, known = slip["ctx"]["name"], slip["ctx"]["known"]
        elif slip["type"] == "literal_error":
            known = str(slip["ctx"]["expected"]).replace("'", "").split(", ")
        near = difflib.get_close_matches(wrong, known, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        yield f"  {place}: {message}{hint}"


def _known_keys() -> list[str]:
    """Return every key that some part of a scenario has."""
    schema = Scenario.model_json_schema()
    found = set(schema["properties"])
    for part in schema["$defs"].values():
        found |= set(part.get("properties", ()))
    return sorted(found | {"matrix"})
