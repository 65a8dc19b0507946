"""promises.md names tests that exist and run with `make test`, and has each invariant of ARCHITECTURE.md."""

import ast
import re
from pathlib import Path
from typing import TypeAlias

TESTS = Path(__file__).parents[2]
TABLE = (TESTS / "promises.md").read_text()
NAMED: list[tuple[str, str]] = re.findall(r"\| (\S+\.py)(?:::(\w+))? \|$", TABLE, flags=re.MULTILINE)

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


def functions_in(path: Path) -> dict[str, Function]:
    """Return a file's tests by name; none if there is no such file."""
    nodes = ast.walk(ast.parse(path.read_text())) if path.is_file() else ()
    found = [each for each in nodes if isinstance(each, Function)]
    return {each.name: each for each in found if each.name.startswith("test_")}


def is_long(test: Function) -> bool:
    """Return whether a test is marked `long` as a whole."""
    return any(ast.unparse(each) == "pytest.mark.long" for each in test.decorator_list)


def test_each_promise_has_a_test_that_is_not_long() -> None:
    assert len(NAMED) > 60
    found = {file: functions_in(TESTS / file) for file, _ in NAMED}
    missing = [f"{file}::{name}" for file, name in NAMED if not found[file] or (name and name not in found[file])]
    assert not missing
    named = [[found[file][name]] if name else list(found[file].values()) for file, name in NAMED]
    assert not [NAMED[index] for index, tests in enumerate(named) if all(map(is_long, tests))]


def test_each_invariant_has_a_promise() -> None:
    section = (TESTS.parent / "ARCHITECTURE.md").read_text().partition("## Invariants")[2].partition("\n## ")[0]
    invariants = set(re.findall(r"^(\d+)\. ", section, flags=re.MULTILINE))
    assert invariants and invariants == set(re.findall(r"^\| (\d+)\. ", TABLE, flags=re.MULTILINE))
