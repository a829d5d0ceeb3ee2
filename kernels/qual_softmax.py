"""Qualification of the softmax kernel."""

from collections.abc import Callable, Mapping

import torch
from softmax import _softmax_forward, softmax

from pytest_kernelqual import Case, Seeded, Tolerance, grid, kernel_spec


def _exact(case: Case, inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Take the softmax in float64."""
    del case
    return inputs["x"].double().softmax(dim=1)


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
    oracle=_exact,
    oracle_tolerance=Tolerance(rtol=1e-5, atol=1e-7, ulp=2),
)
def softmax_forward(case: Case, seeded: Seeded) -> Callable[[], torch.Tensor]:
    """Make scores spread as attention scores are."""
    x = seeded.normal((case.rows, case.cols), std=3.0, dtype=case.dtype, strides=(case.row_stride, 1), name="x")
    return lambda: softmax(x)
