"""Sources: topics, files, tables of a database, generated records."""
