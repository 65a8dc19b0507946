"""Choice between Spark's own connector for Kafka and Kvorum's, with the reason.

Spark's (`spark-sql-kafka-0-10`) is a set of jars that pyspark does not contain: from a local folder ($KVORUM_SPARK_JARS
or an option), from the session's own settings, or fetched by Spark from Maven if `connector: spark` requires it.
Kvorum's needs only packages that pip installed. `auto` never uses the network: the choice must not depend on what was
reachable when a pipeline was started.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

import pyspark

from kvorum.pipelines.plugins import Connector

Wanted = Literal["auto", "spark", "kvorum"]

ARTEFACT = "spark-sql-kafka-0-10_2.13"
PARTS: Mapping[str, str] = {
    ARTEFACT: "the connector",
    "kafka-clients": "Kafka's Java client",
    "commons-pool2": "its pool of consumers",
    "spark-token-provider-kafka-0-10_2.13": "delegation tokens, which the connector links to",
}
"""The jars that the connector needs, by what their names begin with: {prefix: what it is}."""
VARIABLE = "KVORUM_SPARK_JARS"


class ConnectorError(Exception):
    """Spark's connector is required and not available; the message has the missing parts."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Which connector runs, why, and the settings its session needs."""

    connector: Connector
    reason: str
    settings: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return the line that is logged."""
        return f"connector: {self.connector}, {self.reason}"


class Jars(NamedTuple):
    """A folder's jars, and the parts of the connector that are not among them."""

    paths: list[str]
    missing: list[str]
    version: str | None
    """The connector's."""


def look_into(folder: str) -> Jars:
    """Return the jars of a folder. Raises ConnectorError if the folder cannot be read."""
    try:
        paths = sorted(path for path in Path(folder).resolve().iterdir() if path.suffix == ".jar")
    except OSError as error:
        raise ConnectorError(f"the folder of jars {folder} cannot be read: {error.strerror or error}") from error
    names = [path.name for path in paths]
    missing = [f"{prefix} ({what})" for prefix, what in PARTS.items() if not any(n.startswith(prefix) for n in names)]
    versions = (re.match(rf"{ARTEFACT}-(\d[\w.]*?)(-\w+)?\.jar", name) for name in names)
    return Jars(list(map(str, paths)), missing, next((found[1] for found in versions if found), None))


def folder_of_jars(option: str | None, environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the folder of jars: the option's, else $KVORUM_SPARK_JARS; None without either."""
    return option or environment.get(VARIABLE) or None


def jars_of(folder: str | None) -> list[str]:
    """Return the paths of a folder's jars. All are loaded: drivers and table formats may be beside the connector."""
    return [] if folder is None else look_into(folder).paths


def choose(wanted: Wanted, folder: str | None, settings: Mapping[str, str]) -> Choice:
    """Decide. `settings` are the session's own: a connector in them is available as well. Raises ConnectorError."""
    if wanted == "kvorum":
        return Choice("kvorum", "as asked for")
    because = "as asked for" if wanted == "spark" else "auto"
    for key in ("spark.jars", "spark.jars.packages"):
        if ARTEFACT.rpartition("_")[0] in settings.get(key, ""):
            return Choice("spark", f"{because}: {key} names it")
    if folder is not None:
        jars = look_into(folder)
        lacking = f"{folder} lacks {', '.join(jars.missing)}"
        if jars.missing and wanted == "spark":
            raise ConnectorError(f"Spark's connector is required, but {lacking}")
        if jars.missing:
            return Choice("kvorum", f"auto: {lacking}")
        is_other = jars.version != pyspark.__version__
        version = f", version {jars.version} on Spark {pyspark.__version__}" if is_other else ""
        return Choice("spark", f"{because}: jars of {folder}{version}")
    if wanted == "spark":
        maven = f"org.apache.spark:{ARTEFACT}:{pyspark.__version__}"  # of Spark's version: no other one surely fits
        packages = ",".join(filter(None, (settings.get("spark.jars.packages"), maven)))
        reason = f"as asked for: fetched from Maven as {maven} (no folder of jars is named: ${VARIABLE})"
        return Choice("spark", reason, {"spark.jars.packages": packages})
    return Choice("kvorum", f"auto: Spark's jars are not at hand (${VARIABLE} names no folder)")
