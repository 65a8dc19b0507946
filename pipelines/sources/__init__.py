"""Where records come from: topics, files, tables of a database, a generator, the machine's own metrics."""
