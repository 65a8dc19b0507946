"""One file a request; the listing of this folder is the broker's support table."""
