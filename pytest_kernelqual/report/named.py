"""Reports with the names of their files."""

import os
from collections.abc import Sequence
from typing import NamedTuple

from pytest_kernelqual.errors import DocumentError
from pytest_kernelqual.files.atomic import PathText
from pytest_kernelqual.model.record import Document
from pytest_kernelqual.report import document


class Named(NamedTuple):
    """A report, and what messages call it."""

    name: str
    document: Document


def read_all(paths: Sequence[PathText]) -> list[Named]:
    """Return the reports of files, in their order.

    Raises:
        DocumentError: Files cannot be used; the message has a line for each of them.
    """
    found, problems = [], []
    for path in paths:
        try:
            found.append(Named(name_of(path), document.read(path)))
        except DocumentError as error:
            problems.append(str(error))
    if problems:
        raise DocumentError("\n".join(problems))
    return found


def name_of(path: PathText) -> str:
    """Return a path as messages show it."""
    return ascii(os.fspath(path))[1:-1]
