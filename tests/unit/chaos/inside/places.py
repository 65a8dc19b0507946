"""Every failpoint's place, read from the source."""

import ast
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent.parent.parent
ROOMS = ("runtime", "protocol", "network", "storage", "quorum", "broker", "cluster")


def calls(room: str) -> list[tuple[Path, str]]:
    """(file, name) of each `failpoints.hit("name")`; a name that is no literal is an AssertionError."""
    found = []
    for path in sorted((ROOT / room).rglob("*.py")):
        if path.name == "failpoints.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module == "kvorum.runtime.failpoints":
                raise AssertionError(f"{path}: import the module, so that a place can be armed at any time")
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "hit"):
                continue
            (name,) = node.args
            assert isinstance(name, ast.Constant) and isinstance(name.value, str), f"{path}:{node.lineno}"
            found.append((path.relative_to(ROOT), name.value))
    return found


def places_in(room: str) -> set[str]:
    """The names of a room."""
    return {name for _, name in calls(room)}
