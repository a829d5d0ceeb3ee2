"""Softmax over the last axis; one program holds one row."""

import torch
import triton
import triton.language as tl

_DTYPES = (torch.bfloat16, torch.float16, torch.float32)

# A row is held in registers.
_MAX_COLS = 32768


@triton.heuristics({"BLOCK": lambda args: triton.next_power_of_2(args["cols"])})
@triton.jit
def _softmax_forward(x_ptr, out_ptr, x_row_stride, out_row_stride, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    col = tl.arange(0, BLOCK)
    mask = col < cols
    x = tl.load(x_ptr + row * x_row_stride + col, mask=mask, other=-float("inf")).to(tl.float32)
    numerator = tl.exp(x - tl.max(x, axis=0))
    out = numerator / tl.sum(numerator, axis=0)
    tl.store(out_ptr + row * out_row_stride + col, out.to(out_ptr.dtype.element_ty), mask=mask)


def softmax(x: torch.Tensor) -> torch.Tensor:
    """Return exp(x) / sum(exp(x)) over the last axis, computed in float32 and rounded once.

    A row of -inf alone becomes NaN, as in PyTorch.

    Args:
        x: Shape (..., cols) with at most 32768 cols, bfloat16, float16 or float32; rows may be apart.

    Returns:
        A contiguous tensor of the shape and dtype of `x`.

    Raises:
        TypeError: Another dtype.
        ValueError: A scalar, or too many cols.
        RuntimeError: `x` wants a gradient; the kernel has no backward.
    """
    if x.dtype not in _DTYPES:
        raise TypeError(f"softmax takes bfloat16, float16 or float32, got {x.dtype}")
    if x.dim() == 0 or x.shape[-1] > _MAX_COLS:
        raise ValueError(f"softmax takes shape (..., cols) with at most {_MAX_COLS} cols, got {tuple(x.shape)}")
    if x.requires_grad and torch.is_grad_enabled():
        raise RuntimeError("softmax has no backward; call it under torch.no_grad()")
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel() == 0:
        return out
    x_rows = x.reshape(-1, x.shape[-1])
    if x_rows.stride(1) != 1:
        x_rows = x_rows.contiguous()
    rows, cols = x_rows.shape
    _softmax_forward[(rows,)](
        x_rows, out, x_rows.stride(0), cols, cols, num_warps=4 if cols <= 2048 else 8 if cols <= 8192 else 16
    )
    return out
