"""Request handlers, one file per request; the listing of this folder is the broker's support table."""
