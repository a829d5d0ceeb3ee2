"""Qualification of running sums."""

from typing import Any

from cumsum import _cumsum, cumsum

from pytest_kernelqual import Case, Config, Seeded, grid, kernel_spec


# Integers add up to the same in any order: every axis is free.
@kernel_spec(
    kernel=_cumsum,
    candidates=grid(BLOCK_ROWS=[1], BLOCK=[256, 1024, 2048], num_warps=[2, 4, 8]),
    cases=[
        Case(rows=512, cols=8192, dtype="int32", layout="row_major", interpreter={"rows": 3, "cols": 2048}),
        Case(rows=64, cols=5003, dtype="int64", layout="row_major", interpreter={"rows": 2, "cols": 1030}),
        Case(rows=33, cols=2000, dtype="int8", layout="column_major", interpreter={"rows": 3, "cols": 300}),
        Case(rows=1, cols=100003, dtype="int32", layout="row_major", interpreter={"cols": 2051}),
    ],
    key=("cols", "dtype"),
)
def cumsum_integer(case: Case, seeded: Seeded) -> Any:
    """Qualify blocks and numbers of warps."""
    x = seeded.randint(-100, 100, (case.rows, case.cols), dtype=case.dtype, layout=case.layout, name="x")
    return lambda: cumsum(x)


# The scan runs along a row: only rows may be spread otherwise, and the block kept.
@kernel_spec(
    kernel=_cumsum,
    candidates=[
        *grid(BLOCK_ROWS=[1, 2, 4], BLOCK=[1024], num_warps=[4], num_stages=[1, 3]),
        Config(BLOCK_ROWS=8, BLOCK=1024, num_warps=4),
    ],
    cases=[
        Case(rows=512, cols=8192, dtype="bfloat16", layout="row_major", interpreter={"rows": 3, "cols": 2048}),
        Case(rows=63, cols=5003, dtype="float16", layout="row_major", interpreter={"rows": 2, "cols": 1030}),
        Case(rows=33, cols=2000, dtype="float32", layout="row_major", interpreter={"rows": 3, "cols": 1100}),
        Case(rows=1, cols=100003, dtype="float32", layout="row_major", interpreter={"cols": 2051}),
    ],
    key=("cols", "dtype"),
)
def cumsum_real(case: Case, seeded: Seeded) -> Any:
    """Qualify the rows of a program."""
    x = seeded.normal((case.rows, case.cols), dtype=case.dtype, layout=case.layout, name="x")
    return lambda: cumsum(x)
