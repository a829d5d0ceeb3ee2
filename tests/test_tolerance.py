"""Laws of a tolerance: what it covers is counted exactly, and some differences it never covers."""

import math
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from test_compare import COMPLEX, EVERY, FLOATS, INTEGERS, floats, ranks, tensor_of
from torch import Tensor

from pytest_kernelqual.judge.verdict import candidate_fails
from pytest_kernelqual.model.record import CandidateRecord
from pytest_kernelqual.model.tolerance import Tolerance
from pytest_kernelqual.on_device import distances
from pytest_kernelqual.on_device.compare import mismatches
from pytest_kernelqual.on_device.outputs import collect

WIDE = Tolerance(rtol=0.999, atol=1e300, ulp=1 << 53)

finite = st.floats(-1e6, 1e6)
pairs = st.lists(st.tuples(finite, finite), min_size=1, max_size=12)
tolerances = st.builds(Tolerance, rtol=st.floats(0, 0.5), atol=st.floats(0, 1e3), ulp=st.integers(0, 1 << 40))


def beyond(expected: Tensor, actual: Tensor, tolerance: Tolerance) -> int:
    """Return how many elements differ and are not within; the count must be of those that differ."""
    found = mismatches(collect(expected), collect(actual), tolerance)
    if not found:
        return 0
    assert found[0].beyond_tolerance is not None
    assert 0 <= found[0].beyond_tolerance <= found[0].differing
    return found[0].beyond_tolerance


