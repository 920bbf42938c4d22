"""Helpers that test-suites written for torch import; each module has the names of torch's of the same name."""
