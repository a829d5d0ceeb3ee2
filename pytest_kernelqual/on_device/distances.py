"""How far apart the elements of two outputs are, and what kind of difference that is."""

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from pytest_kernelqual.model.record import Diagnosis, Mismatch
from pytest_kernelqual.model.tolerance import Tolerance
from pytest_kernelqual.on_device.outputs import Output

_CHUNK_ELEMENTS = 1 << 22  # temporaries take about 100 bytes an element
_LARGEST = sys.float_info.max
_LONGEST_TEXT = 200

_SIGN = {1: -(1 << 7), 2: -(1 << 15), 4: -(1 << 31), 8: -(1 << 63)}
_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_UNSIGNED = {1: torch.uint8, 2: torch.uint16, 4: torch.uint32, 8: torch.uint64}
_NUMBERS = frozenset(
    getattr(torch, name)
    for name in (
        *("bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"),
        *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
        *("float16", "bfloat16", "float32", "float64", "complex32", "complex64", "complex128"),
    )
)
_PYTHON_NUMBERS = {"Python float": torch.float64, "Python complex": torch.complex128, "Python bool": torch.bool}

# Units in the last place, by bytes of a float, within which a difference can be a matter of rounding.
_ROUNDING_ULPS = {1: 1, 2: 4, 4: 64, 8: 64}


@dataclass
class _Tally:
    """What is known of the differing elements so far."""

    tolerance: Tolerance | None = None
    within: int = 0
    """Differing elements within the tolerance."""
    differing: int = 0
    first: int | None = None
    max_absolute: float | None = None
    max_relative: float | None = None
    max_ulp: int | None = None
    max_far: float = 0.0
    """Largest absolute difference of elements that are more units in the last place apart than rounding explains."""
    all_finite: bool = True
    all_cosmetic: bool = True
    """All are two NaNs, or two zeros."""
    any_nan_payload: bool = False
    nonfinite_expected: int = 0
    nonfinite_actual: int = 0
    magnitude: float = 0.0
    """Sum of the absolute finite expected values."""


def nothing_finite(outputs: list[Output]) -> bool:
    """Tell whether there are elements and each of them is infinite or NaN; what is no float is finite."""
    elements = 0
    for output in outputs:
        dtype = dtype_of(output)
        elements += output.tensor.numel()
        if output.tensor.numel() and (
            dtype is None
            or not is_float(dtype)
            or any(bool(Part.of(part, dtype).finite.any().item()) for part in chunks(output))
        ):
            return False
    return elements > 0


def value_mismatch(expected: Output, actual: Output, tolerance: Tolerance | None = None) -> Mismatch:
    """Return how two outputs of equal shape and dtype differ; some of their bytes do."""
    dtype = dtype_of(expected)
    if dtype is None:
        return Mismatch(
            output=expected.name,
            elements=1,
            differing=1,
            first_index=(),
            expected=as_text(expected),
            actual=as_text(actual),
            beyond_tolerance=None if tolerance is None else 1,
        )
    tally = _Tally(tolerance)
    start = 0
    for left, right in zip(chunks(expected), chunks(actual), strict=True):
        _add(tally, Part.of(left, dtype), Part.of(right.to(left.device), dtype), start)
        start += left.numel() // dtype.itemsize
    elements = math.prod(expected.shape)
    first = tally.first or 0
    return Mismatch(
        output=expected.name,
        elements=elements,
        differing=tally.differing,
        first_index=index_of(first, expected.shape),
        expected=as_text(expected, first),
        actual=as_text(actual, first),
        max_absolute=tally.max_absolute,
        max_relative=tally.max_relative,
        max_ulp=tally.max_ulp,
        nonfinite_expected=tally.nonfinite_expected,
        nonfinite_actual=tally.nonfinite_actual,
        diagnosis=_diagnosis(tally, dtype, elements),
        beyond_tolerance=None if tolerance is None else tally.differing - tally.within,
    )


def _diagnosis(tally: _Tally, dtype: torch.dtype, elements: int) -> Diagnosis:
    if not is_float(dtype):
        return "structural"
    if tally.all_cosmetic:
        return "nan_payload" if tally.any_nan_payload else "sign_of_zero"
    real = _real(dtype)
    finite = elements - tally.nonfinite_expected
    # A sum whose terms cancel is off by its terms' rounding, not by its own: the output's typical magnitude decides.
    typical = tally.magnitude / max(finite, 1) if math.isfinite(tally.magnitude) else 0.0
    tolerance = _ROUNDING_ULPS[real.itemsize] * torch.finfo(real).eps * typical
    return "rounding" if tally.all_finite and tally.max_far <= tolerance else "structural"


