"""Options of a pipeline's process: the master, the driver's memory, jars, Spark's settings. Kept in launch.json."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from kvorum.pipelines.session.build import SessionSettings
from kvorum.pipelines.spec import Pipeline

RETRIES = 10
"""About five minutes with their pauses: longer than an election."""
RETRIES_OF_CONNECTORS = 40
"""About 35 minutes: a connector that was given up needs a restart by hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """Options of a pipeline's start; None and empty: the session's defaults."""

    master: str | None = None
    memory: str = "1g"
    jars: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    retries: int = RETRIES
    paused: bool = False
    """Start to wait for `resume`."""
    folder: str | None = None
    """Base of relative paths."""

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Self:
        """Return it of JSON's data."""
        return cls(**data)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return the options in a file; the defaults if it does not exist."""
        try:
            return cls.of(json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return cls()

    def data(self) -> dict[str, Any]:
        """Return it as JSON's data."""
        return asdict(self)

    def session(self, pipeline: Pipeline) -> SessionSettings:
        """Return the session's settings; these options win over the pipeline's file."""
        own = {
            key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in pipeline.spark.items()
        }
        return SessionSettings(
            master=self.master or own.pop("spark.master", None),
            memory=own.pop("spark.driver.memory", self.memory),
            connector=pipeline.connector,
            jars=self.jars,
            settings={**own, **self.settings},
        )
