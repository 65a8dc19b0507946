"""The table of operations and the commands made from it: all are reachable, none is made twice."""

import importlib
from typing import Any

import click
import pytest
from pydantic import BaseModel, Field

from kvorum.admin.app import operations
from kvorum.admin.http.commands import Command
from kvorum.admin.http.operations import Call, Operation
from kvorum.admin.http.parameters import TOPIC_NAME, VALIDATE_ONLY, words
from kvorum.cli import nouns
from kvorum.cli.main import main
from kvorum.cli.operations import command_of, inputs_of
from kvorum.client.roles import Role

COMMANDS = {each.command.name: each for each in operations() if each.command is not None}


def command_at(name: str) -> click.Command | None:
    """Return a command of `kvorum` by its words."""
    found: click.Command | None = main
    context = click.Context(main)
    for word in name.split():
        assert isinstance(found, click.Group), name
        found = found.get_command(context, word)
    return found


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_each_operation_with_a_command_is_reachable_and_has_its_arguments(name: str) -> None:
    command, operation = command_at(name), COMMANDS[name]
    assert command is not None, "a noun of cli/nouns.py lacks the module of the operation"
    spec = operation.command
    assert spec is not None and spec.examples
    named = {each.name for each in inputs_of(operation)}
    assert {*spec.arguments, *spec.options, *spec.complete} <= named and (spec.each is None or spec.each in named)
    assert set(operation.names_in_path) <= {*(spec.arguments or operation.names_in_path)}, "a path has no options"
    model = operation.answer
    if spec.columns and model is not None and spec.rows is None:
        assert {each.rstrip("?") for each in spec.columns} <= set(model.model_fields)


def test_names_of_commands_are_unique() -> None:
    named = [each.command.name for each in operations() if each.command is not None]
    assert len(named) == len(set(named)) and not set(named) & set(nouns.BY_HAND)


@pytest.mark.parametrize("name", sorted(nouns.BY_HAND))
def test_a_command_that_is_written_by_hand_exists(name: str) -> None:
    target, reason = nouns.BY_HAND[name]
    module, _, attribute = target.partition(":")
    assert command_at(name) is getattr(importlib.import_module(f"kvorum.{module}"), attribute)
    assert reason


class Inner(BaseModel):
    """A model within another."""


class Shape(BaseModel):
    """A body with each shape of a field."""

    number: int = Field(ge=1, le=9, description="a number")
    text: str | None = None
    is_on: bool = False
    names: list[str] = Field(default_factory=list)
    values: dict[str, int] = Field(default_factory=dict)
    partitions: dict[str, list[int] | None] = Field(default_factory=dict)
    inner: list[Inner] = Field(default_factory=list)


async def alter_things(call: Call[Shape]) -> None:
    """Alter things."""
    ALTERED.append((call.path, call.query, call.body))


ALTERED: list[Any] = []
KINDS = words("kind", "only these", ("a", "b"))


def test_one_declaration_is_a_command_with_arguments_options_and_a_body(monkeypatch: pytest.MonkeyPatch) -> None:
    operation = Operation(
        method="POST",
        path="/v1/things/{topic}",
        summary="Alter things",
        handle=alter_things,
        body=Shape,
        parameters=(TOPIC_NAME, KINDS, VALIDATE_ONLY),
        role=Role.OPERATE,
        command=Command(
            name="things alter", examples=("orders 5",), arguments=("topic", "number"), done="{topic} altered"
        ),
    )
    assert [each.name for each in inputs_of(operation)][-2:] == ["values", "partitions"], "no option for nested models"
    monkeypatch.setattr("kvorum.cli.operations.with_cluster", lambda bootstrap, work: run_without_cluster(work))
    command = command_of(operation)
    given = "orders 5 --text x --is-on --names a --names b --values a=1 --partitions t:0,1 --partitions u --kind a,b"
    command.main([*given.split(), "-b", "h:1"], standalone_mode=False)
    path, query, body = ALTERED.pop()
    assert (path, query) == ({"topic": "orders"}, {"kind": "a,b"})
    assert body == Shape(
        number=5, text="x", is_on=True, names=["a", "b"], values={"a": 1}, partitions={"t": [0, 1], "u": None}
    )
    for wrong in ("orders 10", "orders", "orders 5 --values a=x", "orders 5 --partitions t:x", "orders 5 --kind c"):
        with pytest.raises(click.UsageError):
            command.main(wrong.split(), standalone_mode=False)
    assert ALTERED == [], "nothing was run"


def run_without_cluster(work: Any) -> Any:
    """Run a command's work; its operation needs no cluster."""
    import asyncio

    return asyncio.run(work(None))
