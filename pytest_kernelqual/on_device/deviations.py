"""How far an output is from an independent reference of higher precision."""

import math
import sys
from dataclasses import dataclass

import torch
from torch import Tensor

from pytest_kernelqual.model.record import Deviation
from pytest_kernelqual.model.tolerance import Tolerance
from pytest_kernelqual.on_device.distances import (
    Part,
    as_text,
    chunks,
    dtype_of,
    index_of,
    is_float,
    largest_ulp,
    length,
    near,
    ulps_between,
)
from pytest_kernelqual.on_device.outputs import Output

# Without a tolerance an element must be the reference, rounded to the type of the output.
_EXACT = Tolerance()


@dataclass
class _Worst:
    """The element that is furthest off: among those beyond the tolerance where there are any."""

    beyond: int = 0
    distance: float = 0.0
    place: int | None = None
    max_absolute: float | None = None
    max_relative: float | None = None
    max_ulp: int | None = None

    def add(self, distances: Tensor, bad: Tensor, start: int) -> None:
        """Take in elements of which the first is element `start`; no distance is NaN."""
        if bad.any().item():
            if not self.beyond:
                self.place, self.distance = None, 0.0
            self.beyond += int(bad.sum().item())
            distances = distances.masked_fill(~bad, -1.0)
        elif self.beyond:
            return
        largest, place = distances.max(dim=0)
        if self.place is None or largest.item() > self.distance:
            self.place, self.distance = start + int(place.item()), float(largest.item())


def deviation(output: Output, reference: Tensor, tolerance: Tolerance | None) -> Deviation:
    """Measure an output against its reference, which has the same shape and is of the same kind of number.

    NaN agrees with NaN and infinity with infinity of the same sign: an oracle has no bits of NaN to compare with.
    """
    worst = _Worst()
    flat, start = reference.detach().reshape(-1), 0
    dtype = dtype_of(output)
    for data in chunks(output):
        if dtype is None or not data.numel():
            break
        count = data.numel() // dtype.itemsize
        expected = flat[start : start + count].to(data.device)
        if is_float(dtype):
            _add_floats(worst, Part.of(data, dtype), expected, tolerance or _EXACT, start)
        else:
            _add_integers(worst, Part.of(data, dtype), expected, start)
        start += count
    place = worst.place
    return Deviation(
        output=output.name,
        elements=math.prod(output.shape),
        beyond=worst.beyond,
        worst_index=None if place is None else index_of(place, output.shape),
        expected=None if place is None else _as_text(flat[place].item()),
        actual=None if place is None else as_text(output, place),
        max_absolute=worst.max_absolute,
        max_relative=worst.max_relative,
        max_ulp=worst.max_ulp,
    )


def _as_text(number: complex) -> str:
    return str(number) if isinstance(number, int) else f"{number:.9g}"


def _add_floats(worst: _Worst, part: Part, expected: Tensor, tolerance: Tolerance, start: int) -> None:
    rounded = Part.of(_rounded(expected, part.dtype).view(torch.uint8), part.dtype)
    exact = torch.view_as_real(expected.to(torch.complex128)) if part.dtype.is_complex else expected[:, None].double()
    finite = part.finite & rounded.finite & exact.isfinite().all(dim=1)
    same = (part.values.eq(rounded.values) | (part.values.isnan() & rounded.values.isnan())).all(dim=1)
    # What is not finite on either side and not the same is further off than any number.
    distances = torch.where(same, 0.0, math.inf).to(torch.float64)
    bad = ~same
    places = finite.nonzero().flatten()
    if places.numel():
        absolute, magnitude = length(part.values[places] - exact[places]), length(exact[places])
        ulps = ulps_between(part.at(places), rounded.at(places))
        distances[places], bad[places] = absolute, ~near(tolerance, absolute, magnitude, ulps)
        nonzero = magnitude > 0
        worst.max_absolute = max(worst.max_absolute or 0.0, float(absolute.max().item()))
        if nonzero.any().item():
            relative = float((absolute[nonzero] / magnitude[nonzero]).max().item())
            worst.max_relative = min(max(worst.max_relative or 0.0, relative), sys.float_info.max)
        worst.max_ulp = max(worst.max_ulp or 0, largest_ulp(ulps))
    worst.add(distances, bad, start)


def _add_integers(worst: _Worst, part: Part, expected: Tensor, start: int) -> None:
    exact = expected.to(torch.int64)
    rounded = exact.to(part.dtype).contiguous()
    bad = Part.of(rounded.view(torch.uint8), part.dtype).bits.ne(part.bits).any(dim=1)
    bad |= rounded.to(torch.int64).ne(exact)  # the type of the output cannot hold the reference
    distances = (part.values.flatten().double() - exact.double()).abs()
    worst.max_absolute = max(worst.max_absolute or 0.0, float(distances.max().item()))
    worst.add(distances, bad, start)


def _rounded(expected: Tensor, dtype: torch.dtype) -> Tensor:
    """Round to the type of the output; through single precision where torch has no direct way."""
    if dtype.itemsize == 1:
        expected = expected.to(torch.float32)
    elif dtype == torch.complex32:
        expected = expected.to(torch.complex64)
    return expected.to(dtype).contiguous()
