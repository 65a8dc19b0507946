"""Entities and changes in the options of `kafka-configs`. Source: Kafka's ConfigCommandOptions, ConfigCommand."""

import re
import socket
from collections.abc import Mapping
from typing import Any

import click

from kvorum.cli.kafka.common import ARGUMENTS_KEY

TYPES = ("topics", "brokers", "broker-loggers", "groups", "client-metrics", "users", "clients", "ips")
OWN_OPTIONS = {
    "topic": "topics",
    "client": "clients",
    "user": "users",
    "broker": "brokers",
    "broker_logger": "broker-loggers",
    "ip": "ips",
    "group": "groups",
    "client_metrics": "client-metrics",
}
DEFAULT_OPTIONS = {
    "client_defaults": "clients",
    "user_defaults": "users",
    "broker_defaults": "brokers",
    "ip_defaults": "ips",
}
WITH_DEFAULT = ("brokers", "users", "clients", "ips")
COMMA = re.compile(r",(?=[^\]]*(?:\[|$))")
EQUALS = re.compile(r"\s*=\s*(?=[^\]]*(?:\[|$))")
KEY = re.compile(r"[$a-zA-Z0-9._-]*")
"""A logger's name may have a dollar sign: it is a class within another."""


class EntityError(ValueError):
    """An invalid entity or change, with the reason."""


def entity_of(
    types: tuple[str, ...], names: tuple[str, ...], defaults: bool, named: Mapping[str, Any]
) -> dict[str, str | None]:
    """Return {type: name}, "" for a default and None for all of a type."""
    own: dict[str, str | None] = {OWN_OPTIONS[key]: named[key] for key in OWN_OPTIONS if named[key] is not None}
    own |= {DEFAULT_OPTIONS[key]: "" for key in DEFAULT_OPTIONS if named[key]}
    if own and (types or names or defaults):
        raise click.UsageError(
            "--entity-{type,name,default} should not be used in conjunction with specific entity flags"
        )
    if not own:
        if len(set(types)) != len(types):
            raise click.UsageError(f"Duplicate entity type(s) specified: {','.join(types)}")
        if len(names) + defaults > len(types):
            raise click.UsageError("More entity names specified than entity types")
        own = dict(zip(types, [*names, *([""] * defaults), *([None] * len(types))], strict=False))
        own = order_entities(types, own, names, defaults)
    if not own:
        raise click.UsageError("At least one entity type must be specified")
    if len(own) > 1 and own.keys() != {"users", "clients"}:
        raise click.UsageError("Only 'users' and 'clients' entity types may be specified together")
    return {kind: own[kind] for kind in TYPES if kind in own}


def order_entities(
    types: tuple[str, ...], entity: dict[str, str | None], names: tuple[str, ...], defaults: bool
) -> dict[str, str | None]:
    """Give --entity-default its place among the names, by the order of the words: of two types one may be either."""
    if len(types) < 2 or not (names and defaults):
        return entity
    words = click.get_current_context().meta[ARGUMENTS_KEY]
    arguments = [word for word in words if word.split("=")[0] in ("--entity-name", "--entity-default")]
    if arguments and arguments[0] == "--entity-default":
        return {types[0]: "", types[1]: names[0]}
    return {types[0]: names[0], types[1]: ""}


def defaults_by_empty_name(
    entity: Mapping[str, str | None], names: tuple[str, ...], named: Mapping[str, Any]
) -> list[str]:
    """Return the types whose default is meant because --entity-name, --user, ... is empty."""
    own = {OWN_OPTIONS[key] for key in OWN_OPTIONS if named[key] == ""}
    return [kind for kind, name in entity.items() if name == "" and ("" in names or kind in own)]


def check_entity(kind: str, name: str | None) -> None:
    """Raise EntityError for a name that nothing of its type can have."""
    if kind in ("brokers", "broker-loggers") and name and not name.isdecimal():
        raise EntityError(f"The entity name for {kind} must be a valid integer broker id, but it is: {name}")
    if kind == "ips" and name and not is_resolvable(name):
        raise EntityError(f"The entity name for {kind} must be a valid IP or resolvable host, but it is: {name}")
    if name == "" and kind not in WITH_DEFAULT:
        raise EntityError(f"{kind} have no default")


def is_resolvable(host: str) -> bool:
    """Return whether a text is an IP address or the name of a host. Blocks while a name is looked up."""
    try:
        return bool(socket.getaddrinfo(host, None))
    except (OSError, UnicodeError):
        return False


def parse_additions(text: str) -> dict[str, str]:
    """Read k1=v1,k2=[v1,v2],k3= as --add-config takes them: brackets keep commas together. Raises EntityError."""
    found: dict[str, str] = {}
    parts = COMMA.split(text)
    while len(parts) > 1 and not parts[-1]:
        parts.pop()  # a comma at the end is dropped, as by Java's split
    for part in parts:
        pair = EQUALS.split(part)
        if len(pair) != 2:
            raise EntityError(
                "Invalid entity config: all configs to be added must be in the format "
                '"key=val" or  "key=[val1,val2]" to group values which contain commas.'
            )
        found[pair[0].strip()] = pair[1].replace("[", "").replace("]", "").strip()
    check_keys(found)
    return found


def check_keys(values: Mapping[str, str]) -> None:
    """Raise EntityError for a key that no config has."""
    for key in values:
        if not KEY.fullmatch(key):
            raise EntityError(f"Invalid character found for config key: {key}")
