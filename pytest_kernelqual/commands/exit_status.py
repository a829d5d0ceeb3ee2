"""Exit statuses of all commands."""

OK = 0
FAILING = 1
UNUSABLE = 2
