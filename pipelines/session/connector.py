"""Choice between Spark's own connector for Kafka and Kvorum's, with the reason.

Spark's (`spark-sql-kafka-0-10`) is a set of jars that pyspark does not bring: from a local folder ($KVORUM_SPARK_JARS
or an option), from what the session's settings name already, or fetched by Spark from Maven, if it is asked for by
name. Kvorum's needs nothing that pip did not install. `auto` never goes to the network: which connector runs must not
depend on what happened to be reachable when a pipeline was started.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pyspark

from kvorum.pipelines.plugins import Connector

Wanted = Literal["auto", "spark", "kvorum"]

ARTEFACT = "spark-sql-kafka-0-10_2.13"
SCALA = "2.13"
# What the connector cannot do without, by what the jars' names begin with: {prefix: what it is}.
PARTS: Mapping[str, str] = {
    ARTEFACT: "the connector",
    "kafka-clients": "Kafka's Java client",
    "commons-pool2": "its pool of consumers",
}
# org.apache.spark.kafka010.KafkaTokenUtil and its like are in a jar of their own, of any name that says so.
TOKENS = "token"
JAR = re.compile(r"(?P<name>.+?)-(?P<version>\d[\w.]*?)(-\w+)?\.jar")
VARIABLE = "KVORUM_SPARK_JARS"


class ConnectorError(Exception):
    """Spark's connector is required and not available; the message has the missing parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which connector runs, why, and the settings its session needs."""

    connector: Connector
    reason: str
    settings: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return the line that is logged."""
        return f"connector: {self.connector}, {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Jars:
    """A folder's jars, and what of the connector's is not among them."""

    folder: str
    paths: Sequence[str]
    missing: Sequence[str]
    version: str | None


def coordinates(version: str = pyspark.__version__) -> str:
    """Return the connector's name at Maven, of the same version as Spark: nothing else fits for sure."""
    return f"org.apache.spark:{ARTEFACT}:{version}"


def look_into(folder: str) -> Jars:
    """Return what of the connector is in a folder. Raises ConnectorError if the folder cannot be read."""
    try:
        names = sorted(path.name for path in Path(folder).iterdir() if path.suffix == ".jar")
    except OSError as error:
        raise ConnectorError(f"the folder of jars {folder} cannot be read: {error.strerror or error}") from error
    missing = [f"{prefix} ({what})" for prefix, what in PARTS.items() if not any(n.startswith(prefix) for n in names)]
    if not any(TOKENS in name for name in names):
        missing.append(f"spark-token-provider-kafka-0-10_{SCALA} (delegation tokens, which the connector links to)")
    found = [JAR.fullmatch(name) for name in names if name.startswith(ARTEFACT)]
    version = next((each["version"] for each in found if each), None)
    return Jars(folder=folder, paths=[str(Path(folder).resolve() / n) for n in names], missing=missing, version=version)


def folder_of_jars(option: str | None, environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the folder of jars that is at hand: the option's, else $KVORUM_SPARK_JARS; None without either."""
    return option or environment.get(VARIABLE) or None


def choose(wanted: Wanted, folder: str | None, settings: Mapping[str, str]) -> Choice:
    """Decide. `settings` are the session's own: a connector in them is available as well. Raises ConnectorError."""
    if wanted == "kvorum":
        return Choice(connector="kvorum", reason="as asked for")
    because = "as asked for" if wanted == "spark" else "auto"
    for key in ("spark.jars", "spark.jars.packages"):
        if ARTEFACT.rpartition("_")[0] in settings.get(key, ""):
            return Choice(connector="spark", reason=f"{because}: {key} names it")
    if folder is not None:
        jars = look_into(folder)
        if not jars.missing:
            return Choice(connector="spark", reason=f"{because}: {from_folder(jars)}")
        lacking = f"{folder} lacks {', '.join(jars.missing)}"
        if wanted == "spark":
            raise ConnectorError(f"Spark's connector is required, but {lacking}")
        return Choice(connector="kvorum", reason=f"auto: {lacking}")
    if wanted == "spark":
        packages = ",".join(filter(None, (settings.get("spark.jars.packages"), coordinates())))
        reason = f"as asked for: fetched from Maven as {coordinates()} (no folder of jars is named: ${VARIABLE})"
        return Choice(connector="spark", reason=reason, settings={"spark.jars.packages": packages})
    return Choice(connector="kvorum", reason=f"auto: Spark's jars are not at hand (${VARIABLE} names no folder)")


def from_folder(jars: Jars) -> str:
    """Return where the jars are, and that their version is not Spark's if so."""
    other = f", version {jars.version} on Spark {pyspark.__version__}" if jars.version != pyspark.__version__ else ""
    return f"jars of {jars.folder}{other}"


def jars_of(folder: str | None) -> list[str]:
    """Return the paths of a folder's jars. All are loaded: drivers and table formats may lie beside the connector."""
    return [] if folder is None else list(look_into(folder).paths)
