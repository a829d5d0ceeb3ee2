"""Qualification of quantisation; maxima and element-wise arithmetic leave every axis free."""

from typing import Any

import torch
from quantize import (
    FP8_BLOCK,
    _dequantize,
    _quantize_fp8,
    _quantize_int8,
    dequantize,
    quantize_fp8,
    quantize_int8,
)

from pytest_kernelqual import Case, Seeded, grid, kernel_spec

_CASES = [
    Case(rows=2048, cols=4096, dtype="bfloat16", layout="row_major", interpreter={"rows": 3, "cols": 300}),
    Case(rows=515, cols=1000, dtype="float16", layout="column_major", interpreter={"rows": 5, "cols": 150}),
    Case(rows=1, cols=11008, dtype="float32", layout="row_major", interpreter={"cols": 600}),
    Case(rows=3, cols=77, dtype="bfloat16", layout="row_major"),
]


# The grid counts rows, whatever the block is.
@kernel_spec(
    kernel=_quantize_int8,
    candidates=grid(BLOCK=[256, 1024, 4096], num_warps=[2, 4, 8]),
    cases=_CASES,
    key=("cols", "dtype"),
    grid_independent=("BLOCK",),
)
def quantize_int8_rows(case: Case, seeded: Seeded) -> Any:
    """Qualify blocks and numbers of warps."""
    x = seeded.normal((case.rows, case.cols), std=3.0, dtype=case.dtype, layout=case.layout, name="x")
    return lambda: quantize_int8(x)


@kernel_spec(
    kernel=_quantize_fp8,
    candidates=grid(BLOCK_ROWS=[1, 16, 64], num_warps=[2, 4, 8]),
    cases=_CASES,
    key=("cols", "dtype"),
)
def quantize_fp8_blocks(case: Case, seeded: Seeded) -> Any:
    """Qualify rows of a program and numbers of warps."""
    x = seeded.normal((case.rows, case.cols), std=3.0, dtype=case.dtype, layout=case.layout, name="x")
    return lambda: quantize_fp8(x)


@kernel_spec(
    kernel=_dequantize,
    candidates=grid(BLOCK_ROWS=[1, 4], BLOCK=[256, 512], num_warps=[4, 8]),
    cases=_CASES,
    key=("cols", "dtype"),
)
def dequantize_int8_rows(case: Case, seeded: Seeded) -> Any:
    """Qualify tiles with a scale for each row."""
    q = seeded.randint(-127, 128, (case.rows, case.cols), dtype="int8", layout=case.layout, name="q")
    scales = seeded.uniform((case.rows,), low=0.001, high=0.1, dtype="float32", name="scales")
    return lambda: dequantize(q, scales, dtype=getattr(torch, case.dtype))


@kernel_spec(
    kernel=_dequantize,
    candidates=grid(BLOCK_ROWS=[1, 4], BLOCK=[256, 512], num_warps=[4, 8]),
    cases=_CASES,
    key=("cols", "dtype"),
)
def dequantize_fp8_blocks(case: Case, seeded: Seeded) -> Any:
    """Qualify tiles with a scale for each block."""
    q = seeded.normal((case.rows, case.cols), std=60.0, dtype="float8_e4m3fn", layout=case.layout, name="q")
    blocks = -(-case.cols // FP8_BLOCK)
    scales = seeded.uniform((case.rows, blocks), low=0.001, high=0.1, dtype="float32", name="scales")
    return lambda: dequantize(q, scales, dtype=getattr(torch, case.dtype))
