"""What unmodified clients ask of a cluster under faults, and what they were told: operations, loads, final reads."""
