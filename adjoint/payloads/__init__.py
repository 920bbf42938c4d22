"""Values that a tensor may hold instead of an array: batched, dual and traced values."""
