"""`kvorum dump-log` and `kvorum debug-bundle`."""