def sides(values: list[tuple[float, float]], dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """Return both sides of some pairs."""
    left, right = zip(*values, strict=True)
    return floats(*left, dtype=dtype), floats(*right, dtype=dtype)


@given(pairs, tolerances)
def test_what_is_within_is_counted_exactly(values: list[tuple[float, float]], tolerance: Tolerance) -> None:
    """The definition, element by element, in float64 where every step is the same."""
    count = 0
    for left, right in values:
        zeros = left == right == 0 and math.copysign(1, left) != math.copysign(1, right)
        far = abs(left - right) > tolerance.atol + tolerance.rtol * abs(left)
        count += zeros or (far and steps(left, right) > tolerance.ulp)
    assert beyond(*sides(values), tolerance) == count


def steps(left: float, right: float) -> int:
    """Count the float64 values from one to the other."""
    keys = [
        tensor_of(floats(value, dtype=torch.float64).numpy().tobytes(), torch.int64).item() for value in (left, right)
    ]
    one, other = (int(key) if key >= 0 else -(int(key) + (1 << 63)) for key in keys)
    return abs(one - other)


@given(pairs, tolerances)
def test_a_wider_tolerance_covers_no_less(values: list[tuple[float, float]], tolerance: Tolerance) -> None:
    """In each of its three parts."""
    counts = beyond(*sides(values), tolerance)
    for wider in (
        replace(tolerance, rtol=2 * tolerance.rtol),
        replace(tolerance, atol=tolerance.atol + 1),
        replace(tolerance, ulp=2 * tolerance.ulp + 1),
    ):
        assert beyond(*sides(values), wider) <= counts


@given(pairs, st.floats(0, 1e3), st.integers(0, 1 << 40))
def test_absolute_and_ulp_distances_have_no_direction(values: list[tuple[float, float]], atol: float, ulp: int) -> None:
    """Only the relative part asks which side is the expected one."""
    left, right = sides(values)
    tolerance = Tolerance(atol=atol, ulp=ulp)
    assert beyond(left, right, tolerance) == beyond(right, left, tolerance)


@given(pairs, st.floats(0, 0.5), st.floats(0, 1e3), st.integers(-30, 30))
def test_scaling_both_sides_changes_nothing(
    values: list[tuple[float, float]], rtol: float, atol: float, exponent: int
) -> None:
    """By a power of two, which rounds nothing, with the absolute part scaled along."""
    tiny = 1e-200  # below it a scaled product may be rounded, as denormal numbers are
    values = [(left, right) for left, right in values if min(abs(left), abs(right), abs(left - right)) > tiny]
    if not values or 0 < min(rtol, atol) < tiny:
        return
    left, right = sides(values)
    factor = 2.0**exponent
    scaled = beyond(left * factor, right * factor, Tolerance(rtol=rtol, atol=atol * factor))
    assert scaled == beyond(left, right, Tolerance(rtol=rtol, atol=atol))


@pytest.mark.parametrize("dtype", [*FLOATS[:6], torch.float8_e8m0fnu], ids=str)
def test_ulp_counts_the_values_of_every_small_type(dtype: torch.dtype) -> None:
    """From all pairs of an 8-bit type, and from samples of a 16-bit one: a list of all values is the reference."""
    rank = ranks(dtype)
    generator = torch.Generator().manual_seed(0)
    bits = torch.tensor(sorted(rank))
    picked = (torch.randint(0, len(bits), (2, 4096), generator=generator)) if dtype.itemsize > 1 else None
    left, right = (bits[picked[0]], bits[picked[1]]) if picked is not None else torch.cartesian_prod(bits, bits).T
    kind = torch.uint8 if dtype.itemsize == 1 else torch.uint16
    for ulp in (0, 1, 3, 100):
        expected = sum(
            one != other and (rank[one] == rank[other] or abs(rank[one] - rank[other]) > ulp)
            for one, other in zip(left.tolist(), right.tolist(), strict=True)
        )
        tolerance = Tolerance(ulp=ulp, atol=1e-300)
        assert beyond(left.to(kind).view(dtype), right.to(kind).view(dtype), tolerance) == expected


@pytest.mark.parametrize("dtype", [*FLOATS, *COMPLEX], ids=str)
@given(st.data())
def test_what_is_not_finite_is_never_within(dtype: torch.dtype, data: st.DataObject) -> None:
    """NaN against any other bytes, infinity against anything, however wide the tolerance is."""
    raw = data.draw(st.binary(min_size=dtype.itemsize, max_size=dtype.itemsize))
    other = data.draw(st.binary(min_size=dtype.itemsize, max_size=dtype.itemsize))
    left, right = tensor_of(raw, dtype), tensor_of(other, dtype)
    wide = torch.complex128 if dtype.is_complex else torch.float64 if dtype.itemsize > 1 else torch.float32
    both = bool(left.to(wide).isfinite().all() and right.to(wide).isfinite().all())
    if raw != other and not both:
        assert beyond(left, right, WIDE) == beyond(right, left, WIDE) == 1


@pytest.mark.parametrize("dtype", [*(kind for kind in FLOATS if "fnuz" not in str(kind)), *COMPLEX[1:]], ids=str)
def test_the_sign_of_zero_is_never_within(dtype: torch.dtype) -> None:
    """Zeros of one sign are equal bytes, and those of two are none; complex ones in either part."""
    zeros = torch.zeros(1, dtype=torch.float32).to(dtype)
    if dtype.is_complex:
        parts = torch.view_as_real(zeros.to(torch.complex64))
        other = torch.view_as_complex(parts * torch.tensor([1.0, -1.0])).to(dtype)
    else:
        other = (-torch.zeros(1)).to(dtype)
    assert beyond(zeros, zeros.clone(), WIDE) == 0
    assert beyond(zeros, other, WIDE) == beyond(other, zeros, WIDE) == 1


@pytest.mark.parametrize(
    "dtype", [kind for kind in EVERY if kind not in (*FLOATS, *COMPLEX, torch.float8_e8m0fnu)], ids=str
)
def test_what_is_not_floating_is_never_within(dtype: torch.dtype) -> None:
    """Whole numbers, truth values, and packed types without arithmetic."""
    raw = bytes(dtype.itemsize)
    assert beyond(tensor_of(raw, dtype), tensor_of(b"\1" + raw[1:], dtype), WIDE) == 1
    assert dtype in INTEGERS or "float4" in str(dtype)


@pytest.mark.parametrize(
    ("expected", "actual", "count"),
    [(1.0, 1.25, 0), (1, 2, 1), ("a", "b", 1), (True, False, 1), (1 + 0j, 1.25 + 0j, 0), (1.0, math.nan, 1)],
)
def test_numbers_of_python_are_as_tensors(expected: Any, actual: Any, count: int) -> None:
    """A float that a launch returns has a tolerance; an int or a text has none."""
    found = mismatches(collect((expected, torch.zeros(1))), collect((actual, torch.zeros(1))), Tolerance(atol=0.5))
    assert [item.beyond_tolerance for item in found] == [count]


def test_other_forms_have_no_count() -> None:
    """Shape, dtype and strides are no matter of distance."""
    one = floats(1.0, 2.0)
    for other in (one.to(torch.float64), one.view(2, 1), floats(1.0), torch.stack([one, one], dim=1)[:, 0]):
        (found,) = mismatches(collect(one), collect(other), WIDE)
        assert (found.diagnosis, found.beyond_tolerance) == ("shape", None)


def test_without_a_tolerance_nothing_is_counted() -> None:
    """Reports say which specs declare one."""
    (found,) = mismatches(collect(floats(1.0)), collect(floats(2.0)))
    assert found.beyond_tolerance is None


def test_counts_are_the_same_over_many_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever outputs are cut for lack of memory."""
    left = floats(*(float(value) for value in range(100)))
    right = left + (torch.arange(100) % 3)
    whole = beyond(left, right, Tolerance(atol=1.0))
    monkeypatch.setattr(distances, "_CHUNK_ELEMENTS", 7)
    assert whole == beyond(left, right, Tolerance(atol=1.0)) == 33


def test_a_project_may_refuse_what_is_only_within_tolerance() -> None:
    """`kernelqual_fail_on` takes the outcome; by default it passes, in a search as elsewhere."""
    record = CandidateRecord(id="A=1", config={}, outcome="within_tolerance", evidence="within_tolerance")
    assert not candidate_fails(record, screen=None)
    for screen in (None, "a search"):
        assert candidate_fails(record, screen=screen, fail_on=("within_tolerance",))


@pytest.mark.parametrize(
    ("tolerance", "text"),
    [(Tolerance(rtol=1e-3), "rtol=0.001"), (Tolerance(atol=1e-05, ulp=2), "atol=1e-05, ulp=2")],
)
def test_a_tolerance_is_said_as_it_is_written(tolerance: Tolerance, text: str) -> None:
    """Without what it leaves out."""
    assert (str(tolerance), tolerance.problem()) == (text, None)
