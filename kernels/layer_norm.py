"""LayerNorm forward; one program normalises several rows, so that weight and bias are loaded once."""

import torch
import triton
import triton.language as tl

_DTYPES = (torch.bfloat16, torch.float16, torch.float32)

# A row is held in registers.
_MAX_COLS = 32768


@triton.heuristics(
    {
        "BLOCK": lambda args: triton.next_power_of_2(args["cols"]),
        "HAS_BIAS": lambda args: args["bias_ptr"] is not None,
    }
)
@triton.jit
def _layer_norm_forward(
    x_ptr,
    weight_ptr,
    bias_ptr,
    out_ptr,
    x_row_stride,
    out_row_stride,
    rows,
    cols,
    eps,
    ROWS_PER_PROGRAM: tl.constexpr,
    BLOCK: tl.constexpr,
    HAS_BIAS: tl.constexpr,
):
    col = tl.arange(0, BLOCK)
    mask = col < cols
    weight = tl.load(weight_ptr + col, mask=mask).to(tl.float32)
    if HAS_BIAS:
        bias = tl.load(bias_ptr + col, mask=mask).to(tl.float32)
    # Wide, so that the rows of its loop are.
    first = tl.program_id(0).to(tl.int64) * ROWS_PER_PROGRAM
    # A loop over whole rows: however many, each is summed alone, in the same layout.
    for row in range(first, tl.minimum(first + ROWS_PER_PROGRAM, rows)):
        x = tl.load(x_ptr + row * x_row_stride + col, mask=mask, other=0.0).to(tl.float32)
        mean = tl.sum(x, axis=0) / cols
        centred = tl.where(mask, x - mean, 0.0)
        rstd = tl.rsqrt(tl.sum(centred * centred, axis=0) / cols + eps)
        out = centred * rstd * weight
        if HAS_BIAS:
            out += bias
        tl.store(out_ptr + row * out_row_stride + col, out.to(out_ptr.dtype.element_ty), mask=mask)


def layer_norm(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, eps: float = 1e-5
) -> torch.Tensor:
    """Return (x - mean) / sqrt(variance + eps) * weight + bias over the last axis.

    Computed in float32 with the variance of the centred values, and rounded once.

    Args:
        x: Shape (..., cols) with at most 32768 cols, bfloat16, float16 or float32; rows may be apart.
        weight: Shape (cols,), bfloat16, float16 or float32, on the device of `x`.
        bias: Like `weight`, or None.
        eps: Added to the variance; positive.

    Returns:
        A contiguous tensor of the shape and dtype of `x`.

    Raises:
        TypeError: Another dtype.
        ValueError: Shapes or devices that do not fit together, too many cols, or an eps that is not positive.
        RuntimeError: An input wants a gradient; the kernel has no backward.
    """
    given = [weight] if bias is None else [weight, bias]
    if any(tensor.dtype not in _DTYPES for tensor in [x, *given]):
        raise TypeError(
            f"layer_norm takes bfloat16, float16 or float32, got {', '.join(str(t.dtype) for t in [x, *given])}"
        )
    if x.dim() == 0 or any(tensor.shape != x.shape[-1:] or tensor.device != x.device for tensor in given):
        raise ValueError(
            f"layer_norm takes weight and bias of shape (cols,) on the device of x, {x.device}, "
            f"got {', '.join(f'{tuple(t.shape)} on {t.device}' for t in given)} for x of shape {tuple(x.shape)}"
        )
    if x.shape[-1] > _MAX_COLS:
        raise ValueError(f"layer_norm takes at most {_MAX_COLS} cols, got {x.shape[-1]}")
    if not eps > 0:
        raise ValueError(f"layer_norm takes a positive eps, got {eps}: a row of equal values would become NaN")
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in [x, *given]):
        raise RuntimeError("layer_norm has no backward; call it under torch.no_grad()")
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel() == 0:
        return out
    x_rows = x.reshape(-1, x.shape[-1])
    if x_rows.stride(1) != 1:
        x_rows = x_rows.contiguous()
    rows, cols = x_rows.shape
    _layer_norm_forward[lambda meta: (triton.cdiv(rows, meta["ROWS_PER_PROGRAM"]),)](
        x_rows,
        weight.contiguous(),
        None if bias is None else bias.contiguous(),
        out,
        x_rows.stride(0),
        cols,
        rows,
        cols,
        eps,
        ROWS_PER_PROGRAM=2,
        num_warps=4 if cols <= 4096 else 8,
    )
    return out
