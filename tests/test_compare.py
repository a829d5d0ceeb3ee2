"""Comparison: equal bytes are equal, and any other byte is found, placed, measured and explained."""

import itertools
import math
import struct
import sys
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings
from torch import Tensor

from pytest_kernelqual.model.record import Mismatch
from pytest_kernelqual.on_device import compare, distances
from pytest_kernelqual.on_device.compare import mismatches, same, unwritten, written_outside
from pytest_kernelqual.on_device.memory import PATTERN_A, PATTERN_B
from pytest_kernelqual.on_device.outputs import Output, collect

FLOATS = [
    torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz,
    torch.float16, torch.bfloat16, torch.float32, torch.float64,
]  # fmt: skip
BF16, F64, E4M3 = torch.bfloat16, torch.float64, torch.float8_e4m3fn
COMPLEX = [torch.complex32, torch.complex64, torch.complex128]
INTEGERS = [
    torch.bool, torch.uint8, torch.int8, torch.uint16, torch.int16, torch.uint32, torch.int32,
    torch.uint64, torch.int64,
]  # fmt: skip
OTHERS = [torch.float8_e8m0fnu, torch.float4_e2m1fn_x2]
EVERY = [*FLOATS, *COMPLEX, *INTEGERS, *OTHERS]

# A law is checked in a process that others may slow down.
law = settings(deadline=None, max_examples=60)


def tensor_of(data: bytes, dtype: torch.dtype, shape: tuple[int, ...] | None = None) -> Tensor:
    """Return a tensor with these bytes."""
    tensor = torch.frombuffer(bytearray(data), dtype=torch.uint8).view(dtype)
    return tensor if shape is None else tensor.view(shape)


def one(expected: Tensor, actual: Tensor) -> Mismatch:
    """Return the mismatch of two tensors that differ."""
    left, right = collect(expected), collect(actual)
    assert not same(left, right)
    (found,) = mismatches(left, right)
    return found


