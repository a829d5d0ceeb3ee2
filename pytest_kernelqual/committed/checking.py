"""Everything about committed files that can be told from the files alone."""

import os
from dataclasses import dataclass
from pathlib import Path

from pytest_kernelqual.committed import schema
from pytest_kernelqual.committed.schema import CommittedDevice, CommittedFile
from pytest_kernelqual.committed.store import Store
from pytest_kernelqual.errors import DocumentError


@dataclass(frozen=True, kw_only=True)
class Checked:
    """What a folder holds."""

    files: int
    """Those that can be used."""
    rows: int
    """Theirs."""
    findings: list[str]
    """One line each, in order of the paths."""


def check(root: Path) -> Checked:
    """Check one folder of committed configs.

    Raises:
        DocumentError: It is not there, is no folder, or cannot be read.
    """
    try:
        list(root.iterdir())
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        why = (error.strerror if isinstance(error, OSError) else "") or str(error)
        raise DocumentError(f"cannot read {str(root)!a}: {why}; give a folder of committed configs") from error
    store = Store(root)
    contents = store.read_all()
    findings = [(refusal.path, str(refusal)) for refusal in contents.refusals]
    for path, file in contents.files.items():
        told = _form_problem(path, file)
        if told:
            findings.append((str(path), f"{ascii(str(path))[1:-1]}: {told}"))
    for kernel in {file.kernel for file in contents.files.values()}:
        for path, device in store.places_without_file(kernel, contents).items():
            if not os.path.lexists(path):  # else it is refused, which is told
                findings.append((str(path), f"{ascii(str(path))[1:-1]}: {_missing(device)}"))
    return Checked(
        files=len(contents.files),
        rows=sum(len(file.rows) for file in contents.files.values()),
        findings=[line for _, line in sorted(findings)],
    )


def _missing(device: CommittedDevice) -> str:
    name = ascii(device.name)[1:-1]
    return (
        f"is missing, and other kernels have a file for {name}; run --kernelqual-update there, or remove "
        "the files of the device"
    )


def _form_problem(path: Path, file: CommittedFile) -> str:
    """Say where a file is not written as an update writes it; empty where it is."""
    try:
        there = path.read_bytes()
    except OSError as error:
        return f"cannot be read: {error.strerror or error}; it changed while it was checked"
    wanted = schema.encode(file)
    if there == wanted:
        return "" if file.rows else "it has no rows; remove it"
    ours, theirs = wanted.splitlines(keepends=True), there.splitlines(keepends=True)
    line = next((number for number, pair in enumerate(zip(ours, theirs, strict=False), 1) if pair[0] != pair[1]), None)
    told = line or min(len(ours), len(theirs)) + 1
    return (
        f"not in canonical form from line {told} on: names sorted, rows in order of their keys, indented by 2, ASCII, "
        "one final newline; undo edits by hand, or run --kernelqual-update"
    )
