"""Floating values as whole numbers in their order, so that a device chooses among them by integer arithmetic alone.

The ordinal of 0.0 is 0, of the next larger value 1, of -0.0 is -1 and of the next smaller value -2. An infinity follows
the largest finite value, and NaN follow the infinity.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import torch

from pytest_kernelqual.on_device import element_types


class Ordinals(NamedTuple):
    """The values that a tensor may take; a dtype's finite ones unless the builder declares bounds."""

    dtype: torch.dtype
    mantissa_bits: int
    least: int
    greatest: int
    bounded: bool

    @classmethod
    def of(cls, dtype: torch.dtype, bounds: tuple[float, float] | None = None) -> "Ordinals":
        """Take the finite values of a floating dtype, or those from one value to another, both of the dtype."""
        mantissa_bits = -round(math.log2(torch.finfo(dtype).eps))
        limit = element_types.largest(dtype)
        # A bound of zero is 0.0: what is declared as not negative has no -0.0 either.
        least, greatest = (_ordinal(value + 0.0, dtype) for value in (bounds or (-limit, limit)))
        return cls(dtype, mantissa_bits, least, greatest, bounds is not None)

    @property
    def most_exponent(self) -> int:
        """Return the exponent of the largest finite value."""
        return math.frexp(element_types.largest(self.dtype))[1] - 1

    @property
    def largest(self) -> int:
        """Return the ordinal of the dtype's largest finite value."""
        return _ordinal(element_types.largest(self.dtype), self.dtype)

    @property
    def farthest(self) -> int:
        """Return the largest magnitude within the bounds."""
        return max(self.greatest, ~self.least)

    @property
    def nearest(self) -> int:
        """Return the least magnitude within the bounds."""
        return max(self.least, ~self.greatest, 0)

    def power(self, exponent: int) -> int:
        """Return the ordinal of a power of two that is a normal number of the dtype."""
        return _ordinal(2.0**exponent, self.dtype)

    def signed(self, magnitudes: torch.Tensor, negative: torch.Tensor) -> torch.Tensor:
        """Return magnitudes from `nearest` to `farthest` with the sign that is asked for, where the bounds allow it."""
        chosen = torch.where(negative, ~magnitudes, magnitudes)
        return torch.where((chosen < self.least) | (chosen > self.greatest), ~chosen, chosen)

    def mirrored(self, ordinals: torch.Tensor) -> torch.Tensor:
        """Return the negative values; within bounds, those as far from the other bound."""
        if not self.bounded:
            return ~ordinals
        if (self.least < 0) == (self.greatest < 0):  # the sum of both could be beyond 64 bits
            return self.greatest - (ordinals - self.least)
        return (self.least + self.greatest) - ordinals

    def clamped(self, ordinals: torch.Tensor) -> torch.Tensor:
        """Move what is beyond the bounds onto them."""
        return ordinals.clamp(self.least, self.greatest)

    def bits(self, ordinals: torch.Tensor) -> torch.Tensor:
        """Return the bit patterns as signed integers of the dtype's size, in int64."""
        lowest = -(1 << (8 * self.dtype.itemsize - 1))
        if "fnuz" in str(self.dtype):  # the pattern of -0.0 is NaN there
            ordinals = torch.where(ordinals == -1, 0, ordinals)
        return torch.where(ordinals >= 0, ordinals, ~ordinals + lowest)


def _ordinal(value: float, dtype: torch.dtype) -> int:
    bits = _magnitude(abs(value), dtype)
    return ~bits if math.copysign(1.0, value) < 0 else bits


@lru_cache(maxsize=1024)
def _magnitude(value: float, dtype: torch.dtype) -> int:
    (bits,) = element_types.bits_of(value, dtype)
    return bits
