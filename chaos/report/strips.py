"""The timeline's lower half, from the followed metadata log: elections, the active controller, and each partition.

A partition has three strips: its leader, the number of replicas in sync, and the times when it had waiting sends and
acknowledged none of them.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from kvorum.chaos.checker import PartitionFigures, Verdict
from kvorum.chaos.checker.timeline import PartitionState
from kvorum.chaos.report import palette
from kvorum.chaos.report.aggregate import Aggregate
from kvorum.chaos.report.charts import Axis, rect, row, segment, svg
from kvorum.chaos.report.labels import clip_text, plural, seconds
from kvorum.chaos.report.markup import Markup, join, tag

PARTITIONS_DRAWN_MAX: Final = 24
"""Partitions with separate strips: those with the longest gaps."""

SLOTS: Final = 800
"""Width on the axis. Of the changes within one only the last is drawn, which limits the pieces of a strip."""

LEADER: Final = 14
ISR: Final = 11
WAIT: Final = 4
"""Pixels of the strips' heights."""

NODE: Final = "n"
"""Prefix of a node's id in short labels."""


class Piece(NamedTuple):
    """A state with its time span."""

    begin: float
    end: float
    what: int | str
    tip: str


class Tick(NamedTuple):
    """Elections of one slot."""

    t: float
    texts: list[str]


def elections(picture: Aggregate, axis: Axis) -> Markup:
    """Return ticks for elections, unclean ones marked."""
    clean: dict[int, Tick] = {}
    count = 0
    for name, states in picture.timeline.states.items():
        for before, after in pairwise(states):
            if after.leader_epoch != before.leader_epoch and after.leader >= 0:
                count += 1
                slot = int(axis.at(after.t) / 100 * SLOTS)
                tick = clean.setdefault(slot, Tick(after.t, []))
                if len(tick.texts) < 6:
                    tick.texts.append(f"{name}: node {after.leader} in epoch {after.leader_epoch}")
    unclean = [(name, each) for name, found in picture.timeline.elections.items() for each in found]
    marks = [
        rect(
            axis,
            tick.t,
            tick.t,
            3,
            14,
            class_="election",
            tip="election at {:.3f} s: {}".format(tick.t, "; ".join(tick.texts)),
            least=0.2,
        )
        for tick in clean.values()
    ]
    for name, each in unclean[:SLOTS]:
        why = (
            "allowed" if each.is_allowed else "by the last known leader" if each.is_last_known_leader else "NOT ALLOWED"
        )
        tip = f"UNCLEAN election of node {each.leader} for {name} at {each.t:.3f} s, epoch {each.leader_epoch}: {why}"
        marks.append(rect(axis, each.t, each.t, 0, 20, class_="unclean", tip=tip, least=0.5))
    summary = [plural(count, "new leader"), tag("span", f", {len(unclean)} unclean", class_="bad") if unclean else None]
    return row(["Elections", tag("small", summary)], svg(20, marks))


def controller(picture: Aggregate, axis: Axis) -> Markup:
    """Return the sequence of active controllers: by name from notes, else from the metadata log's epochs."""
    end = axis.begin + axis.duration
    changes: list[tuple[float, str]] = picture.controllers or [
        (t, f"epoch {epoch}") for t, epoch in picture.controller_epochs
    ]
    if not changes:
        return row("Active controller", tag("p", "Not in the history.", class_="none"))
    ids = {name: node.id for name, node in picture.start.cluster.nodes.items()}
    colours: dict[str, str] = {}
    for _, name in changes:
        id = ids.get(name.partition("/")[0])
        colours.setdefault(name, palette.EPOCHS[len(colours) % 2] if id is None else palette.node(id))
    pieces = _last_per_slot(
        [
            Piece(t, after[0], name, f"active controller: {name}, from {t:.3f} s")
            for (t, name), after in zip(changes, [*changes[1:], (end, "")], strict=True)
        ],
        axis,
    )
    bars = [
        segment(
            axis,
            piece.begin,
            piece.end,
            2,
            LEADER,
            clip_text(str(piece.what), 30),
            fill=colours[str(piece.what)],
            tip=piece.tip,
        )
        for piece in pieces
    ]
    known = "" if picture.controllers else "by epochs of the metadata log"
    return row(["Active controller", tag("small", known)], svg(LEADER + 4, bars))


def partitions(picture: Aggregate, verdict: Verdict, axis: Axis) -> list[Markup]:
    """Return the strips of the partitions with the longest gaps."""
    states, figures = picture.timeline.states, verdict.figures.partitions
    names = list(dict.fromkeys([*figures, *states]))
    blank = PartitionFigures()
    broken = {violation.partition for violation in verdict.violations}

    def badness(name: str) -> tuple[bool, float, int]:
        own = figures.get(name, blank)
        return (own.lost > 0, own.unavailable, len(states.get(name, ())))

    used = [name for name in names if figures.get(name, blank).sends or not figures]
    worst = sorted(used, key=badness, reverse=True)[:PARTITIONS_DRAWN_MAX]
    rows = [
        _partition(name, picture, figures.get(name, blank), name in broken, axis)
        for name in sorted(worst, key=_natural)
    ]
    rows.insert(0, row("", _legend(picture), class_="legend"))
    if len(names) > len(worst):
        text = f"and {plural(len(names) - len(worst), 'partition')} with shorter gaps or without sends"
        rows.append(row("", tag("p", text, class_="none")))
    return rows


