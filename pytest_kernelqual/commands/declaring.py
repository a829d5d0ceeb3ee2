"""The help of a command: what it does, examples, and what its exit statuses mean."""

import argparse
from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import Any

from pytest_kernelqual.commands.exit_status import UNUSABLE

_WIDTH = 100
_UNUSABLE = "wrong usage, or a file that cannot be read or written"


def described(description: str, examples: Sequence[str], statuses: Mapping[int, str]) -> dict[str, Any]:
    """Return the arguments of `add_parser` that say so.

    Args:
        description: One paragraph.
        examples: Command lines.
        statuses: What each exit status means; that of unusable files is added where it is left out.
    """
    told = {**statuses, UNUSABLE: statuses.get(UNUSABLE, _UNUSABLE)}
    lines = [
        "examples:" if len(examples) > 1 else "example:",
        *(f"  {example}" for example in examples),
        "",
        "exit status:",
        *(
            fill(f"{status}  {text}", _WIDTH, initial_indent="  ", subsequent_indent="     ")
            for status, text in told.items()
        ),
    ]
    return {
        "description": fill(description, _WIDTH),
        "epilog": "\n".join(lines),
        "formatter_class": argparse.RawDescriptionHelpFormatter,
    }
