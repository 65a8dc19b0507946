"""`kvorum protocol`: the support table, from the code."""

import click

from kvorum.cli.output import output_option, show


@click.command()
@click.option("--listener", type=click.Choice(["broker", "controller"]), default="broker", show_default=True)
@output_option
def protocol(listener: str, output: str) -> None:
    """Print the Kafka APIs and versions that Kvorum serves, and unsupported ones of Kafka 4.3.

    \b
    kvorum protocol
    kvorum protocol --listener controller -o json
    """
    from kvorum.protocol.api import BROKER_APIS, CONTROLLER_APIS

    if listener == "broker":
        from kvorum.broker.api.registry import advertised as served_versions
    else:
        from kvorum.quorum.api.registry import served_versions
    served = served_versions()
    table = BROKER_APIS if listener == "broker" else CONTROLLER_APIS
    rows = []
    for key, (first, last) in sorted(table.items()):
        versions = served.get(key)
        name = "".join(part.capitalize() for part in key.name.split("_"))
        shown = f"{versions[0]}-{versions[1]}" if versions else None
        rows.append({"key": int(key), "name": name, "kafka": f"{first}-{last}", "kvorum": shown})
    show(rows, output)
