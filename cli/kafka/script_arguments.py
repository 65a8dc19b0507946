"""Arguments of Kafka's scripts in click's spelling: joptsimple's and argparse4j's forms of options."""

import click

ARGPARSE_SCRIPTS = frozenset(
    (
        *("kafka-cluster", "kafka-features", "kafka-metadata-quorum", "kafka-metadata-shell", "kafka-storage"),
        *("kafka-producer-perf-test", "kafka-transactions", "kafka-verifiable-consumer", "kafka-verifiable-producer"),
    )
)
"""Scripts whose options Kafka reads with argparse4j, the others' with joptsimple."""


def normalize_arguments(name: str | None, command: click.Command | None, words: list[str]) -> list[str]:
    """Return a script's arguments in click's spelling.

    joptsimple accepts a long option behind one dash too; argparse4j any unique prefix of an option. An ambiguous prefix
    is unchanged, and rejected as an unknown option.
    """
    if command is None:
        return words
    known = {each: option for option in command.params for each in option.opts if each.startswith("--")}
    arguments: list[str] = []
    is_value = False
    for number, word in enumerate(words):
        if word == "--":
            return arguments + words[number:]
        if is_value:
            arguments.append(word)
            is_value = False
            continue
        option, equals, value = word.partition("=")
        if name in ARGPARSE_SCRIPTS:
            if isinstance(command, click.Group) and word in command.commands:
                return [*arguments, word, *normalize_arguments(name, command.commands[word], words[number + 1 :])]
            matches = [each for each in known if each.startswith(option)] if option.startswith("--") else []
            if option not in known and len(matches) == 1:
                word = f"{matches[0]}{equals}{value}"
        elif f"-{option}" in known and len(option) > len("-x"):
            word = f"-{word}"
        arguments.append(word)
        is_value = not equals and takes_value(known.get(word))
    return arguments


def takes_value(option: click.Parameter | None) -> bool:
    """Return whether the next argument is an option's value, whatever its form."""
    if not isinstance(option, click.Option) or option.is_flag or option.count:
        return False
    return not getattr(option, "_flag_needs_value", False)  # one that may do without, as --compression-codec
