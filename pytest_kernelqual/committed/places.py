"""Where rows stand in their files."""

import json
import re
from pathlib import Path

from pytest_kernelqual.committed.reading import MAX_BYTES
from pytest_kernelqual.committed.schema import Key, key_text

# In the form in which an update writes a file; in another form rows have no known place.
_ROWS = re.compile(r'^  "rows": \[\n', flags=re.MULTILINE)
_NEXT = re.compile(r"[\s,]*")


def row_line(path: Path, key: Key) -> int:
    """Return the line on which the row of a key begins; 0 where it cannot be told."""
    if not path.is_file():
        return 0
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES).decode()
        rows = _ROWS.search(text)
        at = rows.end() if rows is not None else len(text)
        while True:
            start = at + len(_NEXT.match(text, at)[0])  # type: ignore[index]
            row, at = json.JSONDecoder().raw_decode(text, start)
            if key_text(row["key"]) == key_text(key):
                return text.count("\n", 0, start) + 1
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return 0
