"""Kernels whose bytes differ from the fixed launch: by rounding, by values that no tolerance may hide, by mistakes."""

import torch
import triton
import triton.language as tl

BLOCK = 64


@triton.jit
def _double(x_ptr, y_ptr, n, BLOCK: tl.constexpr, SHIFT: tl.constexpr, FAULT: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = x + x
    if SHIFT != 0:  # at 23, by one or two units in the last place of float32
        y += y * 2.0**-SHIFT
    if FAULT == "zeros":
        y = tl.zeros_like(y)
    elif FAULT == "not_a_number":
        y = tl.where(offsets == 3, y * 1e30 * 1e30 * 0.0, y)
    elif FAULT == "infinity":
        y = tl.where(offsets == 3, y * 1e30 * 1e30, y)
    elif FAULT == "minus_zero":
        y = tl.where(y == 0, y * -1.0, y)
    elif FAULT == "off_by_one":
        y = tl.where(offsets == 3, y + 1, y)
    elif FAULT == "unwritten":
        mask = mask & (offsets != 3)
    elif FAULT == "long":
        mask = offsets < n + 1
    tl.store(y_ptr + offsets, y, mask=mask)


def double(x, shift=0, fault="none"):
    """Return twice the values of x."""
    y = torch.empty_like(x)
    _double[(triton.cdiv(x.numel(), BLOCK),)](x, y, x.numel(), BLOCK=BLOCK, SHIFT=shift, FAULT=fault)
    return y
