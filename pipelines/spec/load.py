"""From a file to a pipeline: read, replace variables, turn Connect's shape into ours, validate."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kvorum.pipelines.spec import connect, document
from kvorum.pipelines.spec.model import Pipeline, pipeline
from kvorum.pipelines.spec.problems import SpecError
from kvorum.pipelines.spec.resolve import resolve


def load(path: str | Path, *, environment: Mapping[str, str] | None = None, bootstrap: str | None = None) -> Pipeline:
    """Return the pipeline of a file: YAML, JSON, or a connector's configuration (JSON or .properties).

    Raises SpecError. `environment` is what `${env:...}` sees (None: the process's); `bootstrap` is the cluster that a
    connector's configuration leaves to its worker.
    """
    return made(document.read(Path(path)), environment=environment, bootstrap=bootstrap)


def loads(
    text: str, *, form: str = "yaml", environment: Mapping[str, str] | None = None, bootstrap: str | None = None
) -> Pipeline:
    """Return the pipeline of a text; see load."""
    return made(document.parse(text, form=form), environment=environment, bootstrap=bootstrap)


def from_data(data: Mapping[str, Any]) -> Pipeline:
    """Return the pipeline of data that were read before (`Pipeline.as_data`); variables are not replaced."""
    return pipeline(data)


def made(
    read: document.Document, *, environment: Mapping[str, str] | None = None, bootstrap: str | None = None
) -> Pipeline:
    """Return the pipeline of a document; see load."""
    data, places = resolve(read.data, read.places, environment), read.places
    config = data.get("config")
    if "connector.class" in data:
        return connect.from_connect(str(data.get("name", "")), data, places=places, bootstrap=bootstrap)
    if isinstance(config, dict) and "connector.class" in config:
        return connect.from_connect(
            str(data.get("name", "")), config, places=places, under=("config",), bootstrap=bootstrap
        )
    return pipeline(data, places)


__all__ = ["Pipeline", "SpecError", "from_data", "load", "loads", "made"]
