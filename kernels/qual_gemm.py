"""Qualification of the matrix product."""

from typing import Any

from gemm import _gemm, gemm

from pytest_kernelqual import Case, Config, Seeded, grid, kernel_spec

_SMALL = {"m": 70, "n": 72, "k": 100}


def _launch(case: Case, seeded: Seeded) -> Any:
    a = seeded.normal((case.m, case.k), dtype=case.dtype, name="a")
    b = seeded.normal((case.k, case.n), dtype=case.dtype, layout=case.layout, name="b")
    return lambda: gemm(a, b)


# Without candidates of its own the spec qualifies what production's autotuner chooses among.
@kernel_spec(
    kernel=_gemm,
    cases=[
        Case(m=1024, n=1024, k=1024, dtype="bfloat16", layout="row_major", interpreter=_SMALL),
        Case(m=1024, n=1536, k=768, dtype="float16", layout="column_major", interpreter=_SMALL),
        Case(m=1, n=1000, k=4099, dtype="bfloat16", layout="column_major", interpreter={"n": 72, "k": 131}),
        Case(m=515, n=257, k=1099, dtype="float32", layout="column_major", interpreter=_SMALL),
    ],
    key=("m", "n", "k", "dtype"),
)
def gemm_tuned(case: Case, seeded: Seeded) -> Any:
    """Qualify the configs of the autotuner."""
    return _launch(case, seeded)


# An H200 has 232448 bytes of shared memory: 8 stages of 128x128x64 and 5 stages of 256x256x64 do not fit.
@kernel_spec(
    kernel=_gemm,
    candidates=[
        *grid(BLOCK_M=[128], BLOCK_N=[128], BLOCK_K=[64], GROUP_M=[1, 8], num_warps=[8], num_stages=[4, 7, 8]),
        Config(BLOCK_M=256, BLOCK_N=128, BLOCK_K=64, GROUP_M=4, num_warps=8, num_stages=3),
        Config(BLOCK_M=256, BLOCK_N=256, BLOCK_K=64, GROUP_M=4, num_warps=8, num_stages=5),
    ],
    cases=[
        Case(m=4096, n=4096, k=1024, dtype="bfloat16", layout="column_major", interpreter=_SMALL),
        Case(m=2048, n=3000, k=2056, dtype="float16", layout="row_major", interpreter=_SMALL),
        Case(m=129, n=4096, k=520, dtype="bfloat16", layout="row_major", interpreter={"n": 72, "k": 70}),
    ],
    key=("m", "n", "k", "dtype"),
)
def gemm_wide_tiles(case: Case, seeded: Seeded) -> Any:
    """Qualify tiles and depths beyond those of the autotuner."""
    return _launch(case, seeded)


@kernel_spec(
    kernel=_gemm,
    candidates=grid(
        BLOCK_M=[128], BLOCK_N=[64], BLOCK_K=[16, 32, 64, 128], GROUP_M=[8], num_warps=[4], num_stages=[2, 3]
    ),
    cases=[
        Case(m=1024, n=1024, k=2048, dtype="bfloat16", layout="row_major", interpreter=_SMALL),
        Case(m=300, n=515, k=1030, dtype="float16", layout="column_major", interpreter=_SMALL),
    ],
    key=("m", "n", "k", "dtype"),
    screen="whether tensor cores add in the same order under another BLOCK_K is for the device to show",
)
def gemm_block_k(case: Case, seeded: Seeded) -> Any:
    """Find the depths of a tile that keep the order of the sum."""
    return _launch(case, seeded)
