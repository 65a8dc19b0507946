"""`kvorum metadata`, `kvorum quorum` and `kvorum protocol`."""
