"""The dashboard of processes: event loop lag and resources."""

from typing import Final

from grafana.expressions import PROCESS, highest, of_each, quantile, rate, series, total
from grafana.panels import CLUSTER_VARIABLE, INSTANCE_VARIABLE, Dashboard, curves, stat, table

IDLE: Final = (
    f"{series('kafka_network_socketserver_networkprocessoravgidle_percent', PROCESS)} or "
    f"{series('kafka_controller_controllereventmanager_avgidleratio', PROCESS)}"
)
"""On a combined node only the broker exposes the first metric."""

PROCESSES: Final = Dashboard(
    uid="kvorum-process",
    title="Kvorum: processes and event loops",
    description="Event loop lag and resource usage of each broker and controller process.",
    variables=(CLUSTER_VARIABLE, INSTANCE_VARIABLE),
    panels=(
        stat(
            "Event loop lag, maximum",
            highest(series("kvorum_event_loop_lag_max_seconds", PROCESS)),
            "Seconds, maximum of the last minute.",
            red_from=0.5,
        ),
        stat(
            "Event loop idle, minimum",
            f"min({IDLE})",
            "Idle share, 0 to 1.",
            red_below=0.1,
        ),
        stat("Processes", f"count({series('kvorum_build_info', PROCESS)})"),
        stat("Metrics over their label limit", total(series("kvorum_metrics_overflowed", PROCESS)), red_from=1),
        curves(
            "Event loop lag, 99th percentile",
            of_each(quantile("0.99", "kvorum_event_loop_lag_seconds", "instance", PROCESS)),
            unit="s",
        ),
        curves("Event loop lag, maximum", of_each(series("kvorum_event_loop_lag_max_seconds", PROCESS)), unit="s"),
        curves(
            "Event loop idle share",
            of_each(IDLE),
            unit="percentunit",
            description="Request handlers and network share one event loop, so both metrics are equal.",
        ),
        curves(
            "Processor",
            of_each(rate("process_cpu_seconds_total", PROCESS)),
            unit="percentunit",
            description="All threads; 1 is one core.",
        ),
        curves("Memory", of_each(series("process_resident_memory_bytes", PROCESS)), unit="bytes"),
        curves(
            "Open files, per limit",
            of_each(f"{series('process_open_fds', PROCESS)} / {series('process_max_fds', PROCESS)}"),
            unit="percentunit",
        ),
        curves(
            "Disk",
            of_each(rate("kafka_server_kafkaserver_linux_disk_read_bytes", PROCESS), "read "),
            of_each(rate("kafka_server_kafkaserver_linux_disk_write_bytes", PROCESS), "written "),
            unit="Bps",
            description="Bytes read from and written to disks. Reads from the page cache are not included.",
        ),
        curves(
            "Log flush time, 99th percentile",
            of_each(quantile("0.99", "kvorum_log_flush_seconds", "instance", PROCESS)),
            unit="s",
        ),
        curves("Queued requests", of_each(series("kafka_network_requestchannel_requestqueuesize", PROCESS))),
        curves("Queued request bytes", of_each(series("kvorum_queued_request_bytes", PROCESS)), unit="bytes"),
        table("Processes and versions", series("kvorum_build_info", PROCESS)),
        table(
            "State of each broker",
            series("kafka_server_kafkaserver_brokerstate", PROCESS),
            legend="{{instance}}",
            description="1: starting, 2: fenced, 3: running, 6 and 7: shutting down.",
        ),
    ),
)
