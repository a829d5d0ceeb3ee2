"""Products and reductions; the table of expectations says what each candidate must get."""

import torch
from products import (
    _argmax,
    _matmul,
    _multiply_add,
    _reduce_rows,
    _row_sums,
    _scaled,
    _softmax,
    _sum_bytes,
    add_parts,
    argmax,
    matmul,
    multiply_add,
    reduce_rows,
    row_sums,
    scaled,
    softmax,
    sum_bytes,
)

from pytest_kernelqual import Case, Config, grid, kernel_spec


@kernel_spec(
    kernel=_matmul,
    candidates=[
        *grid(FAULT=["none", "missing_tail", "tail_twice", "float16_accumulator", "bfloat16_accumulator"]),
        *grid(FAULT=["wrong_for_32"], BLOCK_K=[16, 32]),
        Config(PRECISION="tf32"),
    ],
    cases=[Case(m=17, n=16, k=40)],
    grid_independent=("FAULT", "BLOCK_K", "PRECISION"),
)
def products(case, seeded):
    """Run a K loop wrongly, or add in the wrong type."""
    a = seeded.normal((case.m, case.k), name="a")
    b = seeded.normal((case.k, case.n), name="b")
    return lambda: matmul(a, b)


@kernel_spec(
    kernel=_sum_bytes,
    candidates=grid(FAULT=["none", "int8_accumulator"]),
    cases=[Case(n=1000)],
    grid_independent=("FAULT",),
)
def byte_sums(case, seeded):
    """Wrap an accumulator around."""
    x = seeded.randint(100, 128, (case.n,), dtype="int8", name="x")
    return lambda: sum_bytes(x)


@kernel_spec(kernel=_scaled, candidates=grid(BLOCK=[32, 64, 128]), cases=[Case(n=256)])
def scales(case, seeded):
    """Take one scale for a tile that spans two groups."""
    x = seeded.normal((case.n,), name="x")
    by = seeded.uniform((case.n // 64,), low=1.0, high=2.0, name="scales")
    return lambda: scaled(x, by)


@kernel_spec(
    kernel=_softmax,
    candidates=grid(BLOCK=[16, 64]),
    cases=[Case(rows=3, cols=40, first=20)],
    grid_independent=("BLOCK",),
)
def padded_softmax(case, seeded):
    """Make NaN of a tile that holds nothing but padding."""
    x = seeded.normal((case.rows, case.cols), name="x")
    return lambda: softmax(x, case.first)


def _negative(seeded, rows, cols):
    return seeded.uniform((rows, cols), low=-2.0, high=-1.0, name="x")


@kernel_spec(
    kernel=_reduce_rows,
    candidates=grid(FAULT=["none", "padded_by_zero"]),
    cases=[Case(rows=3, cols=40)],
    grid_independent=("FAULT",),
)
def largest(case, seeded):
    """Let padding win a maximum."""
    x = _negative(seeded, case.rows, case.cols)
    return lambda: reduce_rows(x, "largest")


@kernel_spec(
    kernel=_reduce_rows,
    candidates=grid(FAULT=["none", "divided_by_block"]),
    cases=[Case(rows=3, cols=40)],
    grid_independent=("FAULT",),
)
def means(case, seeded):
    """Divide by the size of the tile."""
    x = _negative(seeded, case.rows, case.cols)
    return lambda: reduce_rows(x, "mean")


@kernel_spec(
    kernel=_reduce_rows,
    candidates=grid(FAULT=["none", "padding_counted"]),
    cases=[Case(rows=3, cols=40)],
    grid_independent=("FAULT",),
)
def variances(case, seeded):
    """Count padding lanes, which are off by the mean."""
    x = _negative(seeded, case.rows, case.cols)
    return lambda: reduce_rows(x, "variance")


@kernel_spec(
    kernel=_argmax,
    candidates=grid(FAULT=["none", "last_tile_wins"], BLOCK=[32, 64]),
    cases=[Case(n=300)],
    grid_independent=("FAULT", "BLOCK"),
)
def ties(case, seeded):
    """Break ties by tile."""
    x = seeded.normal((case.n,), name="x")
    with torch.no_grad():
        x[10::100] = 50.0
    return lambda: argmax(x)


@kernel_spec(
    kernel=_row_sums, candidates=grid(num_warps=[4, 8]), cases=[Case(rows=256, cols=4096, interpreter={"rows": 3})]
)
def orders(case, seeded):
    """Sum in an order that follows the number of warps."""
    x = seeded.normal((case.rows, case.cols), name="x")
    return lambda: row_sums(x)


@kernel_spec(kernel=_multiply_add, candidates=grid(enable_fp_fusion=[True, False]), cases=[Case(n=4000)])
def fused(case, seeded):
    """Round a product before it is added, or not."""
    x = seeded.normal((case.n,), name="x")
    y = seeded.normal((case.n,), name="y")
    return lambda: multiply_add(x, y)


@kernel_spec(candidates=grid(PARTS=[1, 64]), cases=[Case(n=1 << 20, interpreter={"n": 1 << 14})])
def float_atomics(case, seeded):
    """Add floats in the order in which programs come."""
    x = seeded.normal((case.n,), name="x")
    return lambda config: add_parts(x, config)
