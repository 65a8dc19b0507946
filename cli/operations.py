"""`kvorum NOUN VERB` from the table of operations (admin/http/operations.py).

Arguments and options come from the operation's parameters and the fields of its body, the output from its models. The
handler runs in this process, over Kafka's protocol. Commands that are more than an operation are in cli/nouns.BY_HAND.
"""

import importlib
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

import click

from kvorum.cli import completion
from kvorum.cli.connection.client import bootstrap_option, is_missing, with_cluster
from kvorum.cli.lazy import check_command
from kvorum.cli.output import Exit, fail, output_option, pairs, report, show, tell, warn
from kvorum.cli.text_values import guard_texts

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

    from kvorum.admin.http.commands import Command
    from kvorum.admin.http.operations import Operation
    from kvorum.client.wire.cluster_client import ClusterClient

AFTER, LIMIT = "after", "limit"
DRY_RUN: Final = ("validate_only", "dry_run")
COMPLETED: Final = {
    "topics": completion.topic_names,
    "groups": completion.group_names,
    "brokers": completion.broker_ids,
    "topic_configs": completion.topic_config_keys,
}
SHAPES: Final = {"array": "lists", "integer": "pairs", "number": "pairs", "string": "pairs"}
Values = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """A parameter of the operation, or a field of its body."""

    name: str
    doc: str
    schema: Mapping[str, Any]
    required: bool = False
    in_path: bool = False
    in_body: bool = False
    names: str = ""

    @property
    def shape(self) -> str:
        """Form on the command line: flag, text, list, pairs (KEY=VALUE), lists (KEY:VALUE,VALUE); empty: none."""
        match self.schema.get("type"):
            case "boolean":
                return "flag"
            case "integer" | "number" | "string":
                return "text"
            case "array":
                return "list" if plain(self.schema["items"]).get("type") in ("integer", "string") else ""
            case "object":
                values = plain(values_of(self.schema)).get("type")
                return SHAPES.get(values or "", "")
            case _:
                return ""

    def read(self, given: Any, option: str) -> Any:
        """Return the value that was typed, as the operation takes it. Raises BadParameter."""
        match self.shape:
            case "list":
                return list(given)
            case "pairs":
                return pairs(given, option)
            case "lists":
                return dict(read_list(each) for each in given)
            case "flag" if not self.in_body:
                return "true"
            case _:
                return given if self.in_body else str(given)


