"""Qualification of the split-K matrix product: the whole, and each of its two kernels."""

from typing import Any

from split_k_gemm import _split_k_partials, _split_k_reduce, split_k_gemm

from pytest_kernelqual import Case, Config, Seeded, grid, kernel_spec

_SMALL = {"m": 20, "n": 40, "k": 300}
_CASES = [
    Case(m=64, n=256, k=8192, dtype="bfloat16", layout="row_major", interpreter=_SMALL),
    Case(m=128, n=192, k=4096, dtype="float16", layout="column_major", interpreter=_SMALL),
    Case(m=33, n=70, k=5000, dtype="float32", layout="row_major", interpreter=_SMALL),
    Case(m=1, n=1000, k=4099, dtype="bfloat16", layout="column_major", interpreter={"n": 40, "k": 131}),
]


def _operands(case: Case, seeded: Seeded) -> tuple[Any, Any]:
    a = seeded.normal((case.m, case.k), dtype=case.dtype, name="a")
    b = seeded.normal((case.k, case.n), dtype=case.dtype, layout=case.layout, name="b")
    return a, b


# The scratch buffer follows SPLIT_K on the host, so the launch takes the config.
@kernel_spec(
    candidates=[
        Config(BLOCK_M=64, SPLIT_K=4, num_stages=2),
        Config(BLOCK_M=128, SPLIT_K=4, num_stages=3),
        *grid(SPLIT_K=[1, 2, 8, 16], num_stages=[3]),
    ],
    cases=_CASES,
    key=("m", "n", "k", "dtype"),
    screen="SPLIT_K is the order of the sum: another one is expected to give other bytes",
)
def split_k_splits(case: Case, seeded: Seeded) -> Any:
    """Find the configs of the whole operation that keep the fixed launch's bytes."""
    a, b = _operands(case, seeded)
    return lambda config: split_k_gemm(a, b, config=config)


@kernel_spec(
    kernel=_split_k_partials,
    candidates=grid(BLOCK_M=[64, 128], BLOCK_N=[32, 64], num_warps=[4], num_stages=[2, 3]),
    cases=_CASES,
    key=("m", "n", "k", "dtype"),
)
def split_k_partials(case: Case, seeded: Seeded) -> Any:
    """Qualify the tiles of the partial products."""
    a, b = _operands(case, seeded)
    return lambda: split_k_gemm(a, b)


@kernel_spec(
    kernel=_split_k_reduce,
    candidates=grid(BLOCK=[256, 1024, 4096], num_warps=[2, 4, 8]),
    cases=_CASES,
    key=("m", "n", "dtype"),
)
def split_k_reduce(case: Case, seeded: Seeded) -> Any:
    """Qualify the ordered reduction."""
    a, b = _operands(case, seeded)
    return lambda: split_k_gemm(a, b)
