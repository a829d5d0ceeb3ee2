"""Qualification of the ordered scatter-add."""

from typing import Any

from scatter_add import _scatter_add, scatter_add

from pytest_kernelqual import Case, Seeded, grid, kernel_spec


# A thread adds its columns alone, source after source: every axis is free.
@kernel_spec(
    kernel=_scatter_add,
    candidates=grid(BLOCK=[128, 512, 1024], num_warps=[2, 4, 8]),
    cases=[
        Case(
            rows=1024, sources=16384, cols=1024, dtype="bfloat16", layout="row_major",
            interpreter={"rows": 3, "sources": 9, "cols": 200},
        ),
        Case(
            rows=100, sources=5000, cols=515, dtype="float16", layout="column_major",
            interpreter={"rows": 3, "sources": 7, "cols": 130},
        ),
        Case(
            rows=77, sources=3001, cols=300, dtype="float32", layout="row_major",
            interpreter={"rows": 4, "sources": 8, "cols": 70},
        ),
        Case(
            rows=1, sources=50, cols=2000, dtype="float32", layout="row_major",
            interpreter={"sources": 5, "cols": 600},
        ),
    ],
    key=("cols", "dtype"),
)  # fmt: skip
def scatter_add_rows(case: Case, seeded: Seeded) -> Any:
    """Qualify blocks and numbers of warps."""
    base = seeded.normal((case.rows, case.cols), dtype=case.dtype, layout=case.layout, name="base")
    index = seeded.randint(0, case.rows, (case.sources,), dtype="int64", name="index")
    src = seeded.normal((case.sources, case.cols), dtype=case.dtype, layout=case.layout, name="src")
    return lambda: scatter_add(base, index, src)
