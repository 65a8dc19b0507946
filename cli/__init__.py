"""The `kvorum` command: every subcommand imports its modules when it runs."""
