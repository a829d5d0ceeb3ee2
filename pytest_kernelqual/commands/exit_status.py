"""Exit statuses of all commands."""

OK = 0
FAILING = 1
UNUSABLE = 2
INTERRUPTED = 130
"""As of a process that Ctrl-C ended."""
