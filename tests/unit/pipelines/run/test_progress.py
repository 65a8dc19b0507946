"""The progress of a pipeline as a line for people."""

from kvorum.pipelines.run.progress import Progress


def test_figures_are_one_line_and_unknown_ones_are_left_out() -> None:
    assert Progress().line() == "0 micro-batches, 0 records in (0.0/s)"
    full = Progress(batches=2, records_in=20, records_out=18, rate_in=9.96, lag=3, batch_ms=120)
    assert full.line() == "2 micro-batches, 20 records in (10.0/s), 18 records out, lag 3, last micro-batch 120 ms"
