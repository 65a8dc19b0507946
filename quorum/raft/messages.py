"""The frames that voters exchange: a fixed set, msgpack arrays with a type tag, a version byte in front. No pickle.

A frame is only understood after the peer's Hello on the same connection. Every frame carries its sender's term; an
Append and a SnapshotChunk carry a sequence number that their answer echoes, so a leader knows which of its sendings an
answer is to, and when it left: an answer in the same term proves that the sender was followed *after* that moment.
"""

from typing import Final

import msgspec

VERSION: Final = 1
FRAME_BYTES_MAX: Final = 16 * 1024 * 1024
"""An Append carries at least one command whatever its size (8 MiB at most), and some room."""


class MalformedFrame(Exception):
    """The bytes are not a frame of this version: the connection must be closed."""


class Hello(msgspec.Struct, array_like=True, tag=0):
    """First message on a connection, sent again when its content has changed.

    `pins` are the directories that the sender knows of each voter: {node id: 16 bytes}. `forced` names those that an
    operator re-admitted at the sender. `incarnation` differs for each start of a process. A node without a leader sends
    Hello again and requests one in response, in case one was lost. For an upgrade to a dynamic quorum:
    `kraft_version_max`, the highest that the sender's software supports, and its `endpoints`; `dynamic`: its log has a
    dynamic set. An earlier Kvorum sends none of the three, and ignores them.
    """

    cluster_id: str
    node_id: int
    directory_id: bytes
    incarnation: int
    pins: dict[int, bytes]
    forced: list[int]
    answer: bool = False
    kraft_version_max: int = 0
    endpoints: list[tuple[str, str, int]] = []
    dynamic: bool = False


class PreVote(msgspec.Struct, array_like=True, tag=1):
    """Request for a pre-vote in `term`. It changes no state of the receiver (KIP-996)."""

    term: int
    round_id: int
    last_index: int
    last_term: int


class PreVoteAnswer(msgspec.Struct, array_like=True, tag=2):
    """The answer, with the answerer's own term."""

    term: int
    round_id: int
    granted: bool


class Vote(msgspec.Struct, array_like=True, tag=3):
    """Request for a vote. `transfer`: the leader requested this election, which overrides stickiness."""

    term: int
    last_index: int
    last_term: int
    transfer: bool
    directory_id: bytes


class VoteAnswer(msgspec.Struct, array_like=True, tag=4):
    """The answer. A refusal lets the candidate try again soon instead of waiting a whole timeout."""

    term: int
    granted: bool
    directory_id: bytes


class Append(msgspec.Struct, array_like=True, tag=5):
    """Entries behind (previous_index, previous_term), consecutive from there; none in a heartbeat."""

    term: int
    sequence: int
    commit_index: int
    previous_index: int
    previous_term: int
    entries: list[tuple[int, bytes]]
    """(term, command)."""


class Ack(msgspec.Struct, array_like=True, tag=6):
    """Answer to Append number `sequence`.

    `matched`: all up to `index` is in the log, durably. Not matched: `index` is the next position; 0 means only that
    the sender's term is old.
    """

    term: int
    sequence: int
    matched: bool
    index: int


class SnapshotChunk(msgspec.Struct, array_like=True, tag=7):
    """A piece of the snapshot file that replaces the log up to (index, snapshot_term)."""

    term: int
    sequence: int
    commit_index: int
    index: int
    snapshot_term: int
    position: int
    file_size: int
    data: bytes


class SnapshotAck(msgspec.Struct, array_like=True, tag=8):
    """Answer to chunk number `sequence`: continue at `position`.

    When it is installed, or not needed, the answer is an Ack.
    """

    term: int
    sequence: int
    index: int
    position: int


class TimeoutNow(msgspec.Struct, array_like=True, tag=9):
    """Leadership transfer: become a candidate at once."""

    term: int


Message = Hello | PreVote | PreVoteAnswer | Vote | VoteAnswer | Append | Ack | SnapshotChunk | SnapshotAck | TimeoutNow

_VERSION_BYTE: Final = bytes((VERSION,))
_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Message)


def encode(message: Message) -> bytes:
    """Return the frame."""
    return _VERSION_BYTE + _encoder.encode(message)


def decode(frame: bytes | memoryview) -> Message:
    """Return the message of a frame. Raises MalformedFrame."""
    if len(frame) < 2 or len(frame) > FRAME_BYTES_MAX or frame[0] != VERSION:
        raise MalformedFrame(
            f"frame of {len(frame)} bytes with version {frame[0] if frame else None}, supported is {VERSION}"
        )
    try:
        message: Message = _decoder.decode(memoryview(frame)[1:])
    except (msgspec.MsgspecError, ValueError) as error:
        raise MalformedFrame(str(error)) from error
    return message
