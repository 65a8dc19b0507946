"""The metadata as a file system: commands, and their output lines. Sans-IO.

Commands, messages and layout are those of Kafka's metadata shell. Source: Kafka's MetadataShell, its command handlers.
"""

import shlex
import textwrap
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from kvorum.client.metadata_log.metadata_tree import NoSuchPath, find_matches

if TYPE_CHECKING:
    from kvorum.client.metadata_log.metadata_tree import Tree

WORDS: Final = {
    "cat": ("TARGET...", "Show the contents of metadata files."),
    "cd": ("[TARGET]", "Set the current working directory."),
    "exit": ("", "Exit the metadata shell."),
    "find": ("[PATH...]", "Search for nodes in the directory hierarchy."),
    "help": ("", "Display this help message."),
    "history": ("[NUMBER]", "Print command history."),
    "ls": ("[TARGET...]", "List metadata nodes."),
    "man": ("COMMAND", "Show the help text for a specific command."),
    "pwd": ("", "Print the current working directory."),
    "tree": ("TARGET...", "Show the contents of metadata nodes in a tree structure."),
}
"""Commands, in Kafka's words."""
HISTORY_MAX: Final = 1_000
COLUMN_WIDTH_MIN: Final = 4
GAP: Final = 2


class ExitRequest(Exception):
    """The user typed exit."""


class Shell:
    """One session: the current path and the history."""

    def __init__(self, root: "Tree", width: int | None = None) -> None:
        """Start at the root. `width`: of the screen, for lists in columns; None: one name per line."""
        self.root = root
        self.folder = "/"
        self.history: list[str] = []
        self.line_count = 0
        self._width = width
        self._commands: Mapping[str, Callable[[Sequence[str]], list[str]]] = MappingProxyType(
            {
                "cat": self._cat,
                "cd": self._cd,
                "exit": self._exit,
                "find": self._find,
                "help": self._help,
                "history": self._history,
                "ls": self._ls,
                "man": self._man,
                "pwd": lambda _: [self.folder],
                "tree": self._tree,
            }
        )

    def run_line(self, line: str) -> list[str]:
        """Execute a line, and return its output. Raises ExitRequest."""
        if line.strip():
            self.history = [*self.history, line.strip()][-HISTORY_MAX:]
            self.line_count += 1
        try:
            return self.run(shlex.split(line))
        except ValueError as error:  # an unmatched quotation mark
            return [f"{line.strip()}: {error}"]

    def run(self, words: Sequence[str]) -> list[str]:
        """Execute a command's arguments, and return its output. Raises ExitRequest."""
        if not words:
            return []
        command = self._commands.get(words[0])
        if command is None:
            return [f"{words[0]}: unknown command. Type help to get a list of commands."]
        needs = WORDS[words[0]][0]
        if needs and not needs.startswith("[") and len(words) == 1:
            return [f"{words[0]}: give {needs}"]
        return command(words[1:])

    def completions(self, before: str, word: str) -> list[str]:
        """Return completions of a word: a command first, then a path, with a slash after folders."""
        if not before.strip():
            return [f"{name} " for name in WORDS if name.startswith(word)]
        folder, slash, start = word.rpartition("/")
        found = self._match(f"{folder}{slash}" or ".")
        if len(found) != 1 or isinstance(found[0][1], str):
            return []
        children = sorted(found[0][1].items())
        return [
            f"{folder}{slash}{name}{' ' if isinstance(node, str) else '/'}"
            for name, node in children
            if name.startswith(start)
        ]

    def _match(self, target: str) -> "list[tuple[str, Tree | str]]":
        """Return the entries that a target matches, relative to the current path."""
        parts: list[str] = []
        for part in (target if target.startswith("/") else f"{self.folder}/{target}").split("/"):
            if part == "..":
                parts = parts[:-1]
            elif part not in ("", "."):
                parts.append(part)
        try:
            return find_matches(self.root, "/".join(parts))
        except NoSuchPath:
            return []

    def _cat(self, targets: Sequence[str]) -> list[str]:
        lines: list[str] = []
        for target in targets:
            found = self._match(target)
            for _, node in found:
                lines.append(node if isinstance(node, str) else f"cat: {target}: Is a directory")
            lines += [] if found else [f"cat: {target}: No such file or directory."]
        return lines

    def _cd(self, targets: Sequence[str]) -> list[str]:
        target = targets[0] if targets else "/"
        found = self._match(target)
        if not found:
            return [f"cd: {target}: no such directory."]
        path, node = found[-1]
        if isinstance(node, str):
            return [f"cd: {target}: not a directory."]
        self.folder = path
        return []

    def _find(self, targets: Sequence[str]) -> list[str]:
        lines: list[str] = []
        for target in targets or (".",):
            found = self._match(target)
            for _, node in found:
                lines += below(target, node)
            lines += [] if found else [f"find: {target}: no such file or directory."]
        return lines

    def _ls(self, targets: Sequence[str]) -> list[str]:
        lines: list[str] = []
        files: list[str] = []
        folders: list[tuple[str, list[str]]] = []
        for target in targets or (".",):
            found = self._match(target)
            for path, node in found:
                name = path.rpartition("/")[2]
                if isinstance(node, str):
                    files.append(name)
                else:
                    folders.append((name, sorted(node)))
            lines += [] if found else [f"ls: {target}: no such file or directory."]
        lines += in_columns(files, self._width)
        titled, first = bool(files) or len(folders) > 1, not files
        for name, children in folders:
            title = [*([] if first else [""]), f"{name}:"] if titled else []
            lines += [*title, *in_columns(children, self._width)] if children else []
            first = False
        return lines

    def _tree(self, targets: Sequence[str]) -> list[str]:
        lines: list[str] = []
        for target in targets:
            found = self._match(target)
            for _, node in found:
                lines += tree_lines(node)
            lines += [] if found else [f"tree: {target}: No such file or directory."]
        return lines

    def _man(self, names: Sequence[str]) -> list[str]:
        if names[0] not in WORDS:
            return [f"man: unknown command {names[0]}. Type help to get a list of commands."]
        usage, text = WORDS[names[0]]
        return [f"{names[0]}: {text}", "", f"usage: {names[0]} {usage}".rstrip()]

    def _help(self, _: Sequence[str]) -> list[str]:
        lines = [f"  {f'{name} {usage}':<20}  {text}" for name, (usage, text) in WORDS.items()]
        return ["Welcome to the metadata shell.", "", *lines]

    def _history(self, numbers: Sequence[str]) -> list[str]:
        if numbers and not (numbers[0].isascii() and numbers[0].isdecimal()):
            return [f"history: {numbers[0]} is not a number"]
        shown = self.history[-int(numbers[0]) :] if numbers and int(numbers[0]) else [] if numbers else self.history
        first = self.line_count - len(shown)
        return [f"{number: 5d}  {line}" for number, line in enumerate(shown, start=first)]

    def _exit(self, _: Sequence[str]) -> list[str]:
        raise ExitRequest


