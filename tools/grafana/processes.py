"""What each process uses, and how late its event loop is."""

from typing import Final

from grafana.expressions import PROCESS, highest, of_each, quantile, rate, series, total
from grafana.panels import CLUSTER_VARIABLE, INSTANCE_VARIABLE, Dashboard, curves, stat, table

IDLE: Final = (
    f"{series('kafka_network_socketserver_networkprocessoravgidle_percent', PROCESS)} or "
    f"{series('kafka_controller_controllereventmanager_avgidleratio', PROCESS)}"
)
"""A controller beside a broker leaves the first to it."""

PROCESSES: Final = Dashboard(
    uid="kvorum-process",
    title="Kvorum: processes and event loops",
    description="Each broker and controller is one process with one event loop: how late it is, and what it uses.",
    variables=(CLUSTER_VARIABLE, INSTANCE_VARIABLE),
    panels=(
        stat(
            "Latest event loop",
            highest(series("kvorum_event_loop_lag_max_seconds", PROCESS)),
            "Seconds, the most of the last minute.",
            red_from=0.5,
        ),
        stat(
            "Least idle loop",
            f"min({IDLE})",
            "Share of time without work, 0 to 1.",
            red_below=0.1,
        ),
        stat("Processes", f"count({series('kvorum_build_info', PROCESS)})"),
        stat("Metrics that overflowed", total(series("kvorum_metrics_overflowed", PROCESS)), red_from=1),
        curves(
            "Event loop: late by, 99th percentile",
            of_each(quantile("0.99", "kvorum_event_loop_lag_seconds", "instance", PROCESS)),
            unit="s",
        ),
        curves("Event loop: late by, at most", of_each(series("kvorum_event_loop_lag_max_seconds", PROCESS)), unit="s"),
        curves(
            "Idle share",
            of_each(IDLE),
            unit="percentunit",
            description="Of the loop's thread. Request handlers and network share it: both metrics say the same.",
        ),
        curves(
            "Processor",
            of_each(rate("process_cpu_seconds_total", PROCESS)),
            unit="percentunit",
            description="All threads; 1 is a core.",
        ),
        curves("Memory", of_each(series("process_resident_memory_bytes", PROCESS)), unit="bytes"),
        curves(
            "Open files, share of the limit",
            of_each(f"{series('process_open_fds', PROCESS)} / {series('process_max_fds', PROCESS)}"),
            unit="percentunit",
        ),
        curves(
            "Disk",
            of_each(rate("kafka_server_kafkaserver_linux_disk_read_bytes", PROCESS), "read "),
            of_each(rate("kafka_server_kafkaserver_linux_disk_write_bytes", PROCESS), "written "),
            unit="Bps",
            description="What went to or came from disks; what the page cache served is not in it.",
        ),
        curves(
            "Forcing logs to disk, 99th percentile",
            of_each(quantile("0.99", "kvorum_log_flush_seconds", "instance", PROCESS)),
            unit="s",
        ),
        curves(
            "Requests that wait for the loop", of_each(series("kafka_network_requestchannel_requestqueuesize", PROCESS))
        ),
        curves("Bytes of requests that wait", of_each(series("kvorum_queued_request_bytes", PROCESS)), unit="bytes"),
        table("What runs", series("kvorum_build_info", PROCESS)),
        table(
            "State of each broker",
            series("kafka_server_kafkaserver_brokerstate", PROCESS),
            legend="{{instance}}",
            description="1 starting, 2 fenced, 3 running, 6 and 7 shutting down.",
        ),
    ),
)
