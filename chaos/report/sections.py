"""Sections below the timeline: gaps by fault, findings with details, participants, command to repeat the run."""

import platform
from collections import Counter
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from typing import Final

from kvorum.chaos.checker import Figures, Verdict, Violation
from kvorum.chaos.checker.meter import GAP_MIN
from kvorum.chaos.history import HISTORY_VERSION, Start
from kvorum.chaos.report import palette
from kvorum.chaos.report.aggregate import Aggregate
from kvorum.chaos.report.labels import PLAIN, clip_text, command, number, plural, seconds
from kvorum.chaos.report.markup import Child, Markup, join, tag

ROWS_MAX: Final = 300
"""Rows of a table. Of the faults, those with the longest gaps."""

FINDINGS_MAX: Final = 200
"""Findings with details in the report. Each has about 40 sentences at most."""

VALUES_MAX: Final = 40
TEXT_MAX: Final = 600
"""Length of a cell or sentence from the history, in characters."""


def gaps(picture: Aggregate, figures: Figures) -> Markup:
    """Return the table of faults with their availability gaps."""
    places = range(len(figures.faults))
    if len(places) > ROWS_MAX:
        worst = sorted(places, key=lambda place: figures.faults[place].unavailable, reverse=True)[:ROWS_MAX]
        chosen: Sequence[int] = sorted(worst)
    else:
        chosen = places
    rows: list[Markup] = []
    for place in chosen:
        fault = figures.faults[place]
        swatch = tag("i", class_="swatch", style=f"background:{palette.fault(fault.fault)}")
        story = picture.outcomes.get(place) or ", ".join(fault.targets)
        lossy = tag("span", " loses data", class_="bad") if fault.lossy else None
        lasted = "never ended" if fault.end is None else seconds(fault.end - fault.begin)
        where = f" ({fault.unavailable_partition})" if fault.unavailable_partition else ""
        cells: list[Child] = [
            f"{fault.begin:.3f} s",
            [swatch, fault.fault],
            [clip_text(story, TEXT_MAX), lossy],
            lasted,
            "none" if fault.first_ack is None else seconds(fault.first_ack),
            (seconds(fault.unavailable) if fault.unavailable else f"below {seconds(GAP_MIN)}") + clip_text(where, 60),
        ]
        rows.append(tag("tr", [tag("td", cell) for cell in cells], data_kind=fault.fault))
    columns = ("at", "fault", "details", "duration", "gap until first ack", "longest partition gap")
    left = len(figures.faults) - len(rows)
    note = tag("p", f"{plural(left, 'more fault')} with shorter gaps.", class_="quiet") if left else None
    intro = (
        "Gap until first ack: time from the start of the fault to the first acknowledgement of a send that started "
        "after it. Longest partition gap: longest time during the fault, from its start on, in which a partition "
        "acknowledged none of its pending sends."
    )
    body = (
        [tag("p", intro, class_="quiet"), table(columns, rows, id="faults"), note]
        if rows
        else [tag("p", "No fault was injected.", class_="quiet")]
    )
    return section("Availability gaps by fault", body, id="gaps")


def findings(title: str, found: Sequence[Violation], id: str, empty: str) -> Markup:
    """Return findings with their details, the first one open."""
    if not found:
        return section(title, tag("p", empty, class_="quiet"), id=id)
    items = [
        _finding_details(each, first=place == 0 and id == "violations")
        for place, each in enumerate(found[:FINDINGS_MAX])
    ]
    left = Counter(each.anomaly for each in found[FINDINGS_MAX:])
    more = tag("p", "Not shown: " + ", ".join(f"{count} {name}" for name, count in left.items())) if left else None
    box = tag("input", type="search", placeholder="filter by words", data_search=id, aria_label=f"Filter {title}")
    return section(f"{title} ({len(found)})", box if len(found) > 3 else None, items, more, id=id)


