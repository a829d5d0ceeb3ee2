"""Qualification of the block-scaled FP8 matrix product."""

from typing import Any

import torch
from fp8_gemm import BLOCK, _fp8_gemm, fp8_gemm

from pytest_kernelqual import Case, Config, Seeded, grid, kernel_spec

_SMALL = {"m": 20, "n": 140, "k": 200}


# BLOCK_K is the scaled block of 128 and no axis; 8 stages need more shared memory than an H200 has (262144 of 232448).
@kernel_spec(
    kernel=_fp8_gemm,
    candidates=[
        *grid(BLOCK_M=[64], BLOCK_N=[64, 128], num_warps=[4], num_stages=[2, 4]),
        *grid(BLOCK_M=[128], BLOCK_N=[128], num_warps=[4, 8], num_stages=[3]),
        Config(BLOCK_M=128, BLOCK_N=128, num_warps=8, num_stages=8),
    ],
    cases=[
        Case(m=1024, n=1024, k=2048, dtype="bfloat16", layout="row_major", interpreter=_SMALL),
        Case(m=512, n=1536, k=1024, dtype="float16", layout="row_major", interpreter={"m": 3, "n": 64, "k": 256}),
        Case(m=300, n=260, k=1000, dtype="float32", layout="column_major", interpreter={"m": 70, "n": 50, "k": 130}),
        Case(m=1, n=4096, k=7168, dtype="bfloat16", layout="row_major", interpreter={"n": 100, "k": 260}),
    ],
    key=("m", "n", "k", "dtype"),
)
def fp8_gemm_forward(case: Case, seeded: Seeded) -> Any:
    """Qualify tiles and pipeline depths."""
    blocks_k, blocks_n = -(-case.k // BLOCK), -(-case.n // BLOCK)
    a = seeded.normal((case.m, case.k), std=16.0, dtype="float8_e4m3fn", name="a")
    b = seeded.normal((case.n, case.k), std=16.0, dtype="float8_e4m3fn", layout=case.layout, name="b")
    a_scale = seeded.uniform((case.m, blocks_k), low=0.01, high=0.1, dtype="float32", name="a_scale")
    b_scale = seeded.uniform((blocks_n, blocks_k), low=0.01, high=0.1, dtype="float32", name="b_scale")
    return lambda: fp8_gemm(a, b, a_scale, b_scale, dtype=getattr(torch, case.dtype))