def values_of(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of an object's values, whose names may have a pattern."""
    by_pattern: Mapping[str, Mapping[str, Any]] = schema.get("patternProperties", {})
    return next(iter(by_pattern.values()), schema.get("additionalProperties", {}))


def plain(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema without its null."""
    kinds = [each for each in schema.get("anyOf", ()) if each.get("type") != "null"]
    return {**schema, **kinds[0]} if len(kinds) == 1 else schema


def read_list(text: str) -> tuple[str, list[str] | None]:
    """Read KEY:VALUE,VALUE, or KEY for all of it."""
    key, colon, values = text.partition(":")
    return key, values.split(",") if colon else None


def inputs_of(operation: "Operation") -> list[Input]:
    """Return what the operation takes from a command line."""
    found = [
        Input(
            name=each.name,
            doc=each.doc.removeprefix("true: "),
            schema=each.schema,
            required=each.name in operation.names_in_path,
            in_path=each.name in operation.names_in_path,
            names=each.names,
        )
        for each in operation.parameters
        if each.name != AFTER
    ]
    schema = operation.body.model_json_schema()
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        kind, doc = plain(field), field.get("description", "")
        found.append(Input(name=name, doc=doc, schema=kind, required=name in required, in_body=True))
    taken = [each for each in found if each.shape]
    assert not {each.name for each in found if each.required} - {each.name for each in taken}, operation.name
    return taken


class OperationGroup(click.Group):
    """The commands of a noun, from the operations of some modules and from others that are written by hand."""

    def __init__(self, path: str, text: str, modules: Sequence[str], by_hand: Mapping[str, tuple[str, str]]) -> None:
        """Make `kvorum PATH`; `by_hand`: {name: (module:attribute, reason)}."""
        super().__init__(name=path.rpartition(" ")[2], short_help=text)
        self._path = path
        self._text = text
        self._modules = modules
        self._by_hand = {name: target for name, (target, _) in by_hand.items() if name.startswith(f"{path} ")}

    def _operations(self) -> "dict[str, Operation]":
        """Return {name of the command: operation}."""
        found: dict[str, Operation] = {}
        for each in self._modules:
            module, _, maker = each.partition(":")
            content = importlib.import_module(f"kvorum.admin.v1.{module}")
            operations = getattr(content, maker)() if maker else content.OPERATIONS
            found |= {each.command.name: each for each in operations if each.command is not None}
        return {name: each for name, each in found.items() if name.startswith(f"{self._path} ")}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the next words of the commands."""
        names = (*self._operations(), *self._by_hand)
        return sorted({name.removeprefix(f"{self._path} ").partition(" ")[0] for name in names})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Make the command, import it, or return the group of a longer name."""
        name = f"{self._path} {cmd_name}"
        if name in self._by_hand:
            module, _, attribute = self._by_hand[name].partition(":")
            command = getattr(importlib.import_module(f"kvorum.{module}"), attribute)
            assert isinstance(command, click.Command)
            return guard_texts(command, refuses_empty=True)
        operations = self._operations()
        if name in operations:
            return guard_texts(command_of(operations[name]), refuses_empty=True)
        if any(each.startswith(f"{name} ") for each in (*operations, *self._by_hand)):
            by_hand = {each: (target, "") for each, target in self._by_hand.items()}
            return OperationGroup(name, self._text, self._modules, by_hand)
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or raise an error with a suggestion."""
        return super().resolve_command(ctx, check_command(ctx, args, self.list_commands(ctx)))

    def get_help(self, ctx: click.Context) -> str:
        """Write the help, with an example of each command."""
        examples = [example_lines(each)[0] for each in self._operations().values() if each.command]
        self.help = "\n".join([self._text, "", "\b", *(examples or [f"kvorum {self._path} --help"])])
        return super().get_help(ctx)


def example_lines(operation: "Operation") -> list[str]:
    """Return the examples of an operation's command."""
    assert operation.command is not None
    return [f"kvorum {operation.command.name} {each}".rstrip() for each in operation.command.examples]


def command_of(operation: "Operation") -> click.Command:
    """Return the command of an operation."""
    spec = operation.command
    assert spec is not None
    inputs = {each.name: each for each in inputs_of(operation)}
    positional = spec.arguments or operation.names_in_path
    params: list[click.Parameter] = [argument_of(inputs[name], spec) for name in positional]
    params += [option_of(each, spec) for name, each in inputs.items() if name not in positional]
    for name, code in spec.tolerate.items():
        params.append(click.Option([f"--{option_name(name)}"], is_flag=True, help=f"{code.name} is no error."))

    def run(bootstrap: str, output: str, **values: Any) -> None:
        OperationRun(operation, spec, inputs, values, output).run(bootstrap)

    text = inspect.cleandoc(spec.text or operation.handle.__doc__ or operation.summary)
    command = click.Command(
        spec.name.rpartition(" ")[2],
        callback=run,
        params=params,
        help="\n".join([text, "", "\b", *example_lines(operation)]),
        short_help=f"{operation.summary}.",
    )
    return output_option(bootstrap_option(command))


def option_name(name: str) -> str:
    """Return a name as an option has it."""
    return name.replace("_", "-").lower()


def argument_of(source: Input, spec: "Command") -> click.Argument:
    """Return a positional argument."""
    several = source.name == spec.each or source.shape not in ("text", "flag")
    metavar = {"pairs": "KEY=VALUE", "lists": f"{source.name.upper()}[:0,1]"}.get(source.shape, source.name.upper())
    return click.Argument(
        [source.name.lower()],
        type=type_of(source.schema),
        nargs=-1 if several else 1,
        required=source.required or source.name == spec.each,
        metavar=f"{metavar}..." if several else metavar,
        shell_complete=COMPLETED.get(source.names or spec.complete.get(source.name, "")),
    )


def option_of(source: Input, spec: "Command") -> click.Option:
    """Return an option."""
    names = spec.options.get(source.name, f"--{option_name(source.name)}").split()
    if source.name in DRY_RUN:
        names = ["--dry-run", "--validate-only"]
    flag = source.shape == "flag"
    return click.Option(
        [*names, source.name.lower()],
        type=None if flag else type_of(source.schema),
        is_flag=flag,
        multiple=source.shape in ("list", "pairs", "lists"),
        required=source.required,
        metavar={"pairs": "KEY=VALUE", "lists": "KEY[:0,1]"}.get(source.shape),
        help=sentence(source.doc),
        shell_complete=COMPLETED.get(source.names or spec.complete.get(source.name, "")),
    )


def sentence(text: str) -> str:
    """Return a description as a sentence."""
    return f"{text[:1].upper()}{text[1:]}." if text and not text.endswith(".") else text


def type_of(schema: Mapping[str, Any]) -> "click.ParamType[Any]":
    """Return the type of a value."""
    if schema.get("type") == "array":
        schema = schema["items"]
    low, high = schema.get("minimum"), schema.get("maximum")
    if "enum" in schema:
        return click.Choice(schema["enum"])
    match schema.get("type"):
        case "integer":
            return click.IntRange(low, high)
        case "number":
            return click.FloatRange(low, high)
        case _:
            return click.STRING


@dataclass(slots=True)
class Failures:
    """Errors of a command with several parts."""

    lines: list[str]
    missing: int = 0

    def end(self) -> None:
        """Print them, and end the command if there are any."""
        for line in self.lines[:-1]:
            report(line)
        if self.lines:
            fail(self.lines[-1], Exit.NOT_FOUND if self.missing == len(self.lines) else Exit.FAILED)


class OperationRun:
    """One run of an operation's command."""

    def __init__(
        self, operation: "Operation", spec: "Command", inputs: Mapping[str, Input], values: Values, output: str
    ) -> None:
        """Hold the values, by the lower-case names of the inputs."""
        self._operation = operation
        self._spec = spec
        self._inputs = inputs
        self._output = output
        self._failures = Failures([])
        self._tolerated_codes = {code for name, code in spec.tolerate.items() if values.pop(name)}
        self._values = {name: values[name.lower()] for name in inputs if has_value(values[name.lower()])}

    def run(self, bootstrap: str) -> None:
        """Run the operation and print its result; invalid values end the command before a request is sent."""
        from pydantic import ValidationError

        from kvorum.admin.http.access import HttpError
        from kvorum.admin.http.parameters import BadInput

        each = self._spec.each
        rounds = (
            [{**self._values, each: value} for value in dict.fromkeys(self._values[each])] if each else [self._values]
        )
        try:
            calls = [self._request(values) for values in rounds]

            async def work(cluster: "ClusterClient") -> list[tuple[Values, Any]]:
                return [
                    (values, await self._attempt(cluster, call, each))
                    for values, call in zip(rounds, calls, strict=True)
                ]

            found = with_cluster(bootstrap, work)
        except ValidationError as error:
            raise self._usage_of(error) from None
        except BadInput as error:
            raise self._usage(error.field, error.message) from None
        except HttpError as error:
            fail(error.message)
        self._show([(values, result) for values, result in found if not isinstance(result, Exception)])
        self._failures.end()

    def _request(self, values: Values) -> tuple[dict[str, str], dict[str, str], "BaseModel"]:
        """Return path, query and body. Raises BadInput, ValidationError."""
        from kvorum.admin.http.operations import Call

        path: dict[str, str] = {}
        query: dict[str, str] = {}
        fields: Values = {}
        for name, given in values.items():
            source = self._inputs[name]
            target = path if source.in_path else fields if source.in_body else query
            target[name] = source.read(given, self._option(name))
        page = self._operation.query_parameters.get(LIMIT)
        if page is not None and LIMIT not in query:
            query[LIMIT] = str(page.schema["maximum"])
        nowhere: Any = None
        body = self._operation.body.model_validate(fields)
        for each in self._operation.parameters:
            each.of(Call(cluster=nowhere, path=path, query=query, body=body))
        return path, query, body

    @property
    def _pages(self) -> bool:
        """Whether all pages of a list are printed."""
        return AFTER in self._operation.query_parameters and LIMIT not in self._values

    async def _attempt(
        self, cluster: "ClusterClient", request: tuple[dict[str, str], dict[str, str], "BaseModel"], each: str | None
    ) -> Any:
        """Return the result of one call; with several of them also its KafkaError."""
        from kvorum.cli.connection.missing_topics import explain_error
        from kvorum.protocol.errors import KafkaError

        try:
            return await self._call(cluster, *request)
        except KafkaError as error:
            name = str({**request[0], **request[2].model_dump()}.get(each or ""))
            if error.code in self._tolerated_codes:
                warn(f"{name}: {error.code.name} is ignored")
                return error
            if each is None:
                raise
            line = await explain_error(cluster, error)
            self._failures.lines.append(line if name in line else f"{name}: {line}")
            self._failures.missing += is_missing(error.code)
            return error

    async def _call(
        self, cluster: "ClusterClient", path: dict[str, str], query: dict[str, str], body: "BaseModel"
    ) -> Any:
        """Return the result as plain values, with the rows of all pages. Raises KafkaError, Unreachable, HttpError."""
        from kvorum.admin.http.operations import Call, Rows

        rows: list[Values] = []
        while True:
            result = await self._operation.handle(Call(cluster=cluster, path=path, query=query, body=body))
            following: dict[str, str] | None = None
            if isinstance(result, Rows):
                following = None if result.next_query is None else dict(parse_qsl(result.next_query))
                result = result.rows
            if isinstance(result, list):
                rows += [each.model_dump(mode="json") for each in result]
            elif result is None:
                return None
            else:
                found = result.model_dump(mode="json")  # type: ignore[union-attr]
                if self._spec.rows is None:
                    return found
                rows += found[self._spec.rows]
                after = found.get("next")
                following = None if after is None else {**query, AFTER: after}
                if found.get("more"):
                    warn(f"only the first {len(rows)} rows")
                if found.get("unreachable"):
                    warn(f"no response from brokers {', '.join(map(str, found['unreachable']))}: rows are missing")
            if following is None or not self._pages:
                return rows
            query = following

    def _show(self, results: list[tuple[Values, Any]]) -> None:
        """Print the results; errors in rows of a list are failures."""
        spec, found = self._spec, list[Values]()
        if self._operation.answer is None:
            self._show_success([values for values, _ in results])
            return
        for _, result in results:
            found += result if isinstance(result, list) else [result]
        is_list = self._operation.many or spec.rows is not None or bool(spec.columns)
        if self._output != "table":
            show(found if is_list or len(found) != 1 else found[0], self._output)
        elif spec.columns and (found or not self._failures.lines):
            names = [
                name.rstrip("?") for name in spec.columns if not name.endswith("?") or has_column(name[:-1], found)
            ]
            show(found, "table", names)
        elif not spec.columns:
            for number, each in enumerate(found):
                if number:
                    click.echo()
                show_model(each)
        harmless = {code.name for code in spec.harmless}
        failed = [row for row in found if row.get("error") and row["error"] not in harmless]
        if is_list and failed:
            self._failures.lines.append(f"{len(failed)} of {len(found)} failed")

    def _show_success(self, done: list[Values]) -> None:
        """Print that an operation without an answer succeeded."""
        dry = any(name in self._values for name in DRY_RUN)
        rows = [{**values, "changed": not dry} for values in done]
        lines = [self._spec.done.format_map(LineValues(values)) for values in done]
        if dry:
            lines = ["valid; nothing was changed"]
        if rows or self._output != "table":
            tell(rows if self._spec.each else rows[0], self._output, *lines)

    def _option(self, name: str) -> str:
        """Return the name of an input on the command line."""
        if name in (self._spec.arguments or self._operation.names_in_path):
            return name.upper()
        return self._spec.options.get(name, f"--{option_name(name)}").split()[-1]

    def _usage(self, field: str, message: str) -> click.UsageError:
        """Return the error of an invalid value; `field` is its name."""
        name = field.partition(".")[0]
        return (
            click.BadParameter(message, param_hint=self._option(name))
            if name in self._inputs
            else click.UsageError(message)
        )

    def _usage_of(self, error: "ValidationError") -> click.UsageError:
        """Return the error of an invalid body."""
        first = error.errors(include_url=False, include_input=False)[0]
        return self._usage(".".join(map(str, first["loc"])), str(first["msg"]).removeprefix("Value error, "))


class LineValues(dict[str, Any]):
    """Values for a line; those that are not given are empty."""

    def __missing__(self, key: str) -> str:
        """Return nothing."""
        return ""


def has_value(value: Any) -> bool:
    """Return whether an argument or option was given; an empty text is a value."""
    return value is not None and value is not False and value != ()


def has_column(name: str, rows: list[Values]) -> bool:
    """Return whether a row has a value in a column."""
    return any(row.get(name) not in (None, "") for row in rows)


def show_model(found: Values) -> None:
    """Print name and value, and lists of models as tables."""
    tables = {
        name: each for name, each in found.items() if isinstance(each, list) and each and isinstance(each[0], dict)
    }
    show({name: each for name, each in found.items() if name not in tables}, "table")
    for name, rows in tables.items():
        click.echo(f"\n{name.replace('_', ' ')}:")
        show(rows, "table", [key for key in rows[0] if has_column(key, rows)])
