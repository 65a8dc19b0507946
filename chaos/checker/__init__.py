"""The checker: reads a history and says what in it cannot be, what was legal and why, and how it went in figures.

Pure: no files, no clock, no chance. Time and memory grow with the number of events and records. The rules are Jepsen's
for Kafka and what they leave out; each module says which:

    derive, partitions, sends   one pass over the history
    logs, lost, sessions        what contradicts itself, is gone, or was seen out of order
    realtime, transactions      appends in real time; all or nothing
    cycles, replicas            circular information flow; the logs and images of all nodes
    acks                        acknowledgements that say too much
    timeline, configs           who led and who was in sync, and what was allowed when
    lineage, holders, loss      what cannot be lost, who still held it, and which loss was legal
    judge, story, meter         the verdict, told; the figures
"""

from kvorum.chaos.checker.run import Checker, check
from kvorum.chaos.checker.verdict import FaultFigures, Figures, PartitionFigures, Verdict, Violation

__all__ = ["Checker", "FaultFigures", "Figures", "PartitionFigures", "Verdict", "Violation", "check"]