def _finding_details(found: Violation, *, first: bool) -> Markup:
    values = ", ".join(map(str, found.values[:VALUES_MAX]))
    if found.count > min(len(found.values), VALUES_MAX) and found.values:
        values += f" and {found.count - min(len(found.values), VALUES_MAX)} more"
    summary = tag(
        "summary",
        tag("code", found.anomaly),
        tag("b", found.partition or ""),
        tag("span", f"\N{MULTIPLICATION SIGN}{number(found.count)}") if found.count > 1 else None,
        tag("span", f"{found.t:.3f} s"),
        tag("span", clip_text(found.reason, TEXT_MAX), class_="reason"),
    )
    return tag(
        "details",
        summary,
        tag("p", PLAIN.get(found.anomaly, "").capitalize() + ("." if found.anomaly in PLAIN else "")),
        tag("p", "Values: ", values) if values else None,
        tag("ol", [tag("li", clip_text(sentence, TEXT_MAX)) for sentence in found.story]) if found.story else None,
        class_="finding",
        open=first,
        data_count=found.count,
    )


def missing_rules(figures: Figures) -> Markup | None:
    """Return the parts that the history lacks, if any."""
    if not figures.not_judged:
        return None
    items = [tag("li", clip_text(each, TEXT_MAX)) for each in figures.not_judged]
    return section("Not judged", tag("ul", items), id="not-judged")


def anomalies(verdict: Verdict) -> Markup:
    """Return the number of findings per anomaly: illegal, legal, and allowed by Kafka's design."""
    illegal: Counter[str] = Counter()
    legal: Counter[str] = Counter()
    for found, counts in ((verdict.violations, illegal), (verdict.explained, legal)):
        for each in found:
            counts[each.anomaly] += each.count
    allowed = verdict.figures.allowed
    names = list(dict.fromkeys([*illegal, *legal, *allowed]))
    rows = [
        tag(
            "tr",
            tag("td", tag("code", name)),
            tag("td", PLAIN.get(name, "")),
            [tag("td", number(counts.get(name, 0)), class_="number") for counts in (illegal, legal, allowed)],
        )
        for name in names
    ]
    body: Child = table(("anomaly", "meaning", "violations", "legal", "allowed by design"), rows, id="counts")
    return section("Anomalies by name", body if rows else tag("p", "None.", class_="quiet"), id="anomalies")


def operations(figures: Figures) -> Markup:
    """Return operations by kind, errors, and clients."""
    by_f = _outcomes("operation", figures.operations, "operations")
    by_client = _outcomes("client", figures.clients, "clients")
    errors = [
        tag("tr", tag("td", tag("code", clip_text(name, 120))), tag("td", number(count), class_="number"))
        for name, count in list(figures.errors.items())[:ROWS_MAX]
    ]
    return section(
        "Operations, clients and errors",
        tag("div", by_f, by_client, table(("error", "count"), errors, id="errors") if errors else None, class_="side"),
        id="who",
    )


def _outcomes(what: str, counts: dict[str, dict[str, int]], id: str) -> Markup:
    rows = [
        tag(
            "tr",
            tag("td", clip_text(name, 120)),
            [tag("td", number(each.get(kind, 0)), class_="number") for kind in ("ok", "fail", "info")],
        )
        for name, each in list(counts.items())[:ROWS_MAX]
    ]
    return table((what, "ok", "failed", "unknown"), rows, id=id)


