"""What can be seen of compiled modules without compiling: which they are, and that setup.py names modules there are."""

import ast
import sys
from pathlib import Path
from types import ModuleType

import pytest

from kvorum.runtime.compiled import SUFFIXES, compiled_count, is_compiled
from sim.mutants.patches import PatchError, Patches

ROOT = Path(__file__).parents[3]


def hot_modules() -> list[Path]:
    """The files that setup.py compiles."""
    tree = ast.parse((ROOT / "setup.py").read_text())
    found = next(
        node.value for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets) == "HOT"
    )
    return [ROOT / room / f"{name}.py" for room, names in ast.literal_eval(found).items() for name in names.split()]


def names_of_errors(function: ast.AST) -> dict[str, set[str]]:
    """What errors each name stands for in a function."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.ExceptHandler) and node.name and node.type:
            found.setdefault(node.name, set()).add(ast.unparse(node.type))
    return found


def test_each_hot_module_exists() -> None:
    files = hot_modules()
    assert len(files) > 50
    assert [file for file in files if not file.is_file()] == []


def test_no_compiled_function_reuses_an_exception_name() -> None:
    # mypyc gives the name the type it has first, and the second error becomes a TypeError.
    functions = [
        (file.name, node.name, names)
        for file in hot_modules()
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (names := names_of_errors(node))
    ]
    assert functions, "some function handles errors"
    assert [each for each in functions if any(len(kinds) > 1 for kinds in each[2].values())] == []


def test_no_nested_function_keeps_a_request_in_memory_when_it_is_compiled() -> None:
    # mypyc puts it and the variables it uses into a reference cycle, which only the garbage collector frees.
    once_per_process = {("figures.py", "_follow_producers")}
    functions = [
        (file.name, node.name)
        for file in hot_modules()
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for inner in ast.walk(node)
        if inner is not node and isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    assert set(functions) == once_per_process


def test_a_module_is_compiled_by_its_suffix(monkeypatch: pytest.MonkeyPatch) -> None:
    before = compiled_count()
    module = ModuleType("kvorum.compiled_for_this_test")
    module.__file__ = f"/site-packages/kvorum/compiled_for_this_test{SUFFIXES[0]}"
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert is_compiled(module.__name__) and not is_compiled(__name__)
    assert compiled_count() == before + 1
    module.__dict__["rule"] = lambda: True
    with pytest.raises(PatchError, match="is compiled"), Patches() as patches:
        patches.replace(module, "rule", lambda: False)
    assert module.rule()
