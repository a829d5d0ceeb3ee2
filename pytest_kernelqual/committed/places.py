"""Where rows stand in their files."""

import json
import re
from functools import lru_cache
from pathlib import Path

from pytest_kernelqual.committed.reading import MAX_BYTES
from pytest_kernelqual.committed.schema import key_text

# In the form in which an update writes a file; in another form rows have no known place.
_ROWS = re.compile(r'^  "rows": \[\n', flags=re.MULTILINE)
_NEXT = re.compile(r"[\s,]*")


def row_lines(path: Path) -> dict[str, int]:
    """Return the line on which each row begins, by the text of its key, as far as they can be told."""
    if not path.is_file():
        return {}
    try:
        with path.open("rb") as file:
            return _lines(file.read(MAX_BYTES))
    except OSError:
        return {}


@lru_cache(maxsize=8)  # each row of a file is an item of its own
def _lines(data: bytes) -> dict[str, int]:
    found: dict[str, int] = {}
    try:
        text = data.decode()
        rows = _ROWS.search(text)
        at = counted = rows.end() if rows is not None else len(text)
        line = text.count("\n", 0, counted) + 1
        while True:
            start = at + len(_NEXT.match(text, at)[0])  # type: ignore[index]
            row, at = json.JSONDecoder().raw_decode(text, start)
            line += text.count("\n", counted, start)
            counted = start
            found.setdefault(key_text(row["key"]), line)
    except (ValueError, TypeError, KeyError, RecursionError):
        return found
