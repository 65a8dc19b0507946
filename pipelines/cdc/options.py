"""User options, under the names of Debezium's PostgreSQL connector where it has one."""

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, SecretStr, field_validator, model_validator

from kvorum.pipelines.faults import separated
from kvorum.pipelines.sources.options import ConnectOptions, Names

WAL_BYTES_PER_TRIGGER = 64 << 20  # some 100,000 small changes: a second or two of decoding, and what a retry repeats
CHUNK_BYTES = 16 << 20  # of COPY text: one task's work, some 100,000 small rows


class Options(ConnectOptions):
    """`source: {type: postgresql, ...}`; snapshot_mode is snapshot.mode."""

    database_hostname: str = "localhost"
    database_port: int = Field(5432, ge=1, le=65535)
    database_user: str
    database_password: SecretStr | None = None
    """None: as libpq finds it (PGPASSFILE, ~/.pgpass), on the driver and on every executor."""
    database_dbname: str
    database_sslmode: Literal["disable", "allow", "prefer", "require", "verify-ca", "verify-full"] = "prefer"
    database_sslrootcert: str | None = None

    plugin_name: Literal["pgoutput"] = "pgoutput"
    """The only supported one; configurations of Debezium name it."""
    topic_prefix: str = Field(pattern=r"^[a-zA-Z0-9._-]+$")
    slot_name: str = "kvorum"
    publication_name: str = Field("kvorum", min_length=1, max_length=63)
    publication_autocreate_mode: Literal["disabled", "all_tables", "filtered"] = "filtered"
    """filtered: of the tables that table.include.list names one by one, or of none."""
    table_include_list: Names = ()
    """Regular expressions that match the whole of `schema.table`; none: every table of the publication."""
    table_exclude_list: Names = ()

    snapshot_mode: Literal["initial", "no_data"] = "initial"
    snapshot_location: str | None = None
    """A folder that driver and executors share; by default in the checkpoint."""
    snapshot_chunk_bytes: int = Field(CHUNK_BYTES, ge=1024)

    tombstones_on_delete: bool = True
    skipped_operations: Annotated[tuple[Literal["c", "u", "d", "t"], ...], BeforeValidator(separated)] = ()
    """Debezium skips t by default; here nothing is skipped that is not named."""
    message_key_columns: dict[str, Names] = Field(default_factory=dict)
    """`schema.table:column,column;...`"""
    unavailable_value_placeholder: str = "__debezium_unavailable_value"
    decimal_handling_mode: Literal["string", "double"] = "string"
    time_precision_mode: Literal["microseconds", "isostring"] = "microseconds"
    binary_handling_mode: Literal["base64", "hex"] = "base64"

    poll_interval_ms: int = Field(500, ge=0)
    """Minimum pause between two looks at an idle log."""
    heartbeat_interval_ms: int = Field(10_000, ge=0)
    """Maximum time for which the slot keeps its position while only other tables are written."""
    max_wal_bytes_per_trigger: int = Field(WAL_BYTES_PER_TRIGGER, ge=1)
    """How much of the log a micro-batch covers. A transaction is never split, so a large one can be more."""
    slot_wait_ms: int = Field(60_000, ge=0)
    """How long to wait for a slot that another session reads: most likely a killed predecessor's."""

    @field_validator("table_include_list", "table_exclude_list")
    @classmethod
    def _patterns(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in value:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"{pattern!r} is not a regular expression: {error}") from error
        return value

    @field_validator("slot_name")
    @classmethod
    def _slot(cls, value: str) -> str:
        if not re.fullmatch(r"[a-z0-9_]{1,63}", value):
            raise ValueError(
                "a slot name may contain lower-case letters, digits and underscores, at most 63 characters"
            )
        return value

    @field_validator("message_key_columns", mode="before")
    @classmethod
    def _keys(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        keys: dict[str, str] = {}
        for part in filter(None, (part.strip() for part in value.split(";"))):
            table, colon, columns = part.partition(":")
            if not colon:
                raise ValueError(f"{part!r} is not of the form schema.table:column,column")
            keys[table.strip()] = columns
        return keys

    @model_validator(mode="after")
    def _named_tables(self) -> "Options":
        for name in self.table_include_list if self.publication_autocreate_mode == "filtered" else ():
            if name.count(".") != 1:
                raise ValueError(
                    f"publication.autocreate.mode is filtered, so table.include.list has to name tables one by one as "
                    f"schema.table, not {name!r}. For more, make the publication yourself and set it to disabled"
                )
        return self

    def selects(self, schema: str, table: str) -> bool:
        """Return whether a table's events are wanted."""
        excluded, included = (
            any(re.fullmatch(pattern, f"{schema}.{table}") for pattern in patterns)
            for patterns in (self.table_exclude_list, self.table_include_list)
        )
        return not excluded and (included or not self.table_include_list)
