"""Comparison of what two launches gave, byte for byte, and how far apart they are where they differ."""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from pytest_kernelqual.model.record import Mismatch
from pytest_kernelqual.model.tolerance import Tolerance
from pytest_kernelqual.on_device.distances import chunks, index_of, value_mismatch
from pytest_kernelqual.on_device.guards import any_of, memcmp, on_host
from pytest_kernelqual.on_device.memory import plain_allocations
from pytest_kernelqual.on_device.outputs import Output

_EQUAL_CHUNK_BYTES = 256 << 20

_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def same(expected: list[Output], actual: list[Output]) -> bool:
    """Tell whether names, shapes, dtypes, strides and bytes are equal; waits once for a device."""
    if forms(expected) != forms(actual):
        return False
    return _equal([(left.tensor, right.tensor) for left, right in zip(expected, actual, strict=True)])


def mismatches(expected: list[Output], actual: list[Output], tolerance: Tolerance | None = None) -> list[Mismatch]:
    """Return how each output differs, in order; outputs that are equal are left out."""
    found = []
    given = {output.name: output for output in actual}
    known = {output.name for output in expected}
    for output in expected:
        other = given.get(output.name)
        if other is None:
            found.append(_form_mismatch(output, "the output is missing"))
        elif _form(output)[:4] != _form(other)[:4]:
            found.append(_form_mismatch(output, _form_difference(output, other)))
        elif not same([output], [other]):
            with plain_allocations(), torch.no_grad():
                found.append(value_mismatch(output, other, tolerance))
    found += [
        _form_mismatch(output, "not an output of the fixed launch") for output in actual if output.name not in known
    ]
    return found


def unwritten(a: list[Output], b: list[Output], pattern_a: int, pattern_b: int) -> dict[str, Any] | None:
    """Find elements that nobody wrote: all their bytes are the pattern of the memory that the launch was given.

    Args:
        a: Outputs of a launch in memory poisoned by `pattern_a`.
        b: Outputs of the same launch in memory poisoned by `pattern_b`.
        pattern_a: A byte.
        pattern_b: Another byte.

    Returns:
        `output`, `count`, `first_index` and `elements` of the first output with such elements, or None.
    """
    if same(a, b):
        return None
    given = {output.name: output for output in b}
    for left in a:
        right = given.get(left.name)
        if right is None or _form(left) != _form(right) or left.dtype.startswith("Python "):
            continue
        with plain_allocations():
            count, first = _unwritten(left, right, pattern_a, pattern_b)
        if count:
            index = index_of(first, left.shape)
            return {"output": left.name, "count": count, "first_index": index, "elements": math.prod(left.shape)}
    return None


def _unwritten(left: Output, right: Output, pattern_a: int, pattern_b: int) -> tuple[int, int]:
    """Return how many elements are unwritten, and the row-major position of the first."""
    dtype: torch.dtype = getattr(torch, left.dtype)
    count, first, start = 0, 0, 0
    for part, other in zip(chunks(left), chunks(right), strict=True):
        unchanged = _is_filled(part, dtype, pattern_a) & _is_filled(other.to(part.device), dtype, pattern_b)
        places = unchanged.nonzero()
        if places.numel() and not count:
            first = start + int(places[0].item())
        count += len(places)
        start += len(unchanged)
    return count, first


def written_outside(expected: list[Output], actual: list[Output], pattern: int) -> dict[str, Any] | None:
    """Find bytes of returned storages, outside of what was returned, that only the candidate wrote.

    Args:
        expected: Outputs of the fixed launch in memory poisoned by `pattern`.
        actual: Outputs of the candidate in memory poisoned by the same pattern.
        pattern: A byte.

    Returns:
        `output`, `count` and `first_byte` of the first storage with such bytes, or None.
    """
    given = {output.name: output.outside for output in actual}
    pairs = []
    for output in expected:
        other = given.get(output.name)
        if output.outside is not None and other is not None and output.outside.numel() == other.numel():
            pairs.append((output.name, output.outside, other))
    if _equal([(left, right) for _, left, right in pairs]):
        return None
    for name, left, right in pairs:
        with plain_allocations():
            places = ((left == pattern) & (right.to(left.device) != pattern)).nonzero()
        if places.numel():
            return {"output": name, "count": len(places), "first_byte": int(places[0].item())}
    return None


def forms(outputs: list[Output]) -> list[tuple[Any, ...]]:
    """Return names, shapes, dtypes and strides."""
    return [_form(output) for output in outputs]


def _form(output: Output) -> tuple[Any, ...]:
    return output.name, output.shape, output.dtype, output.strides, output.tensor.numel()


def _equal(pairs: list[tuple[Tensor, Tensor]]) -> bool:
    """Tell whether the bytes of each pair, which are equally many, are equal; waits once for a device."""
    unknown = []
    for left, right in pairs:
        other = right.to(left.device)
        if on_host(left):
            if memcmp(left.data_ptr(), other.data_ptr(), left.numel()) != 0:
                return False
        else:
            unknown += list(_differences(left, other))
    with plain_allocations():
        return not unknown or not any_of(unknown)


def _differences(left: Tensor, right: Tensor) -> Iterator[Tensor]:
    """Yield flags, unwaited, of parts that differ; eight bytes at a time, which takes an eighth of the memory."""
    whole = left.numel() // 8 * 8
    for start in range(0, whole, _EQUAL_CHUNK_BYTES):
        stop = min(start + _EQUAL_CHUNK_BYTES, whole)
        yield left[start:stop].view(torch.int64).ne(right[start:stop].view(torch.int64)).any()
    if whole < left.numel():
        yield left[whole:].ne(right[whole:]).any()


def _form_mismatch(output: Output, note: str) -> Mismatch:
    elements = math.prod(output.shape)
    return Mismatch(output=output.name, elements=elements, differing=elements, diagnosis="shape", note=note)


def _form_difference(expected: Output, actual: Output) -> str:
    return "; ".join(
        f"{what} {new} instead of {old}"
        for what, old, new in (
            ("shape", expected.shape, actual.shape),
            ("dtype", expected.dtype, actual.dtype),
            ("strides", expected.strides, actual.strides),
        )
        if old != new
    )


def _is_filled(data: Tensor, dtype: torch.dtype, pattern: int) -> Tensor:
    """Tell of each element whether all its bytes are the pattern."""
    size = (dtype.to_real() if dtype.is_complex else dtype).itemsize
    value = int.from_bytes(bytes([pattern] * size), "little", signed=size > 1)
    return data.view(_BITS[size]).eq(value).view(-1, dtype.itemsize // size).all(dim=1)
