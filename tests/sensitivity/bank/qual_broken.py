"""One spec for each kind of fault; the expected outcomes stand in test_bank.py."""

import random

import torch
from broken import (
    Double,
    _copy,
    _copy_rows,
    _double,
    _matmul,
    _scaled,
    copy,
    copy_into_cached,
    copy_rows,
    matmul,
    remembered_copy,
    scaled,
    scaled_by_cached_table,
    total_with_dirty_workspace,
)

from pytest_kernelqual import Case, Config, grid, kernel_spec

COPY_FAULTS = [
    "none", "dropped_mask", "mask_one_too_long", "mask_one_too_short", "writes_before_start", "every_other_program",
    "reads_output", "changes_input", "sign_of_zero", "one_element",
]  # fmt: skip


@kernel_spec(kernel=_copy, candidates=grid(FAULT=COPY_FAULTS), cases=[Case(n=301)])
def copies(case, seeded):
    """Masks, halves, inputs, zeros."""
    x = seeded.normal((case.n,), name="x")
    with torch.no_grad():
        x[::7] = 0.0
    return lambda: copy(x)


@kernel_spec(kernel=_copy, candidates=grid(BLOCK=[32, 64, 128], FAULT=["wrong_for_one_block"]), cases=[Case(n=301)])
def one_block(case, seeded):
    """Wrong at one block size by one unit in the last place."""
    x = seeded.normal((case.n,), name="x")
    return lambda: copy(x)


@kernel_spec(
    kernel=_copy_rows,
    candidates=grid(MASKED=[True, False]),
    cases=[Case(rows=5, cols=40, stride=40), Case(rows=5, cols=40, stride=70)],
    grid_independent=("MASKED",),
)
def rows(case, seeded):
    """A tile that hangs over: into the next row, past the last row, or into the gap between rows."""
    x = seeded.normal((case.rows, case.cols), strides=(case.stride, 1), name="x")
    return lambda: copy_rows(x, case.stride)


@kernel_spec(
    kernel=_matmul,
    candidates=grid(FAULT=["none", "missing_tail", "narrow_accumulator"]),
    cases=[Case(m=17, n=16, k=40)],
    grid_independent=("FAULT",),
)
def products(case, seeded):
    """A K loop without its last tile, and an accumulator of the wrong type."""
    a = seeded.normal((case.m, case.k), name="a")
    b = seeded.normal((case.k, case.n), name="b")
    return lambda: matmul(a, b)


@kernel_spec(kernel=_scaled, candidates=grid(BLOCK=[32, 64, 128]), cases=[Case(n=256)])
def scales(case, seeded):
    """One scale for a whole tile is wrong as soon as the tile spans two groups."""
    x = seeded.normal((case.n,), name="x")
    by = seeded.uniform((case.n // 64,), low=1.0, high=2.0, name="scales")
    return lambda: scaled(x, by)


@kernel_spec(candidates=[Config(BLOCK=64)], cases=[Case(n=256)])
def dirty_workspace(case, seeded):
    """A larger block leaves half of the workspace as it was."""
    x = seeded.normal((case.n,), name="x")
    return lambda config: total_with_dirty_workspace(x, config["BLOCK"] if config else None)


@kernel_spec(kernel=_double, candidates=grid(FACTOR=[2.0, 2.5]), cases=[Case(n=100)])
def gradients(case, seeded):
    """A wrong gradient behind a right forward pass."""
    x = seeded.normal((case.n,), name="x", requires_grad=True)

    def launch():
        y = Double.apply(x)
        y.sum().backward()
        return y

    return launch


@kernel_spec(
    kernel=_copy,
    candidates=grid(FAULT=["none", "every_other_program", "mask_one_too_short"]),
    cases=[Case(n=301), Case(n=302)],
)
def cached_buffers(case, seeded):
    """A buffer that is kept still holds the fixed launch's result: what a candidate leaves out must show."""
    x = seeded.normal((case.n,), name="x")
    return lambda: copy_into_cached(x)


@kernel_spec(candidates=grid(FAULT=["none", "spoils_table", "none_again"]), cases=[Case(n=301)])
def cached_tables(case, seeded):
    """A table that is kept is no scratch: each launch finds it as the fixed launch left it."""
    x = seeded.normal((case.n,), name="x")
    return lambda config: scaled_by_cached_table(x, config)


@kernel_spec(kernel=_copy, candidates=grid(BLOCK=[32, 128]), cases=[Case(n=301)])
def remembered(case, seeded):
    """A careless cache hands out the fixed launch's result: no candidate is ever launched."""
    x = seeded.normal((case.n,), name="x")
    return lambda: remembered_copy(x)


def _answer(x, fault):
    y = x + 1.0
    if fault == "dtype":
        return y.to(torch.float64)
    if fault == "shape":
        return y[:-1]
    if fault == "strides":
        return torch.stack([y, y], 1)[:, 0]
    if fault == "one_more":
        return y, y
    if fault == "nan_payload":
        bits = y.view(torch.int32).clone()
        bits[y.isnan()] ^= 1
        return bits.view(torch.float32)
    if fault == "random":
        return y + torch.rand(()) * 0 + random.random() * 0
    return y


@kernel_spec(
    candidates=grid(FAULT=["none", "dtype", "shape", "strides", "one_more", "nan_payload", "random"]),
    cases=[Case(n=40)],
)
def answers(case, seeded):
    """The same values in another form; random numbers are the same in every launch."""
    x = seeded.normal((case.n,), name="x")
    with torch.no_grad():
        x[3] = float("nan")
    return lambda config: _answer(x, config["FAULT"] if config else "none")


@kernel_spec(candidates=[Config(A=1), Config(A=2)], cases=[Case(n=40)])
def in_place(case, seeded):
    """Right only when every launch starts from fresh inputs."""
    x = seeded.normal((case.n,), name="x")
    return lambda config: x.mul_(3.0).add_(1.0)


_calls = {"count": 0}


def _second_call_differs(x, config):
    if config:
        _calls["count"] += 1
    return x + (_calls["count"] == 2)


@kernel_spec(candidates=[Config(A=1)], cases=[Case(n=40)], repeats=4)
def second_call(case, seeded):
    """Clean on its first launch."""
    x = seeded.normal((case.n,), name="x")
    return lambda config: _second_call_differs(x, config)
