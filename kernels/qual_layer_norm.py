"""Qualification of the LayerNorm kernel."""

from collections.abc import Callable

import torch
from layer_norm import _layer_norm_forward, layer_norm

from pytest_kernelqual import Case, Seeded, grid, kernel_spec


@kernel_spec(
    kernel=_layer_norm_forward,
    # Warps are not an axis: they decide in which order a row is summed.
    candidates=grid(ROWS_PER_PROGRAM=[1, 2, 4, 8, 16]),
    cases=[
        Case(
            rows=4096,
            cols=4096,
            row_stride=4096,
            bias=True,
            dtype="bfloat16",
            interpreter={"rows": 6, "cols": 512, "row_stride": 512},
        ),
        Case(rows=1, cols=515, row_stride=515, bias=True, dtype="float16"),
        Case(rows=1025, cols=1111, row_stride=1120, bias=False, dtype="float32", interpreter={"rows": 5}),
        Case(
            rows=333,
            cols=8191,
            row_stride=8192,
            bias=True,
            dtype="float32",
            interpreter={"rows": 3, "cols": 1000, "row_stride": 1001},
        ),
    ],
    key=("cols", "dtype"),
)
def layer_norm_forward(case: Case, seeded: Seeded) -> Callable[[], torch.Tensor]:
    """Normalise rows whose mean is not zero."""
    x = seeded.normal((case.rows, case.cols), mean=0.5, dtype=case.dtype, strides=(case.row_stride, 1), name="x")
    weight = seeded.normal((case.cols,), dtype=case.dtype, name="weight")
    bias = seeded.normal((case.cols,), dtype=case.dtype, name="bias") if case.bias else None
    return lambda: layer_norm(x, weight, bias)
