"""Seeded inputs: the laws that their values follow, after rounding to every dtype."""

import functools
import math
from bisect import bisect_left
from statistics import NormalDist

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_kernelqual.errors import InputError
from pytest_kernelqual.model.spec import Seeded
from pytest_kernelqual.on_device import streams
from pytest_kernelqual.on_device.inputs import SeededInputs

CPU = torch.device("cpu")
FP8 = ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"]
FLOATS = [*FP8, "float16", "bfloat16", "float32", "float64"]
INTEGERS = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"]


def make_inputs(stream: str = "test") -> SeededInputs:
    """Return inputs on the CPU, in memory without guard bands."""

    def allocate(shape: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype, *, name: str) -> torch.Tensor:
        del name
        return torch.empty_strided(shape, strides, dtype=dtype)

    return SeededInputs(stream=stream, device=CPU, interpreted=True, allocate=allocate)


def row_major_bytes(tensor: torch.Tensor) -> bytes:
    """Return the addressable bytes of a tensor."""
    plain = torch.empty(tensor.shape, dtype=tensor.dtype).copy_(tensor.detach())
    return bytes(plain.flatten().view(torch.uint8).tolist())


def values(tensor: torch.Tensor) -> torch.Tensor:
    """Return the elements of a tensor of any real dtype as float64."""
    return tensor.detach().cpu().to(torch.float64)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_normal_follows_the_normal_distribution(dtype: str) -> None:
    """Kolmogorov-Smirnov distance, moments and tails of a fixed million."""
    x = values(make_inputs("law").normal((1_000_000,), dtype=dtype)).sort().values
    expected = torch.special.ndtr(x)
    ranks = torch.arange(1, x.numel() + 1, dtype=torch.float64) / x.numel()
    assert (expected - ranks).abs().max() < 1.63 / math.sqrt(x.numel())  # the 1 % point
    assert abs(x.mean()) < 0.004
    assert abs(x.pow(2).mean() - 1) < 0.006
    assert abs(x.pow(4).mean() - 3) < 0.04
    assert 4.3 < x.abs().max() < streams.LARGEST_NORMAL


def test_normal_float64_uses_its_whole_mantissa() -> None:
    """Products of values with 24 bits would be exact in float64 and hide the order of a sum."""
    x = make_inputs().normal((1000,), dtype="float64")
    assert (x != x.to(torch.float32).to(torch.float64)).all()


def test_normal_scales_by_mean_and_std_as_rounded_operations() -> None:
    """A product, then a sum, each rounded to float32: no device may fuse them."""
    plain = make_inputs().normal((1000,))
    scaled = make_inputs().normal((1000,), mean=0.1, std=3.3)
    assert torch.equal(scaled, plain * 3.3 + 0.1)


