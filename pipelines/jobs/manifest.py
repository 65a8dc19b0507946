"""An archive's books: what each run took from the topic, and which files hold it.

    <archive>/<topic>/data/day=2026-01-31/hour=07/run=000001/part-....parquet
                     /manifest/000001.plan.json     from where to where run 1 reads; there before it writes anything
                              /000001.json          what it wrote; there when it has
                              /000002.plan.json     a run that was cut off: the next call does it again, the same

Runs follow each other without a gap: each begins where the one before ended. Only files of finished runs are part of
the archive. JSON as the dataclasses below have it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from kvorum.pipelines.jobs.reading import Bounds, numbers, texts
from kvorum.pipelines.jobs.store import Store

FORMAT: Final = 1
FOLDER: Final = "manifest"


class ArchiveError(RuntimeError):
    """An archive that is not what it should be, or records that it can't have any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Offsets of a run: from `start` up to `end`, by partition."""

    run: int
    topic: str
    start: Bounds
    end: Bounds
    by: str
    """hour or day"""
    gaps: Mapping[str, Sequence[int]]
    """Offsets that were gone before they were archived, by partition: [from, up to]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Records of one partition in one file."""

    first: int
    last: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file. `path` is relative to the topic's folder; times are milliseconds since 1970."""

    path: str
    size: int
    sha256: str
    count: int
    time_min: int
    time_max: int
    partitions: Mapping[str, Part]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A finished run."""

    plan: Plan
    files: Sequence[File]
    count: int
    counts: Mapping[str, int]
    """Records by partition: fewer than offsets where there are gaps."""


class Books:
    """Reads and writes the manifests of one topic's archive."""

    def __init__(self, store: Store) -> None:
        """Take the topic's folder."""
        self._store = store

    def runs(self) -> list[Run]:
        """Return all finished runs, in order.

        Raises: ArchiveError if one is missing in between, or does not begin where the one before ended.
        """
        names = [name for name in self._store.names(FOLDER) if name.endswith(".json") and ".plan" not in name]
        runs = [self._run(name) for name in names]
        ends: Bounds = {}
        for number, run in enumerate(runs, start=1):
            if run.plan.run != number:
                raise ArchiveError(f"{self._store.url(FOLDER)}: run {number} is missing")
            for partition, end in ends.items():
                gap = run.plan.gaps.get(str(partition), (end, end))
                if run.plan.start.get(partition, end) != max(end, gap[1]):
                    raise ArchiveError(f"run {number}: partition {partition} does not begin at offset {end}")
            ends |= run.plan.end
        return runs

    def pending(self, number: int) -> Plan | None:
        """Return the plan of a run that was begun."""
        text = self._store.read(f"{FOLDER}/{number:06}.plan.json")
        return None if text is None else _plan(json.loads(text))

    def begin(self, plan: Plan) -> None:
        """Note what a run will take."""
        self._store.write(f"{FOLDER}/{plan.run:06}.plan.json", json.dumps(_plan_data(plan), indent=1))

    def finish(self, run: Run) -> None:
        """Note what a run wrote: from here on it is part of the archive."""
        data = {**asdict(run), "plan": _plan_data(run.plan)}
        self._store.write(f"{FOLDER}/{run.plan.run:06}.json", json.dumps(data, indent=1))
        self._store.remove(f"{FOLDER}/{run.plan.run:06}.plan.json")

    def _run(self, name: str) -> Run:
        text = self._store.read(f"{FOLDER}/{name}")
        try:
            data = json.loads(text or "")
            files = [
                File(**{**file, "partitions": {n: Part(**part) for n, part in file["partitions"].items()}})
                for file in data["files"]
            ]
            return Run(plan=_plan(data["plan"]), files=files, count=data["count"], counts=data["counts"])
        except (ValueError, TypeError, KeyError) as error:
            raise ArchiveError(f"{self._store.url(f'{FOLDER}/{name}')} is not a manifest: {error}") from error


def ends_of(runs: Sequence[Run]) -> Bounds:
    """Return up to where an archive reaches."""
    ends: Bounds = {}
    for run in runs:
        ends |= run.plan.end
    return ends


def starts_of(runs: Sequence[Run]) -> Bounds:
    """Return from where on an archive has a topic."""
    starts: Bounds = {}
    for run in runs:
        starts = run.plan.start | starts
    return starts


def _plan_data(plan: Plan) -> dict[str, Any]:
    return {**asdict(plan), "format": FORMAT, "start": texts(plan.start), "end": texts(plan.end)}


def _plan(data: Mapping[str, Any]) -> Plan:
    fields = dict(data)
    if fields.pop("format") != FORMAT:
        raise ArchiveError(f"unsupported manifest format {data['format']}")
    return Plan(**{**fields, "start": numbers(data["start"]), "end": numbers(data["end"])})
