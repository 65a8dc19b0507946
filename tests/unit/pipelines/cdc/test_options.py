"""Options: what is refused, and that the text a data source gets means what was set."""

import pytest
from pydantic import ValidationError

from kvorum.pipelines.cdc.options import Options
from kvorum.pipelines.cdc.source import PostgresqlDataSource

NEEDED = {"database.user": "u", "database.dbname": "d", "topic.prefix": "p"}


def test_lists_are_lists_or_text_with_commas() -> None:
    options = Options.model_validate(
        NEEDED
        | {
            "table.include.list": ["public.a", "public.b"],
            "skipped.operations": "t, d",
            "tombstones.on.delete": "false",
            "message.key.columns": "public.a:x,y;public.b:z",
            "poll.interval.ms": "5",
        }
    )
    assert (options.table_include_list, options.skipped_operations) == (("public.a", "public.b"), ("t", "d"))
    assert options.message_key_columns == {"public.a": ("x", "y"), "public.b": ("z",)}
    assert (options.tombstones_on_delete, options.poll_interval_ms) == (False, 5)


def test_a_data_source_has_the_options_and_its_password_apart() -> None:
    options = Options.model_validate(NEEDED | {"message.key.columns": "public.a:x,y", "table.include.list": "public.a"})
    text = options.model_dump_json()
    found = PostgresqlDataSource({"settings": text, "password": "s3cret"}).settings
    assert found.database_password is not None and found.database_password.get_secret_value() == "s3cret"
    assert found.model_copy(update={"database_password": None}) == options


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
        Options.model_validate(NEEDED | wrong)


def test_tables_are_selected_by_patterns_that_match_the_whole_name() -> None:
    text = NEEDED | {"publication.autocreate.mode": "disabled", "table.include.list": r"public\..*, shop.a"}
    options = Options.model_validate(text | {"table.exclude.list": r"public\.old_.*"})
    names = ["public.a", "public.old_a", "shop.a", "shop.ab", "other.a"]
    assert [name for name in names if options.selects(*name.split("."))] == ["public.a", "shop.a"]
