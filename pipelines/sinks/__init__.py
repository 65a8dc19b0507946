"""Sinks: topics, files, tables of a database, the terminal."""