def floats(*values: float, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return a tensor of values."""
    return torch.tensor(values, dtype=torch.float64).to(torch.float32 if dtype.itemsize == 1 else dtype).to(dtype)


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every output longer than what is compared at a time."""
    monkeypatch.setattr(distances, "_CHUNK_ELEMENTS", 7)


# Laws


@law
@given(st.data())
def test_any_bytes_equal_themselves(data: st.DataObject) -> None:
    """NaNs included, of every dtype."""
    dtype = data.draw(st.sampled_from(EVERY))
    raw = data.draw(st.binary(min_size=1, max_size=12)) * dtype.itemsize
    left, right = collect(tensor_of(raw, dtype)), collect(tensor_of(raw, dtype))
    assert same(left, left)
    assert same(left, right)
    assert mismatches(left, right) == []


@law
@given(st.data())
def test_a_single_changed_byte_is_found(data: st.DataObject) -> None:
    """Whatever byte of whatever dtype: one element differs, and its index is told."""
    dtype = data.draw(st.sampled_from(EVERY))
    shape = data.draw(st.lists(st.integers(1, 4), max_size=3).map(tuple))
    size = math.prod(shape) * dtype.itemsize
    raw = data.draw(st.binary(min_size=size, max_size=size))
    place = data.draw(st.integers(0, size - 1))
    changed = bytearray(raw)
    changed[place] ^= data.draw(st.integers(1, 255))
    expected, actual = tensor_of(raw, dtype, shape), tensor_of(bytes(changed), dtype, shape)
    found = one(expected, actual)
    index = list(itertools.product(*map(range, shape)))[place // dtype.itemsize]
    assert (found.differing, found.elements, found.first_index) == (1, math.prod(shape), index)
    assert found.expected is not None
    assert found.actual is not None
    for number in (found.max_absolute, found.max_relative):
        assert number is None or 0 <= number < math.inf


@pytest.mark.parametrize("chunk_bytes", [8, 1 << 20])
@pytest.mark.parametrize("sizes", [(1,), (8,), (9, 3), (16, 0, 7), (31,)])
def test_a_changed_byte_is_found_the_way_that_devices_compare(
    sizes: tuple[int, ...], chunk_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight bytes at a time and the rest, over several outputs and many parts."""
    monkeypatch.setattr(compare, "on_host", lambda _tensor: False)
    monkeypatch.setattr(compare, "_EQUAL_CHUNK_BYTES", chunk_bytes)
    given_ = tuple(torch.arange(size, dtype=torch.uint8) for size in sizes)
    assert same(collect(given_), collect(tuple(tensor.clone() for tensor in given_)))
    for which, size in enumerate(sizes):
        for place in range(size):
            changed = [tensor.clone() for tensor in given_]
            changed[which][place] ^= 0x80
            assert not same(collect(given_), collect(tuple(changed)))


def ranks(dtype: torch.dtype) -> dict[int, int]:
    """Number the finite values of a small float in their order; both zeros are one."""
    bits = torch.arange(1 << 8 * dtype.itemsize, dtype=torch.int32).to(
        torch.uint8 if dtype.itemsize == 1 else torch.uint16
    )
    values = bits.view(dtype).to(torch.float32).tolist()
    finite = sorted({value for value in values if math.isfinite(value)})
    rank = {value: index for index, value in enumerate(finite)}
    return {bit: rank[value] for bit, value in enumerate(values) if math.isfinite(value)}


@pytest.mark.parametrize("dtype", [*FLOATS[:6], torch.float8_e8m0fnu])
def test_ulp_distance_is_the_number_of_steps(dtype: torch.dtype) -> None:
    """The reference counts: it lists every value of the type in order."""
    rank = ranks(dtype)
    width = dtype.itemsize

    @law
    @given(st.sampled_from(sorted(rank)), st.sampled_from(sorted(rank)))
    def check(left: int, right: int) -> None:
        if left != right:
            found = one(
                tensor_of(left.to_bytes(width, "little"), dtype), tensor_of(right.to_bytes(width, "little"), dtype)
            )
            assert found.max_ulp == abs(rank[left] - rank[right])

    check()


@law
@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(1, 300), st.sampled_from([32, 64]))
def test_ulp_distance_of_wide_floats(start: float, steps: int, bits: int) -> None:
    """As many steps of nextafter lie between as are counted, across zero too."""
    dtype = torch.float32 if bits == 32 else torch.float64
    left = torch.tensor([start], dtype=torch.float64).clamp(-3e38, 3e38).to(dtype)
    right = left.clone()
    for _ in range(steps):
        right = torch.nextafter(right, torch.tensor([-math.inf], dtype=dtype))
    if right.isfinite().all():
        assert one(left, right).max_ulp == steps


def test_ulp_distance_spans_the_whole_of_float64() -> None:
    """The largest distance needs all 64 bits of an unsigned integer."""
    found = one(floats(-sys.float_info.max, dtype=torch.float64), floats(sys.float_info.max, dtype=torch.float64))
    assert found.max_ulp == 2 * struct.unpack("=q", struct.pack("=d", sys.float_info.max))[0]
    assert found.max_absolute == sys.float_info.max, "the difference itself is no float any more"


@law
@given(st.data())
def test_integers_are_measured_exactly(data: st.DataObject) -> None:
    """A difference of one between large integers is not lost in float64."""
    dtype = data.draw(st.sampled_from(INTEGERS[1:]))
    info = torch.iinfo(dtype)
    left = data.draw(st.integers(info.min, info.max))
    right = data.draw(st.integers(info.min, info.max).filter(lambda value: value != left) | st.just(left ^ 1))
    pair = [tensor_of(value.to_bytes(dtype.itemsize, "little", signed=info.min < 0), dtype) for value in (left, right)]
    found = one(*pair)
    assert found.max_absolute == pytest.approx(abs(left - right), rel=1e-15)
    assert (found.expected, found.actual) == (str(left), str(right))
    assert found.max_relative == (pytest.approx(abs(left - right) / abs(left), rel=1e-15) if left else None)
    assert (found.max_ulp, found.diagnosis) == (None, "structural")


# Detail


@pytest.mark.usefixtures("small_chunks")
def test_detail_is_the_same_over_many_parts() -> None:
    """Counts, the first index and the largest differences are of the whole output."""
    expected = torch.arange(1.0, 61.0).view(5, 12)
    actual = expected.clone()
    actual[1, 3] += 0.5
    actual[4, 11] = math.nan
    actual[2, 0] = -1000
    expected[0, 0] = actual[0, 0] = math.inf
    found = one(expected, actual)
    assert found == Mismatch(
        output="return",
        elements=60,
        differing=3,
        first_index=(1, 3),
        expected="16 (0x41800000)",
        actual="16.5 (0x41840000)",
        max_absolute=1025.0,
        max_relative=41.0,
        max_ulp=found.max_ulp,
        nonfinite_expected=1,
        nonfinite_actual=2,
        diagnosis="structural",
    )


@pytest.mark.parametrize(
    ("expected", "actual", "texts"),
    [
        (floats(0.0), floats(-0.0), ("0 (0x00000000)", "-0 (0x80000000)")),
        (floats(math.nan, dtype=BF16), floats(1, dtype=BF16), ("nan (0x7fc0)", "1 (0x3f80)")),
        (floats(0.1, dtype=F64), floats(-1, dtype=F64), ("0.1 (0x3fb999999999999a)", "-1.0 (0xbff0000000000000)")),
        (floats(448, dtype=E4M3), floats(math.nan, dtype=E4M3), ("448 (0x7e)", "nan (0x7f)")),
        (
            torch.tensor([1 + 2j]),
            torch.tensor([1j]),
            ("(1, 2) (0x3f800000, 0x40000000)", "(0, 1) (0x00000000, 0x3f800000)"),
        ),
        (torch.tensor([True]), tensor_of(b"\2", torch.bool), ("True (0x01)", "True (0x02)")),
        (torch.tensor(-7, dtype=torch.int8), torch.tensor(5, dtype=torch.int8), ("-7", "5")),
    ],
)
def test_values_are_shown_with_their_bits(expected: Tensor, actual: Tensor, texts: tuple[str, str]) -> None:
    """NaNs, zeros and neighbours are told apart by eye."""
    found = one(expected, actual)
    assert (found.expected, found.actual) == texts


def test_complex_numbers_are_measured_as_a_whole() -> None:
    """The absolute difference is the distance in the plane; units in the last place are of the parts."""
    found = one(torch.tensor([3 + 4j, 1j]), torch.tensor([6 + 8j, 1j]))
    assert (found.max_absolute, found.max_relative, found.differing) == (5.0, 1.0, 1)
    assert found.max_ulp == 1 << 23


# Diagnosis


NAN_1, NAN_2 = tensor_of(b"\1\0\xc0\x7f", torch.float32), tensor_of(b"\2\0\xc0\xff", torch.float32)


@pytest.mark.parametrize(
    ("expected", "actual", "diagnosis"),
    [
        (floats(0.0, 1), floats(-0.0, 1), "sign_of_zero"),
        (floats(0.0, dtype=torch.float8_e5m2), floats(-0.0, dtype=torch.float8_e5m2), "sign_of_zero"),
        (torch.tensor([complex(0.0, 1.0)]), torch.tensor([complex(-0.0, 1.0)]), "sign_of_zero"),
        (NAN_1, NAN_2, "nan_payload"),
        (torch.cat([NAN_1, floats(0)]), torch.cat([NAN_2, floats(-0.0)]), "nan_payload"),
        (torch.cat([NAN_1, floats(1)]), torch.cat([NAN_2, floats(2)]), "structural"),
        (floats(1.0, 2), floats(1 + 2**-23, 2), "rounding"),
        (floats(-0.0, 1), floats(1e-45, 1), "rounding"),
        (floats(-0.0, 1), floats(0.0, 1 + 2**-22), "rounding"),
        (floats(1e-9, 1, 1, 1), floats(-1e-7, 1, 1, 1), "rounding"),
        (floats(1.0, 1, dtype=torch.bfloat16), floats(1.03, 1, dtype=torch.bfloat16), "rounding"),
        (floats(1.0, dtype=torch.float8_e4m3fn), floats(1.125, dtype=torch.float8_e4m3fn), "rounding"),
        (floats(1.0, dtype=torch.float8_e4m3fn), floats(1.25, dtype=torch.float8_e4m3fn), "structural"),
        (floats(1.0, 1, dtype=torch.bfloat16), floats(1.1, 1, dtype=torch.bfloat16), "structural"),
        (floats(1.0, 2), floats(1.001, 2), "structural"),
        (floats(1.0, 2), floats(2, 1), "structural"),
        (floats(math.inf), floats(3e38), "structural"),
        (floats(math.inf), floats(math.nan), "structural"),
        (floats(1.0, 1e308, 1e308, dtype=torch.float64), floats(2.0, 1e308, 1e308, dtype=torch.float64), "structural"),
        (torch.tensor([100]), torch.tensor([101]), "structural"),
    ],
)
def test_the_kind_of_difference_is_named(expected: Tensor, actual: Tensor, diagnosis: str) -> None:
    """What a reader asks first: only a sign or payload, a matter of rounding, or plainly wrong."""
    assert one(expected, actual).diagnosis == diagnosis
    assert one(actual, expected).diagnosis == diagnosis


def test_another_order_of_summation_is_rounding() -> None:
    """A reduction by other tiles is what the diagnosis is for."""
    generator = torch.Generator().manual_seed(1)
    rows = torch.randn(64, 4096, generator=generator)
    weights = torch.randn(4096, 32, generator=generator)
    whole = rows @ weights
    first, second = rows[:, :2048] @ weights[:2048], rows[:, 2048:] @ weights[2048:]
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        assert one(whole.to(dtype), first.to(dtype) + second.to(dtype)).diagnosis == "rounding"
    assert one(whole, rows[:, :4095] @ weights[:4095]).diagnosis == "structural"


X = torch.arange(6.0).view(2, 3)


@pytest.mark.parametrize(
    ("expected", "actual", "notes"),
    [
        (X, X.view(3, 2), ["shape (3, 2) instead of (2, 3); strides (2, 1) instead of (3, 1)"]),
        (X, X.half(), ["dtype float16 instead of float32"]),
        (X, X.t().contiguous().t(), ["strides (1, 2) instead of (3, 1)"]),
        (X, X.view(torch.int32), ["dtype int32 instead of float32"]),
        ((X, X), (X,), ["the output is missing"]),
        ((X,), (X, X), ["not an output of the fixed launch"]),
        ((X, 1), (X, 1.0), ["dtype Python float instead of Python int"]),
        ((X, None), (X, 0), ["dtype Python int instead of Python NoneType"]),
    ],
)
def test_another_form_is_a_mismatch(expected: Any, actual: Any, notes: list[str]) -> None:
    """Shape, dtype, strides and the number of outputs count as bytes do."""
    left, right = collect(expected), collect(actual)
    assert not same(left, right)
    found = mismatches(left, right)
    assert [item.note for item in found] == notes
    assert {item.diagnosis for item in found} == {"shape"}


@pytest.mark.parametrize(
    ("expected", "actual", "texts", "absolute"),
    [
        (1, 12, ("'1'", "'12'"), None),
        ("a", "b", ("'a'", "'b'"), None),
        (1.0, 1.5, ("1.0 (0x3ff0000000000000)", "1.5 (0x3ff8000000000000)"), 0.5),
        (True, False, ("True (0x01)", "False (0x00)"), 1.0),
    ],
)
def test_scalars_differ_by_value(expected: Any, actual: Any, texts: tuple[str, str], absolute: float | None) -> None:
    """A number that a launch returns is an output like any other."""
    left, right = collect((X, expected)), collect((X, actual))
    assert not same(left, right)
    (found,) = mismatches(left, right)
    assert (found.output, found.expected, found.actual, found.max_absolute) == ("return[1]", *texts, absolute)
    assert found.first_index == ()


def test_each_output_is_told_in_order() -> None:
    """Equal outputs are left out."""
    left = collect({"a": X, "b": X, "c": X})
    right = collect({"a": X + 1, "b": X, "c": X.half()})
    assert [(item.output, item.diagnosis) for item in mismatches(left, right)] == [
        ("return.a", "structural"),
        ("return.c", "shape"),
    ]


def test_outputs_without_elements_are_equal() -> None:
    """Zero elements are no difference, in any part of a result."""
    assert same(collect((torch.empty(0, 3), X)), collect((torch.empty(0, 3), X)))


# Unwritten elements and stray writes


def poisoned(shape: tuple[int, ...], dtype: torch.dtype, pattern: int) -> Tensor:
    """Return a tensor that nobody has written."""
    return torch.full((math.prod(shape) * dtype.itemsize,), pattern, dtype=torch.uint8).view(dtype).view(shape)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("dtype", EVERY)
def test_unwritten_elements_are_found(dtype: torch.dtype) -> None:
    """Elements that hold the pattern under both patterns were never written."""
    pair = []
    for pattern in (PATTERN_A, PATTERN_B):
        tensor = poisoned((5, 6), dtype, pattern)
        written = tensor.view(torch.uint8).view(5, 6, -1)
        written[:, :4] = 0
        written[0, 4] = 1
        pair.append(collect((X, tensor)))
    assert unwritten(*pair, PATTERN_A, PATTERN_B) == {
        "output": "return[1]",
        "count": 9,
        "first_index": (0, 5),
        "elements": 30,
    }


def test_written_elements_are_not_unwritten() -> None:
    """A value that equals the pattern once, or bytes that change otherwise, is no surviving poison."""
    nan = poisoned((4,), torch.float32, PATTERN_A)
    assert unwritten(collect(nan), collect(nan), PATTERN_A, PATTERN_B) is None
    assert unwritten(collect(nan), collect(floats(1, 2, 3, 4)), PATTERN_A, PATTERN_B) is None
    partly = poisoned((4,), torch.float32, PATTERN_B)
    partly.view(torch.uint8)[::4] = 0
    assert unwritten(collect(nan), collect(partly), PATTERN_A, PATTERN_B) is None
    assert unwritten(collect((X, 1)), collect((X, 2)), PATTERN_A, PATTERN_B) is None
    assert unwritten(collect(nan), collect(nan.half()), PATTERN_A, PATTERN_B) is None


def padded(change: int | None = None) -> list[Output]:
    """Return the outputs of a launch that returns a view of wider rows, of which it wrote some padding itself."""
    base = torch.full((3, 8), PATTERN_A, dtype=torch.uint8)
    base[:, :6] = 1
    base[0, 6] = 2
    if change is not None:
        base.view(-1)[change] = 9
    return collect((X, base[:, :6]))


def test_writes_outside_of_a_returned_view_are_found() -> None:
    """Padding that the fixed launch leaves alone is guard; padding that it writes, and the view itself, is not."""
    assert written_outside(padded(), padded(), PATTERN_A) is None
    assert written_outside(padded(), padded(6), PATTERN_A) is None, "written by the fixed launch as well"
    assert written_outside(padded(), padded(9), PATTERN_A) is None, "an element of the view"
    assert written_outside(padded(), padded(15), PATTERN_A) == {"output": "return[1]", "count": 1, "first_byte": 15}
