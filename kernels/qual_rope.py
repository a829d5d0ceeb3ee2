"""Qualification of the rotary embedding, forward and backward."""

from collections.abc import Callable

import torch
from rope import _rope_rotate, rope

from pytest_kernelqual import Case, Seeded, grid, kernel_spec

# `width`: heads of the fused projection of which `heads` are rotated.
_CASES = [
    Case(
        tokens=4096,
        heads=32,
        width=48,
        head_dim=128,
        dtype="bfloat16",
        interpreter={"tokens": 2, "heads": 5, "width": 7},
    ),
    Case(tokens=1, heads=5, width=5, head_dim=64, dtype="float16"),
    Case(tokens=333, heads=3, width=4, head_dim=80, dtype="float32", interpreter={"tokens": 2}),
]
_CANDIDATES = grid(BLOCK_HEADS=[1, 2, 4, 8], num_warps=[2, 4])


@kernel_spec(kernel=_rope_rotate, candidates=_CANDIDATES, cases=_CASES, key=("heads", "head_dim", "dtype"))
def rope_forward(case: Case, seeded: Seeded) -> Callable[[], torch.Tensor]:
    """Rotate the leading heads of a fused projection."""
    x = seeded.normal(
        (case.tokens, case.heads, case.head_dim),
        dtype=case.dtype,
        strides=(case.width * case.head_dim, case.head_dim, 1),
        name="x",
    )
    cos, sin, positions = _tables(case, seeded)
    return lambda: rope(x, cos, sin, positions)


@kernel_spec(kernel=_rope_rotate, candidates=_CANDIDATES, cases=_CASES, key=("heads", "head_dim", "dtype"))
def rope_backward(case: Case, seeded: Seeded) -> Callable[[], None]:
    """Run forward and backward; both launches take the candidate."""
    shape = (case.tokens, case.heads, case.head_dim)
    x = seeded.normal(shape, dtype=case.dtype, requires_grad=True, name="x")
    dout = seeded.normal(shape, dtype=case.dtype, strides=(case.width * case.head_dim, case.head_dim, 1), name="dout")
    cos, sin, positions = _tables(case, seeded)
    return lambda: rope(x, cos, sin, positions).backward(dout)


def _tables(case: Case, seeded: Seeded) -> list[torch.Tensor]:
    # Any numbers do: the kernel does not know that cos^2 + sin^2 is one.
    positions = case.tokens + 15
    shape = (positions, case.head_dim // 2)
    return [
        seeded.uniform(shape, low=-1.0, high=1.0, dtype="float32", name="cos"),
        seeded.uniform(shape, low=-1.0, high=1.0, dtype="float32", name="sin"),
        seeded.randint(0, positions, (case.tokens,), dtype="int64", name="positions"),
    ]