def below(path: str, node: "Tree | str") -> list[str]:
    """Return a path and all below it."""
    lines = [path]
    for name, child in sorted(node.items()) if isinstance(node, dict) else ():
        lines += below(f"{path.rstrip('/')}/{name}", child)
    return lines


def tree_lines(node: "Tree | str") -> list[str]:
    """Return the lines of a tree: a value below its name, two blanks in."""
    if isinstance(node, str):
        return [node]
    lines: list[str] = []
    for name, child in sorted(node.items()):
        lines += (
            [f"{name}:", *textwrap.indent("\n".join(tree_lines(child)), "  ").split("\n")] if child else [f"{name}:"]
        )
    return lines


def in_columns(names: Sequence[str], width: int | None) -> list[str]:
    """Return names in as many columns as fit, from top to bottom; one per line without a width."""
    if not names or width is None:
        return list(names)
    for count in range(min(width // COLUMN_WIDTH_MIN, len(names)), 1, -1):
        height = -(-len(names) // count)
        columns = [names[start : start + height] for start in range(0, len(names), height)]
        widths = [max(len(name) for name in column) + GAP for column in columns]
        if len(columns) == count and sum(widths) <= width:
            return [row_of(columns, widths, row) for row in range(height)]
    return list(names)


def row_of(columns: Sequence[Sequence[str]], widths: Sequence[int], row: int) -> str:
    """Return a line of a list in columns."""
    cells = zip(columns, widths, strict=True)
    return "".join(column[row].ljust(width) for column, width in cells if row < len(column)).rstrip()
