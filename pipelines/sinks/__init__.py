"""Where records go: topics, files, Delta tables, tables of a database, the terminal."""
