"""Common parts of the scripts: --bootstrap-server, --command-config, exactly one action, tables as Kafka prints them.

An option that Kafka's script does not have is an error here too. Options without effect here have this in their
declaration.
"""

import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kvorum.cli.connection.client import (
    NOTHING,
    check_security,
    for_librdkafka,
    profile_in_use,
    profile_properties,
    with_cluster,
)
from kvorum.cli.connection.profiles import profile_option
from kvorum.cli.output import say, warn
from kvorum.cli.text_values import UNSET_HINT, environment_value

if TYPE_CHECKING:
    from kvorum.client.wire.cluster_client import ClusterClient

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., object])
Files = click.Path(exists=True, dir_okay=False)

ARGUMENTS_KEY = "kvorum.arguments"
"""Key of a script's arguments in click's context."""
TIMEOUT_KEYS = ("default.api.timeout.ms", "request.timeout.ms")
SUPPORTED = {*TIMEOUT_KEYS, "bootstrap.servers", "client.id", "security.protocol"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """Address of the cluster, and the properties of a --command-config file."""

    where: str | None
    properties: dict[str, str] = field(default_factory=dict)

    @property
    def bootstrap(self) -> str:
        """Return the bootstrap servers; without any the command ends."""
        if self.where is None:
            raise click.UsageError('Missing required argument "[bootstrap-server]"')
        if not self.where.strip(" ,"):
            raise click.UsageError(f"No resolvable bootstrap urls given in bootstrap.servers; {UNSET_HINT}")
        return self.where

    def run(self, work: Callable[["ClusterClient"], Awaitable[T]], *, timeout_ms: int | None = None) -> T:
        """Run `work` with a connection to the cluster."""
        bootstrap = self.bootstrap
        check_security(self.properties)
        for key in self.properties.keys() - SUPPORTED:
            warn(f"{key} is ignored by this command")
        limits = [limit for key in TIMEOUT_KEYS if (limit := self.number(key)) is not None]
        limit = timeout_ms if timeout_ms is not None else min(limits, default=None)
        client_id = self.properties.get("client.id", "kvorum-cli")
        return with_cluster(bootstrap, work, client_id=client_id, timeout_ms=limit)

    def number(self, key: str) -> int | None:
        """Return a property that is a number, None where it is not set."""
        text = self.properties.get(key)
        if text is not None and not text.isdecimal():
            raise click.UsageError(f"{key}={text} in the --command-config file is not a number")
        return None if text is None else int(text)

    def client_options(
        self, own: Mapping[str, Any], given: Mapping[str, str], typed: Mapping[str, Any] = NOTHING
    ) -> dict[str, Any]:
        """Return the properties of an unmodified client (librdkafka); later ones have precedence.

        The script's own, those of the file, given properties, and options.
        """
        return for_librdkafka({**own, **self.properties, **given, **typed}, self.bootstrap)


class Remembering(click.Command):
    """A command that knows in which order its options were given."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Store the words, and continue."""
        ctx.meta[ARGUMENTS_KEY] = list(args)
        return super().parse_args(ctx, args)


def read_properties(path: str | None) -> dict[str, str]:
    """Read a properties file; an invalid line ends the command."""
    from kvorum.runtime.properties import PropertiesError, parse_properties

    if path is None:
        return {}
    try:
        with open(path, encoding="utf-8") as file:
            return {each.key: each.text for each in parse_properties(file.read())}
    except (PropertiesError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{path}: {error}") from None


def key_values(texts: Sequence[str]) -> dict[str, str]:
    """Read KEY=VALUE as Kafka's scripts do: without a value, or without the sign, it is empty (parseKeyValueArgs)."""
    return {key: value for key, _, value in (text.partition("=") for text in texts)}


def one_of_two(new: str, given_new: object, old: str, given_old: object) -> None:
    """Refuse an option beside the one that took its place (KIP-1147)."""
    if given_new and given_old:
        raise click.UsageError(f"Options {new} and {old} cannot be specified together.")


def connect(bootstrap: str | None, controller: str | None, command_config: str | None) -> Connection:
    """Return the cluster's address: from the option, else the profile, else the file."""
    if bootstrap is not None and controller is not None:
        raise click.UsageError("Only one of --bootstrap-server or --bootstrap-controller can be specified")
    properties = read_properties(command_config)
    profile = profile_in_use()
    places = (bootstrap, controller, None if profile is None else profile.bootstrap)
    where = next((each for each in places if each is not None), environment_value("KVORUM_BOOTSTRAP"))
    if where is None:
        where = properties.get("bootstrap.servers")
    if where is not None:
        properties = profile_properties(where) | properties
    return Connection(where=where, properties=properties)


def option(letter: str | None, names: list[str], **settings: Any) -> Callable[[Any], Any]:
    """Return a click.option, with a letter or without."""
    parameter = names[0].removeprefix("--").replace("-", "_")
    return click.option(*([letter] if letter else []), *names, parameter, **settings)


def connected(*, controller: bool = False, short: bool = False) -> Callable[[F], Any]:
    """Add --bootstrap-server and --command-config (the innermost decorator); the function gets a `connection`."""

    def decorate(function: F) -> Any:
        @functools.wraps(function)
        def wrapper(
            *arguments: Any,
            bootstrap_server: str | None,
            command_config: str | None,
            bootstrap_controller: str | None = None,
            **options: Any,
        ) -> object:
            connection = connect(bootstrap_server, bootstrap_controller, command_config)
            return function(*arguments, connection=connection, **options)

        letters = ("-b", "-C", "-c") if short else (None, None, None)
        found: Any = option(letters[2], ["--command-config"] + (["--config"] if short else []), type=Files)(wrapper)
        if controller:
            found = option(letters[1], ["--bootstrap-controller"], metavar="HOST:PORT")(found)
        found = option(letters[0], ["--bootstrap-server"], metavar="HOST:PORT")(found)
        return profile_option(found)

    return decorate


def one_action(actions: Mapping[str, bool]) -> str:
    """Return the one action that is wanted."""
    given = [name for name, wanted in actions.items() if wanted]
    if len(given) != 1:
        names = ", ".join(f"--{name}" for name in actions)
        raise click.UsageError(f"Command must include exactly one action: {names}")
    return given[0]


def is_given(value: object) -> bool:
    """Return whether an option was given: 0 and an empty text are values."""
    return value is not None and value is not False and value != ()


def without(options: Mapping[str, object], allowed: str) -> None:
    """Refuse options that go with another action: {--option: its value}."""
    for name, value in options.items():
        if is_given(value):
            raise click.UsageError(f"Option [{name}] can't be used with option(s) {allowed}")


def invalid_beside(used: str, others: Mapping[str, object]) -> None:
    """Refuse options beside one that is given: {name: its value} (CommandLineUtils.checkInvalidArgs)."""
    for name, value in others.items():
        if is_given(value):
            raise click.UsageError(f'Option "[{used}]" can\'t be used with option "[{name}]"')


def pretty_table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table as Kafka's ToolsUtils.prettyPrintTable does: padded, and a tab behind each column."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(text) for text in column) for column in zip(headers, *cells, strict=True)]
    for line in (list(headers), *cells):
        say("".join(f"{text.ljust(width)}\t" for text, width in zip(line, widths, strict=True)))