@pytest.mark.parametrize("word", [0, 1, -1, (1 << 31) - 1, -(1 << 31)])
def test_every_extreme_word_is_a_finite_normal_value(word: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sign of a word is the sign of the value; words next to 0 are the tails, those far from it the middle."""
    monkeypatch.setattr(streams, "words", lambda *_: torch.tensor([word], dtype=torch.int32))
    x = streams.normal(streams.Key("", 0), 0, 1, CPU, torch.float32).item()
    assert math.isfinite(x)
    assert abs(x) <= streams.LARGEST_NORMAL
    assert (abs(x) > 6) == (abs(word) <= 1)
    assert x * word >= 0


def test_quantiles_are_rounded_where_no_library_can_move_them() -> None:
    """A library's error (about 1e-15) is far below the distance of every node to where rounding turns."""
    nodes = streams.quantile_nodes()
    assert len(nodes) == 64 * 128 + 1
    exact = [-NormalDist().inv_cdf(u / 2**32) * 2**20 for u, _ in nodes]
    assert min(abs(z - math.floor(z) - 0.5) for z in exact) > 1e-6
    assert max(abs(z - node * 2**20) for z, (_, node) in zip(exact, nodes, strict=True)) <= 0.5


@given(st.floats(-200, 200), st.floats(-200, 200), st.sampled_from(FLOATS), st.integers(0, 3))
@settings(max_examples=200, deadline=None)
def test_uniform_keeps_its_range_after_rounding(one: float, other: float, dtype: str, stream: int) -> None:
    """No value reaches `high`, whatever the dtype rounds to; a range without a value is refused."""
    low, high = min(one, other), max(one, other)
    try:
        x = values(make_inputs(str(stream)).uniform((300,), low=low, high=high, dtype=dtype))
    except InputError:
        assert not _holds_a_value(dtype, low, high)
        return
    assert ((x >= low) & (x < high)).all()


def _holds_a_value(dtype: str, low: float, high: float) -> bool:
    if low == high:
        return False
    if dtype in ("float32", "float64"):
        nearest = torch.tensor(low, dtype=torch.float64).to(getattr(torch, dtype))
        if nearest.item() < low:
            nearest = torch.nextafter(nearest, torch.tensor(math.inf, dtype=nearest.dtype))
        return low <= nearest.item() < high
    return any(low <= value < high for value in _finite_values(dtype))


@functools.cache
def _finite_values(dtype: str) -> list[float]:
    kind = getattr(torch, dtype)
    patterns = torch.arange(1 << (8 * kind.itemsize)).to({1: torch.uint8, 2: torch.int16}[kind.itemsize])
    return sorted({value for value in patterns.view(kind).to(torch.float64).tolist() if math.isfinite(value)})


def test_uniform_is_uniform() -> None:
    """Moments and counts of a fixed million."""
    x = values(make_inputs("law").uniform((1_000_000,), low=-2.0, high=6.0))
    counts = torch.histc(x, 64, -2.0, 6.0)
    assert abs(x.mean() - 2) < 0.01
    assert abs(x.var() - 64 / 12) < 0.03
    assert ((counts - 1e6 / 64).pow(2) / (1e6 / 64)).sum() < 112  # the 0.01 % point of 63 degrees


@given(st.integers(-(1 << 63), (1 << 63) - 1), st.integers(1, 1 << 63), st.integers(0, 9))
@settings(deadline=None)
def test_randint_keeps_its_range(low: int, span: int, stream: int) -> None:
    """Spans from 1 to 2**63 anywhere in int64."""
    span = min(span, (1 << 63) - low)
    x = make_inputs(str(stream)).randint(low, low + span, (200,)).tolist()
    assert all(low <= value < low + span for value in x)


@pytest.mark.parametrize("span", [1, 2, 3, 7, 100, 1000, (1 << 20) + 7, 10**12])
def test_randint_is_uniform(span: int) -> None:
    """Eight parts of the range are equally likely; a small range is met whole."""
    x = values(make_inputs("law").randint(5, 5 + span, (100_000,))) - 5
    if span <= 100:
        assert len(set(x.tolist())) == span
    shares = torch.bincount((x * min(span, 8) / span).long()) / x.numel()
    exact = (
        torch.bincount((torch.arange(span, dtype=torch.float64) * min(span, 8) / span).long()) / span
        if span < 10**6
        else torch.full((8,), 0.125)
    )
    assert (shares - exact).abs().max() < 0.006


@pytest.mark.parametrize("dtype", INTEGERS)
def test_randint_reaches_both_ends_of_the_dtype(dtype: str) -> None:
    """The least and the largest value of every integer dtype can be asked for."""
    info = torch.iinfo(getattr(torch, dtype))
    assert set(make_inputs().randint(info.min, info.min + 2, (64,), dtype=dtype).tolist()) == {info.min, info.min + 1}
    assert set(make_inputs().randint(info.max - 1, info.max + 1, (64,), dtype=dtype).tolist()) == {
        info.max - 1, info.max,
    }  # fmt: skip
    whole = values(make_inputs().randint(info.min, info.max + 1, (1000,), dtype=dtype))
    assert whole.min() < info.min + 0.05 * (info.max - info.min)
    assert whole.max() > info.max - 0.05 * (info.max - info.min)


@pytest.mark.parametrize("p", [0.0, 0.01, 0.5, 0.99, 1.0])
def test_bernoulli_is_true_with_probability_p(p: float) -> None:
    """Exact at 0 and 1."""
    share = make_inputs("law").bernoulli((200_000,), p=p).double().mean().item()
    assert share == p if p in (0, 1) else abs(share - p) < 0.005


@given(st.integers(0, 2000), st.integers(0, 9))
@settings(deadline=None)
def test_permutation_is_a_permutation(n: int, stream: int) -> None:
    """Each of 0 .. n-1 once; and it is no identity."""
    x = make_inputs(str(stream)).permutation(n, dtype="int32")
    assert sorted(x.tolist()) == list(range(n))
    assert n < 20 or x.tolist() != list(range(n))


def test_permutation_puts_every_number_everywhere() -> None:
    """Among many streams, each number comes first about as often."""
    firsts = [make_inputs(str(stream)).permutation(5)[0].item() for stream in range(1000)]
    assert all(150 < firsts.count(number) < 250 for number in range(5))


def test_streams_of_one_seed_are_not_correlated() -> None:
    """Neither tensors with each other nor elements with those after them."""
    seeded = make_inputs("law")
    x, y = (values(seeded.normal((1 << 18,))) for _ in range(2))
    pairs = [(x, y), *((x[:-lag], x[lag:]) for lag in (1, 2, 3, 7, 64, 1024, 4096))]
    assert all(abs((one * other).mean()) * 512 < 4 for one, other in pairs)


@pytest.mark.parametrize("dtype", FP8)
def test_fp8_values_are_the_nearest_even_ones(dtype: str) -> None:
    """Rounded as IEEE says and never beyond the largest value, where devices differ (infinity, NaN or saturation)."""
    finite = _finite_values(dtype)
    plain = make_inputs().normal((50_000,), std=finite[-1] / 2).tolist()
    rounded = make_inputs().normal((50_000,), std=finite[-1] / 2, dtype=dtype)
    strided = make_inputs().normal((50_000,), std=finite[-1] / 2, dtype=dtype, strides=(3,))
    assert values(rounded).tolist() == [_nearest(finite, value) for value in plain]
    assert row_major_bytes(rounded) == row_major_bytes(strided)
    assert values(rounded).abs().max() == finite[-1]


def _nearest(finite: list[float], value: float) -> float:
    position = bisect_left(finite, value)
    if position in (0, len(finite)):
        return finite[min(position, len(finite) - 1)]
    low, high = finite[position - 1], finite[position]
    if value - low != high - value:
        return low if value - low < high - value else high
    # Of two neighbours the even one is a multiple of twice their distance.
    return low if low % (2 * (high - low)) == 0 else high


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_normal_beyond_a_dtype_is_its_largest_value(dtype: str) -> None:
    """No infinity comes of a large deviation."""
    limit = torch.finfo(getattr(torch, dtype)).max
    x = values(make_inputs().normal((1000,), std=limit / 2, dtype=dtype))
    assert x.isfinite().all()
    assert x.abs().max() == limit


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (-0.0, "float16", b"\x00\x80"),
        (math.inf, "bfloat16", b"\x80\x7f"),
        (math.nan, "float32", b"\x00\x00\xc0\x7f"),
        (1 << 63, "uint64", b"\x00" * 7 + b"\x80"),
        (-1, "int16", b"\xff\xff"),
        (True, "bool", b"\x01"),
        (0.1, "float64", b"\x9a\x99\x99\x99\x99\x99\xb9\x3f"),
        (1 + 2j, "complex64", b"\x00\x00\x80\x3f\x00\x00\x00\x40"),
        (2j, "complex128", b"\x00" * 15 + b"\x40"),
        (448, "float8_e4m3fn", b"\x7e"),
        (math.inf, "float8_e5m2", b"\x7c"),
    ],
)
def test_full_holds_the_bits_of_the_value(value: complex, dtype: str, expected: bytes) -> None:
    """Bits are worked out once and written; strides do not matter."""
    assert row_major_bytes(make_inputs().full((3,), value, dtype=dtype, strides=(2,))) == expected * 3


