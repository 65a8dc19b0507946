"""The upper half of the timeline: faults, violations, throughput and latency on one time axis."""

import math
import re
from collections.abc import Iterable, Sequence
from typing import Final

from kvorum.chaos.checker import Verdict
from kvorum.chaos.checker.spans import FaultSpan
from kvorum.chaos.report import palette
from kvorum.chaos.report.aggregate import Aggregate
from kvorum.chaos.report.charts import Axis, curve, levels, percent, rect, row, segment, steps, svg
from kvorum.chaos.report.labels import clip_text, number, plural, seconds, tell
from kvorum.chaos.report.markup import Markup, join, tag
from kvorum.chaos.report.strips import controller, elections, partitions

FAULTS_MAX: Final = 1_500
"""Limit of separately drawn faults. Beyond it, only the longest per node or link and slot is drawn (SLOTS)."""

SLOTS: Final = 200

LANES_MAX: Final = 16
"""Nodes and links with separate lanes; the others share one."""

OVERLAPS_MAX: Final = 4
"""Simultaneous faults of a node that are drawn below each other."""

BAR: Final = 16
"""Height of a fault in pixels."""

BURST_MAX: Final = 1.6
"""Scale of the chart, in multiples of the 90th percentile of the rates. Higher values are cut off."""

CHART: Final = 84
"""Height of a chart in pixels."""


def timeline(picture: Aggregate, verdict: Verdict) -> Markup:
    """Return the whole timeline."""
    axis = Axis(picture.begin, picture.duration)
    rows = [
        _ticks(axis),
        *_fault_rows(picture, axis),
        _violations(verdict, axis),
        _throughput(picture, verdict, axis),
        _latency(picture, axis),
        elections(picture, axis),
        controller(picture, axis),
        *partitions(picture, verdict, axis),
        _ticks(axis),
    ]
    cross = tag("div", class_="cross", hidden=True)
    return tag("div", cross, rows, class_="timeline", id="timeline")


def lane_of(span: FaultSpan) -> tuple[str, ...]:
    """Return the lanes of a fault: one per node, or one for the link between two."""
    if span.fault.replace("-", "_") in palette.LINKS and len(span.targets) == 2:
        return (f"{span.targets[0]} \N{LEFT RIGHT ARROW} {span.targets[1]}",)
    return span.targets or ("cluster",)


def _ticks(axis: Axis) -> Markup:
    minutes = axis.duration > 300
    letters: list[Markup] = []
    for place, t in enumerate(axis.ticks()):
        text = f"{t / 60:.4g} min" if minutes else f"{t:.4g} s"
        at = axis.at(t)
        anchor = "start" if at < 3 else "end" if at > 97 else "middle"
        letters.append(
            tag("text", text, x=percent(at), y=12, text_anchor=anchor, class_="tick odd" if place % 2 else "tick")
        )
    return row("", svg(16, letters), class_="ticks")


def _fault_rows(picture: Aggregate, axis: Axis) -> list[Markup]:
    spans = picture.timeline.faults
    lanes: dict[str, list[tuple[int, FaultSpan]]] = {}
    for place, span in enumerate(spans):
        for lane in lane_of(span):
            lanes.setdefault(lane, []).append((place, span))
    kept = sorted(lanes, key=lambda lane: (-len(lanes[lane]), lane))[:LANES_MAX]
    drawn = {lane: lanes[lane] for lane in sorted(kept, key=_order)}
    rest = [each for lane, members in lanes.items() if lane not in drawn for each in members]
    if rest:
        drawn[plural(len(lanes) - len(kept), "other")] = sorted(rest, key=lambda each: each[0])
    if len(spans) > FAULTS_MAX:
        drawn = {lane: _longest_per_slot(members, axis) for lane, members in drawn.items()}
    rows = [_lane(lane, members, picture, axis) for lane, members in drawn.items()]
    if not rows:
        rows = [row("Faults", tag("p", "No fault was injected.", class_="none"))]
    if len(spans) > FAULTS_MAX:
        rows.append(row("", tag("p", f"{number(len(spans))} faults; only the longest ones are drawn.")))
    return rows


def _longest_per_slot(members: Sequence[tuple[int, FaultSpan]], axis: Axis) -> list[tuple[int, FaultSpan]]:
    """Return the longest fault of each slot, ordered by start."""
    longest: dict[int, tuple[int, FaultSpan]] = {}
    for place, span in members:
        slot = int(axis.at(span.begin) / 100 * SLOTS)
        known = longest.get(slot)
        if known is None or span.end - span.begin > known[1].end - known[1].begin:
            longest[slot] = (place, span)
    return sorted(longest.values(), key=lambda each: each[0])


def _order(lane: str) -> tuple[bool, str, tuple[int, ...], str]:
    """Return the sort key of a lane: nodes before links, node-2 before node-10."""
    numbers = tuple(int(digits) for digits in re.findall("[0-9]{1,9}", lane))
    return ("\N{LEFT RIGHT ARROW}" in lane, re.sub("[0-9].*", "", lane), numbers, lane)


