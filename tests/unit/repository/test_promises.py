"""Each test that promises.md names exists."""

import ast
import re
from pathlib import Path

TABLE = Path(__file__).parents[2] / "promises.md"
TESTS = TABLE.parent


def functions_of(path: Path) -> set[str]:
    """Return the names of a file's functions, none if there is no such file."""
    if not path.is_file():
        return set()
    nodes = ast.walk(ast.parse(path.read_text()))
    return {each.name for each in nodes if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_each_promise_has_its_test() -> None:
    named = re.findall(r"\| (\S+\.py)(?:::(\w+))? \|$", TABLE.read_text(), flags=re.MULTILINE)
    assert len(named) > 25
    found = {file: functions_of(TESTS / file) for file, _ in named}
    assert not [f"{file}::{name}" for file, name in named if not found[file] or (name and name not in found[file])]
