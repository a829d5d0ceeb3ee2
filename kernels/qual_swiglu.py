"""Qualification of the SwiGLU kernels."""

from collections.abc import Callable

import torch
from swiglu import _swiglu_backward, _swiglu_forward, swiglu

from pytest_kernelqual import Case, Config, Seeded, grid, kernel_spec

# `fused`: gate and up are the two halves of one projection, so their rows are apart.
_CASES = [
    Case(rows=4096, cols=4096, fused=True, dtype="bfloat16", interpreter={"rows": 2, "cols": 1030}),
    Case(rows=1, cols=515, fused=False, dtype="float16"),
    Case(rows=63, cols=1111, fused=True, dtype="float32", interpreter={"rows": 2, "cols": 1111}),
]


@kernel_spec(
    kernel=_swiglu_forward,
    fixed=Config(BLOCK=1024, num_warps=4),
    cases=_CASES,
    key=("cols", "dtype"),
)
def swiglu_forward(case: Case, seeded: Seeded) -> Callable[[], torch.Tensor]:
    """Make both halves; the candidates are the configs that the kernel itself tunes over."""
    gate, up = _halves(case, seeded, requires_grad=False)
    return lambda: swiglu(gate, up)


@kernel_spec(
    kernel=_swiglu_backward,
    candidates=grid(BLOCK=[256, 512, 1024, 2048, 4096]),
    cases=_CASES,
    key=("cols", "dtype"),
)
def swiglu_backward(case: Case, seeded: Seeded) -> Callable[[], None]:
    """Run forward and backward; the outputs are the gradients of both halves."""
    gate, up = _halves(case, seeded, requires_grad=True)
    dout = seeded.normal((case.rows, case.cols), dtype=case.dtype, name="dout")
    return lambda: swiglu(gate, up).backward(dout)


def _halves(case: Case, seeded: Seeded, *, requires_grad: bool) -> list[torch.Tensor]:
    strides = (2 * case.cols if case.fused else case.cols, 1)
    return [
        seeded.normal((case.rows, case.cols), dtype=case.dtype, strides=strides, requires_grad=requires_grad, name=name)
        for name in ("gate", "up")
    ]
