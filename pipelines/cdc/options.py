"""User options, under the names of Debezium's PostgreSQL connector where it has one.

The same model reads the `source:` of a pipeline's file and the options of `format("kvorum-postgresql")`.
"""

import re
from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationInfo, field_validator, model_validator

from kvorum.pipelines.cdc.envelope import Shape
from kvorum.pipelines.cdc.values import Modes

Operation = Literal["c", "u", "d", "t"]

_SLOT_NAME = re.compile(r"[a-z0-9_]{1,63}")
WAL_BYTES_PER_TRIGGER = 64 << 20  # some 100,000 small changes: a second or two of decoding, and what a retry repeats
CHUNK_BYTES = 16 << 20  # of COPY text: one task's work, some 100,000 small rows


def _names(text: object) -> object:
    """Return the parts of a list written with commas."""
    if not isinstance(text, str):
        return text
    return [part.strip() for part in text.split(",") if part.strip()]


class Options(BaseModel):
    """Every option, by its alias."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, use_attribute_docstrings=True)

    hostname: str = Field("localhost", alias="database.hostname")
    port: int = Field(5432, alias="database.port", ge=1, le=65535)
    user: str = Field(alias="database.user")
    password: SecretStr | None = Field(None, alias="database.password")
    """None: as libpq finds it (PGPASSFILE, ~/.pgpass), on the driver and on every executor."""
    dbname: str = Field(alias="database.dbname")
    sslmode: Literal["disable", "allow", "prefer", "require", "verify-ca", "verify-full"] = Field(
        "prefer", alias="database.sslmode"
    )
    sslrootcert: str | None = Field(None, alias="database.sslrootcert")

    plugin_name: Literal["pgoutput"] = Field("pgoutput", alias="plugin.name")
    """The only one there is; other connectors' files say it."""
    topic_prefix: str = Field(alias="topic.prefix", pattern=r"^[a-zA-Z0-9._-]+$")
    slot_name: str = Field("kvorum", alias="slot.name")
    publication_name: str = Field("kvorum", alias="publication.name", min_length=1, max_length=63)
    publication_autocreate: Literal["disabled", "all_tables", "filtered"] = Field(
        "filtered", alias="publication.autocreate.mode"
    )
    """filtered: of the tables that table.include.list names one by one, or of none."""
    table_include_list: list[str] = Field([], alias="table.include.list")
    """Regular expressions that match the whole of `schema.table`; none: every table of the publication."""
    table_exclude_list: list[str] = Field([], alias="table.exclude.list")

    snapshot_mode: Literal["initial", "no_data"] = Field("initial", alias="snapshot.mode")
    snapshot_location: str | None = Field(None, alias="snapshot.location")
    """A folder that driver and executors share; beside the checkpoint. A pipeline sets it by itself."""
    snapshot_chunk_bytes: int = Field(CHUNK_BYTES, alias="snapshot.chunk.bytes", ge=1024)

    tombstones: bool = Field(True, alias="tombstones.on.delete")
    transaction_metadata: bool = Field(False, alias="provide.transaction.metadata")
    skipped_operations: list[Operation] = Field([], alias="skipped.operations")
    """Debezium skips t unless it is told not to; here nothing is skipped that was not named."""
    key_columns: dict[str, list[str]] = Field({}, alias="message.key.columns")
    """`schema.table:column,column;...`"""
    placeholder: str = Field("__debezium_unavailable_value", alias="unavailable.value.placeholder")
    decimal_mode: Literal["string", "double"] = Field("string", alias="decimal.handling.mode")
    time_mode: Literal["microseconds", "isostring"] = Field("microseconds", alias="time.precision.mode")
    binary_mode: Literal["base64", "hex"] = Field("base64", alias="binary.handling.mode")

    poll_interval_ms: int = Field(500, alias="poll.interval.ms", ge=0)
    """How often at most the log is looked at."""
    heartbeat_interval_ms: int = Field(10_000, alias="heartbeat.interval.ms", ge=0)
    """How long at most the slot stays where it is while only others' changes are logged."""
    wal_bytes_per_trigger: int = Field(WAL_BYTES_PER_TRIGGER, alias="max.wal.bytes.per.trigger", ge=1)
    """How much of the log a micro-batch covers. A transaction is never split, so a large one can be more."""
    slot_wait_ms: int = Field(60_000, alias="slot.wait.ms", ge=0)
    """How long to wait for a slot that somebody reads: who was killed a moment ago, most likely."""

    @field_validator("table_include_list", "table_exclude_list", "skipped_operations", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return _names(value)

    @field_validator("skipped_operations", mode="after")
    @classmethod
    def _unique(cls, value: list[Operation]) -> list[Operation]:
        return sorted(set(value))

    @field_validator("table_include_list", "table_exclude_list")
    @classmethod
    def _patterns(cls, value: list[str], info: ValidationInfo) -> list[str]:
        for pattern in value:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"{pattern!r} is not a regular expression: {error}") from error
        return value

    @field_validator("slot_name")
    @classmethod
    def _slot(cls, value: str) -> str:
        if not _SLOT_NAME.fullmatch(value):
            raise ValueError(
                "a slot name may contain lower-case letters, digits and underscores, at most 63 characters"
            )
        return value

    @field_validator("key_columns", mode="before")
    @classmethod
    def _keys(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        keys: dict[str, object] = {}
        for part in filter(None, (part.strip() for part in value.split(";"))):
            table, colon, columns = part.partition(":")
            if not colon:
                raise ValueError(f"{part!r} is not of the form schema.table:column,column")
            keys[table.strip()] = _names(columns)
        return keys

    @model_validator(mode="after")
    def _named_tables(self) -> "Options":
        if self.publication_autocreate == "filtered":
            for name in self.table_include_list:
                if name.count(".") != 1:
                    raise ValueError(
                        f"publication.autocreate.mode is filtered, so table.include.list has to name tables one by one "
                        f"as schema.table, not {name!r}. For more, make the publication yourself and set it to disabled"
                    )
        return self

    def to_text(self) -> dict[str, str]:
        """Return what was set, as options of a data source, which are all text: `parse` makes the same of it."""
        text: dict[str, str] = {}
        for name in self.model_fields_set:
            value, alias = getattr(self, name), type(self).model_fields[name].alias
            assert alias is not None
            if value is None:
                continue
            if isinstance(value, SecretStr):
                text[alias] = value.get_secret_value()
            elif isinstance(value, dict):
                text[alias] = ";".join(f"{table}:{','.join(columns)}" for table, columns in value.items())
            elif isinstance(value, list):
                text[alias] = ",".join(value)
            else:
                text[alias] = str(value).lower() if isinstance(value, bool) else str(value)
        return text

    def selects(self, schema: str, table: str) -> bool:
        """Return whether a table's events are wanted."""
        name = f"{schema}.{table}"
        if any(re.fullmatch(pattern, name) for pattern in self.table_exclude_list):
            return False
        included = self.table_include_list
        return not included or any(re.fullmatch(pattern, name) for pattern in included)

    def shape(self, version: str) -> Shape:
        """Return how events look."""
        modes = Modes(decimal=self.decimal_mode, time=self.time_mode, binary=self.binary_mode)
        return Shape(
            prefix=self.topic_prefix,
            database=self.dbname,
            version=version,
            modes=modes,
            tombstones=self.tombstones,
            transactions=self.transaction_metadata,
            skipped=frozenset(self.skipped_operations),
            placeholder=self.placeholder,
            key_columns=self.key_columns,
            selects=self.selects,
        )


def parse(options: Mapping[str, str]) -> Options:
    """Return the options of a data source, which are all text. Raises pydantic's ValidationError."""
    return Options.model_validate(dict(options))
