"""Qualification of the residual addition in place."""

from collections.abc import Callable

import torch
from residual_add import _residual_add, residual_add_

from pytest_kernelqual import Case, Seeded, grid, kernel_spec


@kernel_spec(
    kernel=_residual_add,
    # Wider than what the kernel itself tunes over; the fixed launch is its first config.
    candidates=grid(BLOCK=[256, 512, 2048, 4096], num_warps=[4, 8]),
    cases=[
        Case(
            rows=4096,
            cols=4096,
            row_stride=4096,
            dtype="bfloat16",
            interpreter={"rows": 2, "cols": 1024, "row_stride": 1024},
        ),
        Case(rows=1, cols=515, row_stride=515, dtype="float16"),
        Case(rows=1023, cols=1111, row_stride=1120, dtype="float32", interpreter={"rows": 2}),
    ],
    key=("cols", "dtype"),
)
def residual_add_in_place(case: Case, seeded: Seeded) -> Callable[[], torch.Tensor]:
    """Add to a tensor that every launch must find as it was; the bytes between its rows must stay."""
    hidden = seeded.normal((case.rows, case.cols), dtype=case.dtype, strides=(case.row_stride, 1), name="hidden")
    residual = seeded.normal((case.rows, case.cols), dtype=case.dtype, name="residual")
    return lambda: residual_add_(hidden, residual)
