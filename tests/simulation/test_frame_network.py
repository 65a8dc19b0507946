"""FrameNetwork: what it does to frames beyond TCP, and what it does not: a connection begins with its first frame."""

import random

import pytest

from sim.loop import Host, SimLoop
from sim.network import FrameNetwork, NetworkOptions

FRAMES = [bytes([number]) for number in range(50)]


class Node:
    """Says all its frames whenever it is connected, and keeps what it is told."""

    def __init__(self, name: str) -> None:
        self.host = Host(name)
        self.network: FrameNetwork | None = None
        self.got: list[bytes] = []

    def connected(self, peer: int) -> None:
        if self.network is not None:
            for frame in FRAMES:
                self.network.send(1, peer, frame)

    def disconnected(self, peer: int) -> None:
        """Nothing is kept of a connection."""

    def refused(self, peer: int) -> None:
        raise AssertionError("the other one is there from the beginning")

    def receive(self, peer: int, frame: bytes) -> None:
        assert peer == 1
        self.got.append(frame)


def received(seed: int, options: NetworkOptions) -> list[bytes]:
    """What comes of a connection's frames."""
    loop = SimLoop(random.Random(seed))
    network = FrameNetwork(loop, random.Random(seed), options)
    speaker, listener = Node("1"), Node("2")
    speaker.network = network
    network.attach(1, speaker)
    network.attach(2, listener)
    network.dial_all(1, (2,))
    loop.run_for(5.0)
    return listener.got


@pytest.mark.parametrize("seed", range(10))
def test_the_first_frame_of_a_connection_is_always_first(seed: int) -> None:
    assert received(seed, NetworkOptions(loss=1.0)) == FRAMES[:1]
    slow = NetworkOptions(loss=0.3, reorder=1.0, duplicate=0.3, slow=0.5)
    got = received(seed, slow)
    assert got[0] == FRAMES[0] and len(set(got)) < len(FRAMES), "some are lost"
    assert got != sorted(got) and len(got) > len(set(got)), "and some come late, or twice"


def test_without_faults_all_frames_arrive_in_order() -> None:
    assert received(1, NetworkOptions()) == FRAMES
