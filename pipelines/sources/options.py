"""Base classes of the options of sources and sinks: unknown keys are rejected, both spellings of a name accepted."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from kvorum.pipelines.databases.dialect import DatabaseError, Dialect
from kvorum.pipelines.databases.url import dialect_of
from kvorum.pipelines.faults import as_texts, separated


class Options(BaseModel):
    """Options of a source or a sink. A misspelt one is refused."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        populate_by_name=True,
        protected_namespaces=(),
        use_attribute_docstrings=True,
    )


class ConnectOptions(Options):
    """Options whose names are Connect's, with dots; underscores in their place are understood, and SHORT words."""

    model_config = ConfigDict(alias_generator=lambda name: name.replace("_", "."))

    SHORT: ClassVar[Mapping[str, str]] = {}
    """{short: Connect's name}; a misspelt key is compared with these, too."""

    @model_validator(mode="before")
    @classmethod
    def _short_names(cls, data: Any) -> Any:
        return {cls.SHORT.get(key, key): value for key, value in data.items()} if isinstance(data, dict) else data


Names = Annotated[tuple[str, ...], BeforeValidator(separated)]


def supported(url: str) -> str:
    """Return a database's URL. Raises ValueError for a database that is not supported."""
    try:
        dialect_of(url)
    except DatabaseError as error:
        raise ValueError(str(error)) from error
    return url


class DatabaseOptions(ConnectOptions):
    """Location of a database."""

    SHORT: ClassVar[Mapping[str, str]] = {
        "url": "connection.url",
        "user": "connection.user",
        "password": "connection.password",
    }

    connection_url: Annotated[str, AfterValidator(supported)]
    connection_user: str | None = None
    connection_password: str | None = Field(default=None, repr=False)

    def dialect(self) -> Dialect:
        """Return the database. Raises DatabaseError."""
        return dialect_of(self.connection_url, self.connection_user, self.connection_password)


class TopicOptions(Options):
    """Which topics, of which cluster."""

    bootstrap: str
    """host:port,host:port"""
    options: Mapping[str, Any] = Field(default_factory=dict)
    """Spark's own options of its Kafka source or sink; `kafka.x` is the client's x. They override all others."""

    def merged(self, ours: Mapping[str, str | None]) -> dict[str, str]:
        """Return all options as a reader or a writer takes them: text, without those that are None."""
        ours = {"kafka.bootstrap.servers": self.bootstrap, **ours}
        return {key: value for key, value in ours.items() if value is not None} | as_texts(self.options)
