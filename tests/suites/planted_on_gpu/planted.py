"""Product code with planted faults that only a GPU shows."""

import os

import torch
import triton
import triton.language as tl


@triton.jit
def _copy(x, y, flag, n, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offset < n
    value = tl.load(x + offset, mask=inside)
    if FAULT == "illegal_access":
        tl.store(y + offset.to(tl.int64) + (1 << 42), value, mask=inside)
    elif FAULT == "endless_loop":
        while tl.load(flag, volatile=True) == 0:
            value += 0.0
    elif FAULT == "trap":
        tl.inline_asm_elementwise("trap; mov.b32 $0, $1;", "=r,r", [offset], dtype=tl.int32, is_pure=False, pack=1)
    tl.store(y + offset, value, mask=inside)


def copy(x, flag, fault="none"):
    """Return a copy of x."""
    if fault == "abort":
        os.abort()
    y = torch.empty_like(x)
    n = x.numel()
    _copy[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, flag, n, BLOCK=1024, FAULT=fault)
    return y


@triton.jit
def _matmul(a, b, c, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, n, BLOCK_K):
        inner = start + tl.arange(0, BLOCK_K)
        left = tl.load(a + rows[:, None] * n + inner[None, :])
        right = tl.load(b + inner[:, None] * n + cols[None, :])
        total = tl.dot(left, right, total)
    tl.store(c + rows[:, None] * n + cols[None, :], total.to(tl.bfloat16))


def matmul(a, b):
    """Return a @ b for square bf16 matrices of a multiple of 256."""
    n = a.shape[0]
    c = torch.empty_like(a)
    _matmul[lambda meta: (n // meta["BLOCK_M"], n // meta["BLOCK_N"])](
        a, b, c, n, BLOCK_M=128, BLOCK_N=128, BLOCK_K=64, num_warps=8, num_stages=3
    )
    return c
