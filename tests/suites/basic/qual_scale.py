"""Specs of the test suite that end in every outcome which needs no GPU."""

import os
import time

import torch
from scale import add_, add_kernel, copy, faulty_kernel, scale, scale_kernel, scale_tuple_grid

from pytest_kernelqual import Case, Config, grid, kernel_spec

CASES = [Case(n=300, dtype="float32"), Case(n=129, dtype="bfloat16", interpreter={"n": 65})]


@kernel_spec(kernel=scale_kernel, candidates=grid(BLOCK=[32, 128], num_warps=[1, 4]), cases=CASES, key=("dtype",))
def good(case, seeded):
    """Qualifies."""
    x = seeded.normal((case.n,), dtype=case.dtype, name="x")
    return lambda: scale(x)


@kernel_spec(kernel=add_kernel, candidates=grid(BLOCK=[32, 128]), cases=CASES)
def in_place(case, seeded):
    """Qualifies only when every launch gets fresh inputs."""
    x = seeded.normal((case.n,), dtype=case.dtype, name="x")
    y = seeded.normal((case.n,), dtype=case.dtype, name="y")
    return lambda: add_(x, y)


@kernel_spec(
    kernel=faulty_kernel,
    candidates=grid(FAULT=["none", "mismatch", "short", "long", "input", "poison"]),
    cases=[Case(n=300)],
)
def faulty(case, seeded):
    """Shows one outcome a candidate."""
    x = seeded.normal((case.n,), name="x")
    return lambda: copy(x)


@kernel_spec(
    kernel=faulty_kernel,
    candidates=grid(FAULT=["none", "mismatch"]),
    cases=[Case(n=30)],
    screen="a search space",
)
def screened(case, seeded):
    """Records the same fault without failing."""
    x = seeded.normal((case.n,), name="x")
    return lambda: copy(x)


@kernel_spec(kernel=scale_kernel, candidates=grid(BLOCK=[32, 64], num_warps=[1]), cases=[Case(n=300)])
def tuple_grid(case, seeded):
    """BLOCK=32 is unsupported: the grid was computed for 64."""
    x = seeded.normal((case.n,), name="x")
    return lambda: scale_tuple_grid(x)


def _planted(x, config):
    fault = config["FAULT"] if config else "none"
    if fault == "abort":
        os.abort()
    if fault == "hang":
        time.sleep(600)
    if fault == "raise":
        raise ValueError("planted")
    return x + 1


@kernel_spec(
    candidates=[Config(FAULT=name) for name in ("before", "abort", "hang", "raise", "after")],
    cases=[Case(n=8)],
    run_timeout_s=2,
)
def planted(case, seeded):
    """Each fault costs its own candidate; those after it go on."""
    x = seeded.normal((case.n,), name="x")
    return lambda config: _planted(x, config)


@kernel_spec(
    candidates=[Config(SIZE=1), Config(SIZE=2)],
    cases=[Case(n=8)],
    exclude=lambda config, case: "too big for it" if config["SIZE"] == 2 else False,
)
def excluded(case, seeded):
    """One candidate is ruled out by the spec."""
    x = seeded.normal((case.n,), name="x")
    return lambda config: x * 1


STATE = {"launches": 0}


def _counting(x, config):
    STATE["launches"] += 1
    return x + (STATE["launches"] if config else 0)


@kernel_spec(candidates=[Config(A=1)], cases=[Case(n=8)], repeats=4)
def restless(case, seeded):
    """A candidate whose launches differ from each other."""
    x = seeded.full((case.n,), 0.0, name="x")
    return lambda config: _counting(x, config)


@kernel_spec(candidates=[Config(A=1)], cases=[Case(n=8)])
def restless_fixed(case, seeded):
    """A fixed launch that differs from itself."""
    x = seeded.full((case.n,), 0.0, name="x")
    return lambda config: _counting(x, {"A": 1})


@kernel_spec(candidates=[Config(A=1)], cases=[Case(n=8)])
def unwritten_fixed(case, seeded):
    """A fixed launch that leaves its output unwritten."""
    x = seeded.full((case.n,), 0.0, name="x")
    return lambda config: torch.empty_like(x)