def test_default_dtypes_are_those_of_torch() -> None:
    """Real values are float32, whole numbers int64, truth bool."""
    seeded = make_inputs()
    made = [
        seeded.normal((2,)), seeded.uniform((2,)), seeded.zeros((2,)), seeded.ones((2,)), seeded.full((2,), 1.5),
        seeded.randint(0, 2, (2,)), seeded.permutation(2), seeded.arange(2), seeded.full((2,), 3),
        seeded.bernoulli((2,)), seeded.full((2,), value=True), seeded.full((2,), 1j),
    ]  # fmt: skip
    assert [tensor.dtype for tensor in made] == (
        [torch.float32] * 5 + [torch.int64] * 4 + [torch.bool] * 2 + [torch.complex64]
    )
    assert seeded.arange(4, dtype=torch.float16).tolist() == [0, 1, 2, 3]


def test_layouts_are_as_torch_lays_them_out() -> None:
    """The strides of a layout are those that torch gives it."""
    seeded = make_inputs()
    image = seeded.normal((2, 3, 4, 5), layout="channels_last")
    assert image.is_contiguous(memory_format=torch.channels_last)
    volume = seeded.normal((2, 3, 4, 5, 6), layout="channels_last")
    assert volume.is_contiguous(memory_format=torch.channels_last_3d)
    assert seeded.normal((2, 3, 4), layout="column_major").transpose(1, 2).is_contiguous()
    assert seeded.normal((2, 3, 4), layout="row_major").is_contiguous()
    assert seeded.normal((0, 3), layout="column_major").shape == (0, 3)
    assert seeded.normal((), dtype="float64").dim() == 0


def test_seeded_inputs_are_what_a_builder_is_promised() -> None:
    """The class has every method of the protocol, and a seed that is the stream's."""
    seeded: Seeded = make_inputs("a")
    assert seeded.seed == make_inputs("a").seed != make_inputs("b").seed
    assert 0 <= seeded.seed < 1 << 32
    assert seeded.device == CPU
    assert seeded.interpreted is True
