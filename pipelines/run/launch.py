"""How a pipeline's process is started: the master, the driver's memory, jars, Spark's settings."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from kvorum.pipelines.session.build import SessionSettings
from kvorum.pipelines.spec import Pipeline

RETRIES = 10
"""About five minutes with their pauses: longer than an election, shorter than nobody's noticing."""


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
    """Where relative paths begin."""

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Self:
        """Return it of JSON's data."""
        return cls(**data)

    def data(self) -> dict[str, Any]:
        """Return it as JSON's data."""
        return asdict(self)

    def arguments(self) -> list[str]:
        """Return the worker's options."""
        found = ["--memory", self.memory, "--retries", str(self.retries)]
        found += ["--master", self.master] if self.master else []
        found += ["--jars", self.jars] if self.jars else []
        found += ["--paused"] if self.paused else []
        return found + [part for key, value in self.settings.items() for part in ("--conf", f"{key}={value}")]

    def session(self, pipeline: Pipeline) -> SessionSettings:
        """Return the session's settings; what the command line says wins over the pipeline's file."""
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


def parse(arguments: Sequence[str]) -> tuple[str, str, Launch]:
    """Return the spec's path, the state folder and the rest of a worker's command line."""
    parser = argparse.ArgumentParser(prog="kvorum.pipelines.run.worker", description="Run one pipeline.")
    parser.add_argument("spec", metavar="SPEC", help="the pipeline's file")
    parser.add_argument("--state", required=True, metavar="DIR", help="the folder of all pipelines' states")
    parser.add_argument("--master", help="local[2], spark://host:port, k8s://..., yarn")
    parser.add_argument("--memory", default="1g", help="the driver's heap")
    parser.add_argument("--jars", metavar="DIR", help="a folder of jars")
    parser.add_argument("--conf", action="append", default=[], metavar="KEY=VALUE", help="a setting of Spark's")
    parser.add_argument("--retries", type=int, default=RETRIES, help="of failures that pass")
    parser.add_argument("--paused", action="store_true", help="wait for `resume`")
    found = parser.parse_args(arguments)
    settings = dict(each.split("=", 1) for each in found.conf)
    launch = Launch(
        master=found.master,
        memory=found.memory,
        jars=found.jars,
        settings=settings,
        retries=found.retries,
        paused=found.paused,
    )
    return found.spec, found.state, launch