@dataclass
class Part:
    """Some elements: their bits as (element, real and imaginary), their values, and which are finite."""

    dtype: torch.dtype
    bits: Tensor
    values: Tensor
    finite: Tensor

    @classmethod
    def of(cls, data: Tensor, dtype: torch.dtype) -> "Part":
        """Read elements from their bytes."""
        real = _real(dtype)
        bits = data.view(_BITS[real.itemsize]).view(-1, dtype.itemsize // real.itemsize)
        if not is_float(dtype):
            values = _integers(bits, dtype)
            return cls(dtype, bits, values, torch.ones(len(bits), dtype=torch.bool, device=data.device))
        floats = data.view(real).view(bits.shape)
        values = (floats.to(torch.float32) if real.itemsize == 1 else floats).to(torch.float64)
        return cls(dtype, bits, values, values.isfinite().all(dim=1))

    def at(self, places: Tensor) -> "Part":
        """Return the elements at some places."""
        return Part(self.dtype, self.bits[places], self.values[places], self.finite[places])


def _add(tally: _Tally, left: Part, right: Part, start: int) -> None:
    """Count the differences of some elements, of which the first is element `start`."""
    tally.nonfinite_expected += int((~left.finite).sum().item())
    tally.nonfinite_actual += int((~right.finite).sum().item())
    if is_float(left.dtype):
        tally.magnitude += float(left.values[left.finite].abs().mean(dim=1).sum().item())
    places = left.bits.ne(right.bits).any(dim=1).nonzero().flatten()
    if not places.numel():
        return
    tally.differing += places.numel()
    tally.first = start + int(places[0].item()) if tally.first is None else tally.first
    left, right = left.at(places), right.at(places)
    both_finite = left.finite & right.finite
    tally.all_finite &= bool(both_finite.all().item())
    if is_float(left.dtype):
        differ = left.bits.ne(right.bits)
        nan = left.values.isnan() & right.values.isnan()
        zero = left.values.eq(0) & right.values.eq(0)
        tally.all_cosmetic &= bool((~differ | nan | zero).all().item())
        tally.any_nan_payload |= bool((differ & nan).any().item())
    finite = both_finite.nonzero().flatten()
    if finite.numel():
        _add_distances(tally, left.at(finite), right.at(finite))


def _add_distances(tally: _Tally, left: Part, right: Part) -> None:
    absolute, magnitude = _absolute(left, right)
    tally.max_absolute = _larger(tally.max_absolute, absolute)
    nonzero = magnitude > 0
    tally.max_relative = _larger(tally.max_relative, absolute[nonzero] / magnitude[nonzero])
    if not is_float(left.dtype):
        return
    ulps = ulps_between(left, right)
    tally.max_ulp = max(tally.max_ulp or 0, largest_ulp(ulps))
    if tally.tolerance is not None:
        within = near(tally.tolerance, absolute, magnitude, ulps) & ~_zeros_of_two_signs(left, right)
        tally.within += int(within.sum().item())
    few = _SIGN[8] + _ROUNDING_ULPS[_real(left.dtype).itemsize]
    tally.max_far = _larger(tally.max_far, absolute[ulps > few]) or 0.0


def near(tolerance: Tolerance, absolute: Tensor, magnitude: Tensor, ulps: Tensor) -> Tensor:
    """Tell of each element, finite on both sides, whether it is within the tolerance; `ulps` of `ulps_between`."""
    return (absolute <= tolerance.atol + tolerance.rtol * magnitude) | (ulps <= _SIGN[8] + tolerance.ulp)


def _zeros_of_two_signs(left: Part, right: Part) -> Tensor:
    return (left.bits.ne(right.bits) & left.values.eq(0) & right.values.eq(0)).any(dim=1)


def _absolute(left: Part, right: Part) -> tuple[Tensor, Tensor]:
    """Return the absolute difference and the absolute expected value of each element, float64."""
    if is_float(left.dtype):
        return length(left.values - right.values), length(left.values)
    # In two halves: float64 does not hold every integer of 64 bits, but does hold the difference of halves.
    (high, low), (other_high, other_low) = _halves(left.values), _halves(right.values)
    if left.dtype == torch.uint64:
        high, other_high = high & 0xFFFFFFFF, other_high & 0xFFFFFFFF
    difference = (high - other_high).to(torch.float64) * 2.0**32 + (low - other_low).to(torch.float64)
    magnitude = high.to(torch.float64) * 2.0**32 + low.to(torch.float64)
    return difference.abs().flatten(), magnitude.abs().flatten()


def length(parts: Tensor) -> Tensor:
    """Return the absolute value of numbers given as (element, part); the largest float where it is larger still."""
    found = torch.hypot(*parts.unbind(1)) if parts.shape[1] == 2 else parts.abs().flatten()  # noqa: PLR2004 - complex
    return found.clamp(max=_LARGEST)


def _halves(values: Tensor) -> tuple[Tensor, Tensor]:
    """Return the upper half, which has the sign, and the lower half."""
    return values >> 32, values & 0xFFFFFFFF


def ulps_between(left: Part, right: Part) -> Tensor:
    """Return how many representable values lie between, less 2**63: an int64 that orders like the unsigned distance."""
    keys, others = _ordered(left), _ordered(right)
    return (torch.where(keys >= others, keys - others, others - keys) ^ _SIGN[8]).amax(dim=1)


def largest_ulp(ulps: Tensor) -> int:
    """Return the largest of distances that `ulps_between` gave."""
    return int(ulps.max().item()) - _SIGN[8]


def _ordered(part: Part) -> Tensor:
    """Number the finite values of a type in their order, both zeros 0."""
    bits = part.bits.to(torch.int64)
    if part.dtype == torch.float8_e8m0fnu:
        return bits & 0xFF  # an exponent alone, without a sign
    sign = _SIGN[part.bits.element_size()]
    return torch.where(bits < 0, sign - bits, bits)


def _integers(bits: Tensor, dtype: torch.dtype) -> Tensor:
    """Return values as int64; those of uint64 wrap around."""
    values = bits.to(torch.int64)
    return values if dtype.is_signed or dtype == torch.uint64 else values & ((1 << (8 * dtype.itemsize)) - 1)


def _larger(known: float | None, values: Tensor) -> float | None:
    """Return the largest of what is known and more values."""
    return max(known or 0.0, float(values.clamp(max=_LARGEST).max().item())) if values.numel() else known


def dtype_of(output: Output) -> torch.dtype | None:
    """Return the dtype of the elements, an unsigned integer for one without arithmetic; None for text."""
    if output.dtype.startswith("Python "):
        return _PYTHON_NUMBERS.get(output.dtype)
    dtype: torch.dtype = getattr(torch, output.dtype)
    return dtype if dtype in _NUMBERS else _UNSIGNED[dtype.itemsize]


def is_float(dtype: torch.dtype) -> bool:
    """Tell whether a dtype is of floating type, complex ones included."""
    return dtype.is_floating_point or dtype.is_complex


def _real(dtype: torch.dtype) -> torch.dtype:
    return dtype.to_real() if dtype.is_complex else dtype


def chunks(output: Output) -> Iterator[Tensor]:
    """Yield the bytes of whole elements, at least one part."""
    step = _CHUNK_ELEMENTS * max(output.tensor.numel() // max(math.prod(output.shape), 1), 1)
    for start in range(0, max(output.tensor.numel(), 1), step):
        yield output.tensor[start : start + step]


def index_of(position: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the index of an element from its row-major position."""
    index = []
    for size in reversed(shape):
        position, rest = divmod(position, size)
        index.append(rest)
    return tuple(reversed(index))


def as_text(output: Output, position: int = 0) -> str:
    """Show an element; a float with its bits, which tell NaNs and zeros apart."""
    dtype = dtype_of(output)
    if dtype is None:
        return repr(bytes(output.tensor.tolist()).decode(errors="replace"))[:_LONGEST_TEXT]
    part = Part.of(output.tensor[position * dtype.itemsize : (position + 1) * dtype.itemsize], dtype)
    values, bits = part.values[0].tolist(), part.bits[0].tolist()
    if not is_float(dtype):
        value = values[0] & 0xFFFFFFFFFFFFFFFF if dtype == torch.uint64 else values[0]
        return f"{bool(value)} (0x{value:02x})" if dtype == torch.bool else str(value)
    size = _real(dtype).itemsize
    shown = [f"{value!r}" if size == 8 else f"{value:.9g}" for value in values]  # noqa: PLR2004 - float64
    hexadecimal = [f"0x{bit & ((1 << 8 * size) - 1):0{2 * size}x}" for bit in bits]
    number = shown[0] if len(shown) == 1 else f"({', '.join(shown)})"
    return f"{number} ({', '.join(hexadecimal)})"
