"""A pipeline's file as data and places: its values, and the line of each.

YAML as most people mean it (1.2's core): `yes`, `on` and `2020-01-01` are strings, a key stands once. JSON is read by
json and placed by the YAML reader, which takes it, too. A `.properties` file (Connect's standalone form) is a flat
mapping. Sizes are limited: a file is a page of configuration.

Values may come from elsewhere: `${env:NAME}`, `${file:/path:key}`, `${directory:/path:key}`, as Connect's config
providers, so that a password stands in no pipeline's file. `${env:NAME:-default}` has a default. Any other `${...}` is
left alone (TimestampRouter's `${topic}`); a value is looked at once, so what comes from elsewhere is never looked at
again.
"""

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

import yaml

from kvorum.pipelines.spec.problems import Loc, Place, Places, Problem, SpecError

FILE_BYTES_MAX: Final = 1 << 20
"""A thousand times a long pipeline; a longer file is the wrong one."""
VARIABLE: Final = re.compile(r"\$\{(env|file|directory|dir):([^{}]*)\}")


class _Loader(yaml.SafeLoader):
    """YAML's core schema: true, false, null, numbers, strings."""


_CORE: Final = {
    "tag:yaml.org,2002:bool": (r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    "tag:yaml.org,2002:int": (r"^[-+]?[0-9]+$|^0x[0-9a-fA-F]+$", "-+0123456789"),
    "tag:yaml.org,2002:float": (
        r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$|^[-+]?\.(?:inf|Inf|INF)$|^\.(?:nan|NaN|NAN)$",
        "-+0123456789.",
    ),
    "tag:yaml.org,2002:null": (r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
}
_Loader.yaml_implicit_resolvers = {}
for _tag, (_pattern, _first) in _CORE.items():
    _Loader.add_implicit_resolver(_tag, re.compile(_pattern), list(_first))


def _integer(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
    text = str(loader.construct_scalar(node))
    return int(text, 16) if text.startswith("0x") else int(text)


_Loader.add_constructor("tag:yaml.org,2002:int", _integer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A parsed file."""

    data: Mapping[str, Any]
    places: Places = field(default_factory=Places)
    problems: Sequence[Problem] = ()
    """Errors that leave the rest readable."""

    def right(self) -> Self:
        """Return it if nothing is wrong. Raises SpecError."""
        if self.problems:
            raise SpecError(self.problems)
        return self


def read(path: Path) -> Document:
    """Return a file's document. Raises SpecError when it cannot be read."""
    places = Places(file=str(path))
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise SpecError([places.problem((), f"larger than {FILE_BYTES_MAX} bytes: not a pipeline's file")])
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise SpecError([places.problem((), f"cannot be read: {error.strerror}")]) from error
    except UnicodeDecodeError as error:
        raise SpecError([places.problem((), "is not text in UTF-8")]) from error
    return parse(text, file=str(path), form=path.suffix.removeprefix("."))


def parse(text: str, *, file: str = "", form: str = "yaml") -> Document:
    """Return the document of a text. `form` is a file name's suffix: properties, json, or else YAML."""
    if form == "properties":
        return _properties(text, file)
    # Tabs are space between JSON's tokens, never inside one; YAML has no place for them.
    as_json = form == "json" or text.lstrip().startswith("{")
    try:
        loader = _Loader(text.replace("\t", " ") if as_json else text)
        try:
            node = loader.get_single_node()
            if not isinstance(node, yaml.MappingNode):
                raise SpecError([Problem(file=file, message="is not a mapping of keys to values")])
            places, problems = Places(file=file), list[Problem]()
            _place(node, (), places, problems)
            data = loader.construct_document(node)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(mark.line + 1, mark.column + 1) if mark else None
        message = ": ".join(part for part in (error.context, error.problem) if part)
        raise SpecError([Problem(file=file, place=place, message=message)]) from error
    except yaml.YAMLError as error:
        raise SpecError([Problem(file=file, message=str(error).splitlines()[0])]) from error
    except RecursionError as error:
        raise SpecError([Problem(file=file, message="is nested too deeply, or an alias is within itself")]) from error
    try:  # JSON is read as JSON: its escapes are not all YAML's; a flow mapping that is no JSON is YAML all the same
        found = json.loads(text) if as_json else data
    except json.JSONDecodeError as error:
        if file.endswith(".json"):
            place = Place(error.lineno, error.colno)
            raise SpecError([Problem(file=file, place=place, message=f"not JSON: {error.msg}")]) from error
        found = data
    return Document(data=found if isinstance(found, dict) else data, places=places, problems=problems)


def _place(node: yaml.Node, at: Loc, places: Places, problems: list[Problem]) -> None:
    """Note where everything under a node stands. A value's place is its key's: that is what one looks for."""
    if isinstance(node, yaml.MappingNode):
        seen = set[Loc]()
        for key, value in node.value:
            path, place = (*at, str(key.value)), _start(key)
            if path in seen:
                problems.append(Problem(file=places.file, place=place, path=path, message="stands twice"))
            seen.add(path)
            places.at[path] = place
            _place(value, path, places, problems)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            places.at[(*at, index)] = _start(item)
            _place(item, (*at, index), places, problems)


def _start(node: yaml.Node) -> Place:
    return Place(node.start_mark.line + 1, node.start_mark.column + 1)


def _properties(text: str, file: str) -> Document:
    """Read Java's properties: `key=value`, `key: value`, comments by # or !, a backslash goes on with the next line."""
    special = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}

    def unescaped(matched: re.Match[str]) -> str:
        code, char = matched.groups()
        return chr(int(code, 16)) if code else special.get(char, char)

    data, places = dict[str, Any](), Places(file=file)
    number, lines = 0, text.splitlines()
    while number < len(lines):
        first, line = number + 1, lines[number].lstrip()
        number += 1
        if not line or line[0] in "#!":
            continue
        while number < len(lines) and (len(line) - len(line.rstrip("\\"))) % 2 == 1:
            line = line[:-1] + lines[number].lstrip()
            number += 1
        matched = re.match(r"((?:\\.|[^\\=:\s])*)\s*[=:]?\s*(.*)$", line)
        assert matched is not None, line
        key, value = (re.sub(r"\\(?:u([0-9a-fA-F]{4})|(.))", unescaped, part) for part in matched.groups())
        data[key] = value
        places.at[(key,)] = Place(first, 1)
    return Document(data=data, places=places)


def resolve(data: Mapping[str, Any], places: Places) -> dict[str, Any]:
    """Return data with all variables in strings replaced. Raises SpecError with the position of each."""
    resolved, problems = resolved_as_far(data, places)
    if problems:
        raise SpecError(problems)
    return resolved


def resolved_as_far(data: Mapping[str, Any], places: Places) -> tuple[dict[str, Any], list[Problem]]:
    """Return data with the variables replaced that there are, and what is wrong with the others, which become empty."""
    problems = list[Problem]()

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
        try:
            return _looked_up(matched[1], matched[2])
        except LookupError as error:
            problems.append(places.problem(at, f"{matched.group()}: {error}"))
            return ""

    return {key: walk(value, (key,)) for key, value in data.items()}, problems


def _looked_up(provider: str, argument: str) -> str:
    """Return the value that a variable stands for. Raises LookupError with the reason."""
    if provider == "env":
        name, has_default, default = argument.partition(":-")
        if name in os.environ or has_default:
            return os.environ.get(name, default)
        raise LookupError("not set in the environment")
    folder, _, key = argument.rpartition(":")
    if provider == "file" and not folder:
        raise LookupError("write ${file:path:key}")
    if provider != "file" and (not folder or "/" in key or key in ("", ".", "..")):
        raise LookupError("write ${directory:path:file}")
    path = Path(folder) if provider == "file" else Path(folder) / key
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise LookupError(f"{path} cannot be read") from error
    if provider != "file":
        return text
    found = parse(text, file=folder, form="properties").data
    if key not in found:
        raise LookupError(f"{folder} has no {key!r}")
    return str(found[key])
