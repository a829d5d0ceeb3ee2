"""RMSNorm with its backward; bytes depend on shapes and values, never on the launch.

Row sums run over a fixed block and end in a fixed tree; column sums go row by row in chunks of a fixed height.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from fixed_order import fixed_order_sum

_DTYPES = (torch.bfloat16, torch.float16, torch.float32)

# Both decide the order of additions, hence bytes: constants, not tuned.
_BLOCK = 1024
_ROWS_PER_PARTIAL = 32


@triton.jit
def _rms_norm_forward(
    x_ptr, weight_ptr, out_ptr, rstd_ptr, x_row_stride, out_row_stride, cols, eps, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    squares = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, cols, BLOCK):
        col = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * x_row_stride + col, mask=col < cols, other=0.0).to(tl.float32)
        squares += x * x
    rstd = tl.rsqrt(fixed_order_sum(squares, BLOCK) / cols + eps)
    tl.store(rstd_ptr + row, rstd)
    for start in range(0, cols, BLOCK):
        col = start + tl.arange(0, BLOCK)
        mask = col < cols
        x = tl.load(x_ptr + row * x_row_stride + col, mask=mask).to(tl.float32)
        weight = tl.load(weight_ptr + col, mask=mask).to(tl.float32)
        tl.store(out_ptr + row * out_row_stride + col, (x * rstd * weight).to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _rms_norm_dx(
    dout_ptr,
    x_ptr,
    weight_ptr,
    rstd_ptr,
    dx_ptr,
    dout_row_stride,
    x_row_stride,
    dx_row_stride,
    cols,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    rstd = tl.load(rstd_ptr + row)
    products = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, cols, BLOCK):
        col = start + tl.arange(0, BLOCK)
        mask = col < cols
        dout = tl.load(dout_ptr + row * dout_row_stride + col, mask=mask, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + row * x_row_stride + col, mask=mask, other=0.0).to(tl.float32)
        weight = tl.load(weight_ptr + col, mask=mask, other=0.0).to(tl.float32)
        products += (dout * weight) * (x * rstd)
    mean_product = fixed_order_sum(products, BLOCK) / cols
    for start in range(0, cols, BLOCK):
        col = start + tl.arange(0, BLOCK)
        mask = col < cols
        dout = tl.load(dout_ptr + row * dout_row_stride + col, mask=mask).to(tl.float32)
        x = tl.load(x_ptr + row * x_row_stride + col, mask=mask).to(tl.float32)
        weight = tl.load(weight_ptr + col, mask=mask).to(tl.float32)
        # Two products meet in one sum: the explicit fma leaves no choice of which of them is fused.
        dx = rstd * tl.fma(x * rstd, -mean_product, dout * weight)
        tl.store(dx_ptr + row * dx_row_stride + col, dx.to(dx_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _rms_norm_dw_partial(
    dout_ptr,
    x_ptr,
    rstd_ptr,
    partial_ptr,
    dout_row_stride,
    x_row_stride,
    rows,
    cols,
    ROWS_PER_PARTIAL: tl.constexpr,
    BLOCK: tl.constexpr,
):
    # Wide, so that the rows of its loop are.
    chunk = tl.program_id(0).to(tl.int64)
    col = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = col < cols
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    first = chunk * ROWS_PER_PARTIAL
    for row in range(first, tl.minimum(first + ROWS_PER_PARTIAL, rows)):
        dout = tl.load(dout_ptr + row * dout_row_stride + col, mask=mask, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + row * x_row_stride + col, mask=mask, other=0.0).to(tl.float32)
        total += dout * (x * tl.load(rstd_ptr + row))
    tl.store(partial_ptr + chunk * cols + col, total, mask=mask)


@triton.jit
def _rms_norm_dw_combine(partial_ptr, dweight_ptr, partials, cols, BLOCK: tl.constexpr):
    col = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = col < cols
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    partial_row = partial_ptr + col
    for _ in range(partials):
        total += tl.load(partial_row, mask=mask, other=0.0)
        partial_row += cols
    tl.store(dweight_ptr + col, total.to(dweight_ptr.dtype.element_ty), mask=mask)


class _RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
        weight = weight.contiguous()
        out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        rstd = torch.empty(x.shape[:-1], dtype=torch.float32, device=x.device)
        ctx.save_for_backward(x, weight, rstd)
        if out.numel() == 0:
            return out
        x_rows = _rows(x)
        rows, cols = x_rows.shape
        _rms_norm_forward[(rows,)](
            x_rows, weight, out, rstd, x_rows.stride(0), cols, cols, eps, BLOCK=_block(cols), num_warps=4
        )
        return out

    @staticmethod
    def backward(ctx: Any, dout: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x, weight, rstd = ctx.saved_tensors
        dx = rms_norm_dx(dout, x, weight, rstd) if ctx.needs_input_grad[0] else None
        dweight = rms_norm_dw(dout, x, rstd, weight.dtype) if ctx.needs_input_grad[1] else None
        return dx, dweight, None


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """Return x / sqrt(mean(x^2) + eps) * weight over the last axis, computed in float32 and rounded once.

    Differentiable in `x` and `weight`.

    Args:
        x: Shape (..., cols), bfloat16, float16 or float32; rows may be apart.
        weight: Shape (cols,), bfloat16, float16 or float32, on the device of `x`.
        eps: Added to the mean square; positive.

    Returns:
        A contiguous tensor of the shape and dtype of `x`.

    Raises:
        TypeError: Another dtype.
        ValueError: Shapes or devices that do not fit together, or an eps that is not positive.
    """
    if x.dtype not in _DTYPES or weight.dtype not in _DTYPES:
        raise TypeError(f"rms_norm takes bfloat16, float16 or float32, got {x.dtype} and weight {weight.dtype}")
    if x.dim() == 0 or weight.shape != x.shape[-1:] or weight.device != x.device:
        raise ValueError(
            f"rms_norm takes x of shape (..., cols) and weight of shape (cols,) on one device, "
            f"got {tuple(x.shape)} on {x.device} and {tuple(weight.shape)} on {weight.device}"
        )
    if not eps > 0:
        raise ValueError(f"rms_norm takes a positive eps, got {eps}: a row of zeros would become NaN")
    out: torch.Tensor = _RMSNorm.apply(x, weight, eps)
    return out


def rms_norm_dx(dout: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, rstd: torch.Tensor) -> torch.Tensor:
    """Return the gradient of `x`.

    Args:
        dout: Shape and device of `x`.
        x: Input of the forward, shape (..., cols).
        weight: Shape (cols,), contiguous.
        rstd: 1 / sqrt(mean(x^2) + eps) of each row, float32, shape of `x` without its last axis.

    Returns:
        A contiguous tensor of the shape and dtype of `x`.

    Raises:
        ValueError: Shapes that do not fit together.
    """
    _check_backward(dout, x, rstd)
    dx = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if dx.numel() == 0:
        return dx
    dout_rows, x_rows = _rows(dout), _rows(x)
    rows, cols = x_rows.shape
    _rms_norm_dx[(rows,)](
        dout_rows,
        x_rows,
        weight,
        rstd,
        dx,
        dout_rows.stride(0),
        x_rows.stride(0),
        cols,
        cols,
        BLOCK=_block(cols),
        num_warps=4,
    )
    return dx


def rms_norm_dw(dout: torch.Tensor, x: torch.Tensor, rstd: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return the gradient of the weight: float32 sums over chunks of rows, then over the chunks, both in order.

    Args:
        dout: Shape and device of `x`.
        x: Input of the forward, shape (..., cols).
        rstd: As `rms_norm_dx` takes it.
        dtype: Of the result.

    Returns:
        A tensor of shape (cols,).

    Raises:
        ValueError: Shapes that do not fit together.
    """
    _check_backward(dout, x, rstd)
    cols = x.shape[-1]
    if x.numel() == 0:
        return torch.zeros(cols, dtype=dtype, device=x.device)
    dout_rows, x_rows = _rows(dout), _rows(x)
    rows = x_rows.shape[0]
    partials = triton.cdiv(rows, _ROWS_PER_PARTIAL)
    partial = torch.empty((partials, cols), dtype=torch.float32, device=x.device)
    _rms_norm_dw_partial[lambda meta: (partials, triton.cdiv(cols, meta["BLOCK"]))](
        dout_rows,
        x_rows,
        rstd,
        partial,
        dout_rows.stride(0),
        x_rows.stride(0),
        rows,
        cols,
        ROWS_PER_PARTIAL=_ROWS_PER_PARTIAL,
        BLOCK=256,
        num_warps=2,
    )
    dweight = torch.empty(cols, dtype=dtype, device=x.device)
    # One thread a column: more parallelism than a wider block would leave.
    block = 64
    _rms_norm_dw_combine[(triton.cdiv(cols, block),)](partial, dweight, partials, cols, BLOCK=block, num_warps=2)
    return dweight


def _block(cols: int) -> int:
    block: int = min(max(triton.next_power_of_2(cols), 16), _BLOCK)
    return block


def _check_backward(dout: torch.Tensor, x: torch.Tensor, rstd: torch.Tensor) -> None:
    if dout.shape != x.shape or rstd.shape != x.shape[:-1]:
        raise ValueError(
            f"rms_norm backward takes dout of shape {tuple(x.shape)} and rstd of shape {tuple(x.shape[:-1])}, "
            f"got {tuple(dout.shape)} and {tuple(rstd.shape)}"
        )


def _rows(x: torch.Tensor) -> torch.Tensor:
    """View `x` as (rows, cols) with adjacent columns; copy only where no such view exists."""
    rows = x.reshape(-1, x.shape[-1])
    return rows if rows.stride(1) == 1 else rows.contiguous()
