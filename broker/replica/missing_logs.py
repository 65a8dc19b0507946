"""Decides on a replica whose log is in no online log directory, or lacks records. Sans-IO.

An empty log is harmful if it is mistaken for the lost one: it could be elected, and the others would truncate all
records. So one is created only if no other replica depends on it, or if the controller will not elect it before it
knows of the new log (assign_directories).

    the metadata name a directory that works here, or none yet
        it was just assigned to this broker, or no replica depends on it  CREATE
        it lacks records, by what was recorded here, and others have them LOST   a folder or file is missing or damaged
        all directories work, and there is no copy of it                  CREATE   it never had one
        else                                                              LOST
    they name another directory, or mark it as lost
        it lacks records, and is the last of an ISR (without ELR)         LOST   until another one is elected
        all directories work: that one no longer exists                   CREATE   the controller goes by the directory
        else it may be the one that does not work                         WAIT

A single replica has no others: it leads with the remaining records, as in Kafka. CREATE uses an existing log.

Source: Kafka's Partition.createLogInAssignedDirectoryId, which always creates an empty log in the first case, and uses
any copy as the log.
"""

from collections.abc import Collection
from enum import Enum

from kvorum.protocol.uuids import Uuid
from kvorum.quorum.image.partition import LOST_DIRECTORY, UNASSIGNED_DIRECTORY, PartitionRegistration


class MissingLogAction(Enum):
    """CREATE: an empty log. WAIT: it is offline until all directories work.

    LOST: the controller has to know that it has nothing, before another log is made.
    """

    CREATE = "create"
    WAIT = "wait"
    LOST = "lost"


def missing_log_action(
    registration: PartitionRegistration,
    broker_id: int,
    *,
    online: Collection[Uuid],
    all_work: bool,
    is_new: bool,
    has_copy: bool,
    lacks: bool = False,
) -> MissingLogAction:
    """Decide; see the table. `online` are the broker's directories that work, `all_work` whether those are all.

    `is_new`: neither an earlier process nor this one can have had a log of it. `has_copy`: a future log exists,
    which may lack the newest records. `lacks`: a log existed here, and it is missing, or records of it are.
    """
    named = registration.directory(broker_id)
    counts = broker_id in registration.isr or broker_id in registration.eligible
    is_reachable = named in online or named in (UNASSIGNED_DIRECTORY, LOST_DIRECTORY)
    if lacks and counts and is_reachable and not is_new and len(registration.replicas) > 1:
        return MissingLogAction.LOST
    if named != UNASSIGNED_DIRECTORY and named not in online:
        return MissingLogAction.CREATE if all_work else MissingLogAction.WAIT
    if is_new:
        return MissingLogAction.CREATE
    is_eligible = broker_id in registration.eligible
    if all_work:
        return MissingLogAction.LOST if has_copy and is_eligible else MissingLogAction.CREATE
    return (
        MissingLogAction.LOST if has_copy or is_eligible or broker_id in registration.isr else MissingLogAction.CREATE
    )
