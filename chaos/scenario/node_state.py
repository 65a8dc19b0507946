"""State of a lab's nodes as an operator sees it: logs, metrics, certificates that listeners serve."""

import socket
import ssl
from pathlib import Path
from typing import Final
from urllib.error import URLError
from urllib.request import urlopen

from cryptography.hazmat.primitives.serialization import Encoding

from kvorum.chaos.faults.lab import Lab
from kvorum.runtime.config import Settings
from kvorum.runtime.listeners import SecurityProtocol, listeners
from kvorum.security.client_properties import client_settings
from kvorum.security.outgoing import client_tls
from kvorum.security.tls.client import ClientTls

SECONDS: Final = 2.0
"""Limit of one query of one process."""


def logs_contain(folder: str, text: str) -> bool:
    """Return whether a log in the folder of a node has this text."""
    return any(text in path.read_text(errors="replace") for path in sorted(Path(folder).glob("*.log")))


def sum_of_metric(lab: Lab, name: str) -> float:
    """Return the sum of a metric over all brokers that answer, and all its labels."""
    found = 0.0
    for node in lab.cluster.plan.nodes:
        url = node.properties.get("metrics.listener")
        if url is None or "broker" not in node.roles:
            continue
        try:
            with urlopen(f"{url}/metrics", timeout=SECONDS) as page:
                lines = page.read().decode().splitlines()
        except (URLError, OSError):
            continue
        found += sum(
            float(line.rpartition(" ")[2]) for line in lines if line.partition(" ")[0].partition("{")[0] == name
        )
    return found


def describe_served_certificates(lab: Lab, node: str) -> str:
    """Return the listener of a node that does not serve the certificate of the node's file; empty if all do."""
    assert lab.lab_security is not None, "the kind of cluster was checked"
    files = lab.lab_security.files.certificates
    expected = files.read(files.key_store(node)).chain[0].public_bytes(Encoding.DER)
    own = client_tls(client_settings(lab.direct_access.properties).settings)
    for endpoint in listeners(Settings.of(dict(lab.cluster.plan.node(node).properties))):
        if endpoint.security_protocol in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL):
            served = served_certificate(endpoint.host, endpoint.port, own)
            if served != expected:
                present = "no handshake succeeds" if served is None else "it serves another one"
                return f"listener {endpoint.listener_name} of {node} with the certificate of its file: {present}"
    return ""


def served_certificate(host: str, port: int, tls: ClientTls) -> bytes | None:
    """Return the certificate of a listener, None if no handshake with it succeeds."""
    try:
        with (
            socket.create_connection((host, port), SECONDS) as plain,
            tls.context.wrap_socket(plain, server_hostname=host) as secured,
        ):
            return secured.getpeercert(binary_form=True)
    except (ssl.SSLError, OSError):
        return None
