"""Mistakes with failed, replaced or removed log directories: eligibility, and creation of logs."""

from collections.abc import Iterable, Sequence

from kvorum.broker.replica import delta
from kvorum.broker.replica.missing_logs import MissingLogAction
from kvorum.protocol.uuids import Uuid
from kvorum.quorum.controller import assign_directories, liveness, registration
from kvorum.quorum.controller.context import Context
from kvorum.quorum.controller.leader_isr import new_incarnation_records
from kvorum.quorum.controller.partition_change import NOBODY, PartitionChangeBuilder
from kvorum.quorum.image.partition_set import TopicIdPartition
from kvorum.quorum.records import MetadataRecord
from kvorum.quorum.steps import Steps
from sim.mutants.patches import Patches


def stay_in_a_failed_directory(patches: Patches) -> None:
    """The replicas of a failed log directory stay in sync and keep leading, known to the controller."""

    def change_nothing(
        context: Context, partitions: Iterable[TopicIdPartition], *, remove: int
    ) -> Steps[list[MetadataRecord]]:
        yield
        return []

    patches.replace(liveness, "leader_and_isr_changes", change_nothing)


def vouch_for_a_lost_directory(patches: Patches) -> None:
    """The mark of a clean shutdown keeps replicas eligible whose log directory was taken out of log.dirs."""

    def whatever_there_is(
        context: Context, broker_id: int, log_dirs: Sequence[Uuid], *, is_clean: bool, is_any_gone: bool
    ) -> Steps[list[MetadataRecord]]:
        known = {
            directory
            for topic in context.image.topics.by_id.values()
            for partition in topic.partitions.values()
            for directory in partition.directories
        }
        everything = (*log_dirs, *known)
        return new_incarnation_records(context, broker_id, everything, is_clean=is_clean, is_any_gone=False)

    patches.replace(registration, "new_incarnation_records", whatever_there_is)


def elect_another_log(patches: Patches) -> None:
    """The last known leader is elected with any log, in another directory than the lost one."""

    def forgetful(**fields: object) -> PartitionChangeBuilder:
        return PartitionChangeBuilder(**{**fields, "lost": NOBODY})  # type: ignore[arg-type]  # with its original signature

    patches.replace(assign_directories, "PartitionChangeBuilder", forgetful)


def make_an_empty_log(patches: Patches) -> None:
    """A broker creates an empty log for a replica whose own may be in an offline log directory."""
    patches.replace(delta, "missing_log_action", lambda *arguments, **named: MissingLogAction.CREATE)
