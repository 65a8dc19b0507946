"""The `kvorum` command, thin: every subcommand imports what it needs when it runs."""
