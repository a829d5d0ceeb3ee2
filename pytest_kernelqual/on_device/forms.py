"""The form of an input: shape, strides, dtype and name, checked before memory is asked for."""

import math
import operator
from collections.abc import Sequence
from difflib import get_close_matches
from functools import lru_cache
from math import prod
from typing import Any

import torch

from pytest_kernelqual.errors import InputError
from pytest_kernelqual.model.profiles import NORMAL
from pytest_kernelqual.on_device import element_types

_OPTIONS = ("dtype", "strides", "layout", "requires_grad", "name", "profile")


class Form:
    """Hold what a builder asked for by the options that every method of `seeded` takes."""

    __slots__ = ("dtype", "name", "profile", "requires_grad", "shape", "strides")

    def __init__(
        self,
        method: str,
        shape: Sequence[int],
        options: dict[str, Any],
        dtype: torch.dtype,
        profiles: Sequence[str] = (),
    ) -> None:
        """Check `options` of `seeded.<method>`.

        `dtype` is the default, `profiles` are those that its values can take. Strides are in elements; raises
        InputError.
        """
        for option in options:
            if option not in _OPTIONS:
                near = get_close_matches(option, _OPTIONS, 1)
                hint = f"did you mean {near[0]!r}?" if near else f"options: {', '.join(_OPTIONS)}"
                raise InputError(f"seeded.{method} has no option {option!r}; {hint}")
        self.shape = _sizes("shape", shape)
        self.dtype = element_types.element_type(dtype if options.get("dtype") is None else options["dtype"])
        self.strides = _strides(self.shape, options.get("strides"), options.get("layout"))
        self.requires_grad = options.get("requires_grad", False)
        self.name: str | None = options.get("name")
        self.profile: str | None = options.get("profile")
        if self.profile not in (None, NORMAL, *profiles):
            told = ", ".join(map(repr, (NORMAL, *profiles)))
            raise InputError(f"profile={self.profile!r} is none that seeded.{method} can keep to; use {told}")
        if not isinstance(self.requires_grad, bool):
            raise InputError(f"requires_grad={self.requires_grad!r} must be True or False")
        if self.requires_grad and element_types.is_integer(self.dtype):
            raise InputError(f"requires_grad=True needs a floating or complex dtype, not {self.dtype}")

    def real_part(self, hint: str) -> torch.dtype:
        """Return the floating dtype of the elements, or of their parts; InputError with `hint` for whole numbers."""
        if element_types.is_integer(self.dtype):
            raise InputError(f"{self.dtype} holds whole numbers only; {hint}")
        return element_types.part_type(self.dtype)

    def must_hold(self, low: int, high: int) -> None:
        """Raise InputError unless the dtype holds every whole number from `low` to `high`."""
        least, most = element_types.integer_range(self.dtype)
        if low < least or high > most:
            raise InputError(
                f"{self.dtype} does not hold every whole number from {low} to {high}, only {least} to {most}; "
                "take a wider dtype or a smaller range"
            )


def _sizes(what: str, values: Any) -> tuple[int, ...]:
    try:
        sizes = tuple(operator.index(value) for value in values)
    except TypeError:
        raise InputError(f"{what}={values!r} must be a sequence of whole numbers, for example (128, 64)") from None
    if any(size < 0 for size in sizes):
        raise InputError(f"{what}={sizes} has a negative number; use 0 or more")
    return sizes


def _strides(shape: tuple[int, ...], strides: Any, layout: Any) -> tuple[int, ...]:
    if strides is None:
        return _layout_strides(shape, "row_major" if layout is None else layout)
    if layout is not None:
        raise InputError(f"strides={strides!r} and layout={layout!r} are both given; give one of them")
    given = _sizes("strides", strides)
    if len(given) != len(shape):
        raise InputError(f"strides={given} has {len(given)} numbers, shape={shape} has {len(shape)}; give one an axis")
    if 0 in shape:
        return given
    reach = 1
    for stride, size in sorted((stride, size) for stride, size in zip(given, shape, strict=True) if size > 1):
        if stride < reach:
            raise InputError(
                f"strides={given} let elements of shape={shape} share memory: the axis of stride {stride} "
                f"needs a stride of at least {reach}"
            )
        reach += (size - 1) * stride
    return given


def _layout_strides(shape: tuple[int, ...], layout: Any) -> tuple[int, ...]:
    axes = list(range(len(shape)))
    if layout == "column_major":
        if len(axes) < 2:  # noqa: PLR2004 - it swaps two axes
            raise InputError(f"layout='column_major' swaps the last two axes; shape={shape} has {len(axes)}")
        order = [*axes[:-2], axes[-1], axes[-2]]
    elif layout == "channels_last":
        if len(axes) not in (4, 5):
            raise InputError(f"layout='channels_last' is of 4 or 5 axes; shape={shape} has {len(axes)}")
        order = [0, *axes[2:], 1]
    elif layout == "row_major":
        order = axes
    else:
        raise InputError(f"layout={layout!r} is unknown; use 'row_major', 'column_major' or 'channels_last'")
    strides = [0] * len(axes)
    for place, axis in enumerate(order):
        # As torch counts: an axis of size 0 is taken for 1.
        strides[axis] = prod(max(shape[later], 1) for later in order[place + 1 :])
    return tuple(strides)


def whole(what: str, value: Any) -> int:
    """Return a whole number; InputError for anything else."""
    try:
        return operator.index(value)
    except TypeError:
        raise InputError(f"{what}={value!r} must be a whole number") from None


def finite(what: str, value: Any) -> float:
    """Return a finite number; InputError for anything else."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"{what}={value!r} must be a finite number")
    return number


def rounded(what: str, value: float, dtype: torch.dtype) -> float:
    """Return `value` rounded to `dtype` here, so that no device rounds it in a way of its own."""
    rounded = _rounded(abs(value), dtype)
    if not math.isfinite(rounded):
        raise InputError(f"{what} = {value!r} is too large for {dtype}, in which values are drawn")
    return math.copysign(rounded, value)


@lru_cache(maxsize=1024)
def _rounded(value: float, dtype: torch.dtype) -> float:
    return float(torch.tensor(value, dtype=torch.float64, device="cpu").to(dtype).item())
