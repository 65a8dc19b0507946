"""The replicated metadata log: pysyncobj as algorithm, our journal, transport, guard and snapshots."""
