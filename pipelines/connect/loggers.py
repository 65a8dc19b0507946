"""Levels of this process's loggers, in log4j's words."""

import logging
import time
from typing import Final

from kvorum.pipelines.connect.errors import ConnectError
from kvorum.pipelines.connect.records import Json

ROOT: Final = "root"
LEVELS: Final = {
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "OFF": 1000,
}
MODIFIED: Final = "_connect_modified_ms"
"""An attribute of a logger whose level was set here."""


def _all() -> dict[str, logging.Logger]:
    there = logging.Logger.manager.loggerDict
    found = {name: each for name, each in sorted(there.items()) if isinstance(each, logging.Logger)}
    return {**found, ROOT: logging.getLogger()}


def _level(logger: logging.Logger) -> Json:
    level = logger.getEffectiveLevel()
    name = next((name for name, number in LEVELS.items() if number >= level), "OFF")
    return {"level": name, "last_modified": getattr(logger, MODIFIED, None)}


def listed() -> dict[str, Json]:
    """Return the loggers whose level is set."""
    return {name: _level(logger) for name, logger in sorted(_all().items()) if logger.level != logging.NOTSET}


def one(name: str) -> Json:
    """Return a logger's level. Raises ConnectError."""
    found = _all().get(name)
    if found is None:
        raise ConnectError(404, f"Logger {name} not found.")
    return _level(found)


def set_level(name: str, level: str) -> list[str]:
    """Set the level of a logger and of all below it; return their names. Raises ConnectError."""
    number = LEVELS.get(level.upper())
    if number is None:
        raise ConnectError(404, f"invalid log level '{level}'.")
    there = _all()
    logger = there.get(name) or logging.getLogger(name)
    found = {name: logger}
    found |= {other: each for other, each in there.items() if name == ROOT or other.startswith(f"{name}.")}
    for each in found.values():
        each.setLevel(number)
        setattr(each, MODIFIED, time.time_ns() // 1_000_000)
    return sorted(found)
