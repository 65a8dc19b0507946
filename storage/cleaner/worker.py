"""The cleaner's worker process, `python -m kvorum.storage.cleaner.worker`: runs the tasks of cleanings, in slices.

A request is a task (none: continue) with a limit; the response is the slice's result or error. msgpack, between two
processes of one installation: the versions are always equal.
"""

from typing import Final

import msgspec

from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.runtime import failpoints, worker
from kvorum.runtime.clock import SystemClock
from kvorum.runtime.disk import OsDisk, is_process_error
from kvorum.storage.cleaner.work import Advanced, Slice, Task, Work
from kvorum.storage.segment import CorruptSegment


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A request of the broker. `failpoints`: those armed in the worker."""

    task: Task | None
    limit: Slice
    failpoints: str = ""


class DiskFailed(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """An OSError."""

    number: int | None
    text: str
    path: str | None


class Unreadable(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Bytes that cannot be understood: a KafkaError, or without a code a CorruptSegment."""

    text: str
    code: int | None = None


class Fault(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """An AssertionError: our own fault."""

    text: str


Answer = Advanced | DiskFailed | Unreadable | Fault

_ENCODER: Final = msgspec.msgpack.Encoder()
_REQUESTS: Final = msgspec.msgpack.Decoder(Request)
_ANSWERS: Final[msgspec.msgpack.Decoder[Answer]] = msgspec.msgpack.Decoder(Answer)


def encoded(message: Request | Answer) -> bytes:
    """Return a message's bytes."""
    return _ENCODER.encode(message)


def advanced(data: bytes) -> Advanced:
    """Return the result of a slice. Raises the worker's error: OSError, CorruptSegment, KafkaError, AssertionError."""
    match _ANSWERS.decode(data):
        case DiskFailed(number=number, text=text, path=path):
            raise OSError(number, text, path)
        case Unreadable(text=text, code=code):
            raise CorruptSegment(text) if code is None else KafkaError(ErrorCode(code), text)
        case Fault(text=text):
            raise AssertionError(text)
        case Advanced() as answer:
            return answer


def answer_of(work: Work, request: Request) -> Answer:
    """Execute a slice of work. Raises OSError for a lack of process resources: the worker ends then."""
    try:
        return work.advance(request.task, request.limit)
    except OSError as error:
        if is_process_error(error):
            raise
        return DiskFailed(number=error.errno, text=error.strerror or str(error), path=error.filename)
    except CorruptSegment as error:
        return Unreadable(text=str(error))
    except KafkaError as error:
        return Unreadable(text=error.message or "", code=int(error.code))
    except AssertionError as error:
        return Fault(text=str(error))


def main() -> None:
    """Answer until the broker closes the pipe."""
    work, broker = Work(OsDisk(), SystemClock()), worker.owner()

    def answer(data: bytes) -> bytes:
        request = _REQUESTS.decode(data)
        if request.failpoints != failpoints.setting:
            failpoints.arm(request.failpoints, broker)
        return encoded(answer_of(work, request))

    # The failpoints of the environment are armed again, with the broker as their owner.
    failpoints.arm("")
    worker.serve(answer)


if __name__ == "__main__":
    main()
