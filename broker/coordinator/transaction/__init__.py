"""The transaction coordinator: fences producers of a transactional id, and ends each transaction."""
