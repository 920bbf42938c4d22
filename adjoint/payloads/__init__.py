"""What a tensor may hold besides an array: batched, dual and traced values."""