def _partition(name: str, picture: Aggregate, figures: PartitionFigures, broken: bool, axis: Axis) -> Markup:
    states = picture.timeline.states.get(name, [])
    end = min(picture.timeline.deletion_times.get(name, axis.begin + axis.duration), axis.begin + axis.duration)
    topic = name.rpartition("-")[0]
    shape = picture.start.topics.get(topic)
    full = shape.replication_factor if shape else max((len(state.isr) for state in states), default=0)
    bars: list[Markup] = []
    for piece in _pieces(states, end, axis, lambda state: state.leader):
        if isinstance(piece.what, int) and piece.what >= 0:
            fill = palette.node(piece.what)
            bars.append(
                segment(axis, piece.begin, piece.end, 2, LEADER, f"{NODE}{piece.what}", fill=fill, tip=piece.tip)
            )
        else:
            bars.append(rect(axis, piece.begin, piece.end, 2, LEADER, class_="leaderless", tip=piece.tip))
    y = LEADER + 3
    for piece in _pieces(states, end, axis, lambda state: len(state.isr)):
        size = int(piece.what)
        least = picture.min_isr_at(topic, piece.begin)
        fill = palette.ISR_UNDER if size < least else palette.ISR_SHORT if size < full else palette.ISR_FULL
        bars.append(segment(axis, piece.begin, piece.end, y, ISR, str(size), fill=fill, tip=piece.tip))
    y += ISR + 1
    waiting = picture.waiting.get(name)
    for span in waiting.spans.in_order() if waiting is not None else ():
        tip = f"{name} acknowledged none of its pending sends for {seconds(span.length)}, from {span.begin:.3f} s on"
        bars.append(rect(axis, span.begin, span.end, y, WAIT, class_="waiting", tip=tip))
    lost = tag("span", f", {figures.lost} lost", class_="bad" if broken else None) if figures.lost else ""
    label = [clip_text(name, 40), tag("small", "unavailable ", seconds(figures.unavailable), lost)]
    return row(label, svg(y + WAIT + 2, bars), class_="partition", hint=name)


def _pieces(
    states: Sequence[PartitionState], end: float, axis: Axis, what: Callable[[PartitionState], int]
) -> Iterable[Piece]:
    """Return the strip of one property. Equal neighbours are joined; pieces that are too short to see are omitted."""
    joined: list[Piece] = []
    for place, state in enumerate(states):
        until = states[place + 1].t if place + 1 < len(states) else end
        if joined and joined[-1].what == what(state):
            joined[-1] = joined[-1]._replace(end=until)
            continue
        leader = f"node {state.leader} leads" if state.leader >= 0 else "no leader"
        elr = f", ELR {list(state.elr)}" if state.elr else ""
        tip = f"from {state.t:.3f} s: {leader}, epoch {state.leader_epoch}, ISR {list(state.isr)}{elr}"
        joined.append(Piece(state.t, until, what(state), tip))
    return _last_per_slot(joined, axis)


def _last_per_slot(pieces: Sequence[Piece], axis: Axis) -> list[Piece]:
    """Return at most one piece per slot: the last one that begins in it."""
    if len(pieces) <= SLOTS:
        return list(pieces)
    slots = {int(axis.at(piece.begin) / 100 * SLOTS): piece for piece in pieces}
    kept = list(slots.values())
    return [
        piece._replace(end=after.begin)
        for piece, after in zip(kept, [*kept[1:], Piece(pieces[-1].end, 0, 0, "")], strict=True)
    ]


def _legend(picture: Aggregate) -> Markup:
    nodes = sorted(node.id for node in picture.start.cluster.nodes.values())
    led = {state.leader for states in picture.timeline.states.values() for state in states if state.leader >= 0}
    swatches = [_swatch(palette.node(id), f"node {id}") for id in sorted(led or nodes)[: len(palette.NODES)]]
    return tag(
        "p",
        tag("b", "Leader "),
        swatches,
        tag("b", "In-sync replicas "),
        _swatch(palette.ISR_FULL, "all"),
        _swatch(palette.ISR_SHORT, "fewer"),
        _swatch(palette.ISR_UNDER, "under min.insync.replicas"),
        tag("b", "No acknowledgement of pending sends "),
        tag("i", class_="swatch waits"),
    )


def _swatch(colour: str, text: str) -> Markup:
    return join([tag("i", class_="swatch", style=f"background:{colour}"), text + " "])


def _natural(name: str) -> tuple[str, int]:
    topic, _, index = name.rpartition("-")
    return (topic, int(index) if index.isdecimal() else -1)
