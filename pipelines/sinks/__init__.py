"""Where records go: topics, files, tables of a database, the terminal."""
