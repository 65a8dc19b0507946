"""The first screen: the verdict in words, the worst gap, the first violation, the key figures, the faults by kind."""

from collections.abc import Sequence
from typing import Final

from kvorum.chaos.checker import Figures, Verdict
from kvorum.chaos.history import Start
from kvorum.chaos.report import palette
from kvorum.chaos.report.aggregate import Aggregate
from kvorum.chaos.report.gaps import worst_gap
from kvorum.chaos.report.labels import (
    DUPLICATES,
    REORDERINGS,
    Outcome,
    clip_text,
    has_violation,
    is_explained,
    number,
    outcome_sentence,
    plural,
    seconds,
    tell,
    unbroken,
)
from kvorum.chaos.report.markup import Child, Markup, tag

FAULT_LAG_MAX: Final = 0.5
"""Seconds after a gap's begin in which a fault may begin and still be its cause: a send was already waiting."""

FAULTS_NAMED_MAX: Final = 2

CLASSES = {
    Outcome.HELD: "held",
    Outcome.VIOLATED: "violated",
    Outcome.MISSED: "missed",
    Outcome.COULD_NOT_RUN: "unknown",
    Outcome.SKIPPED: "unknown",
}
HEADINGS = {
    Outcome.HELD: "Held",
    Outcome.VIOLATED: "Violated",
    Outcome.MISSED: "Expectation missed",
    Outcome.COULD_NOT_RUN: "Could not run",
    Outcome.SKIPPED: "Skipped",
}


def head(
    picture: Aggregate, verdict: Verdict, outcome: Outcome, failures: Sequence[str], could_not_run: str | None
) -> Markup:
    """Return the first screen."""
    start = picture.start
    sentence = outcome_sentence(outcome, verdict, failures, could_not_run)
    banner = tag(
        "div",
        tag("h2", HEADINGS[outcome], id="outcome"),
        tag("p", clip_text(sentence, 600), id="sentence"),
        class_=f"banner {CLASSES[outcome]}",
    )
    return tag(
        "header",
        tag("p", "Kvorum chaos report", class_="product"),
        tag("h1", start.scenario or "unnamed scenario"),
        tag("p", _shape(start, verdict.figures), class_="shape"),
        banner,
        tag("div", _gap(picture, verdict.figures), _first(verdict), class_="cards"),
        _tiles(verdict),
        _kinds(verdict.figures),
    )


def _shape(start: Start, figures: Figures) -> str:
    parts = [] if start.seed is None else [f"seed {start.seed}"]
    nodes = start.cluster.nodes.values()
    if nodes:
        brokers = sum(not node.roles or "broker" in node.roles for node in nodes)
        controllers = sum("controller" in node.roles for node in nodes)
        of_controllers = (
            f", {plural(controllers, 'controller')}" if controllers else ""
        )  # unknown for an external cluster
        parts.append(f"{plural(len(nodes), 'node')} ({plural(brokers, 'broker')}{of_controllers})")
    topics = [
        f"{name}: {plural(topic.partitions, 'partition')} of {plural(topic.replication_factor, 'replica')}"
        for name, topic in list(start.topics.items())[:2]
    ]
    if len(start.topics) > len(topics):
        topics.append(f"{plural(len(start.topics) - len(topics), 'more topic')}")
    parts += topics
    parts.append(f"{seconds(figures.duration)} long")
    return " \N{MIDDLE DOT} ".join(parts)


def _card(title: str, *children: Child, id: str, class_: str = "card") -> Markup:
    return tag("section", tag("h3", title), children, class_=class_, id=id)


def _gap(picture: Aggregate, figures: Figures) -> Markup:
    title = "Worst availability gap under a fault"
    if not figures.acked:
        return _card(title, tag("p", "Nothing was acknowledged.", class_="big"), id="gap")
    worst = worst_gap(figures)
    text = "No partition was unavailable while a fault was in force." if figures.faults else "No fault was injected."
    if worst.partition is not None:
        at = unbroken(f"{worst.begin:.3f} s")
        force = _in_force(figures, worst.begin, worst.begin + worst.seconds)
        text = f"{clip_text(f'{worst.partition} acknowledged none of its pending sends from {at} on{force}', 300)}."
    begin, gap = picture.longest_gap(figures.longest_gap_at, figures.longest_gap)
    whole = f"{unbroken(seconds(gap))}, from {unbroken(f'{begin:.3f} s')}"
    return _card(
        title,
        tag("p", seconds(worst.seconds), class_="big", data_value=f"{worst.seconds:.6f}"),
        tag("p", text),
        tag("p", f"Longest time without any acknowledgement, faults or not: {whole}.", class_="quiet"),
        id="gap",
    )


