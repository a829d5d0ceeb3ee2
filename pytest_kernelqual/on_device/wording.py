"""What was found, in the words of a reason."""

from collections.abc import Sequence
from typing import Any

from pytest_kernelqual.model.record import Deviation, Mismatch
from pytest_kernelqual.model.tolerance import Tolerance
from pytest_kernelqual.model.values import said


def in_words(found: dict[str, Any] | None) -> str:
    """Return where poison survived; empty where it did not."""
    if not found:
        return ""
    return f"{found['count']} elements of {found['output']}, first at {tuple(found['first_index'])}"


def mismatch_in_words(found: Mismatch) -> str:
    """Return how one output differs, on one line."""
    if found.diagnosis == "shape":
        return f"{found.output}: {found.note}"
    size = []
    if found.max_ulp is not None:
        size.append(f"max {found.max_ulp} ULP")
    if found.max_absolute is not None:
        size.append(f"max |difference| {found.max_absolute:.3g}")
    if found.beyond_tolerance is not None:
        size.append(f"{found.beyond_tolerance or 'none'} beyond the tolerance")
    return (
        f"{found.output}: {found.differing} of {found.elements} elements differ, "
        f"first at {tuple(found.first_index or ())}: "
        f"expected {found.expected}, got {found.actual} ({', '.join([*size, found.diagnosis])})"
    )


def deviation_in_words(found: Sequence[Deviation], tolerance: Tolerance | None) -> str:
    """Return how the fixed launch differs from the oracle, on one line: of the first output that does."""
    item = next(item for item in found if item.beyond)
    beyond = f"beyond {tolerance}" if tolerance is not None else "unlike the rounded reference"
    size = [f"max |difference| {item.max_absolute:.3g}"] if item.max_absolute is not None else []
    size += [f"max {item.max_ulp} ULP"] if item.max_ulp is not None else []
    told = (
        f"{item.output}: {item.beyond} of {item.elements} elements {beyond}, worst at {item.worst_index}: "
        f"oracle {item.expected}, got {item.actual}"
    )
    return ", ".join([told, *size])


def first_line(error: BaseException) -> str:
    """Return the first line of an error, or its type where it says nothing."""
    return (said(error).strip().splitlines() or [type(error).__name__])[0]
