"""The command `kvorum NOUN VERB` of an operation. cli/operations.py makes it from this and the operation's types."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kvorum.protocol.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """Name, examples and output of a command. Parameters of the path are arguments; others, and fields, options."""

    name: str
    """Noun and verb: topics create."""
    examples: Sequence[str]
    """Rest of the command line after the name, with a comment behind two spaces if needed."""
    text: str = ""
    """Help, if not the docstring of the handler."""
    arguments: Sequence[str] = ()
    """Parameters and fields that are positional, in this order, if not those of the path."""
    each: str | None = None
    """Argument that may be given several times: the operation runs once for each."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Names of options that differ from the parameter's or field's: {configs: -c --config}."""
    complete: Mapping[str, str] = field(default_factory=dict)
    """Values that the shell completes, besides those of parameters: {configs: topic_configs}."""
    tolerate: Mapping[str, ErrorCode] = field(default_factory=dict)
    """Flags that make an error harmless: {if_exists: UNKNOWN_TOPIC_OR_PARTITION}."""
    harmless: Sequence[ErrorCode] = ()
    """Errors of rows that are no failure of the command."""
    rows: str | None = None
    """Field of a page that has its rows: all pages are printed."""
    columns: Sequence[str] = ()
    """Columns of the table; one with a ? only if a row has a value. Without columns: name and value, and tables."""
    done: str = ""
    """Line for people after an operation without an answer; names in braces are arguments and options."""
