"""`kvorum quorum`: the metadata quorum."""

from typing import TYPE_CHECKING, Any

import click

from kvorum.cli.client import bootstrap_option, with_cluster
from kvorum.cli.output import Exit, fail, output_option, show
from kvorum.cli.quorum_voters import add_controller, remove_controller

if TYPE_CHECKING:
    from kvorum.admin.client import ClusterClient
    from kvorum.cluster.readmission import Survivor

EXPLANATION = """\
This makes controller {survivor} count controller {node} with directory {directory}
from its next start on, on your word alone. That is how a quorum gets going again that has no
majority left of controllers that kept their directories. It gives up metadata for good, and
nothing can bring it back:

  What is given up   Every topic, config and leader change that was acknowledged and lies only on
                     directories that are lost. Controller {survivor}'s log ends at offset {offset}, in
                     epoch {epoch}; what other logs hold behind that is gone.
  Not needed         while controllers that kept their directories can be started again and are a
                     majority ({majority} of {voters}): start them, and the one that was formatted again is
                     taken in by itself. Nothing is lost then.
  Which controller   Of several that kept their directories, say it at the one whose log has the
                     highest epoch, and then the highest offset.
  Afterwards         Start controllers {survivor} and {node}, then start all brokers again: one that
                     acted on what was given up ends by itself. A controller that comes back with
                     more than what is kept refuses: move its directory away, format it again.
"""


@click.group()
def quorum() -> None:
    """Inspect and repair the metadata quorum.

    \b
    kvorum quorum status -b 127.0.0.1:9092
    kvorum quorum add-controller --help         a dynamic quorum's voters come and go while it runs
    kvorum quorum readmit --help                what to do when controllers lost their directories
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
    help="Configuration of a controller that kept its directory, and is stopped.",
)
@click.option("--override", multiple=True, metavar="KEY=VALUE", help="Override a config; repeatable.")
@click.option("--i-accept-loss", "accepted", is_flag=True, help="Do it. Without this, only say what it would mean.")
def readmit(node: int, directory: str, config: str, override: tuple[str, ...], accepted: bool) -> None:
    """Let a controller vote that lost its directory, when no majority is left. Gives up metadata.

    A controller whose directory was lost is formatted again, which gives it a new directory id, and neither votes nor
    counts until the others have taken it in. While a majority of them lives they do so by themselves and this command
    is not needed. When the rest of the majority is lost, too, no leader can be elected any more; then an operator may
    say, at a controller that kept its directory (stopped, named by --config), that NODE_ID counts with DIRECTORY_ID,
    the id that `kvorum format` printed (it also stands in NODE_ID's meta.properties). What had been acknowledged and
    lies on lost directories only is given up.

    \b
    kvorum format node-2.properties --cluster-id ID --ignore-formatted          prints the new directory id
    kvorum quorum readmit 2 DIRECTORY_ID --config node-3.properties             says what it would mean
    kvorum quorum readmit 2 DIRECTORY_ID --config node-3.properties --i-accept-loss
    """
    from kvorum.cluster import readmission
    from kvorum.cluster.hosting import Refusal
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
        fail("nothing was changed; to do it, give --i-accept-loss", Exit.USAGE)
    click.echo(f"controller {survivor.node_id} counts controller {node} with directory {directory_id} from now on.")
    click.echo(f"Start controllers {survivor.node_id} and {node}, and then every broker again.")


def explanation(survivor: "Survivor", node: int, directory_id: object) -> str:
    """Return what an operator must know before."""
    return EXPLANATION.format(
        survivor=survivor.node_id,
        node=node,
        directory=directory_id,
        offset=survivor.end_offset,
        epoch=survivor.epoch,
        majority=len(survivor.voter_ids) // 2 + 1,
        voters=len(survivor.voter_ids),
    )
