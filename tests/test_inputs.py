"""Seeded inputs: what one stream makes, what is remembered, and what is put back before every launch."""

import math
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_kernelqual.on_device import streams
from pytest_kernelqual.on_device.inputs import SeededInputs

DEVICES = [torch.device("cpu"), *([torch.device("cuda", 0)] if torch.cuda.is_available() else [])]
CPU = DEVICES[0]
FP8 = ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"]
FLOATS = [*FP8, "float16", "bfloat16", "float32", "float64"]
INTEGERS = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"]


def make_inputs(stream: str = "test", device: torch.device = CPU) -> SeededInputs:
    """Return inputs in memory without guard bands."""

    def allocate(shape: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype, *, name: str) -> torch.Tensor:
        del name
        return torch.empty_strided(shape, strides, dtype=dtype, device=device)

    return SeededInputs(stream=stream, device=device, interpreted=device.type == "cpu", allocate=allocate)


def row_major_bytes(tensor: torch.Tensor) -> bytes:
    """Return the addressable bytes of a tensor."""
    plain = torch.empty(tensor.shape, dtype=tensor.dtype).copy_(tensor.detach())
    return bytes(plain.flatten().view(torch.uint8).tolist())


SHAPES = st.lists(st.integers(0, 6), max_size=4).map(tuple)


