"""Write client/sync.py, the synchronous API, from client/cluster.py and client/namespaces.

Run: python tools/generate_sync.py [--check]. Each public method of a namespace becomes a method that waits for the
result; an async generator becomes an iterator. tests/unit/client/test_sync.py checks the file.
"""

import argparse
import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
CLIENT = ROOT / "client"
TARGET = CLIENT / "sync.py"
NAMESPACE = "kvorum.client.namespaces."
HEAD = '''"""The synchronous API: each method of `Cluster` and its namespaces as a function that waits for the result.

Written by tools/generate_sync.py; do not change it by hand.
"""
'''
CLUSTER = '''
class SyncCluster:
    """A Kafka cluster, with a namespace per noun, for scripts, notebooks and tests. Close it. Thread-safe.

    It runs a `Cluster` on an event loop in a thread.
    """

    def __init__(self, cluster: Cluster) -> None:
        """Use this cluster, which no event loop has used yet. Raises Unreachable."""
        self._thread = LoopThread()
        self._cluster = cluster
        try:
            self._thread.run(cluster.__aenter__())
        except BaseException:
            self._thread.close()
            raise
{namespaces}

    @classmethod
    def connect({connect}) -> Self:
        """{connect_doc}"""
        return cls(Cluster.connect({connect_call}))

    def close(self) -> None:
        """Close all connections. Idempotent."""
        if not self._thread.is_closed:
            self._thread.run(self._cluster.close())
            self._thread.close()

    def __enter__(self) -> Self:
        """Return the connected cluster."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close all connections."""
        self.close()
'''


def imports_of(tree: ast.Module) -> dict[str, str]:
    """Return {name: its import statement} of a module."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for each in node.names:
                found[each.asname or each.name] = f"from {node.module} import {ast.unparse(each)}"
    return found


def names_in(node: ast.arguments | ast.expr) -> set[str]:
    """Return the names of an expression, those in quoted annotations included."""
    found = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str) and each.value.isidentifier():
            found.add(each.value)
    return found


def call_of(arguments: ast.arguments) -> str:
    """Return the arguments of a call that passes all parameters on."""
    positional = [each.arg for each in (*arguments.posonlyargs, *arguments.args) if each.arg not in ("self", "cls")]
    if arguments.vararg is not None:
        positional.append(f"*{arguments.vararg.arg}")
    named = [f"{each.arg}={each.arg}" for each in arguments.kwonlyargs]
    if arguments.kwarg is not None:
        named.append(f"**{arguments.kwarg.arg}")
    return ", ".join([*positional, *named])


def method_of(node: ast.AsyncFunctionDef | ast.FunctionDef) -> str:
    """Return the synchronous form of a method: of a coroutine, or of a function that returns an AsyncIterator."""
    assert node.returns is not None, node.name
    returns, doc = ast.unparse(node.returns), ast.get_docstring(node, clean=False)
    call = f"self._namespace.{node.name}({call_of(node.args)})"
    if returns.startswith(("AsyncIterator[", "AsyncGenerator[")):
        returns = f"Iterator[{returns.partition('[')[2].removesuffix(']').removesuffix(', None')}]"
        body = f"return self._thread.iterate({call})"
    else:
        body = f"return self._thread.run({call})"
    return f'    def {node.name}({ast.unparse(node.args)}) -> {returns}:\n        """{doc}"""\n        {body}\n'


def namespace_of(node: ast.ClassDef) -> tuple[str, set[str]]:
    """Return the class of a namespace and the names that its signatures use."""
    methods, used = [], set()
    for each in node.body:
        if isinstance(each, ast.AsyncFunctionDef | ast.FunctionDef) and not each.name.startswith("_"):
            methods.append(method_of(each))
            used |= names_in(each.args) | (names_in(each.returns) if each.returns is not None else set())
    head = (
        f'class Sync{node.name}:\n    """{ast.get_docstring(node, clean=False)}"""\n\n'
        f"    def __init__(self, thread: LoopThread, namespace: {node.name}) -> None:\n"
        '        """Run this namespace on this thread."""\n'
        "        self._thread, self._namespace = thread, namespace\n"
    )
    return "\n".join([head, *methods]), used


def rendered() -> str:
    """Return the file's text."""
    cluster = ast.parse((CLIENT / "cluster.py").read_text())
    classes = {
        name: line.split()[1] for name, line in imports_of(cluster).items() if line.startswith(f"from {NAMESPACE}")
    }
    found = imports_of(cluster)
    (owner,) = (each for each in cluster.body if isinstance(each, ast.ClassDef))
    methods = {each.name: each for each in owner.body if isinstance(each, ast.FunctionDef)}
    connect, attributes = methods["connect"], {}
    for each in ast.walk(methods["__init__"]):
        if isinstance(each, ast.Assign) and isinstance(each.value, ast.Call) and isinstance(each.value.func, ast.Name):
            (target,) = each.targets
            assert isinstance(target, ast.Attribute)
            attributes[target.attr] = each.value.func.id
    lines = {"from types import TracebackType", "from typing import Self", "from kvorum.client.cluster import Cluster"}
    lines |= {"from kvorum.client.loop_thread import LoopThread"}
    lines |= {found[name] for name in names_in(connect.args) if name in found}
    constants = [f"from kvorum.client.cluster import {name}" for name in names_in(connect.args) if name.isupper()]
    lines |= {line for line in constants if line.split()[-1] not in found}
    texts = []
    for name, module in classes.items():
        tree = ast.parse((CLIENT / "namespaces" / f"{module.rpartition('.')[2]}.py").read_text())
        (node,) = (each for each in tree.body if isinstance(each, ast.ClassDef) and each.name == name)
        text, used = namespace_of(node)
        texts.append(text)
        own = imports_of(tree)
        lines |= {own[each] for each in used - {"AsyncIterator", "AsyncGenerator"} if each in own} | {found[name]}
        local = {
            target.id
            for each in tree.body
            if isinstance(each, ast.Assign | ast.AnnAssign)
            for target in ([each.target] if isinstance(each, ast.AnnAssign) else each.targets)
            if isinstance(target, ast.Name)
        }
        lines |= {f"from {module} import {each}" for each in used & local}
    body = CLUSTER.format(
        namespaces="\n".join(
            f"        self.{name} = Sync{kind}(self._thread, cluster.{name})" for name, kind in attributes.items()
        ),
        connect=ast.unparse(connect.args),
        connect_doc=(ast.get_docstring(connect, clean=False) or "").replace("`async with`", "`with`"),
        connect_call=call_of(connect.args),
    )
    if any("-> Iterator[" in text for text in texts):
        lines |= {"from collections.abc import Iterator"}
    return "\n".join([HEAD, *sorted(lines), body, *texts])


def meaning(text: str) -> tuple[set[str], str]:
    """Return a module's imported names, and the rest of it without its layout."""
    tree = ast.parse(text)
    rest = ast.Module([each for each in tree.body if not isinstance(each, ast.ImportFrom)], [])
    return set(imports_of(tree)), ast.unparse(rest)


def formatted(text: str) -> str:
    """Return the text as ruff writes it."""
    for command in (["check", "--fix", "--quiet", "--select", "I"], ["format", "--quiet"]):
        call = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(TARGET), "-"]
        text = subprocess.run(call, input=text, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    return text


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true", help="only compare; exit 1 if the file is out of date")
    text = rendered()
    if parser.parse_args().check:
        if meaning(TARGET.read_text()) != meaning(text):
            sys.exit("client/sync.py is out of date: run python tools/generate_sync.py")
        return
    TARGET.write_text(formatted(text))


if __name__ == "__main__":
    main()
