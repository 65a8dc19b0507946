"""`kvorum produce`, `kvorum consume` and the verifiable clients."""
