"""kcat: see client_programs.py for the request and the answer. The settings go through a file, as secrets do."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

SECONDS = 60


def settings_of(request: dict[str, Any]) -> dict[str, Any]:
    found = {
        "bootstrap.servers": request["bootstrap"],
        "security.protocol": request["protocol"],
        "sasl.mechanism": request.get("mechanism"),
        "sasl.username": request.get("username"),
        "sasl.password": request.get("password"),
        "sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.keytab": request.get("keytab"),
        "sasl.kerberos.principal": request.get("principal"),
        "ssl.ca.location": request.get("ca"),
        "ssl.certificate.location": request.get("certificate"),
        "ssl.key.location": request.get("certificate"),
    }
    if request.get("mechanism") == "OAUTHBEARER":
        found |= {"enable.sasl.oauthbearer.unsecure.jwt": "true", "sasl.oauthbearer.config": "principal=alice"}
    return {key: value for key, value in found.items() if value is not None}


def kcat(request: dict[str, Any], *options: str, text: str | None = None) -> "subprocess.CompletedProcess[str]":
    with tempfile.NamedTemporaryFile("w") as file:
        Path(file.name).write_text("".join(f"{key}={value}\n" for key, value in settings_of(request).items()))
        command = ["kcat", "-F", file.name, "-t", request["topic"], "-p", "0", *options]
        return subprocess.run(command, input=text, capture_output=True, text=True, timeout=SECONDS)


def main() -> None:
    request = json.load(sys.stdin)
    values = request["values"]
    done = kcat(request, "-P", "-X", "message.timeout.ms=5000", text="\n".join(values) + "\n")
    if done.returncode == 0:
        done = kcat(request, "-C", "-o", "beginning", "-c", str(len(values)), "-q")
    if done.returncode == 0:
        answer: dict[str, Any] = {"values": done.stdout.splitlines()}
    else:
        answer = {"class": f"exit code {done.returncode}", "text": done.stderr}
    json.dump(answer, sys.stdout)


main()
