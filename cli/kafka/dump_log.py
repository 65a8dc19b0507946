"""`kafka-dump-log`. Source: Kafka's DumpLogSegments."""

import click

from kvorum.cli.connection.client import options_from_user
from kvorum.cli.connection.profiles import profile_option
from kvorum.cli.dump.dump_log import decoder_of, dump

DECODERS = {
    "StringDecoder": "string",
    "IntegerDecoder": "integer",
    "LongDecoder": "long",
    "DefaultDecoder": "bytes",
}
INT32_MAX = 2**31 - 1
CLASSES = ("key_decoder_class", "value_decoder_class")


def text_of(name: str, option: str) -> str:
    """Return how a decoder's class prints, by its name with or without its package."""
    found = DECODERS.get(name.rpartition(".")[2])
    if found is None:
        raise click.BadParameter(f"{name} is not one of {', '.join(DECODERS)}", param_hint=option)
    return found


@click.command("kafka-dump-log")
@click.option("--files", required=True, metavar="FILE,FILE")
@click.option("--print-data-log", is_flag=True)
@click.option("--deep-iteration", is_flag=True)
@click.option("--verify-index-only", is_flag=True)
@click.option("--index-sanity-check", is_flag=True)
@click.option("--max-message-size", type=int, default=5 * 1024 * 1024, help="Ignored.")
@click.option("--max-bytes", type=click.IntRange(0), default=INT32_MAX)
@click.option("--key-decoder-class", default="StringDecoder")
@click.option("--value-decoder-class", default="StringDecoder")
@click.option("--offsets-decoder", "special", flag_value="offsets")
@click.option("--transaction-log-decoder", "special", flag_value="transactions")
@click.option("--cluster-metadata-decoder", "special", flag_value="metadata")
@click.option("--skip-record-metadata", is_flag=True)
@profile_option
def dump_log(
    files: str,
    print_data_log: bool,
    deep_iteration: bool,
    verify_index_only: bool,
    index_sanity_check: bool,
    max_message_size: int,
    max_bytes: int,
    key_decoder_class: str,
    value_decoder_class: str,
    special: str | None,
    skip_record_metadata: bool,
) -> None:
    """Print segments, indexes, producer snapshots and metadata snapshots.

    Faults are printed; the exit code is 0.

    \b
    kvorum kafka-dump-log --print-data-log --files data/orders-0/00000000000000000000.log
    """
    from kvorum.cli.dump.log_dump import Options

    key = text_of(key_decoder_class, "--key-decoder-class")
    value = text_of(value_decoder_class, "--value-decoder-class")
    typed = options_from_user(
        {name: True for name in CLASSES}, {name: name for name in CLASSES}
    )  # to name one is to want it
    decoder = decoder_of(special, key, value, wanted=print_data_log or bool(typed))
    options = Options(
        decoder=decoder,
        deep=deep_iteration or decoder is not None,
        skip_metadata=skip_record_metadata,
        size_max=None if max_bytes == INT32_MAX else max_bytes,
    )
    paths = [path for path in files.split(",") if path]
    dump(paths, options, sanity_only=index_sanity_check, verify_only=verify_index_only)
