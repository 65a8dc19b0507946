"""Conditions about nodes: lines of their logs, sums of their metrics."""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kvorum.chaos.scenario.node_state import logs_contain, sum_of_metric
from kvorum.cluster.local.plan import ClusterPlan, NodePlan

PAGE = b"""# TYPE wanted_total counter
wanted_total{listener="A"} 3
wanted_total{listener="B"} 4.5
wanted_total_more 100
"""


def test_the_logs_of_all_processes_count(tmp_path: Path) -> None:
    (tmp_path / "broker.log").write_text("first\n")
    (tmp_path / "node.log").write_text("the reason is here\n")
    assert logs_contain(str(tmp_path), "reason is")
    assert not logs_contain(str(tmp_path), "another reason")


def test_a_metric_is_summed_over_listeners_and_brokers_that_answer() -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(PAGE)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.server_address[1]}"
        silent = HTTPServer(("127.0.0.1", 0), Handler)
        gone = f"http://127.0.0.1:{silent.server_address[1]}"
        silent.server_close()
        nodes = [
            NodePlan(f"node-{number}", {"process.roles": "broker", "metrics.listener": each})
            for number, each in enumerate((url, url, gone))
        ]
        lab: Any = SimpleNamespace(cluster=SimpleNamespace(plan=ClusterPlan("id", nodes)))
        assert sum_of_metric(lab, "wanted_total") == 15.0
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
