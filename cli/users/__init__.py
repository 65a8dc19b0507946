"""Commands for users that are more than an operation."""