def _in_force(figures: Figures, begin: float, end: float) -> str:
    """Name the fault at the start of a gap, and the first ones that started during it."""
    there = [f for f in figures.faults if f.begin < end and (f.end is None or f.end > begin)]
    before = [f for f in there if f.begin <= begin + FAULT_LAG_MAX]
    named = [*before[-1:], *[f for f in there if f not in before]]
    names = ", then ".join(f"{f.fault} of {', '.join(f.targets)}" for f in named[:FAULTS_NAMED_MAX])
    more = f" and {plural(len(named) - FAULTS_NAMED_MAX, 'more fault')}" if len(named) > FAULTS_NAMED_MAX else ""
    return f", with {names}{more} in force" if named else ""


def _first(verdict: Verdict) -> Markup:
    if verdict.violations:
        more = len(verdict.violations) - 1
        link = tag("a", f"details{f', and {number(more)} more' if more else ''}", href="#violations")
        text = tag("p", tell(verdict.violations[0]))
        return _card("First violation", text, tag("p", link), id="first", class_="card wide bad-card")
    if verdict.explained:
        finding = tell(verdict.explained[0])
        link = tag("a", f"all {plural(len(verdict.explained), 'legal finding')}", href="#explained")
        return _card(
            "No violation",
            tag("p", "The first legal anomaly: ", finding),
            tag("p", link),
            _unjudged_tile(verdict.figures),
            id="first",
            class_="card wide",
        )
    figures = verdict.figures
    compared = (
        f"{plural(figures.replicas_compared, 'replica log')} and {plural(figures.images_compared, 'metadata image')}"
    )
    return _card(
        "No violation",
        tag("p", _answers(figures)),
        tag("p", f"{plural(figures.records_read, 'record')} read back, {compared} compared."),
        _unjudged_tile(figures),
        id="first",
        class_="card wide",
    )


def _unjudged_tile(figures: Figures) -> Markup | None:
    """Return the number of findings without a verdict, and the first of them."""
    if not figures.not_judged:
        return None
    first, more = figures.not_judged[0], len(figures.not_judged) - 1
    link = tag("a", f" And {number(more)} more.", href="#not-judged") if more else None
    return tag("p", f"Not judged: {clip_text(first, 200)}", link, class_="quiet")


def _answers(figures: Figures) -> str:
    """Describe the results of sends, with the most frequent error."""
    sends = figures.operations.get("send", {})
    failed, unknown = sends.get("fail", 0), sends.get("info", 0)
    if not failed and not unknown:
        return f"All of {plural(sends.get('ok', 0), 'completed send')} were acknowledged."
    text = f"{plural(failed, 'send')} failed, {number(unknown)} have an unknown result"
    common = next(iter(figures.errors.items()), None)
    return text + (f"; most frequent error: {clip_text(common[0], 80)} ({number(common[1])})." if common else ".")


def _tiles(verdict: Verdict) -> Markup:
    figures = verdict.figures
    operations = sum(sum(counts.values()) for counts in figures.operations.values())
    illegally = figures.lost - figures.lost_legally
    values = (
        ("operations", operations, "completed operations of all kinds", False),
        ("acknowledged", figures.acked, f"of {plural(figures.sends, 'send')}", False),
        ("lost", illegally, "acknowledged, illegally lost", illegally > 0),
        ("explained", figures.lost_legally, "acknowledged, legally lost", False),
        (
            "duplicated",
            figures.duplicated,
            *_hint_of(verdict, DUPLICATES, "in the log twice", "twice, legally"),
        ),
        (
            "reordered",
            figures.reordered,
            *_hint_of(verdict, REORDERINGS, "not in the order of sends", "not in order, legally"),
        ),
    )
    tiles = [
        tag(
            "div",
            tag("b", number(value), data_figure=name.replace(" ", "-")),
            tag("span", "explained losses" if name == "explained" else name),
            tag("small", hint),
            class_="tile bad" if bad else "tile",
        )
        for name, value, hint, bad in values
    ]
    return tag("section", tiles, class_="tiles")


def _hint_of(verdict: Verdict, anomalies: frozenset[str], what: str, explained: str) -> tuple[str, bool]:
    """Return the hint of a tile, and whether any of its findings is illegal."""
    return explained if is_explained(verdict, anomalies) else what, has_violation(verdict, anomalies)


def _kinds(figures: Figures) -> Markup:
    chips = [
        tag(
            "button",
            tag("i", class_="swatch", style=f"background:{palette.fault(kind)}"),
            f"{kind} ",
            tag("b", number(count)),
            type="button",
            class_="chip",
            data_filter=kind,
            aria_pressed="false",
        )
        for kind, count in figures.faults_by_kind.items()
    ]
    total = sum(figures.faults_by_kind.values())
    title = tag("h3", f"{plural(total, 'fault')} injected" if total else "No fault was injected")
    return tag("section", title, chips, class_="kinds", id="kinds")
