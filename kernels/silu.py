"""SiLU activation, x * sigmoid(x)."""

import torch
import triton
import triton.language as tl

_DTYPES = (torch.bfloat16, torch.float16, torch.float32)


@triton.jit
def _silu_forward(x_ptr, out_ptr, x_row_stride, out_row_stride, cols, BLOCK: tl.constexpr):
    blocks = tl.cdiv(cols, BLOCK)
    # Wide integers: a contiguous tensor arrives as one row, which may pass 2^31 elements.
    program = tl.program_id(0).to(tl.int64)
    row = program // blocks
    col = (program % blocks) * BLOCK + tl.arange(0, BLOCK)
    mask = col < cols
    x = tl.load(x_ptr + row * x_row_stride + col, mask=mask).to(tl.float32)
    tl.store(out_ptr + row * out_row_stride + col, (x * tl.sigmoid(x)).to(out_ptr.dtype.element_ty), mask=mask)


def silu(x: torch.Tensor) -> torch.Tensor:
    """Return x * sigmoid(x), computed in float32 and rounded once.

    Args:
        x: Any shape, bfloat16, float16 or float32; rows may be apart from each other (a slice of a wider tensor).

    Returns:
        A contiguous tensor of the shape and dtype of `x`.

    Raises:
        TypeError: Another dtype.
        RuntimeError: `x` wants a gradient; the kernel has no backward.
    """
    if x.dtype not in _DTYPES:
        raise TypeError(f"silu takes bfloat16, float16 or float32, got {x.dtype}")
    if x.requires_grad and torch.is_grad_enabled():
        raise RuntimeError("silu has no backward; call it under torch.no_grad() or use swiglu")
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel() == 0:
        return out
    flat = x.reshape(1, -1) if x.is_contiguous() or x.dim() == 0 else x.reshape(-1, x.shape[-1])
    if flat.stride(1) != 1:
        flat = flat.contiguous()
    rows, cols = flat.shape
    _silu_forward[lambda meta: (rows * triton.cdiv(cols, meta["BLOCK"]),)](
        flat, out, flat.stride(0), cols, cols, BLOCK=1024, num_warps=4
    )
    return out
