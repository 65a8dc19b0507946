"""docs/examples/chaos_annotations.py prints the faults of a history that the lab wrote, as Grafana takes them."""

import json
import os
import subprocess
import sys
from pathlib import Path

from kvorum.chaos.history import Fault, HistoryWriter, Start

ROOT = Path(__file__).parent.parent.parent.parent
SCRIPT = ROOT / "docs" / "examples" / "chaos_annotations.py"
TAG = json.loads((ROOT / "configs" / "grafana" / "kvorum-chaos.json").read_text())["annotations"]["list"][-1]["target"]


def printed(history: Path, *options: str) -> list[dict[str, object]]:
    command = [sys.executable, str(SCRIPT), str(history), *options]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in found.stdout.splitlines()]


def a_history(folder: Path) -> Path:
    path = folder / "history.jsonl"
    with HistoryWriter(path) as history:
        history.write(Start(t=0))
        history.write(
            Fault(t=1.5, fault="pause", id=1, phase="begin", targets=["broker-2"], story="SIGSTOP to broker-2")
        )
        history.write(Fault(t=2, fault="kill", id=2, phase="begin", targets=["broker-1", "broker-3"]))
        history.write(Fault(t=4, fault="pause", id=1, phase="end", targets=["broker-2"]))
        history.write(Fault(t=10, fault="heal", id=3, phase="end"))
    return path


def test_a_fault_is_an_annotation_from_its_begin_to_its_end(tmp_path: Path) -> None:
    assert printed(a_history(tmp_path), "--began", "1000") == [
        {"time": 1_001_500, "timeEnd": 1_004_000, "tags": ["kvorum-chaos", "pause"], "text": "SIGSTOP to broker-2"},
        {"time": 1_002_000, "tags": ["kvorum-chaos", "kill"], "text": "kill broker-1 broker-3"},
    ]
    assert TAG["tags"] == ["kvorum-chaos"]


def test_a_run_ended_when_its_history_was_last_written(tmp_path: Path) -> None:
    history = a_history(tmp_path)
    os.utime(history, (5_000, 5_000))
    assert [each["time"] for each in printed(history)] == [4_991_500, 4_992_000]
