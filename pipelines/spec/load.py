"""From a file to a pipeline: read, replace variables, turn Connect's shape into ours, validate."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kvorum.pipelines.spec import connect, document
from kvorum.pipelines.spec.draft import Draft, made
from kvorum.pipelines.spec.model import Pipeline, pipeline
from kvorum.pipelines.spec.problems import SpecError
from kvorum.pipelines.spec.resolve import resolved_as_far


def load(path: str | Path, *, environment: Mapping[str, str] | None = None, bootstrap: str | None = None) -> Pipeline:
    """Return the pipeline of a file: YAML, JSON, or a connector's configuration (JSON or .properties).

    Raises SpecError. `environment` is what `${env:...}` sees (None: the process's); `bootstrap` is the cluster that a
    connector's configuration leaves to its worker.
    """
    return draft(path, environment=environment, bootstrap=bootstrap).finished()


def loads(
    text: str, *, form: str = "yaml", environment: Mapping[str, str] | None = None, bootstrap: str | None = None
) -> Pipeline:
    """Return the pipeline of a text; see load."""
    return drafts(text, form=form, environment=environment, bootstrap=bootstrap).finished()


def from_data(data: Mapping[str, Any]) -> Pipeline:
    """Return the pipeline of data that were read before (`Pipeline.as_data`); variables are not replaced."""
    return pipeline(data)


def draft(path: str | Path, *, environment: Mapping[str, str] | None = None, bootstrap: str | None = None) -> Draft:
    """Return the draft of a file; see load. Raises SpecError for what cannot be read at all."""
    return draft_of(document.read(Path(path)), environment=environment, bootstrap=bootstrap)


def drafts(
    text: str, *, form: str = "yaml", environment: Mapping[str, str] | None = None, bootstrap: str | None = None
) -> Draft:
    """Return the draft of a text; see load."""
    return draft_of(document.parse(text, form=form), environment=environment, bootstrap=bootstrap)


def draft_of(
    read: document.Document, *, environment: Mapping[str, str] | None = None, bootstrap: str | None = None
) -> Draft:
    """Return the draft of a document; see load."""
    data, missing = resolved_as_far(read.data, read.places, environment)
    under: tuple[str, ...]
    found, config = [*read.problems, *missing], data.get("config")
    if "connector.class" in data:
        properties, under = data, ()
    elif isinstance(config, dict) and "connector.class" in config:
        properties, under = config, ("config",)
    else:
        return made(data, read.places, found)
    try:
        shaped, wrong = connect.converted(
            str(data.get("name", "")), properties, places=read.places, under=under, bootstrap=bootstrap
        )
    except SpecError as error:  # of a class that is not known nothing more can be said
        raise SpecError([*found, *error.problems]) from error
    result = made(shaped, read.places, [*found, *wrong])
    if wrong:  # what an end lacks as a whole follows from that, and is said in Connect's words already
        result.unknown |= {("source",), ("sink",)}
    return result


__all__ = ["Draft", "Pipeline", "SpecError", "draft", "drafts", "from_data", "load", "loads"]
