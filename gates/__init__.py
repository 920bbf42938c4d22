"""Gates: generators of programs whose every run must be right; each is a command, and a slice of it is a test."""
