"""Which files hold specs; loaded in every run, so it imports nothing heavy."""

import fnmatch
import os
from collections.abc import Sequence
from pathlib import Path


def is_spec_file(path: Path, patterns: Sequence[str]) -> bool:
    """Tell whether a pattern of `kernelqual_files` fits, by the rules of pytest's `python_files`.

    A pattern without a separator is one of names, another one of ends of paths.
    """
    return any(
        fnmatch.fnmatch(str(path), pattern if os.path.isabs(pattern) else f"*{os.sep}{pattern}")  # noqa: PTH117 - no path
        if os.sep in pattern
        else fnmatch.fnmatch(path.name, pattern)
        for pattern in patterns
    )


def named_spec_files(arguments: Sequence[str], patterns: Sequence[str]) -> list[str]:
    """Return the spec files among paths and node ids of a command line, each once."""
    paths = [argument.partition("::")[0] for argument in arguments]
    return list(dict.fromkeys(path for path in paths if is_spec_file(Path(path), patterns)))


def import_root(path: Path) -> Path:
    """Return the folder from which pytest imports a file: the first one upwards that is no package."""
    root = path.parent
    while (root / "__init__.py").is_file():
        root = root.parent
    return root
