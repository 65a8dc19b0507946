"""Databases as sources and sinks of tables: what differs between them, and the statements that do not."""
