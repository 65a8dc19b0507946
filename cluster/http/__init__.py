"""HTTP pages of a process: metrics, status, actions."""
