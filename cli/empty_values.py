"""Empty values: `--topic "$TOPIC"` with TOPIC unset must not mean all topics, another cluster or another folder.

The project's own commands refuse an empty text wherever it is given, unless `EMPTY_IS_A_VALUE` names the parameter.
Kafka's scripts (cli/kafka) do what Kafka's do, each by itself.
"""

import os
from collections.abc import Callable, Iterator
from typing import Any, Final

import click

EMPTY_IS_A_VALUE: Final = frozenset(
    {
        ("produce", "key"),
        ("consume", "delimiter"),
        ("consume", "key_delimiter"),
        ("remove-members", "reason"),
    }
)
"""(command, parameter): an empty key is a key, an empty separator separates nothing."""
UNSET_HINT: Final = "is the value of a shell variable that is not set?"
Callback = Callable[[click.Context, click.Parameter, Any], Any]


def refuse_empty_values(command: click.Command) -> click.Command:
    """Make a command and its subcommands refuse empty texts. A second call changes nothing."""
    for parameter in command.params:
        if isinstance(parameter.callback, Guarded) or (command.name, parameter.name) in EMPTY_IS_A_VALUE:
            continue
        parameter.callback = Guarded(parameter.callback)
    if isinstance(command, click.Group):
        for each in command.commands.values():
            refuse_empty_values(each)
    return command


class Guarded:
    """A parameter's callback that refuses an empty text before the parameter's own callback runs."""

    def __init__(self, own: Callback | None) -> None:
        """Take the parameter's own callback, if it has one."""
        self._own = own

    def __call__(self, context: click.Context, parameter: click.Parameter, value: Any) -> Any:
        """Check the value. Raises BadParameter."""
        if "" in texts_of(value) and not is_default(context, parameter):
            raise click.BadParameter(f"must not be empty; {UNSET_HINT}", context, parameter)
        return value if self._own is None else self._own(context, parameter, value)


def texts_of(value: Any) -> Iterator[str]:
    """Yield the texts of a parameter that was given once, or several times."""
    for each in value if isinstance(value, list | tuple) else (value,):
        if isinstance(each, str):
            yield each


def is_default(context: click.Context, parameter: click.Parameter) -> bool:
    """Return whether the parameter was left out."""
    assert parameter.name is not None
    return context.get_parameter_source(parameter.name) is click.core.ParameterSource.DEFAULT


def environment_value(name: str) -> str | None:
    """Return an environment variable, None where it is not set. Raises UsageError where it is set and empty."""
    value = os.environ.get(name)
    if value == "":
        raise click.UsageError(f"{name} is set in the environment, and empty: give it a value or unset it")
    return value
