"""Commands of Raft entries: a batch of metadata records, or the voter set. Sans-IO.

    command  0x00 (pysyncobj: a regular command), kind, payload
    'B'      one Kafka record batch, base offset and leader epoch filled in by its author (what is compared)
    'V'      the voter set of a static quorum, msgpack {node id: directory id}
    'M'      that of a dynamic one, msgpack {node id: [directory id, [[listener, host, port], ...]]}
    0x01     pysyncobj's no-op

An unknown kind stops the node: a newer Kvorum wrote it, and skipping it would let the state diverge.
"""

from typing import Final

import msgspec

from kvorum.quorum.raft.voters import Endpoint, Endpoints, VoterSet

BATCH_PREFIX: Final = b"\x00B"
VOTERS_PREFIX: Final = b"\x00V"
MEMBERS_PREFIX: Final = b"\x00M"
SET_PREFIXES: Final = (VOTERS_PREFIX, MEMBERS_PREFIX)
PREFIX_SIZE: Final = 2
NO_OP: Final = b"\x01"


def batch_command(batch: bytes) -> bytes:
    """Return the command for a placed record batch."""
    return BATCH_PREFIX + batch


def encode_voters(voters: VoterSet, endpoints: Endpoints | None) -> bytes:
    """Return a voter set as msgpack; `endpoints` is None for a static quorum."""
    if endpoints is None:
        return msgspec.msgpack.encode(dict(sorted(voters.items())))
    return msgspec.msgpack.encode(
        {node_id: (directory, endpoints.get(node_id, [])) for node_id, directory in sorted(voters.items())}
    )


def decode_voters(data: bytes) -> tuple[VoterSet, Endpoints | None]:
    """Decode the result of `encode_voters` (None if there are no voters). Raises msgspec.MsgspecError."""
    found = msgspec.msgpack.decode(data, type=dict[int, bytes | tuple[bytes, list[Endpoint]]])
    voters, endpoints = VoterSet(), Endpoints()
    for node_id, value in found.items():
        if isinstance(value, bytes):
            voters[node_id] = value
        else:
            voters[node_id], endpoints[node_id] = value
    return voters, endpoints or None


def voters_command(voters: VoterSet, endpoints: Endpoints | None = None) -> bytes:
    """Return the command that makes `voters` the voter set."""
    return (VOTERS_PREFIX if endpoints is None else MEMBERS_PREFIX) + encode_voters(voters, endpoints)


def voters_of(command: bytes) -> tuple[VoterSet, Endpoints | None] | None:
    """Return the voter set of a VOTERS or MEMBERS command with its endpoints, None for any other."""
    if not command.startswith(SET_PREFIXES):
        return None
    return decode_voters(command[PREFIX_SIZE:])
