"""What compilers say: the line that tells the cause, and words that are the same each time."""

import re

# Of what temporary files are called, Python's tempfile makes eight characters.
_TEMPORARY = re.compile(r"(?:/[^\s/:'\"`]+)*/tmp[a-z0-9_]{8}(?![a-z0-9_])")
_ADDRESS = re.compile(r"\b0x[0-9a-f]{8,16}\b")
_CAUSES = re.compile(
    r"LLVM ERROR: .+|Assertion .+ failed|UNREACHABLE executed|what\(\): .+|(?:^|: )error ?: (?P<told>.+)"
)


def stable(text: str) -> str:
    """Return the text without names of temporary files and addresses, which two equal compilations do not share."""
    return _ADDRESS.sub("0x...", _TEMPORARY.sub("tmp", text))


def first_error(log: str) -> str:
    """Return the first line of a log in which a compiler tells an error, without its place; empty where none does."""
    found = next((match for line in log.splitlines() if (match := _CAUSES.search(line.strip()))), None)
    return "" if found is None else stable((found["told"] or found[0]).strip())
