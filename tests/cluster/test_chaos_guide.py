"""The way through the chaos lab in docs/chaos.md, typed: its shell, in its order, with a free port instead."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kvorum.cluster.local.ports import free_ports
from tests.cluster.test_quickstart import typing_environment

PAGE = Path(__file__).parent.parent.parent / "docs" / "chaos.md"
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
SECONDS = 120


@pytest.mark.skipif(shutil.which("curl") is None, reason="the page uses curl")
def test_the_guides_steps_work(tmp_path: Path) -> None:
    (port,) = free_ports(["127.0.0.1"])
    serve, *blocks = BLOCK.findall(PAGE.read_text().replace("9095", str(port)))
    assert serve.startswith("kvorum chaos serve") and len(blocks) == 3
    environment = typing_environment(tmp_path)
    # As a terminal's own command: Ctrl-C, or the end of this test, goes to it and not to a shell around it.
    command = [sys.executable, "-m", "kvorum.cli.main", *serve.split()[1:]]
    server = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        message = [server.stdout.readline() for _ in range(3)]
        assert message[1] == f"console: http://127.0.0.1:{port}/#/chaos\n", message
        outputs = []
        for text in blocks:
            done = subprocess.run(
                ["bash", "-euo", "pipefail"],
                input=text,
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )
            assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
            outputs.append(done.stdout)
        assert "kill -9 node-3" in outputs[1]
        assert '"node-3":"ready"' in outputs[2].replace(" ", "")
        assert all(str(number) in outputs[2].splitlines() for number in (1, 2, 3)), outputs[2]
    finally:
        server.terminate()
        code = server.wait(SECONDS)
        assert server.stdout is not None
        server.stdout.close()
    assert code == 0
