"""The checker: reads a history and returns violations, explained findings and figures.

Pure: no files, no clock, no randomness. Time and memory grow with the number of events and records. The rules are
Jepsen's for Kafka, with additions; each module lists its own:

    derive, partitions, sends   one pass over the history
    logs, lost, sessions        contradictions, losses, and reads out of order
    realtime, transactions      appends in real time; all or nothing
    cycles, replicas            circular information flow; the logs and images of all nodes
    acks                        unjustified acknowledgements
    timeline, configs           leaders, ISRs and configs over time
    lineage, holders, loss      records that cannot be lost, their holders, and legal losses
    judge, story, meter         the verdict, its stories; the figures
"""

from kvorum.chaos.checker.run import Checker, check
from kvorum.chaos.checker.verdict import FaultFigures, Figures, PartitionFigures, Verdict, Violation

__all__ = ["Checker", "FaultFigures", "Figures", "PartitionFigures", "Verdict", "Violation", "check"]
