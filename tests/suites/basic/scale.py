"""Product code of the test suite: element-wise kernels with known faults."""

import torch
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x, y, n, factor, BLOCK: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offset < n
    value = tl.load(x + offset, mask=inside).to(tl.float32) * factor
    tl.store(y + offset, value.to(y.dtype.element_ty), mask=inside)


def scale(x, factor=2.0):
    """Return x times factor; the grid follows the block size."""
    y = torch.empty_like(x)
    n = x.numel()
    scale_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, n, factor, BLOCK=64)
    return y


def scale_tuple_grid(x):
    """Return x times 2; the grid was computed for 64 elements a program."""
    y = torch.empty_like(x)
    n = x.numel()
    scale_kernel[(triton.cdiv(n, 64),)](x, y, n, 2.0, 64)
    return y


@triton.jit
def faulty_kernel(x, y, n, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offset < n
    value = tl.load(x + offset, mask=inside)
    if FAULT == "mismatch":
        tl.store(y + offset, value + 1, mask=inside)
    elif FAULT == "short":
        tl.store(y + offset, value, mask=offset < n - 1)
    elif FAULT == "long":
        tl.store(y + offset, value, mask=offset < n + 1)
    elif FAULT == "input":
        tl.store(y + offset, value, mask=inside)
        tl.store(x + offset, value + 1, mask=inside)
    elif FAULT == "poison":
        tl.store(y + offset, value + tl.load(y + offset, mask=inside), mask=inside)
    else:
        tl.store(y + offset, value, mask=inside)


def copy(x):
    """Return a copy of x."""
    y = torch.empty_like(x)
    n = x.numel()
    faulty_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, n, BLOCK=64, FAULT="none")
    return y


@triton.jit
def add_kernel(x, y, n, BLOCK: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offset < n
    tl.store(x + offset, tl.load(x + offset, mask=inside) + tl.load(y + offset, mask=inside), mask=inside)


def add_(x, y):
    """Add y to x in place, and return nothing."""
    n = x.numel()
    add_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, n, BLOCK=64)
