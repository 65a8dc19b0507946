"""`kafka-delete-records`. Source: Kafka's DeleteRecordsCommand."""

import click

from kvorum.cli.kafka.common import Connection, Files, connection_options
from kvorum.cli.output import say


@click.command("kafka-delete-records")
@click.option("--offset-json-file", required=True, type=Files)
@connection_options()
def delete_records(connection: Connection, offset_json_file: str) -> None:
    """Delete the records of partitions below the offsets in a file, for good.

    \b
    echo '{"partitions": [{"topic": "orders", "partition": 0, "offset": 100}], "version": 1}' > offsets.json
    kvorum kafka-delete-records --bootstrap-server localhost:9092 --offset-json-file offsets.json
    """
    from kvorum.cli.kafka.partition_files import PartitionFileError, offsets_of
    from kvorum.client.partitions import delete_records as deleted_records

    try:
        wanted = offsets_of(offset_json_file)
    except PartitionFileError as error:
        raise click.UsageError(str(error)) from None
    say("Executing records delete operation")
    found = connection.run(lambda cluster: deleted_records.delete_records(cluster, wanted))
    say("Records delete operation completed:")
    for place, each in found.items():
        outcome = f"error: {each.error.name}" if each.error else f"low_watermark: {each.low_watermark}"
        say(f"partition: {place}\t{outcome}")
    if any(each.error for each in found.values()):
        raise SystemExit(1)
