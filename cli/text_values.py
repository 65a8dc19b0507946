"""Texts given to commands: empty ones, and bytes that are not UTF-8.

`--topic "$TOPIC"` with TOPIC unset must not mean all topics, another cluster or another folder. The project's own
commands reject an empty text everywhere, unless `EMPTY_IS_A_VALUE` names the parameter; Kafka's scripts (cli/kafka)
behave individually like Kafka's. Both reject bytes that are not UTF-8, except as paths and in records that take
bytes.
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
BYTES_ARE_A_VALUE: Final = frozenset(
    {
        *(("produce", name) for name in ("key", "delimiter", "key_separator", "headers")),
        *(("consume", name) for name in ("delimiter", "key_delimiter", "shape")),
    }
)
"""(command, parameter): keys and delimiters of records may be any bytes."""
UNSET_HINT: Final = "is the value of a shell variable that is not set?"
Callback = Callable[[click.Context, click.Parameter, Any], Any]


def guard_texts(command: click.Command, *, refuses_empty: bool) -> click.Command:
    """Make a command and its subcommands check the texts that they are given. A second call changes nothing."""
    for parameter in command.params:
        if not isinstance(parameter.callback, TextGuard):
            is_path = isinstance(parameter.type, click.Path | click.File)
            place = (command.name or "", parameter.name or "")
            parameter.callback = TextGuard(
                parameter.callback,
                refuses_empty=refuses_empty and place not in EMPTY_IS_A_VALUE,
                refuses_bytes=place not in BYTES_ARE_A_VALUE and not is_path,
            )
    if isinstance(command, click.Group):
        for each in command.commands.values():
            guard_texts(each, refuses_empty=refuses_empty)
    return command


class TextGuard:
    """A parameter's callback that checks texts before the parameter's own callback runs."""

    def __init__(self, own: Callback | None, *, refuses_empty: bool, refuses_bytes: bool) -> None:
        """Combine the parameter's own callback, if it has one, with the check."""
        self._own = own
        self.refuses_empty = refuses_empty
        self.refuses_bytes = refuses_bytes

    def __call__(self, context: click.Context, parameter: click.Parameter, value: Any) -> Any:
        """Check the value. Raises BadParameter."""
        if not is_default(context, parameter):
            for text in texts_of(value):
                if self.refuses_empty and not text:
                    raise click.BadParameter(f"must not be empty; {UNSET_HINT}", context, parameter)
                if self.refuses_bytes and not is_utf8(text):
                    raise click.BadParameter(f"{text!r} is not UTF-8", context, parameter)
        return value if self._own is None else self._own(context, parameter, value)


def texts_of(value: Any) -> Iterator[str]:
    """Yield the texts of a parameter that was given once, or several times."""
    for each in value if isinstance(value, list | tuple) else (value,):
        if isinstance(each, str):
            yield each


def is_utf8(text: str) -> bool:
    """Return whether a text of the command line or of JSON can be encoded."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def encode_text(text: str) -> bytes:
    """Return the bytes that were typed as a text. Raises UnicodeEncodeError for halves of surrogate pairs of JSON."""
    return text.encode("utf-8", "surrogateescape")


def is_default(context: click.Context, parameter: click.Parameter) -> bool:
    """Return whether the parameter was left out."""
    assert parameter.name is not None
    return context.get_parameter_source(parameter.name) is click.core.ParameterSource.DEFAULT


def environment_value(name: str) -> str | None:
    """Return an environment variable, None where it is not set. Raises UsageError for one that is empty or no UTF-8."""
    value = os.environ.get(name)
    if value == "":
        raise click.UsageError(f"{name} is set in the environment, and empty: give it a value or unset it")
    if value is not None and not is_utf8(value):
        raise click.UsageError(f"{name} in the environment is not UTF-8: {value!r}")
    return value
