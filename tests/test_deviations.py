"""Distances from an oracle: what agrees, what does not, and which element is furthest off."""

import math
import sys
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import assume, given
from test_compare import COMPLEX, FLOATS, INTEGERS, floats, ranks, tensor_of
from torch import Tensor

from pytest_kernelqual.errors import InputError
from pytest_kernelqual.model.case import Case
from pytest_kernelqual.model.record import Deviation
from pytest_kernelqual.model.tolerance import Tolerance
from pytest_kernelqual.on_device import distances
from pytest_kernelqual.on_device.deviations import deviation
from pytest_kernelqual.on_device.oracle import consult
from pytest_kernelqual.on_device.outputs import collect

finite = st.floats(-1e6, 1e6)
pairs = st.lists(st.tuples(finite, finite), min_size=1, max_size=12)
tolerances = st.builds(Tolerance, rtol=st.floats(0, 0.5), atol=st.floats(0, 1e3))


def measured(actual: Tensor, reference: Tensor, tolerance: Tolerance | None = None) -> Deviation:
    """Return how far an output is from its reference."""
    (output,) = collect(actual)
    return deviation(output, reference, tolerance)


@given(pairs, tolerances)
def test_what_is_beyond_is_counted_and_the_worst_is_found(
    values: list[tuple[float, float]], tolerance: Tolerance
) -> None:
    """The definition, element by element, in float64 where every step is the same."""
    actual, reference = zip(*values, strict=True)
    found = measured(floats(*actual, dtype=torch.float64), floats(*reference, dtype=torch.float64), tolerance)
    off = [abs(one - other) for one, other in values]
    beyond = [
        place
        for place, other in enumerate(reference)
        if off[place] > tolerance.atol + tolerance.rtol * abs(other) and off[place] > 0
    ]
    assert (found.beyond, found.elements, found.max_absolute) == (len(beyond), len(values), max(off))
    assert found.worst_index is not None
    (worst,) = found.worst_index
    assert off[worst] == max(off[place] for place in beyond or range(len(off)))
    assert found.expected == f"{reference[worst]:.9g}"
    assert found.max_relative is None or math.isfinite(found.max_relative)


@pytest.mark.parametrize("dtype", FLOATS[:6], ids=str)
def test_a_reference_is_rounded_as_its_output_is(dtype: torch.dtype) -> None:
    """Every value of a small type agrees with itself in float64, and with nothing else within half a step."""
    rank = ranks(dtype)
    kind = torch.uint8 if dtype.itemsize == 1 else torch.uint16
    bits = torch.tensor(sorted(rank)[:: 1 if dtype.itemsize == 1 else 97]).to(kind)
    values = bits.view(dtype)
    exact = (values.to(torch.float32) if dtype.itemsize == 1 else values).to(torch.float64)
    found = measured(values, exact)
    assert (found.beyond, found.max_ulp, found.max_absolute) == (0, 0, 0.0)
    step = torch.finfo(dtype).eps
    assert measured(values, exact * (1 + step / 8)).beyond == 0
    normal = exact.abs() > torch.finfo(dtype).tiny * 4
    upper = exact.abs() < torch.finfo(dtype).max / 4
    moved = measured(values[normal & upper], (exact * (1 + 4 * step))[normal & upper])
    assert moved.beyond == moved.elements > 10
    assert moved.max_ulp is not None
    assert 2 < moved.max_ulp < 9


@given(st.sampled_from(FLOATS[4:]), st.data())
def test_nan_agrees_with_nan_and_infinity_with_its_like(dtype: torch.dtype, data: st.DataObject) -> None:
    """However wide the tolerance is, and whatever the bits of the NaN are."""
    special = st.sampled_from([math.nan, math.inf, -math.inf, 0.0, 1.0])
    one, other = data.draw(special), data.draw(special)
    assume(not (math.isfinite(one) and math.isfinite(other)))
    agree = one == other or (math.isnan(one) and math.isnan(other))
    found = measured(floats(one, dtype=dtype), floats(other, dtype=torch.float64), Tolerance(atol=1e300, rtol=0.9))
    assert found.beyond == (0 if agree else 1)
    payload = tensor_of((0x7FC00001).to_bytes(4, "little"), torch.float32)
    assert measured(payload, floats(math.nan, dtype=torch.float64)).beyond == 0


def test_what_is_not_finite_is_furthest_off() -> None:
    """It is shown before any number; and zeros of both signs are equal."""
    found = measured(floats(5.0, math.nan, 1.0, 0.0), floats(1.0, 1.0, 1.0, -0.0, dtype=torch.float64))
    assert (found.beyond, found.worst_index, found.max_absolute) == (2, (1,), 4.0)
    assert found.actual is not None
    assert found.actual.startswith("nan")


def test_what_the_type_cannot_hold_is_infinite() -> None:
    """A reference beyond the range agrees with infinity, and not with the largest value."""
    reference = floats(1e39, dtype=torch.float64)
    assert measured(floats(math.inf), reference).beyond == 0
    assert measured(floats(torch.finfo(torch.float32).max), reference, Tolerance(rtol=0.5)).beyond == 1


