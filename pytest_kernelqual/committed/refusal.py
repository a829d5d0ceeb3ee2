"""Why a committed file, or a row of one, is not used: one plain reason each."""

from typing import Any, Literal, get_args

from msgspec import Struct

Code = Literal[
    "unreadable",
    "unwritable",
    "untrusted",
    "too_large",
    "too_deep",
    "merge_conflict",
    "not_json",
    "duplicate_key",
    "wrong_schema",
    "wrong_type",
    "other_kernel",
    "other_device",
    "other_space",
    "unknown_candidate",
    "unknown_key",
    "misplaced",
]

CODES: tuple[Code, ...] = get_args(Code)


class Refusal(Struct, frozen=True, kw_only=True):
    """One reason, as a code and a line for people that shows the value seen, the limit and what to do."""

    code: Code
    path: str
    """The file, or the folder that cannot be read or written."""
    text: str
    key: dict[str, Any] | None = None
    """The row that is refused; None: the whole file is."""

    def __str__(self) -> str:
        """Return one line with the file and the reason."""
        return f"{ascii(self.path)[1:-1]}: {self.text}"
