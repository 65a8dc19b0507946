"""Checks of options that Kafka's scripts have in common (CommandLineUtils)."""

from collections.abc import Mapping, Sequence

import click


def one_action(actions: Mapping[str, bool]) -> str:
    """Return the one action that is wanted."""
    given = [name for name, wanted in actions.items() if wanted]
    if len(given) != 1:
        names = ", ".join(f"--{name}" for name in actions)
        raise click.UsageError(f"Command must include exactly one action: {names}")
    return given[0]


def has_value(value: object) -> bool:
    """Return whether an option was given: 0 and an empty text are values."""
    return value is not None and value is not False and value != ()


def without(options: Mapping[str, object], allowed: str) -> None:
    """Refuse options that go with another action: {--option: its value}."""
    for name, value in options.items():
        if has_value(value):
            raise click.UsageError(f"Option [{name}] can't be used with option(s) {allowed}")


def invalid_beside(used: str, others: Mapping[str, object]) -> None:
    """Refuse options beside one that is given: {name: its value} (CommandLineUtils.checkInvalidArgs)."""
    for name, value in others.items():
        if has_value(value):
            raise click.UsageError(f'Option "[{used}]" can\'t be used with option "[{name}]"')


def one_of_two(new: str, given_new: object, old: str, given_old: object) -> None:
    """Refuse an option beside the one that took its place (KIP-1147)."""
    if given_new and given_old:
        raise click.UsageError(f"Options {new} and {old} cannot be specified together.")


def key_values(texts: Sequence[str]) -> dict[str, str]:
    """Read KEY=VALUE as Kafka's scripts do: without a value, or without the sign, it is empty (parseKeyValueArgs)."""
    return {key: value for key, _, value in (text.partition("=") for text in texts)}
