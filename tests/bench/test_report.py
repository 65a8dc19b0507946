"""The table of a comparison: medians, which way is better, in which order the systems come."""

from bench.report import Report, alternating, ratio, shown


def test_the_systems_alternate_so_that_drift_falls_on_both() -> None:
    order = list(alternating(["a", "b"], 3))
    assert order == [(1, "a"), (1, "b"), (2, "b"), (2, "a"), (3, "a"), (3, "b")]


def test_more_is_better_of_rates_and_less_of_all_else() -> None:
    assert ratio("commits a second", [200.0], [100.0]) == "2.00x"
    assert ratio("1 node: records/s", [200.0], [100.0]) == "2.00x"
    assert ratio("CPU of all processes, s", [200.0], [100.0]) == "0.50x"
    assert ratio("a heartbeat every 3 s: median latency, ms", [1.0], [3.0]) == "3.00x"
    assert ratio("CPU of all processes, us a commit", [], [3.0]) == "-"


def test_the_median_is_shown_with_all_runs_or_with_the_ends_of_many() -> None:
    assert shown([]) == "-"
    assert shown([3.0]) == "3.00"
    assert shown([1.0, 30.0, 200.0]) == "30.0 (1.00, 30.0, 200)"
    assert shown([float(each) for each in range(9)]) == "4.00 (9 runs, 0.00 to 8.00)"


def test_each_figure_is_a_row_and_a_system_without_it_has_a_dash() -> None:
    report = Report()
    report.add("commits a second", "kvorum", 300.0)
    report.add("commits a second", "kafka", 100.0)
    report.add("commits a second", "kvorum", 500.0)
    report.add("memory, MiB", "kafka", 7.0)
    assert report.table().splitlines()[2:] == [
        "| commits a second | 400 (300, 500) | 100 | 4.00x |",
        "| memory, MiB | - | 7.00 | - |",
    ]