@st.composite
def padded_strides(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Draw strides that keep the elements of `shape` apart, with the axes in any order in memory."""
    strides, reach = [0] * len(shape), 1
    for axis in draw(st.permutations(range(len(shape)))):
        strides[axis] = reach + draw(st.integers(0, 3))
        reach = strides[axis] * max(shape[axis], 1)
    return tuple(strides)


def fill_with(method: str, seeded: SeededInputs, shape: tuple[int, ...], **layout: Any) -> torch.Tensor:
    """Call a method of seeded by name."""
    calls: dict[str, Callable[[], torch.Tensor]] = {
        "normal": lambda: seeded.normal(shape, **layout),
        "uniform": lambda: seeded.uniform(shape, **layout),
        "randint": lambda: seeded.randint(0, 2, shape, **layout),
        "bernoulli": lambda: seeded.bernoulli(shape, **layout),
        "full": lambda: seeded.full(shape, 1, **layout),
    }
    return calls[method]()


# --- one stream, one set of bytes -------------------------------------------------------------------------------------


@given(st.data(), SHAPES, st.sampled_from(["normal", "uniform", "randint", "bernoulli", "full"]), st.text(max_size=8))
@settings(max_examples=150, deadline=None)
def test_one_stream_gives_the_same_bytes_whatever_the_strides(
    data: st.DataObject, shape: tuple[int, ...], method: str, stream: str
) -> None:
    """Only stream, ordinal, index and dtype decide a value; memory order does not."""
    dtypes = FLOATS if method in ("normal", "uniform") else [*FLOATS, *INTEGERS, "bool"]
    dtype = data.draw(st.sampled_from(dtypes))
    strides = data.draw(padded_strides(shape))
    plain = fill_with(method, make_inputs(stream), shape, dtype=dtype)
    strided = fill_with(method, make_inputs(stream), shape, dtype=dtype, strides=strides)
    assert plain.is_contiguous()
    assert strided.stride() == strides
    assert plain.dtype == strided.dtype == getattr(torch, dtype)
    assert row_major_bytes(plain) == row_major_bytes(strided)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_values_do_not_depend_on_strides(dtype: str) -> None:
    """Real and imaginary parts are drawn alike, and apart."""
    plain = make_inputs().normal((5, 7), dtype=dtype)
    strided = make_inputs().normal((5, 7), dtype=dtype, layout="column_major")
    assert row_major_bytes(plain) == row_major_bytes(strided)
    assert not torch.equal(plain.real, plain.imag)


@given(st.text(max_size=8), st.text(max_size=8), st.integers(0, 5), st.integers(0, 5))
@settings(deadline=None)
def test_another_stream_or_ordinal_gives_other_bytes(one: str, other: str, first: int, second: int) -> None:
    """Two tensors agree only where both stream and ordinal agree."""

    def nth(stream: str, ordinal: int) -> bytes:
        seeded = make_inputs(stream)
        return row_major_bytes([seeded.normal((16,)) for _ in range(ordinal + 1)][-1])

    assert (nth(one, first) == nth(other, second)) == ((one, first) == (other, second))


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int64"])
def test_values_do_not_depend_on_the_parts_they_are_drawn_in(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors larger than one part, contiguous and not, read as one sequence."""
    whole = [row_major_bytes(tensor) for tensor in _big_tensors(dtype)]
    monkeypatch.setattr("pytest_kernelqual.on_device.snapshots._CHUNK", {"cpu": 7})
    assert [row_major_bytes(tensor) for tensor in _big_tensors(dtype)] == whole


def _big_tensors(dtype: str) -> list[torch.Tensor]:
    method = "randint" if dtype == "int64" else "normal"
    return [
        fill_with(method, make_inputs(), (30, 11), dtype=dtype),
        fill_with(method, make_inputs(), (30, 3), dtype=dtype, strides=(5, 1)),
        fill_with(method, make_inputs(), (3, 5, 7), dtype=dtype, layout="column_major"),
    ]


def test_words_go_on_beyond_two_to_the_32() -> None:
    """An index of more than 32 bits does not repeat the first elements, wherever parts begin."""
    key = streams.Key("long", 0)
    edge = 1 << 32
    across = streams.words(key, 0, edge - 5, 10, CPU)
    parts = [streams.words(key, 0, edge - 5, 5, CPU), streams.words(key, 0, edge, 5, CPU)]
    assert torch.equal(across, torch.cat(parts))
    assert not torch.equal(parts[1], streams.words(key, 0, 0, 5, CPU))


GOLDEN = {
    "normal float8_e4m3fn": "0090e164997bb12e",
    "uniform float8_e4m3fn": "96f1580781670d50",
    "normal float8_e5m2": "d18b1a1861152703",
    "uniform float8_e5m2": "0181648bd0fd475b",
    "normal float8_e4m3fnuz": "a66b944e74a172de",
    "uniform float8_e4m3fnuz": "6f6e36aef24faf64",
    "normal float8_e5m2fnuz": "fd26cd608bc4f773",
    "uniform float8_e5m2fnuz": "975d9f7dafac2b50",
    "normal float16": "651d3c59d0ef449c",
    "uniform float16": "4bae167ea887f3b2",
    "normal bfloat16": "2109136efc6850b6",
    "uniform bfloat16": "1d320b073e47650d",
    "normal float32": "647f1e6ca2b6b7f0",
    "uniform float32": "4dd931d7e4e6598d",
    "normal float64": "16ccb63b1cf700b5",
    "uniform float64": "b21e057b0a032174",
    "normal complex64": "249b9086298d8708",
    "normal long": "7b5069037c5301ab",
    "randint uint8": "e6e14fa2b3bd40bd",
    "randint int8": "72d1b30cc869f22d",
    "randint uint16": "0de2ba7545c05d23",
    "randint int16": "801cc3c0b5c06686",
    "randint uint32": "4a184687e99bd0f7",
    "randint int32": "9a7de3fd82ad661f",
    "randint uint64": "9678bf91cc2e20b4",
    "randint int64": "30a40c93bf94dbda",
    "randint wide": "a41f9e9990f91b4d",
    "bernoulli": "86e367d5706bce82",
    "permutation": "c6949828058e501c",
    "full nan": "72e9683ce0248f58",
    "arange": "3c82921d2ae789bd",
}


def _golden_inputs(device: torch.device) -> SeededInputs:
    seeded = make_inputs("golden", device)
    for dtype in FLOATS:
        seeded.normal((64, 33), dtype=dtype, mean=0.25, std=3.0, name=f"normal {dtype}")
        seeded.uniform((64, 33), dtype=dtype, low=-1.5, high=0.75, name=f"uniform {dtype}")
    seeded.normal((64, 33), dtype="complex64", name="normal complex64")
    seeded.normal((400_000,), dtype="bfloat16", name="normal long")
    for dtype in INTEGERS:
        seeded.randint(3, 101, (64, 33), dtype=dtype, name=f"randint {dtype}")
    seeded.randint(-(1 << 62), 1 << 62, (999,), name="randint wide")
    seeded.bernoulli((999,), p=0.3, name="bernoulli")
    seeded.permutation(5000, name="permutation")
    seeded.full((3,), math.nan, dtype="float16", name="full nan")
    seeded.arange(17, dtype="float8_e4m3fn", name="arange")
    return seeded


@pytest.mark.parametrize("device", DEVICES, ids=str)
def test_golden_digests_pin_every_stream_for_ever(device: torch.device) -> None:
    """A change here changes the inputs of every suite that was ever qualified."""
    seeded = _golden_inputs(device)
    seeded.freeze(lambda: None)
    assert {info.name: info.digest.removeprefix("sha256:")[:16] for info in seeded.descriptions()} == GOLDEN


def test_another_process_makes_the_same_bytes() -> None:
    """Neither the process, its hash seed, its threads nor its random numbers so far have a say."""
    seeded = make_inputs("process")
    seeded.normal((300, 7), dtype="bfloat16")
    seeded.permutation(1000)
    seeded.freeze(lambda: None)
    program = (
        "import torch; from pytest_kernelqual.on_device.inputs import SeededInputs\n"
        "torch.set_num_threads(1); torch.randn(9)\n"
        "make = lambda shape, strides, dtype, name: torch.empty_strided(shape, strides, dtype=dtype)\n"
        "s = SeededInputs(stream='process', device=torch.device('cpu'), interpreted=True, allocate=make)\n"
        "s.normal((300, 7), dtype='bfloat16'); s.permutation(1000); s.freeze(lambda: None); print(s.digest(), s.seed)"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == [seeded.digest(), str(seeded.seed)]
