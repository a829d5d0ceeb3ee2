"""Parts of lines."""

import re
from collections.abc import Sequence

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_])")
_NOT_PRINTABLE = re.compile(r"[^ -~]+")


def clean(text: str, limit: int) -> str:
    """Return `text` as one line of at most `limit` printable ASCII characters."""
    if not (text.isascii() and text.isprintable()):
        text = _ANSI.sub("", text).encode("ascii", "backslashreplace").decode("ascii")
        text = _NOT_PRINTABLE.sub(" ", text)
    text = text.strip()
    return text if len(text) <= limit else text[: limit - 3] + "..."


def and_more(names: Sequence[str], shown: int = 1) -> str:
    """Return the first names, and how many more there are."""
    text = ", ".join(names[:shown])
    return text if len(names) <= shown else f"{text} and {len(names) - shown} more"


def counted(number: int, one: str, many: str = "") -> str:
    """Return a number and the word for it: `1 case`, `2 cases`."""
    return f"{number} {one if number == 1 else many or one + 's'}"
