"""`kvorum dump-log`: what Kafka's kafka-dump-log.sh does, on the files of any broker that is Kafka-compatible."""

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from kvorum.cli.output import fail, say
from kvorum.cli.progress import bar

if TYPE_CHECKING:
    from kvorum.cli.dump.log_dump import Options, Problems
    from kvorum.cli.records.record_decoders import Decoder

TEXT_NAMES = ("string", "integer", "long", "bytes", "base64")
LOG_SUFFIXES = (".log", ".checkpoint")
SUFFIXES = (".log", ".checkpoint", ".index", ".timeindex", ".snapshot", ".txnindex")


@click.command("dump-log")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True))
@click.option("--print-data-log", is_flag=True, help="Print keys and values.")
@click.option("--deep-iteration", is_flag=True, help="Print every record, not only batches.")
@click.option("--index-sanity-check", is_flag=True, help="Indexes: only the checks of a broker's start.")
@click.option("--verify-index-only", is_flag=True, help="Indexes: compare with the log, print no entries.")
@click.option("--key-decoder", type=click.Choice(TEXT_NAMES), default="string", show_default=True)
@click.option("--value-decoder", type=click.Choice(TEXT_NAMES), default="string", show_default=True)
@click.option("--offsets-decoder", "special", flag_value="offsets", help="Decode records of __consumer_offsets.")
@click.option(
    "--transaction-log-decoder", "special", flag_value="transactions", help="Decode records of __transaction_state."
)
@click.option(
    "--cluster-metadata-decoder", "special", flag_value="metadata", help="Decode records of the metadata log."
)
@click.option("--max-bytes", type=click.IntRange(0), help="Read this many bytes of each log.")
@click.option("--skip-record-metadata", is_flag=True, help="Print keys and values only.")
def dump_log(
    files: tuple[str, ...],
    print_data_log: bool,
    deep_iteration: bool,
    index_sanity_check: bool,
    verify_index_only: bool,
    key_decoder: str,
    value_decoder: str,
    special: str | None,
    max_bytes: int | None,
    skip_record_metadata: bool,
) -> None:
    """Print segments, indexes, producer snapshots and metadata snapshots, and report damage.

    A folder means all log files in it. Exit code 1 if anything is damaged.

    \b
    kvorum dump-log --print-data-log data/orders-0/00000000000000000000.log
    kvorum dump-log --offsets-decoder data/__consumer_offsets-7
    kvorum dump-log --verify-index-only data/orders-0
    """
    from kvorum.cli.dump.log_dump import Options

    decoder = decoder_of(special, key_decoder, value_decoder, wanted=print_data_log or skip_record_metadata)
    options = Options(
        decoder=decoder,
        deep=deep_iteration or decoder is not None,
        skip_metadata=skip_record_metadata,
        size_max=max_bytes,
    )
    if dump(files_of(files), options, sanity_only=index_sanity_check, verify_only=verify_index_only):
        fail("some files are damaged")


def decoder_of(special: str | None, key: str, value: str, *, wanted: bool) -> "Decoder | None":
    """Return the decoder of keys and values; None if it is not requested."""
    from kvorum.cli.records import record_decoders

    match special:
        case "offsets":
            return record_decoders.offsets_decoder
        case "transactions":
            return record_decoders.transaction_log_decoder
        case "metadata":
            return record_decoders.cluster_metadata
        case _:
            plain = (key, value) != ("string", "string")
            texts = record_decoders.TEXTS
            return record_decoders.plain(texts[key], texts[value]) if wanted or plain else None


def files_of(paths: tuple[str, ...]) -> list[str]:
    """Return the files that are meant: each, and all of a log's in each folder."""
    found: list[str] = []
    for path in paths:
        if os.path.isdir(path):
            found += sorted(os.path.join(path, name) for name in os.listdir(path) if name.endswith(SUFFIXES))
        else:
            found.append(path)
    return found


def dump(files: list[str], options: "Options", *, sanity_only: bool, verify_only: bool) -> bool:
    """Print files; return whether one is damaged; damage is listed at the end, on standard error.

    Gaps in offsets are reported too, but are not damage: compaction creates them.
    """
    from kvorum.cli.dump.log_dump import Problems
    from kvorum.cli.dump.log_files import FileProblem

    problems = Problems()
    size = sum(os.path.getsize(path) for path in files if path.endswith(LOG_SUFFIXES) and os.path.exists(path))
    try:
        with bar(size, "dump-log", beside_output=True) as read:
            options = replace(options, read=read)
            for path in files:
                say(f"Dumping {path}")
                try:
                    for line in lines_of(path, options, problems, sanity_only=sanity_only, verify_only=verify_only):
                        say(line)
                except FileProblem as problem:
                    problems.note(str(problem), "")
                except OSError as error:
                    problems.note(f"{error.filename or path}: {error.strerror or error}", "")
    except BrokenPipeError:
        sys.stderr.close()  # the reader has closed the pipe
        raise SystemExit(0) from None
    for title, lines in (*problems.remarks.items(), *problems.lines.items()):
        click.echo(title, err=True)
        for line in filter(None, lines):
            click.echo(line, err=True)
    return bool(problems.lines)


def lines_of(
    path: str, options: "Options", problems: "Problems", *, sanity_only: bool, verify_only: bool
) -> Iterator[str]:
    """Yield the lines of a file, by its suffix."""
    from kvorum.cli.dump import index_dump, log_dump

    match os.path.splitext(path)[1]:
        case suffix if suffix in LOG_SUFFIXES:
            yield from log_dump.dump_log(path, options, problems)
        case ".index":
            yield from index_dump.dump_index(path, sanity_only=sanity_only, verify_only=verify_only, problems=problems)
        case ".timeindex":
            yield from index_dump.dump_time_index(
                path, sanity_only=sanity_only, verify_only=verify_only, problems=problems
            )
        case ".txnindex":
            yield from index_dump.dump_txn_index(path)
        case ".snapshot":
            yield from index_dump.dump_producers(path)
        case _:
            click.echo(f"Ignoring unknown file {path}", err=True)
