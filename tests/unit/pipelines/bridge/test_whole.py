"""Input that is whole and input that was cut off, over a socket as Spark's: Arrow sees no difference."""

import inspect
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest
from pyspark import worker
from pyspark.serializers import SpecialLengths

from kvorum.pipelines.bridge.whole import InputCut, connection, whole

BATCHES = [pa.record_batch({"value": pa.array([first, first + 1])}) for first in (0, 2, 4)]
END_OF_STREAM = SpecialLengths.END_OF_STREAM.to_bytes(4, "big", signed=True)


def sent(count: int, *, is_whole: bool) -> bytes:
    """Return what an executor has sent: so many batches, and what follows the last of all."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, BATCHES[0].schema) as writer:
        for batch in BATCHES[:count]:
            writer.write_batch(batch)
        until_here = int(sink.tell())
    found = bytes(sink.getvalue().to_pybytes())
    return found + END_OF_STREAM if is_whole else found[:until_here]


@contextmanager
def receiving(data: bytes) -> Iterator[tuple[Any, socket.socket]]:
    """Give the worker's buffered end of a connection with the data, and the executor's."""
    ours, executor = socket.socketpair()
    with ours, executor, ours.makefile("rb", 65536) as stream:
        executor.sendall(data)
        yield stream, executor


def test_whole_input_is_taken_and_what_follows_it_left() -> None:
    with receiving(sent(3, is_whole=True)) as (stream, _):
        assert list(whole(iter(pa.ipc.open_stream(stream)), stream)) == BATCHES
        assert stream.read(4) == END_OF_STREAM


def test_what_follows_may_come_later() -> None:
    data = sent(3, is_whole=True)
    with receiving(data[:-4]) as (stream, executor):
        batches = whole(iter(pa.ipc.open_stream(stream)), stream)
        assert [next(batches) for _ in BATCHES] == BATCHES
        executor.sendall(data[-4:])
        assert list(batches) == []


@pytest.mark.parametrize("count", [1, 3])
def test_input_that_was_cut_between_batches_is_told(count: int) -> None:
    with receiving(sent(count, is_whole=False)) as (stream, executor):
        executor.close()
        with pytest.raises(InputCut):
            list(whole(iter(pa.ipc.open_stream(stream)), stream))


def test_arrow_itself_takes_a_cut_for_the_end() -> None:
    """Should it ever stop to, all of this can go."""
    with receiving(sent(2, is_whole=False)) as (stream, executor):
        executor.close()
        assert list(pa.ipc.open_stream(stream)) == BATCHES[:2]


def test_a_connection_that_is_broken_is_a_cut() -> None:
    class Broken:
        def peek(self, _: int) -> bytes:
            raise ConnectionResetError

    with pytest.raises(InputCut):
        list(whole(iter(BATCHES), Broken()))


def test_pyspark_has_its_connection_where_it_is_looked_for() -> None:
    assert next(iter(inspect.signature(worker.main).parameters)) == "infile"

    def main(infile: object) -> object:
        return connection()

    with receiving(b"") as (stream, _):
        assert main(stream) is stream
    with pytest.raises(RuntimeError, match="this pyspark does not show"):
        connection()
