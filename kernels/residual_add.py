"""Residual addition in place."""

import torch
import triton
import triton.language as tl

_DTYPES = (torch.bfloat16, torch.float16, torch.float32)


# The kernel changes its input: while configs are tried, each must find it as it was.
@triton.autotune(
    configs=[
        triton.Config({"BLOCK": 1024}, num_warps=4),
        triton.Config({"BLOCK": 512}, num_warps=2),
        triton.Config({"BLOCK": 2048}, num_warps=4),
        triton.Config({"BLOCK": 2048}, num_warps=8),
        triton.Config({"BLOCK": 4096}, num_warps=8),
    ],
    key=["cols"],
    restore_value=["hidden_ptr"],
)
@triton.jit
def _residual_add(hidden_ptr, residual_ptr, hidden_row_stride, residual_row_stride, cols, BLOCK: tl.constexpr):
    blocks = tl.cdiv(cols, BLOCK)
    program = tl.program_id(0)
    row = (program // blocks).to(tl.int64)
    col = (program % blocks) * BLOCK + tl.arange(0, BLOCK)
    mask = col < cols
    hidden = tl.load(hidden_ptr + row * hidden_row_stride + col, mask=mask).to(tl.float32)
    residual = tl.load(residual_ptr + row * residual_row_stride + col, mask=mask).to(tl.float32)
    tl.store(hidden_ptr + row * hidden_row_stride + col, (hidden + residual).to(hidden_ptr.dtype.element_ty), mask=mask)


def residual_add_(hidden: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
    """Add `residual` to `hidden` in place, in float32 and rounded once, and return `hidden`.

    Args:
        hidden: Shape (..., cols), bfloat16, float16 or float32; rows may be apart, columns are adjacent.
        residual: The same shape and device, any of the dtypes; must not overlap `hidden` in part.

    Returns:
        `hidden` itself.

    Raises:
        TypeError: Another dtype.
        ValueError: Shapes or devices that differ, or a `hidden` that has no view as rows with adjacent columns.
        RuntimeError: An input wants a gradient; the kernel has no backward.
    """
    if hidden.dtype not in _DTYPES or residual.dtype not in _DTYPES:
        raise TypeError(f"residual_add_ takes bfloat16, float16 or float32, got {hidden.dtype} and {residual.dtype}")
    if hidden.dim() == 0 or hidden.shape != residual.shape or hidden.device != residual.device:
        raise ValueError(
            f"residual_add_ takes two tensors of one shape (..., cols) on one device, "
            f"got {tuple(hidden.shape)} on {hidden.device} and {tuple(residual.shape)} on {residual.device}"
        )
    if torch.is_grad_enabled() and (hidden.requires_grad or residual.requires_grad):
        raise RuntimeError("residual_add_ has no backward; call it under torch.no_grad()")
    if hidden.numel() == 0:
        return hidden
    cols = hidden.shape[-1]
    hidden_rows = _row_view(hidden)
    residual_rows = residual.reshape(-1, cols)
    if residual_rows.stride(1) != 1:
        residual_rows = residual_rows.contiguous()
    _residual_add[lambda meta: (hidden_rows.shape[0] * triton.cdiv(cols, meta["BLOCK"]),)](
        hidden_rows, residual_rows, hidden_rows.stride(0), residual_rows.stride(0), cols
    )
    return hidden


def _row_view(hidden: torch.Tensor) -> torch.Tensor:
    """View `hidden` as rows that the kernel may write: adjacent columns, no row on top of another."""
    cols = hidden.shape[-1]
    try:
        rows = hidden.view(-1, cols)
    except RuntimeError:
        rows = None
    if rows is None or (cols > 1 and rows.stride(1) != 1) or (rows.shape[0] > 1 and rows.stride(0) < cols):
        raise ValueError(
            f"residual_add_ takes hidden with adjacent columns and rows that do not overlap, "
            f"got shape {tuple(hidden.shape)} with strides {hidden.stride()}"
        )
    return rows
