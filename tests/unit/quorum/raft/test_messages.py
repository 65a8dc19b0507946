"""Frames: every one comes back as it went, nothing else is understood."""

import random

import pytest

from kvorum.quorum.raft.messages import (
    Ack,
    Append,
    Hello,
    MalformedFrame,
    Message,
    PreVote,
    PreVoteAnswer,
    SnapshotAck,
    SnapshotChunk,
    TimeoutNow,
    Vote,
    VoteAnswer,
    decode,
    encode,
)

EACH: tuple[Message, ...] = (
    Hello("cluster", 1, b"d" * 16, 7, {1: b"d" * 16, 2: b"e" * 16}, [2], True),
    PreVote(3, 1 << 60, 9, 2),
    PreVoteAnswer(3, 1 << 60, True),
    Vote(3, 9, 2, False, b"d" * 16),
    VoteAnswer(3, True, b"d" * 16),
    Append(3, 1, 9, 8, 2, [(2, b"\x00Bone"), (3, b"")]),
    Ack(3, 1, True, 9),
    SnapshotChunk(3, 1, 9, 8, 2, 0, 100, b"data"),
    SnapshotAck(3, 1, 8, 4),
    TimeoutNow(3),
)


@pytest.mark.parametrize("message", EACH, ids=lambda message: type(message).__name__)
def test_each_message_is_decoded_unchanged(message: Message) -> None:
    frame = encode(message)
    assert decode(frame) == message
    assert decode(memoryview(frame)) == message


def test_tags_never_change() -> None:
    """They are the format: a changed one would not be understood by a running peer."""
    assert [encode(message)[2] for message in EACH] == list(range(10))


@pytest.mark.parametrize("frame", [b"", b"\x01", b"\x02\x90", b"\x01\x90", b"\x01\x91\x63", b"\x01\xc0", bytes(100)])
def test_anything_else_is_malformed(frame: bytes) -> None:
    with pytest.raises(MalformedFrame):
        decode(frame)


def test_a_scrambled_frame_is_malformed_or_another_message_and_never_anything_worse() -> None:
    rng = random.Random(1)
    for _ in range(5000):
        frame = bytearray(encode(rng.choice(EACH)))
        for _ in range(rng.randint(1, 3)):
            frame[rng.randrange(len(frame))] = rng.randrange(256)
        del frame[rng.randint(1, len(frame) * 2) :]
        try:
            decode(bytes(frame))
        except MalformedFrame:
            continue
