"""From nodes to DataFrames."""
