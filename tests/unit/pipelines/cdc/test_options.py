"""Options: what is refused, and that the text a data source gets means what was set."""

import pytest
from pydantic import ValidationError

from kvorum.pipelines.cdc.options import Options, parse

NEEDED = {"database.user": "u", "database.dbname": "d", "topic.prefix": "p"}


def test_options_as_text_mean_the_same() -> None:
    options = Options.model_validate(
        NEEDED
        | {
            "database.password": "s3cret",
            "table.include.list": ["public.a", "public.b"],
            "skipped.operations": "t,d",
            "tombstones.on.delete": False,
            "message.key.columns": "public.a:x,y;public.b:z",
            "poll.interval.ms": 5,
        }
    )
    assert options.key_columns == {"public.a": ["x", "y"], "public.b": ["z"]}
    assert parse(options.to_text()) == options


def test_a_password_is_not_shown() -> None:
    assert "s3cret" not in repr(Options.model_validate(NEEDED | {"database.password": "s3cret"}))


@pytest.mark.parametrize(
    "wrong",
    [
        {"slot.nane": "x"},
        {"slot.name": "With-Dash"},
        {"topic.prefix": "a b"},
        {"skipped.operations": "x"},
        {"table.include.list": "public.a,b"},
        {"table.exclude.list": "("},
        {"message.key.columns": "public.a"},
        {"snapshot.mode": "sometimes"},
        {"database.port": "0"},
    ],
)
def test_what_cannot_be_meant_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        parse(NEEDED | wrong)


def test_tables_are_selected_by_patterns_that_match_the_whole_name() -> None:
    text = NEEDED | {"publication.autocreate.mode": "disabled", "table.include.list": r"public\..*, shop.a"}
    options = parse(text | {"table.exclude.list": r"public\.old_.*"})
    names = ["public.a", "public.old_a", "shop.a", "shop.ab", "other.a"]
    assert [name for name in names if options.selects(*name.split("."))] == ["public.a", "shop.a"]
