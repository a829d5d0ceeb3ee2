"""The interpreter's matrix products: the same bytes whatever the tile."""

import importlib
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from triton import language as tl
from triton.runtime import interpreter

from pytest_kernelqual.on_device.interpreter import prepare_interpreter
from pytest_kernelqual.on_device.libdevice import _MODULES

SIZES = st.sampled_from([1, 2, 16, 33, 64])


@pytest.fixture(autouse=True, scope="module")
def _patched() -> Iterator[None]:
    """Patch this process, and undo it: tests that compile need Triton as it is."""
    places = [interpreter, interpreter.InterpreterBuilder, interpreter.FunctionRewriter]
    places += [importlib.import_module(f"triton.language.extra.{name}") for name in _MODULES]
    before = [dict(vars(place)) for place in places]
    prepare_interpreter()
    yield
    for place, held in zip(places, before, strict=True):
        for name, value in list(vars(place).items()):
            if name not in held:
                delattr(place, name)
            elif held[name] is not value:
                setattr(place, name, held[name])


def dot(a: np.ndarray, b: np.ndarray, total: np.ndarray, kind: tl.dtype = tl.float32) -> np.ndarray:
    """Return what `tl.dot` of the interpreter makes of plain arrays."""
    handles = [interpreter.TensorHandle(data, kind) for data in (a, b)]
    made = interpreter.interpreter_builder.create_dot(*handles, interpreter.TensorHandle(total, tl.float32), None, 0)
    data: np.ndarray = made.data
    return data


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 1000), SIZES, SIZES, st.integers(0, 96), st.integers(1, 96))
def test_tiles_give_the_bytes_of_the_whole(seed: int, rows: int, cols: int, first: int, depth: int) -> None:
    """Of any size along M, N and K."""
    random = np.random.default_rng(seed)
    a, b = (random.standard_normal(shape).astype(np.float32) for shape in ((64, depth), (depth, 64)))
    zero = np.zeros((64, 64), np.float32)
    whole = dot(a, b, zero)
    tile = dot(a[:rows], b[:, :cols], zero[:rows, :cols])
    assert tile.tobytes() == whole[:rows, :cols].tobytes()
    first = min(first, depth)
    split = dot(a[:, first:], b[first:], dot(a[:, :first], b[:first], zero))
    assert split.tobytes() == whole.tobytes()
    assert np.allclose(whole, a @ b, rtol=1e-4, atol=1e-4)


def test_half_precision_operands_are_summed_in_the_accumulator_type() -> None:
    """As on a GPU."""
    a, b = np.full((16, 4096), 1.0, np.float16), np.full((4096, 16), 1.0, np.float16)
    assert (dot(a, b, np.ones((16, 16), np.float32), tl.float16) == 4097).all()


def test_to_patch_twice_is_to_patch_once() -> None:
    """A new session in one process finds it done."""
    before = interpreter.InterpreterBuilder.create_dot
    prepare_interpreter()
    assert interpreter.InterpreterBuilder.create_dot is before
