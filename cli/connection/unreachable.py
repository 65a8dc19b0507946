"""Why no broker is reachable, for a person: the addresses are tried once more, without Kafka's client."""

import socket
from collections.abc import Sequence
from typing import Final

from kvorum.network.addresses import Address, parse_bootstrap

API_VERSIONS: Final = bytes.fromhex("0000000a0012000000000001ffff")
"""ApiVersions v0 with correlation id 1 and no client id: every broker answers it."""
TRIAL_SECONDS: Final = 2.0
TRIALS_MAX: Final = 3
HINT: Final = "give the address of a broker with -b or KVORUM_BOOTSTRAP"


def unreachable(bootstrap: str, reason: str) -> str:
    """Return one line: the problem of the addresses, else the client's own reason, and what to do."""
    try:
        addresses = parse_bootstrap(bootstrap)[:TRIALS_MAX]
    except ValueError:
        addresses = []
    trials = [(f"{host}:{port}", trial((host, port))) for host, port in addresses]
    names = [name for name, _ in trials if name not in reason]
    where = f" at {', '.join(names)}" if names else ""
    return problem_of(trials) or f"no broker could be reached{where}: {reason}"


def no_address_works(bootstrap: str) -> str | None:
    """Return the problem if no address can be a broker's; None if one may be. For commands with long timeouts."""
    trials = [(f"{host}:{port}", trial((host, port))) for host, port in parse_bootstrap(bootstrap)]
    return problem_of(trials) if all(found is not None for _, found in trials) else None


def problem_of(trials: Sequence[tuple[str, str | None]]) -> str | None:
    """Return one line for the results of trials; None if they are no reason."""
    if trials and all(found == "refused" for _, found in trials):
        where = ", ".join(name for name, _ in trials)
        return f"nothing listens on {where}; start the cluster (kvorum status shows its nodes), or {HINT}"
    for name, found in trials:
        if found == "other protocol":
            return f"{name} does not speak Kafka's protocol (an HTTP port?); {HINT}"
        if found == "unknown host":
            return f"the host of {name} is not known; {HINT}"
    return None


def trial(address: Address) -> str | None:
    """Return the problem of an address: "refused", "unknown host", "other protocol"; None if it is unclear."""
    try:
        with socket.create_connection(address, TRIAL_SECONDS) as connection:
            connection.settimeout(TRIAL_SECONDS)
            connection.sendall(API_VERSIONS)
            head = connection.recv(4)
    except ConnectionRefusedError:
        return "refused"
    except socket.gaierror:
        return "unknown host"
    except OSError:
        return None
    # A frame's first byte is 0 up to 16 MiB; other protocols begin with text.
    return "other protocol" if head and head[:1].isascii() and head[:1] >= b" " else None
