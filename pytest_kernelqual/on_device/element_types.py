"""What the dtypes of inputs can hold, exactly, and the bits that hold it."""

import math
from bisect import bisect_left
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

import torch

from pytest_kernelqual.errors import InputError

_INTEGERS = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64")
_FLOATS = (
    *("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"),
    *("float16", "bfloat16", "float32", "float64"),
)
_COMPLEX = ("complex64", "complex128")
_NAMES = {getattr(torch, name): name for name in ("bool", *_INTEGERS, *_FLOATS, *_COMPLEX)}
_SIGNED = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def element_type(dtype: Any) -> torch.dtype:
    """Return the dtype meant by a torch dtype or its name; InputError where inputs cannot have it."""
    found = getattr(torch, dtype.removeprefix("torch."), None) if isinstance(dtype, str) else dtype
    if isinstance(found, torch.dtype) and found in _NAMES:
        return found
    near = get_close_matches(str(dtype), _NAMES.values(), 1)
    hint = f"did you mean {near[0]!r}?" if near else f"use one of {', '.join(_NAMES.values())}"
    if isinstance(found, torch.dtype):
        hint = "make the bytes as uint8 and view them as this dtype"
    raise InputError(f"dtype={dtype!r} is not a dtype that seeded makes; {hint}")


def is_integer(dtype: torch.dtype) -> bool:
    """Tell whether `dtype` holds whole numbers only, bool included."""
    return not (dtype.is_floating_point or dtype.is_complex)


def part_type(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype of the real and imaginary parts; a real dtype is its own part."""
    return dtype.to_real() if dtype.is_complex else dtype


def compute_type(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype in which values are drawn before they are rounded to `dtype`."""
    return torch.float64 if part_type(dtype) == torch.float64 else torch.float32


def as_bits(tensor: torch.Tensor) -> torch.Tensor:
    """View the elements as signed integers of the same size; complex128 gets a last axis of two."""
    if tensor.dtype == torch.complex128:
        tensor = torch.view_as_real(tensor)
    return tensor.view(_SIGNED[tensor.dtype.itemsize])


def integer_range(dtype: torch.dtype) -> tuple[int, int]:
    """Return the least and largest of the whole numbers that `dtype` holds without a gap."""
    if dtype == torch.bool:
        return 0, 1
    if is_integer(dtype):
        info = torch.iinfo(dtype)
        return info.min, info.max
    limit = round(2 / torch.finfo(dtype).eps)
    return -limit, limit


def largest(dtype: torch.dtype) -> float:
    """Return the largest finite value of a floating or complex dtype."""
    return float(torch.finfo(dtype).max)


def least_from(dtype: torch.dtype, low: float) -> float:
    """Return the least value of a floating `dtype` that is not less than `low`."""
    return -_greatest_to(dtype, -low, inclusive=True)


def greatest_below(dtype: torch.dtype, high: float) -> float:
    """Return the greatest value of a floating `dtype` that is less than `high`."""
    return _greatest_to(dtype, high, inclusive=False)


def _greatest_to(dtype: torch.dtype, bound: float, *, inclusive: bool) -> float:
    if dtype.itemsize <= 2:  # noqa: PLR2004 - bytes: few enough values to list
        values = _finite_values(dtype)
        position = bisect_left(values, bound)
        return bound if inclusive and position < len(values) and values[position] == bound else values[position - 1]
    nearest = torch.tensor(bound, dtype=dtype, device="cpu")
    if nearest.item() > bound or (nearest.item() == bound and not inclusive):
        nearest = torch.nextafter(nearest, torch.tensor(-math.inf, dtype=dtype, device="cpu"))
    return float(nearest.item())


@lru_cache
def _finite_values(dtype: torch.dtype) -> list[float]:
    """Return every finite value of a dtype of at most two bytes, ascending."""
    patterns = torch.arange(1 << (8 * dtype.itemsize), dtype=torch.int32, device="cpu").to(_SIGNED[dtype.itemsize])
    return sorted({value for value in patterns.view(dtype).to(torch.float64).tolist() if math.isfinite(value)})


def bits_of(value: Any, dtype: torch.dtype) -> list[int]:
    """Return the elements of `as_bits` of one value: one, or the two parts of a complex128.

    InputError where `dtype` cannot hold the value: not whole, out of range, infinite.
    """
    if not isinstance(value, bool | int | float | complex):
        raise InputError(f"value={value!r} is a {type(value).__name__}; use a Python number")
    if is_integer(dtype):
        number = _whole(value, dtype)
        low, high = integer_range(dtype)
        if not low <= number <= high:
            raise InputError(f"value={value!r} is outside of {_NAMES[dtype]}, which holds {low} to {high}")
        size = 8 * dtype.itemsize
        return [number - (1 << size) if number >> (size - 1) > 0 else number]
    if isinstance(value, complex) and not dtype.is_complex:
        raise InputError(f"value={value!r} is complex; {_NAMES[dtype]} holds real values")
    for part in (value.real, value.imag):
        if not _holds(dtype, part):
            raise InputError(f"value={value!r} is outside of {_NAMES[dtype]}, whose largest value is {largest(dtype)}")
    exact = torch.tensor([value], dtype=torch.complex128 if dtype.is_complex else torch.float64, device="cpu")
    rounded = exact.to(dtype) if dtype.itemsize > 1 else exact.to(torch.float32).to(dtype)
    return [int(bits) for bits in as_bits(rounded).flatten().tolist()]


def _whole(value: Any, dtype: torch.dtype) -> int:
    if isinstance(value, complex) or (isinstance(value, float) and not value.is_integer()):
        raise InputError(f"value={value!r} is not a whole number; {_NAMES[dtype]} holds whole numbers")
    return int(value)


def _holds(dtype: torch.dtype, part: float) -> bool:
    if math.isfinite(part):
        return abs(part) <= largest(dtype)
    # Dtypes named "fn" have no infinity, and would turn it into NaN without a word.
    return math.isnan(part) or bool(
        torch.tensor(part, device="cpu").to(part_type(dtype)).to(torch.float32).isinf().item()
    )
