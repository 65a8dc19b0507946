"""Common parts of commands that connect to a cluster: --bootstrap, --profile, and errors in one line."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from struct import error as StructError
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kvorum.cli.connection.client_properties import PropertyError, translate_properties
from kvorum.cli.connection.librdkafka import ClientEvents
from kvorum.cli.connection.profiles import PROFILE_KEY, Profile, ProfileError, choose_profile, profile_option
from kvorum.cli.output import Exit, fail, warn
from kvorum.cli.text_values import UNSET_HINT, environment_value, is_utf8

if TYPE_CHECKING:
    from kvorum.client.wire.cluster_client import ClusterClient
    from kvorum.protocol.errors import ErrorCode
    from kvorum.security.client import ClientSecurity

C = TypeVar("C")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., object])
NOTHING: Mapping[str, Any] = MappingProxyType({})
DEFAULT = "127.0.0.1:9092"
CLIENT_ID = "kvorum-cli"


def profile_in_use() -> Profile | None:
    """Return the profile that counts for this command, if any; one that is not there ends it."""
    context = click.get_current_context(silent=True)
    try:
        return choose_profile(None if context is None else context.meta.get(PROFILE_KEY))
    except ProfileError as error:
        fail(str(error), Exit.USAGE)


def profile_properties(bootstrap: str) -> dict[str, str]:
    """Return the profile's properties if the command uses its cluster; otherwise report that they are unused."""
    profile = profile_in_use()
    if profile is None:
        return {}
    if profile.bootstrap == bootstrap:
        return read_properties(profile.command_config) | profile.properties
    context = click.get_current_context(silent=True)
    if (profile.properties or profile.command_config) and context is not None and PROFILE_KEY in context.meta:
        warn(f"the profile's properties are ignored: {bootstrap} is not its cluster ({profile.bootstrap})")
    return {}


