"""`kvorum chaos serve`: the lab over HTTP."""
