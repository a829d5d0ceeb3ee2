"""The commands of `kernelqual` that are more than a line: what each takes, does and prints."""