def cluster(picture: Aggregate, figures: Figures) -> Markup:
    """Return the cluster's shape, topics with configs, the partitions' figures, and the kinds of clients."""
    start = picture.start
    nodes = [
        tag("tr", tag("td", name), tag("td", str(node.id)), tag("td", ", ".join(node.roles) or "broker"))
        for name, node in list(start.cluster.nodes.items())[:ROWS_MAX]
    ]
    topics = [
        tag(
            "tr",
            tag("td", name),
            tag("td", str(topic.partitions), class_="number"),
            tag("td", str(topic.replication_factor), class_="number"),
            tag("td", _configs(topic.configs)),
        )
        for name, topic in list(start.topics.items())[:ROWS_MAX]
    ]
    clients = [
        tag(
            "tr",
            [
                tag("td", text)
                for text in (
                    clip_text(kind.client or "unknown", 120),
                    kind.acks,
                    "yes" if kind.idempotent else "no",
                    kind.transactional_id or "no",
                    kind.isolation,
                    number(count),
                )
            ],
        )
        for kind, count in picture.clients.most_common(ROWS_MAX)
    ]
    columns = ("client", "acks", "idempotent", "transactional", "isolation", "processes")
    return section(
        "Cluster and workload",
        tag("div", table(("node", "id", "roles"), nodes, id="nodes"), _partitions(figures), class_="side"),
        table(("topic", "partitions", "replicas", "configs"), topics, id="topics"),
        tag("p", "Cluster configs: ", _configs(start.cluster.configs)),
        table(columns, clients, id="processes"),
        id="cluster",
    )


PARTITION_COLUMNS: Final = (
    "Unavailable: the longest time in which a send waited and none was acknowledged, during faults or not. "
    "Longest gap: the longest time between two acknowledgements, also without waiting sends. "
    "Consumer lag: the longest time from a record's acknowledgement to a poll that had not reached the record yet."
)


def _partitions(figures: Figures) -> Markup:
    worst = sorted(figures.partitions.items(), key=lambda each: (-each[1].lost, -each[1].unavailable, each[0]))
    rows = [
        tag(
            "tr",
            tag("td", name),
            [tag("td", number(count), class_="number") for count in (own.sends, own.acked, own.read, own.lost)],
            [tag("td", seconds(t), class_="number") for t in (own.unavailable, own.longest_gap, own.lag_max)],
        )
        for name, own in worst[:ROWS_MAX]
    ]
    columns = ("partition", "sends", "acked", "read", "lost", "unavailable", "longest gap", "consumer lag")
    return join([table(columns, rows, id="partitions"), tag("p", PARTITION_COLUMNS, id="partition-columns")])


def _configs(configs: dict[str, str]) -> Markup:
    if not configs:
        return tag("span", "defaults", class_="quiet")
    return join(
        [[tag("code", f"{key}={clip_text(value, 200)}"), " "] for key, value in list(configs.items())[:ROWS_MAX]]
    )


def again(start: Start, picture: Aggregate, remarks: Iterable[str]) -> Markup:
    """Return the command to repeat the run, notes on the run, and versions."""
    notes = [tag("li", f"{note.t:.3f} s: {clip_text(note.text, TEXT_MAX)}") for note in picture.notes]
    if picture.notes_left:
        notes.append(tag("li", f"and {plural(picture.notes_left, 'more note')} in the history"))
    items = [tag("li", clip_text(each, TEXT_MAX)) for each in remarks]
    software = ", ".join(f"{name} {found}" for name, found in start.software.items())
    return section(
        "Repeat the run",
        tag("pre", tag("code", command(start), id="command")),
        tag("ul", items) if items else None,
        tag("details", tag("summary", f"Notes ({len(picture.notes) + picture.notes_left})"), tag("ul", notes))
        if notes
        else None,
        tag("p", f"Recorded with {clip_text(software, TEXT_MAX)}.", class_="quiet", id="software")
        if software
        else None,
        tag(
            "p",
            f"Report written by kvorum {version('kvorum')} on Python {platform.python_version()}; "
            f"history format {start.version} (this release writes {HISTORY_VERSION}).",
            class_="quiet",
        ),
        id="again",
    )


def section(title: str, *children: Child, id: str) -> Markup:
    """Return a part of the page under its heading."""
    return tag("section", tag("h2", title), children, id=id, class_="part")


def table(columns: Sequence[str], rows: Sequence[Markup], *, id: str) -> Markup:
    """Return a table in a box that scrolls horizontally if necessary."""
    header = tag("tr", [tag("th", name) for name in columns])
    return tag("div", tag("table", tag("thead", header), tag("tbody", rows), id=id), class_="scroll")
