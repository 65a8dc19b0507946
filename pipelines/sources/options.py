"""Base of the options of sources and sinks: unknown keys are rejected, both spellings of a name are accepted."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from kvorum.pipelines.databases.dialect import DatabaseError, dialect_of


def dotted(name: str) -> str:
    """Return an option's name as Connect writes it: incrementing_column_name is incrementing.column.name there."""
    return name.replace("_", ".")


class Options(BaseModel):
    """Options of a source or a sink. A misspelt one is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, use_attribute_docstrings=True)


class ConnectOptions(Options):
    """Options whose names are Connect's, with dots; underscores in their place are understood, and SHORT words."""

    model_config = ConfigDict(alias_generator=dotted)

    SHORT: ClassVar[Mapping[str, str]] = {}
    """{short: Connect's name}; whoever misspells a key is offered these, too."""

    @model_validator(mode="before")
    @classmethod
    def _short_names(cls, data: Any) -> Any:
        return {cls.SHORT.get(key, key): value for key, value in data.items()} if isinstance(data, dict) else data


def database_url(url: str) -> str:
    """Return a database's URL, for a validator of a model. Raises ValueError for a database that we have none of."""
    try:
        dialect_of(url)
    except DatabaseError as error:
        raise ValueError(str(error)) from error
    return url


DatabaseUrl = Annotated[str, AfterValidator(database_url)]


class TopicOptions(Options):
    """Which topics, of which cluster."""

    bootstrap: str
    """host:port,host:port"""
    options: Mapping[str, Any] = Field(default_factory=dict)
    """Spark's own options of its Kafka source or sink; `kafka.x` is the client's x. They win over what we set."""

    def merged(self, ours: Mapping[str, str | None]) -> dict[str, str]:
        """Return all options as a reader or a writer takes them: text, without those that are None."""
        given = {key: as_text(value) for key, value in self.options.items()}
        ours = {"kafka.bootstrap.servers": self.bootstrap, **ours}
        return {key: value for key, value in ours.items() if value is not None} | given


def as_text(value: object) -> str:
    """Return an option's value as Spark takes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
