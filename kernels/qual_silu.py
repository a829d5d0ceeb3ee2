"""Qualification of the SiLU kernel."""

from collections.abc import Callable

import torch
from silu import _silu_forward, silu

from pytest_kernelqual import Case, Seeded, grid, kernel_spec


@kernel_spec(
    kernel=_silu_forward,
    candidates=grid(BLOCK=[256, 512, 1024, 4096], num_warps=[4, 8]),
    cases=[
        Case(
            rows=4096,
            cols=4096,
            row_stride=4096,
            dtype="bfloat16",
            interpreter={"rows": 3, "cols": 512, "row_stride": 512},
        ),
        Case(rows=1, cols=515, row_stride=515, dtype="float16"),
        Case(
            rows=1023,
            cols=1111,
            row_stride=1120,
            dtype="float32",
            interpreter={"rows": 3, "cols": 515, "row_stride": 520},
        ),
        Case(rows=257, cols=3, row_stride=7, dtype="bfloat16", interpreter={"rows": 5}),
    ],
    key=("cols", "dtype"),
)
def silu_forward(case: Case, seeded: Seeded) -> Callable[[], torch.Tensor]:
    """Make one tensor, packed or with rows apart."""
    x = seeded.normal((case.rows, case.cols), dtype=case.dtype, strides=(case.row_stride, 1), name="x")
    return lambda: silu(x)
