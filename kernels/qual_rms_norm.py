"""Qualification of the RMSNorm kernels."""

from collections.abc import Callable, Mapping

import torch
from rms_norm import (
    _rms_norm_dw_combine,
    _rms_norm_dw_partial,
    _rms_norm_dx,
    _rms_norm_forward,
    rms_norm,
)
from rms_norm import rms_norm_dw as dw_of_rms_norm

from pytest_kernelqual import Case, Seeded, Tolerance, grid, kernel_spec

_CASES = [
    Case(
        rows=4096,
        cols=4096,
        row_stride=4096,
        dtype="bfloat16",
        interpreter={"rows": 3, "cols": 2048, "row_stride": 2048},
    ),
    Case(rows=1, cols=515, row_stride=515, dtype="float16"),
    Case(rows=1025, cols=1111, row_stride=1120, dtype="float32", interpreter={"rows": 3}),
    Case(
        rows=2048,
        cols=7168,
        row_stride=7168,
        dtype="bfloat16",
        interpreter={"rows": 2, "cols": 1500, "row_stride": 1500},
    ),
]


def _exact(case: Case, inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Normalise in float64."""
    del case
    x, weight = inputs["x"].double(), inputs["weight"].double()
    return x / (x.square().mean(dim=1, keepdim=True) + 1e-6).sqrt() * weight


@kernel_spec(
    kernel=_rms_norm_forward,
    # The row sum has an order of its own, so warps are free; the block is part of that order, so it is not.
    candidates=grid(num_warps=[2, 4, 8, 16], num_stages=[1, 2]),
    cases=_CASES,
    key=("cols", "dtype"),
    oracle=_exact,
    oracle_tolerance=Tolerance(rtol=1e-5, atol=1e-6, ulp=2),
)
def rms_norm_forward(case: Case, seeded: Seeded) -> Callable[[], torch.Tensor]:
    """Normalise packed rows or rows apart."""
    x = seeded.normal((case.rows, case.cols), dtype=case.dtype, strides=(case.row_stride, 1), name="x")
    weight = seeded.normal((case.cols,), dtype=case.dtype, name="weight")
    return lambda: rms_norm(x, weight)


@kernel_spec(
    kernel=_rms_norm_dx,
    candidates=grid(num_warps=[1, 2, 4, 8, 16]),
    cases=_CASES,
    key=("cols", "dtype"),
)
def rms_norm_dx(case: Case, seeded: Seeded) -> Callable[[], None]:
    """Run forward and backward: two launches, of which only that of `dx` takes the candidate."""
    x = seeded.normal(
        (case.rows, case.cols), dtype=case.dtype, strides=(case.row_stride, 1), requires_grad=True, name="x"
    )
    weight = seeded.normal((case.cols,), dtype=case.dtype, name="weight")
    dout = seeded.normal((case.rows, case.cols), dtype=case.dtype, name="dout")
    return lambda: rms_norm(x, weight).backward(dout)


_DW_CASES = [
    Case(
        rows=4096,
        cols=4096,
        row_stride=4096,
        dtype="bfloat16",
        interpreter={"rows": 33, "cols": 256, "row_stride": 256},
    ),
    Case(rows=1, cols=515, row_stride=515, dtype="float16", interpreter={"cols": 131, "row_stride": 131}),
    Case(
        rows=1025, cols=1111, row_stride=1120, dtype="float32", interpreter={"rows": 33, "cols": 130, "row_stride": 132}
    ),
]


@kernel_spec(
    kernel=_rms_norm_dw_partial,
    candidates=grid(BLOCK=[128, 256, 512, 1024], num_warps=[2, 4]),
    cases=_DW_CASES,
    key=("cols", "dtype"),
)
def rms_norm_dw(case: Case, seeded: Seeded) -> Callable[[], torch.Tensor]:
    """Sum columns over chunks of rows."""
    return _dw(case, seeded)


@kernel_spec(
    kernel=_rms_norm_dw_combine,
    candidates=grid(BLOCK=[32, 64, 128, 256], num_warps=[1, 2]),
    grid=lambda meta: (-(-int(meta["cols"]) // meta["BLOCK"]),),
    cases=_DW_CASES,
    key=("cols", "dtype"),
)
def rms_norm_dw_combine(case: Case, seeded: Seeded) -> Callable[[], torch.Tensor]:
    """Sum the chunks; the production grid is a tuple, so the spec gives one that follows the block."""
    return _dw(case, seeded)


def _dw(case: Case, seeded: Seeded) -> Callable[[], torch.Tensor]:
    x = seeded.normal((case.rows, case.cols), dtype=case.dtype, strides=(case.row_stride, 1), name="x")
    dout = seeded.normal((case.rows, case.cols), dtype=case.dtype, name="dout")
    rstd = seeded.uniform((case.rows,), low=0.5, high=2.0, dtype="float32", name="rstd")
    return lambda: dw_of_rms_norm(dout, x, rstd, x.dtype)
