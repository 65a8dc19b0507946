"""Payloads of `kafka-producer-perf-test`. Source: Kafka's ProducerPerformance."""

import os
import random
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import click

from kvorum.cli.output import fail, say

POOL_BYTES: Final = 1 << 20
"""Random letters are drawn once, and payloads cut out of them: to draw each would measure the drawing."""


def payloads_of(options: dict[str, Any]) -> Iterator[bytes]:
    """Return the requested payloads."""
    if options["payload_monotonic"]:
        return number_payloads()
    if options["record_size"] is not None:
        return random_payloads(options["record_size"])
    return draw_payloads(read_payloads(options["payload_file"], options["payload_delimiter"]))


def read_payloads(path: str, delimiter: str) -> list[bytes]:
    """Read the payloads of a file: text between what matches the delimiter, a regular expression (Java's Scanner)."""
    say(f"Reading payloads from: {os.path.abspath(path)}")
    try:
        with open(path, encoding="utf-8", errors="replace", newline="") as file:
            text = file.read()
    except FileNotFoundError:
        text = ""
    if not text:
        fail("File does not exist or empty file provided.")
    try:
        pattern = re.compile("\n" if delimiter == "\\n" else delimiter)
    except re.error as error:
        raise click.UsageError(f"--payload-delimiter {delimiter}: {error}") from None
    if pattern.match(""):
        raise click.UsageError("--payload-delimiter must not match the empty string")
    ends = [match.span() for match in pattern.finditer(text)]
    starts = [0, *(end for _, end in ends)]
    found = [text[start:end].encode() for start, (end, _) in zip(starts, ends, strict=False)]
    if starts[-1] < len(text):
        found.append(text[starts[-1] :].encode())
    if ends and ends[0][0] == 0:  # an empty text before the first delimiter is no payload
        found = found[1:]
    say(f"Number of records read: {len(found)}")
    if not found:
        raise click.UsageError("There is no payload in the file.")
    return found


def random_payloads(size: int) -> Iterator[bytes]:
    """Yield payloads of capital letters, the same in every run."""
    chance = random.Random(0)
    pool = bytes(chance.choices(range(65, 91), k=max(POOL_BYTES, 2 * size)))
    while True:
        place = chance.randrange(len(pool) - size)
        yield pool[place : place + size]


def draw_payloads(payloads: Sequence[bytes]) -> Iterator[bytes]:
    """Yield one of these, by chance, the same in every run."""
    chance = random.Random(0)
    while True:
        yield chance.choice(payloads)


def number_payloads() -> Iterator[bytes]:
    """Yield 0, 1, 2, ..."""
    number = 0
    while True:
        yield b"%d" % number
        number += 1
