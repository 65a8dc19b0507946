"""What a Raft entry's command says: a batch of metadata records, or the voter set. Sans-IO.

    command  0x00 (pysyncobj: a regular command), kind, payload
    'B'      one Kafka record batch, base offset and leader epoch filled in by its author (what is compared)
    'V'      the voter set, msgpack {node id: directory id}
    0x01     pysyncobj's no-op

An unknown kind stops the node: a newer Kvorum wrote it, and skipping it would let the state diverge.
"""

from typing import Final

import msgspec

from kvorum.quorum.raft.voters import VoterSet

BATCH_PREFIX: Final = b"\x00B"
VOTERS_PREFIX: Final = b"\x00V"
PREFIX_SIZE: Final = 2
NO_OP: Final = b"\x01"


def batch_command(batch: bytes) -> bytes:
    """Return the command for a placed record batch."""
    return BATCH_PREFIX + batch


def voters_command(voters: VoterSet) -> bytes:
    """Return the command that makes `voters` the voter set."""
    return VOTERS_PREFIX + msgspec.msgpack.encode(dict(sorted(voters.items())))


def voters_of(command: bytes) -> VoterSet | None:
    """Return the voter set of a VOTERS command, None for any other."""
    if not command.startswith(VOTERS_PREFIX):
        return None
    return msgspec.msgpack.decode(command[PREFIX_SIZE:], type=dict[int, bytes])