def _lane(label: str, members: Sequence[tuple[int, FaultSpan]], picture: Aggregate, axis: Axis) -> Markup:
    ends: list[float] = []
    bars: list[Markup] = []
    for place, span in members:
        free = next((level for level, end in enumerate(ends) if end <= span.begin), None)
        if free is None:
            free = min(len(ends), OVERLAPS_MAX - 1)
            if free == len(ends):
                ends.append(0.0)
        ends[free] = max(ends[free], span.end)
        bars.append(_bar(span, picture.outcomes.get(place, span.story), free, axis))
    height = len(ends) * (BAR + 2) + 2
    return row(clip_text(label, 40), svg(height, bars), class_="fault", hint=label)


def _bar(span: FaultSpan, story: str, level: int, axis: Axis) -> Markup:
    end = min(span.end, axis.begin + axis.duration)
    ended = f"{seconds(end - span.begin)}" if math.isfinite(span.end) else "never ended"
    lossy = " (loses data)" if span.lossy else ""
    text = f"{span.fault}{lossy}, {span.begin:.3f} s, {ended}: {clip_text(story or ', '.join(span.targets), 200)}"
    y = 2 + level * (BAR + 2)
    bar = segment(axis, span.begin, end, y, BAR, span.fault, fill=palette.fault(span.fault), tip=text, kind=span.fault)
    if not span.lossy:
        return bar
    return Markup(bar + rect(axis, span.begin, end, y + BAR - 3, 3, class_="lossy", kind=span.fault))


def _violations(verdict: Verdict, axis: Axis) -> Markup:
    if not verdict.violations:
        return Markup("")
    marks = [
        rect(axis, each.t, each.t, 1, 16, class_="violation", tip=tell(each), least=0.4)
        for each in verdict.violations[:FAULTS_MAX]
    ]
    return row(tag("span", "Violations", class_="bad"), svg(18, marks))


def _throughput(picture: Aggregate, verdict: Verdict, axis: Axis) -> Markup:
    rates: list[float] = [count / picture.width for count in picture.acks]
    top = _top(rates)
    line = steps(rates, CHART - 4, top * 1.05)
    area = f"{line}V{CHART - 4}H0Z"
    paths = curve(CHART - 4, tag("path", d=area, class_="area"), tag("path", d=line, class_="line"))
    places = [((CHART - 4) * (1 - share / 1.05), f"{number(round(top * share))}/s") for share in (1.0, 0.5)]
    hint = f"acknowledged sends per second, in buckets of {seconds(picture.width)}"
    label = ["Throughput", tag("small", f"acknowledged sends/s, peak {number(round(max(rates, default=0.0)))}")]
    return row(
        label,
        svg(CHART, _gaps(picture, axis), paths, levels(places), _worst(picture, verdict, axis)),
        class_="chart",
        hint=hint,
    )


def _top(rates: Sequence[float]) -> float:
    """Return the upper end of the scale. A burst after a failover must not flatten the curve."""
    busy = sorted(rate for rate in rates if rate > 0)
    if not busy:
        return 1.0
    return min(busy[-1], BURST_MAX * busy[len(busy) * 9 // 10])


def _latency(picture: Aggregate, axis: Axis) -> Markup:
    curves = {share: [picture.latency(bucket, share) for bucket in range(picture.buckets)] for share in (0.5, 0.99)}
    values = [value for line in curves.values() for value in line if value is not None]
    height = CHART - 4
    if not values:
        return row("Latency", tag("p", "Nothing was acknowledged.", class_="none"))
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)) + 0.02)
    paths = [
        tag("path", d=steps(_logs(curves[share]), height, high, floor=low), class_=name)
        for share, name in ((0.99, "p99"), (0.5, "p50"))
    ]
    places = [(height * (high - power) / (high - low), seconds(10.0**power)) for power in range(low + 1, high + 1)]
    label = [
        "Latency",
        tag("small", tag("b", "p50", class_="p50"), " and ", tag("b", "p99", class_="p99"), " of sends, log scale"),
    ]
    plot = svg(CHART, _gaps(picture, axis), curve(height, paths), levels(places))
    return row(label, plot, class_="chart", hint=f"in buckets of {seconds(picture.width)}, within 5 %")


def _logs(values: Iterable[float | None]) -> list[float | None]:
    return [None if value is None else math.log10(value) for value in values]


def _gaps(picture: Aggregate, axis: Axis) -> Markup:
    """Return the times without any acknowledgement as bands."""
    bands: list[Markup] = []
    for span in picture.gaps.in_order():
        if span.length >= _visible_width_min(picture):
            tip = f"no acknowledgement for {seconds(span.length)}, from {span.begin:.3f} s to {span.end:.3f} s"
            bands.append(rect(axis, span.begin, span.end, 0, CHART - 4, class_="gap", tip=tip))
    return join(bands)


def _worst(picture: Aggregate, verdict: Verdict, axis: Axis) -> Markup | None:
    """Return the label of the longest time without any acknowledgement."""
    begin, length = picture.longest_gap(verdict.figures.longest_gap_at, verdict.figures.longest_gap)
    if length < _visible_width_min(picture):
        return None
    at = axis.at(begin + length / 2)
    anchor = "start" if at < 12 else "end" if at > 88 else "middle"
    text = f"no ack for {seconds(length)}"
    return tag("text", text, x=percent(at), y=CHART - 10, text_anchor=anchor, class_="worst")


def _visible_width_min(picture: Aggregate) -> float:
    return max(2 * picture.width, picture.duration / 500)