@pytest.mark.parametrize("dtype", COMPLEX[1:], ids=str)
def test_complex_numbers_are_measured_as_a_whole(dtype: torch.dtype) -> None:
    """By the absolute value of the difference."""
    found = measured(torch.tensor([3 + 4j, 1 + 1j], dtype=dtype), torch.tensor([0j, 1 + 1j], dtype=torch.complex128))
    assert (found.beyond, found.max_absolute, found.worst_index) == (1, 5.0, (0,))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers_are_equal_or_wrong(dtype: torch.dtype) -> None:
    """Under any tolerance, and also where the reference is of a wider type."""
    values = torch.tensor([0, 1, 1], dtype=torch.int64)
    wide = values if dtype != torch.bool else values.bool()
    assert measured(values.to(dtype), wide, Tolerance(atol=9)).beyond == 0
    found = measured(values.to(dtype), wide.flip(0), Tolerance(atol=9))
    assert (found.beyond, found.worst_index, found.max_absolute, found.max_ulp) == (2, (0,), 1.0, None)


def test_an_integer_that_does_not_fit_is_wrong() -> None:
    """Its lower bits may well be those of the output; and an integer is shown with all its digits."""
    assert measured(torch.tensor([44], dtype=torch.uint8), torch.tensor([300])).beyond == 1
    assert measured(torch.tensor([1 << 40]), torch.tensor([(1 << 40) + 1])).expected == "1099511627777"


def test_figures_are_finite() -> None:
    """A difference divided by next to nothing is the largest number, which JSON can hold."""
    assert measured(floats(1.0), floats(5e-324, dtype=torch.float64)).max_relative == sys.float_info.max


@given(pairs, tolerances)
def test_parts_change_nothing(values: list[tuple[float, float]], tolerance: Tolerance) -> None:
    """Wherever outputs are cut for lack of memory."""
    actual, reference = (floats(*side, dtype=torch.float64) for side in zip(*values, strict=True))
    whole = measured(actual, reference, tolerance)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distances, "_CHUNK_ELEMENTS", 2)
        assert measured(actual, reference, tolerance) == whole


def answered(told: Any, returned: Any) -> list[str]:
    """Return the outputs that an oracle's answer judges."""
    return list(consult(lambda _case, _inputs: told, Case(n=1), [], collect(returned)))


ONE, TWO = torch.zeros(2), torch.zeros(3)


@pytest.mark.parametrize(
    ("told", "returned", "judged"),
    [
        (ONE, ONE, ["return"]),
        ((ONE, TWO), (ONE, TWO), ["return[0]", "return[1]"]),
        ([ONE, TWO], {"b": TWO, "a": ONE}, ["return.a", "return.b"]),
        ((None, TWO), (ONE, TWO), ["return[1]"]),
        ({"return[1]": TWO}, (ONE, TWO), ["return[1]"]),
        ({"return": (ONE, TWO)}, (ONE, TWO), ["return[0]", "return[1]"]),
        ({"a": ONE, "b": TWO}, {"b": TWO, "a": ONE}, ["return.a", "return.b"]),
        ((ONE, 1.5), (ONE, 2.5), ["return[0]", "return[1]"]),
    ],
)
def test_references_are_matched_in_order_or_by_name(told: Any, returned: Any, judged: list[str]) -> None:
    """A structure as the launch gives it, a flat one, or names."""
    assert answered(told, returned) == judged


@pytest.mark.parametrize(
    ("told", "returned", "message"),
    [
        (None, ONE, "returned 0 references, and the launch gives 1 outputs (return)"),
        ((ONE, ONE), ONE, "returned 2 references, and the launch gives 1 outputs"),
        (ONE, (ONE, TWO), "returned 1 references, and the launch gives 2 outputs (return[0], return[1])"),
        (
            {"retrun": ONE},
            ONE,
            "names 'retrun', which the launch does not give; did you mean 'return'? outputs: return",
        ),
        (
            {"return[0]": ONE, "lse": TWO, 7: TWO},
            (ONE, TWO),
            "names 'lse', '7', which the launch does not give; outputs: return[0], return[1]",
        ),
        ({"a": ONE}, {"b": TWO, "a": ONE}, "the oracle returned lacks 'return.b'; outputs: return.a, return.b"),
        (
            {"a": ONE, "c": TWO},
            {"b": TWO, "a": ONE},
            "names 'return.c', which the launch does not give, and lacks 'return.b'; did you mean 'return.b'? ",
        ),
        ({}, ONE, "returned 0 references"),
        (TWO, ONE, "has shape (3,), the output (2,)"),
        (torch.zeros(2, 1), ONE, "has shape (2, 1), the output (2,)"),
        (ONE.long(), ONE, "is int64 and the output float32; return a floating dtype"),
        (ONE.cfloat(), ONE, "is complex64 and the output float32; return a floating dtype"),
        (ONE, ONE.long(), "is float32 and the output int64; return an integer or bool dtype"),
        (ONE, ONE.cfloat(), "is float32 and the output complex64; return a complex dtype"),
        ((ONE, "a"), (ONE, "a"), "reference of return[1] is a str; return a tensor"),
        ((ONE, 1), (ONE, "a"), "cannot judge return[1], a Python str; return None in its place"),
        (object(), ONE, "which cannot be compared"),
    ],
)
def test_an_answer_that_does_not_fit_is_told(told: Any, returned: Any, message: str) -> None:
    """With what was seen and what to do."""
    with pytest.raises(InputError, match=r"oracle|return is a") as raised:
        answered(told, returned)
    assert message in str(raised.value)
