"""`kvorum quorum`: the metadata quorum."""

from typing import TYPE_CHECKING, Any

import click

from kvorum.cli.connection.client import bootstrap_option, with_cluster
from kvorum.cli.metadata.quorum_voters import add_controller, remove_controller
from kvorum.cli.output import Exit, fail, output_option, show

if TYPE_CHECKING:
    from kvorum.client.wire.cluster_client import ClusterClient
    from kvorum.cluster.local.unsafe_recovery import Survivor

EXPLANATION = """\
Controller {survivor} will count controller {node} with directory {directory} from its next
start on. Use this to recover a quorum in which controllers with intact directories are no
longer a majority. Metadata can be lost permanently:

  Loss               All acknowledged metadata changes that are only on lost directories. The log
                     of controller {survivor} ends at offset {offset} in epoch {epoch}; later entries
                     in other logs are lost.
  Not needed         if controllers that kept their directories can be started and are a majority
                     ({majority} of {voters}): start them. The reformatted controller is readmitted
                     automatically, and nothing is lost.
  Which controller   If several kept their directories, use the one whose log has the highest
                     epoch, then the highest offset.
  Afterwards         Start controllers {survivor} and {node}, then restart all brokers: a broker that
                     applied lost metadata exits. A controller that returns with lost metadata
                     refuses to start: move its directory away and format it again.
"""


@click.group()
def quorum() -> None:
    """Inspect and repair the metadata quorum.

    \b
    kvorum quorum status -b 127.0.0.1:9092
    kvorum quorum add-controller --help         change the voters of a dynamic quorum
    kvorum quorum readmit --help                recovery after lost controller directories
    """


quorum.add_command(add_controller)
quorum.add_command(remove_controller)


@quorum.command()
@bootstrap_option
@output_option
def status(bootstrap: str, output: str) -> None:
    """Show leader, epoch, high watermark, voters and observers.

    \b
    kvorum quorum status -o json
    """

    async def work(cluster: "ClusterClient") -> dict[str, Any]:
        partition = (await cluster.describe_quorum()).topics[0].partitions[0]
        end = max([voter.log_end_offset for voter in partition.current_voters], default=0)
        members = [
            {
                "node": state.replica_id,
                "role": role,
                "log_end_offset": state.log_end_offset,
                "lag": max(0, end - state.log_end_offset),
                "last_caught_up_ms": state.last_caught_up_timestamp,
                "directory_id": str(state.replica_directory_id),
            }
            for states, role in ((partition.current_voters, "voter"), (partition.observers, "observer"))
            for state in states
        ]
        return {
            "leader_id": partition.leader_id,
            "leader_epoch": partition.leader_epoch,
            "high_watermark": partition.high_watermark,
            "members": members,
        }

    found = with_cluster(bootstrap, work)
    if output == "table":
        members = found.pop("members")
        show(found, output)
        click.echo()
        show(members, output)
    else:
        show(found, output)


@quorum.command()
@click.argument("node", type=int, metavar="NODE_ID")
@click.argument("directory", metavar="DIRECTORY_ID")
@click.option(
    "-c",
    "--config",
    "config",
    required=True,
    type=click.Path(exists=True, dir_okay=False),
    help="Properties file of a stopped controller that kept its directory.",
)
@click.option("--override", multiple=True, metavar="KEY=VALUE", help="Override a config. Repeatable.")
@click.option(
    "--i-accept-loss", "accepted", is_flag=True, help="Apply the change. Without it, only the consequences are printed."
)
def readmit(node: int, directory: str, config: str, override: tuple[str, ...], accepted: bool) -> None:
    """Readmit a controller that lost its directory when no majority is left. Can lose metadata.

    A controller that lost its directory is formatted again, with a new directory id, and does not vote until the
    others have readmitted it. While they have a majority this happens automatically, and this command is not needed.
    Without a majority no leader can be elected. Then run this command for a stopped controller that kept its directory
    (--config): it counts NODE_ID with DIRECTORY_ID from its next start on. `kvorum format` prints the directory id; it
    is also in NODE_ID's meta.properties. Metadata that was acknowledged and is only on lost directories is lost.

    \b
    kvorum format node-2.properties --cluster-id ID --ignore-formatted          prints the new directory id
    kvorum quorum readmit 2 DIRECTORY_ID --config node-3.properties             prints the consequences
    kvorum quorum readmit 2 DIRECTORY_ID --config node-3.properties --i-accept-loss
    """
    from kvorum.cluster.local import unsafe_recovery as readmission
    from kvorum.cluster.process.hosting import Refusal
    from kvorum.protocol.uuids import Uuid
    from kvorum.runtime.config import ConfigError
    from kvorum.runtime.config_files import load_node
    from kvorum.runtime.disk import OsDisk

    try:
        directory_id = Uuid.parse(directory)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="DIRECTORY_ID") from None
    try:
        settings = load_node(config, overrides=override).settings
        survivor = readmission.look(OsDisk(), settings)
        readmission.check_target(survivor, node, directory_id)
        if accepted:
            readmission.readmit(OsDisk(), settings, node, directory_id)
    except ConfigError as error:
        fail(str(error), Exit.USAGE)
    except Refusal as refusal:
        fail(refusal.reason, Exit.FAILED)
    if not accepted:
        click.echo(explanation(survivor, node, directory_id))
        fail("nothing was changed; add --i-accept-loss to apply", Exit.USAGE)
    click.echo(f"controller {survivor.node_id} counts controller {node} with directory {directory_id} from now on.")
    click.echo(f"Start controllers {survivor.node_id} and {node}, and then every broker again.")


def explanation(survivor: "Survivor", node: int, directory_id: object) -> str:
    """Return the consequences for the operator."""
    return EXPLANATION.format(
        survivor=survivor.node_id,
        node=node,
        directory=directory_id,
        offset=survivor.end_offset,
        epoch=survivor.epoch,
        majority=len(survivor.voter_ids) // 2 + 1,
        voters=len(survivor.voter_ids),
    )