def read_properties(path: str | None) -> dict[str, str]:
    """Read a properties file; one that is missing or invalid ends the command."""
    from kvorum.runtime.properties import PropertiesError, parse_properties

    if path is None:
        return {}
    try:
        with open(path, encoding="utf-8") as file:
            return {each.key: each.text for each in parse_properties(file.read())}
    except OSError as error:
        fail(f"{path} cannot be read: {error.strerror}", Exit.USAGE)
    except (PropertiesError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{path}: {error}") from None


def default_bootstrap() -> str:
    """Return the cluster's address if the command has none."""
    profile = profile_in_use()
    return profile.bootstrap if profile is not None else environment_value("KVORUM_BOOTSTRAP") or DEFAULT


def bootstrap_option(command: F) -> F:
    """Add -b/--bootstrap (Kafka's --bootstrap-server is understood too) and --profile."""
    return click.option(
        "-b",
        "--bootstrap",
        "--bootstrap-server",
        "bootstrap",
        default=default_bootstrap,
        show_default=f"$KVORUM_BOOTSTRAP, else the profile, else {DEFAULT}",
        help="HOST:PORT of one or more brokers.",
    )(profile_option(command))


def with_cluster(
    bootstrap: str,
    work: Callable[["ClusterClient"], Awaitable[T]],
    *,
    client_id: str = CLIENT_ID,
    timeout_ms: int | None = None,
    properties: Mapping[str, str] | None = None,
) -> T:
    """Run `work` with a connection to the cluster; a refusal ends the command with its reason.

    `properties` have the security of the connection; None: those of the profile.
    """
    from kvorum.cli.connection.missing_topics import explain_error
    from kvorum.client.wire.cluster_client import TIMEOUT_MS, ClusterClient, Unreachable
    from kvorum.network.addresses import parse_bootstrap
    from kvorum.protocol.errors import KafkaError
    from kvorum.runtime.chance import new_random

    security = security_of(profile_properties(bootstrap) if properties is None else properties)
    try:
        addresses = parse_bootstrap(bootstrap)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--bootstrap") from None

    refusals: list[str] = []

    async def run() -> T:
        limit = TIMEOUT_MS if timeout_ms is None else timeout_ms
        cluster = ClusterClient(
            addresses, client_id=client_id, chance=new_random(), timeout_ms=limit, security=security
        )
        try:
            return await work(cluster)
        except KafkaError as error:
            refusals.append(await explain_error(cluster, error))
            raise
        finally:
            await cluster.close()

    try:
        return asyncio.run(run())
    except Unreachable as error:
        from kvorum.cli.connection.unreachable import unreachable

        fail(unreachable(bootstrap, str(error)), Exit.UNREACHABLE)
    except (StructError, OverflowError, UnicodeEncodeError) as error:  # of encoding: what answers hold is ProtocolError
        fail(f"a value does not fit into a request: {error}", Exit.USAGE)
    except KafkaError as error:
        fail(refusals[0] if refusals else str(error), Exit.NOT_FOUND if is_missing(error.code) else Exit.FAILED)


def is_missing(code: "ErrorCode") -> bool:
    """Return whether an error is about a topic, group, user or token that does not exist."""
    from kvorum.protocol.errors import ErrorCode

    return code in (
        *(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.GROUP_ID_NOT_FOUND),
        *(ErrorCode.RESOURCE_NOT_FOUND, ErrorCode.DELEGATION_TOKEN_NOT_FOUND),
    )


def security_of(properties: Mapping[str, str]) -> "ClientSecurity":
    """Return the security of connections; properties that cannot work end the command."""
    from kvorum.runtime.chance import new_nonce
    from kvorum.runtime.config import ConfigError
    from kvorum.security.client_properties import client_settings
    from kvorum.security.outgoing import security_of_client

    try:
        return security_of_client(client_settings(properties), new_nonce)
    except ConfigError as error:
        fail(str(error), Exit.USAGE)


def options_from_user(values: Mapping[str, Any], options: Mapping[str, str]) -> dict[str, Any]:
    """Return those properties whose option was typed: {property: value}, {property: the option's parameter}.

    They override a file or a profile; defaults of options do not (CommandLineUtils).
    """
    context = click.get_current_context()
    typed = (click.core.ParameterSource.COMMANDLINE, click.core.ParameterSource.ENVIRONMENT)
    return {
        name: values[name]
        for name, option in options.items()
        if name in values and context.get_parameter_source(option) in typed
    }


def client_options(
    bootstrap: str, own: Mapping[str, Any], given: Mapping[str, str], typed: Mapping[str, Any] = NOTHING
) -> dict[str, Any]:
    """Return the properties of an unmodified client; later ones override.

    The command's own, the profile's, own ones typed as an option, and those of -X.
    """
    return for_librdkafka({**own, **profile_properties(bootstrap), **typed, **given}, bootstrap)


def for_librdkafka(properties: Mapping[str, Any], bootstrap: str) -> dict[str, Any]:
    """Return properties in librdkafka's names; Java-only ones are reported, invalid ones are a usage error."""
    from kvorum.runtime.config import ConfigError
    from kvorum.security.client_properties import is_security_key
    from kvorum.security.librdkafka import librdkafka_security

    try:
        found, ignored = translate_properties(
            {key: text for key, text in properties.items() if not is_security_key(key)}
        )
        found |= librdkafka_security({key: str(text) for key, text in properties.items()})
    except PropertyError as error:
        raise click.UsageError(str(error)) from None
    except ConfigError as error:
        fail(str(error), Exit.USAGE)
    for key in ignored:
        warn(f"{key} is a property of Java clients and is ignored")
    return {**found, "bootstrap.servers": bootstrap}


def client_of(make: Callable[[dict[str, Any]], C], options: dict[str, Any], watch: ClientEvents | None = None) -> C:
    """Make an unmodified client; a property it does not take (-X) ends the command with the reason."""
    from confluent_kafka import KafkaException

    if options.get("group.id") == "":  # confluent_kafka aborts the process
        raise click.UsageError(f"group.id must not be empty; {UNSET_HINT}")
    for key, value in options.items():  # it aborts, raises SystemError or cuts the value off
        if any(isinstance(text, str) and (not is_utf8(text) or "\0" in text) for text in (key, value)):
            raise click.UsageError(f"{key}={value!r} is not UTF-8, or has a NUL")
    watch = watch or ClientEvents()
    watch.bootstrap = str(options.get("bootstrap.servers", ""))
    try:
        return make({**options, **watch.options()})
    except KafkaException as error:
        raise click.UsageError(str(error.args[0].str())) from error
