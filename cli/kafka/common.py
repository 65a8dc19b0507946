"""The connection of Kafka's scripts: --bootstrap-server, --command-config and its properties.

An option that Kafka's script does not have is an error here too. Options without effect here have this in their
declaration.
"""

import functools
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kvorum.cli.connection.client import (
    NOTHING,
    for_librdkafka,
    profile_in_use,
    profile_properties,
    read_properties,
    with_cluster,
)
from kvorum.cli.connection.profiles import profile_option
from kvorum.cli.output import warn
from kvorum.cli.text_values import UNSET_HINT, environment_value

if TYPE_CHECKING:
    from kvorum.client.wire.cluster_client import ClusterClient

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., object])
Files = click.Path(exists=True, dir_okay=False)

ARGUMENTS_KEY = "kvorum.arguments"
"""Key of a script's arguments in click's context."""
TIMEOUT_KEYS = ("default.api.timeout.ms", "request.timeout.ms")
SUPPORTED = {*TIMEOUT_KEYS, "bootstrap.servers", "client.id"}


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
        from kvorum.security.client_properties import is_security_key

        bootstrap = self.bootstrap
        for key in self.properties.keys() - SUPPORTED:
            if not is_security_key(key):
                warn(f"{key} is ignored by this command")
        limits = [limit for key in TIMEOUT_KEYS if (limit := self.number(key)) is not None]
        limit = timeout_ms if timeout_ms is not None else min(limits, default=None)
        client_id = self.properties.get("client.id", "kvorum-cli")
        return with_cluster(bootstrap, work, client_id=client_id, timeout_ms=limit, properties=self.properties)

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


class OrderedCommand(click.Command):
    """A command that knows in which order its options were given."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Store the words, and continue."""
        ctx.meta[ARGUMENTS_KEY] = list(args)
        return super().parse_args(ctx, args)


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


def connection_options(*, controller: bool = False, short: bool = False) -> Callable[[F], Any]:
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
