"""Addition of rows at repeated places, in the order in which they come."""

import torch
import triton
import triton.language as tl

_DTYPES = (torch.bfloat16, torch.float16, torch.float32)


@triton.jit
def _scatter_add(
    out,
    base,
    src,
    order,
    bounds,
    cols,
    stride_base_row,
    stride_base_col,
    stride_src_row,
    stride_src_col,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    col = tl.program_id(1).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    valid = col < cols
    total = tl.load(base + row * stride_base_row + col * stride_base_col, mask=valid, other=0.0).to(tl.float32)
    # One program owns an output row and adds its source rows one after another: no atomics, one order.
    for position in range(tl.load(bounds + row), tl.load(bounds + row + 1)):
        source = tl.load(order + position)
        added = tl.load(src + source * stride_src_row + col * stride_src_col, mask=valid, other=0.0)
        total += added.to(tl.float32)
    tl.store(out + row * cols + col, total.to(out.dtype.element_ty), mask=valid)


def scatter_add(base: torch.Tensor, index: torch.Tensor, src: torch.Tensor) -> torch.Tensor:
    """Return base with src[i] added to row index[i], summed in float32 in ascending i.

    Args:
        base: Shape (rows, cols), bfloat16, float16 or float32, any strides; it is not changed.
        index: Shape (sources,), int32 or int64: rows of base; an index outside of 0 .. rows - 1 adds nothing.
        src: Shape (sources, cols), in the dtype of base, any strides.

    Returns:
        Shape (rows, cols), contiguous, in the dtype of base.

    Raises:
        TypeError: The dtypes are not supported or differ.
        ValueError: The shapes do not fit, or the devices differ.
    """
    if base.ndim != 2 or src.ndim != 2 or index.ndim != 1 or tuple(src.shape) != (index.shape[0], base.shape[1]):
        raise ValueError(
            "scatter_add takes base (rows, cols), index (sources,) and src (sources, cols), "
            f"not {tuple(base.shape)}, {tuple(index.shape)} and {tuple(src.shape)}"
        )
    if base.dtype not in _DTYPES or src.dtype != base.dtype or index.dtype not in {torch.int32, torch.int64}:
        raise TypeError(
            "scatter_add takes base and src of one dtype, bfloat16, float16 or float32, and an int32 or int64 index, "
            f"not {base.dtype}, {src.dtype} and {index.dtype}"
        )
    if base.device != src.device or base.device != index.device:
        raise ValueError(f"scatter_add takes inputs of one device, not {base.device}, {index.device}, {src.device}")
    rows, cols = base.shape
    out = torch.empty((rows, cols), dtype=base.dtype, device=base.device)
    if not out.numel():
        return out
    # A stable sort keeps the sources of a row in their order.
    ordered, order = torch.sort(index, stable=True)
    bounds = torch.searchsorted(ordered, torch.arange(rows + 1, dtype=index.dtype, device=index.device))
    _scatter_add[lambda meta: (rows, triton.cdiv(cols, meta["BLOCK"]))](
        out, base, src, order, bounds, cols, *base.stride(), *src.stride(), BLOCK=512, num_warps=4
    )
    return out
