"""Qualification of the softmax kernel."""

from collections.abc import Callable

import torch
from softmax import _softmax_forward, softmax

from pytest_kernelqual import Case, Seeded, grid, kernel_spec


@kernel_spec(
    kernel=_softmax_forward,
    candidates=grid(num_warps=[1, 2, 4, 8, 16]),
    screen="another num_warps sums the row in another order",
    cases=[
        Case(
            rows=4096,
            cols=4096,
            row_stride=4096,
            dtype="bfloat16",
            interpreter={"rows": 3, "cols": 512, "row_stride": 512},
        ),
        Case(rows=1, cols=515, row_stride=515, dtype="float16"),
        Case(rows=1025, cols=1111, row_stride=1120, dtype="float32", interpreter={"rows": 4}),
    ],
    key=("cols", "dtype"),
)
def softmax_forward(case: Case, seeded: Seeded) -> Callable[[], torch.Tensor]:
    """Make scores spread as attention scores are."""
    x = seeded.normal((case.rows, case.cols), std=3.0, dtype=case.dtype, strides=(case.row_stride, 1), name="x")
    return lambda: softmax(x)
