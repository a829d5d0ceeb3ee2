"""Qualification of top-k."""

from typing import Any

from top_k import _top_k, top_k

from pytest_kernelqual import Case, Seeded, grid, kernel_spec


# The grid counts rows, whatever the block is.
@kernel_spec(
    kernel=_top_k,
    candidates=grid(BLOCK=[512, 2048, 4096], num_warps=[2, 4, 8]),
    cases=[
        Case(
            rows=256,
            cols=32768,
            k=8,
            dtype="bfloat16",
            layout="row_major",
            interpreter={"rows": 2, "cols": 4096, "k": 3},
        ),
        Case(
            rows=64, cols=50257, k=4, dtype="float32", layout="row_major", interpreter={"rows": 2, "cols": 1030, "k": 2}
        ),
        Case(rows=33, cols=1001, k=5, dtype="float16", layout="column_major", interpreter={"rows": 3, "cols": 101}),
        Case(rows=1, cols=128256, k=1, dtype="bfloat16", layout="row_major", interpreter={"cols": 4099}),
    ],
    key=("cols", "k", "dtype"),
    grid_independent=("BLOCK",),
)
def top_k_rows(case: Case, seeded: Seeded) -> Any:
    """Qualify blocks and numbers of warps; bfloat16 rows hold many equal values."""
    x = seeded.normal((case.rows, case.cols), dtype=case.dtype, layout=case.layout, name="x")
    return lambda: top_k(x, case.k)
