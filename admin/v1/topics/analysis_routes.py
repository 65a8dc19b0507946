"""Topic analysis over HTTP: GET /v1/topics/{topic}/analysis reads all records and returns statistics.

There is no stored job: the caller reads the stream, which reports the progress, and ends the analysis by disconnecting.
The counting is in topic_analysis.
"""

from collections.abc import AsyncIterator

import msgspec

from kvorum.admin.http.operations import EVENT_STREAM, Call, NoBody, Operation, Stream
from kvorum.admin.http.parameters import TOPIC_NAME
from kvorum.admin.v1.records.browse_query import CHOICE, browser_of, limit_parameters, places_text
from kvorum.admin.v1.records.message_routes import event
from kvorum.admin.v1.topics.analysis_models import (
    AnalysisProgress,
    HourFigures,
    PartitionFigures,
    SizeFigures,
    TopicAnalysis,
)
from kvorum.client.analysis.sketches import SizeSummary
from kvorum.client.analysis.topic_analysis import HOUR_MS, Analysis, PartitionCounts, progress_ratio, total
from kvorum.client.records.record_browser import Browser, Limits

GIB = 1024 * 1024 * 1024
ANALYSIS = Limits(records=100_000_000, scans_max=100_000_000, size=64 * GIB, time_ms=3_600_000)
PROGRESS_MS = 1_000
"""Interval of progress events."""
SHARES = (0.5, 0.75, 0.95, 0.99, 0.999)


async def analyse_topic(call: Call[NoBody]) -> Stream:
    """Analyse all records of a topic, up to its end at the time of the request.

    Server-sent events: `progress` once per second, `result`, and `end` last. Limits and filter are those of browsing;
    records that do not match the filter are not counted.
    """
    await browser_of(call, call.cluster, ANALYSIS, ANALYSIS, "earliest")  # errors are reported before the stream begins

    async def events() -> AsyncIterator[bytes]:
        cluster = call.cluster.another()
        try:
            browser = await browser_of(call, cluster, ANALYSIS, ANALYSIS, "earliest")
            begin, started_ms = dict(browser.progress.offsets), call.clock.monotonic_ms()
            analysis, reported_ms = Analysis(), started_ms
            yield event("progress", progress_of(browser, begin))
            async for found in browser.records():
                if found is not None:
                    analysis.take(found.partition, found.record)
                now_ms = call.clock.monotonic_ms()
                if now_ms - reported_ms >= PROGRESS_MS:
                    reported_ms = now_ms
                    yield event("progress", progress_of(browser, begin))
            elapsed_ms = call.clock.monotonic_ms() - started_ms
            result = result_of(TOPIC_NAME.of(call), analysis, browser, elapsed_ms)
            yield event("result", result.model_dump_json().encode())
            yield event("end", msgspec.json.encode({"stopped_by": result.stopped_by}))
        finally:
            await cluster.close()

    return Stream(media=EVENT_STREAM, chunks=events())


def progress_of(browser: Browser, begin: dict[int, int]) -> bytes:
    """Return the progress."""
    assert browser.ends is not None, "an analysis ends"
    progress = browser.progress
    share = progress_ratio(begin, progress.offsets, browser.ends)
    return AnalysisProgress(scanned=progress.scan_count, bytes=progress.size, share=share).model_dump_json().encode()


def result_of(topic: str, analysis: Analysis, browser: Browser, elapsed_ms: int) -> TopicAnalysis:
    """Return the complete result."""
    assert browser.progress.stopped_by is not None, "it has ended"
    counts = list(analysis.partitions.values())
    empty = PartitionCounts()
    return TopicAnalysis(
        topic=topic,
        stopped_by=browser.progress.stopped_by.value,
        next=places_text(browser.progress.offsets),
        elapsed_ms=elapsed_ms,
        records=total(counts, "records"),
        bytes=total(counts, "size"),
        null_keys=total(counts, "null_keys"),
        tombstones=total(counts, "tombstones"),
        disordered=total(counts, "disordered"),
        distinct_keys=min(analysis.distinct_keys.count(), analysis.keys.count),  # an estimate may exceed it
        distinct_values=min(analysis.distinct_values.count(), analysis.values.count),
        keys=sizes_of(analysis.keys),
        values=sizes_of(analysis.values),
        partitions=[
            partition_figures(each, analysis.partitions.get(each, empty)) for each in sorted(browser.progress.offsets)
        ],
        hours=[
            HourFigures(start_ms=hour * HOUR_MS, records=records, bytes=size)
            for hour, (records, size) in sorted(analysis.hours.items())
        ],
    )


def sizes_of(sizes: SizeSummary) -> SizeFigures:
    """Return sizes as figures."""
    p50, p75, p95, p99, p999 = sizes.percentiles(SHARES)
    return SizeFigures(
        count=sizes.count,
        total_bytes=sizes.total,
        min=sizes.least,
        max=sizes.most,
        mean=sizes.total / sizes.count if sizes.count else 0,
        p50=p50,
        p75=p75,
        p95=p95,
        p99=p99,
        p999=p999,
    )


def partition_figures(partition: int, counts: PartitionCounts) -> PartitionFigures:
    """Return one partition's figures."""
    places = ("first_offset", "last_offset", "first_timestamp_ms", "last_timestamp_ms")
    known = {name: getattr(counts, name) if counts.records else None for name in places}
    return PartitionFigures(
        partition=partition,
        records=counts.records,
        bytes=counts.size,
        null_keys=counts.null_keys,
        tombstones=counts.tombstones,
        disordered=counts.disordered,
        **known,
    )


OPERATIONS = [
    Operation.get(
        "/v1/topics/{topic}/analysis",
        "Analyse a topic's records",
        analyse_topic,
        TopicAnalysis,
        media=(EVENT_STREAM,),
        events={"progress": AnalysisProgress},
        parameters=(TOPIC_NAME, *CHOICE, *limit_parameters(ANALYSIS, ANALYSIS)),
    )
]
