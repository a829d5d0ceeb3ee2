"""Running sums of rows."""

import torch
import triton
import triton.language as tl

_REAL = (torch.bfloat16, torch.float16, torch.float32)
_INTEGER = (torch.int8, torch.int16, torch.int32, torch.int64)


@triton.heuristics({"EVEN": lambda arguments: arguments["cols"] % arguments["BLOCK"] == 0})
@triton.jit
def _cumsum(
    x,
    out,
    rows,
    cols,
    stride_row,
    stride_col,
    SUM: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    EVEN: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    carried = tl.zeros((BLOCK_ROWS,), dtype=SUM)
    for start in range(0, cols, BLOCK):
        col = start + tl.arange(0, BLOCK).to(tl.int64)
        valid = (row < rows)[:, None]
        if not EVEN:
            valid = valid & (col < cols)[None, :]
        values = tl.load(x + row[:, None] * stride_row + col[None, :] * stride_col, mask=valid, other=0).to(SUM)
        sums = tl.cumsum(values, 1) + carried[:, None]
        tl.store(out + row[:, None] * cols + col[None, :], sums.to(out.dtype.element_ty), mask=valid)
        # The last sum of the block, picked exactly: every other term is zero.
        carried = tl.sum(tl.where((col == start + BLOCK - 1)[None, :], sums, 0), 1).to(SUM)


def cumsum(x: torch.Tensor) -> torch.Tensor:
    """Sum every row up to each of its elements.

    Args:
        x: Shape (rows, cols), any strides; bfloat16, float16, float32, or int8 to int64.

    Returns:
        Shape (rows, cols), contiguous; real values in the dtype of x, summed in float32; integers in int64, modulo
        2 ** 64.

    Raises:
        TypeError: The dtype is not supported.
        ValueError: x has not two axes.
    """
    if x.ndim != 2:
        raise ValueError(f"cumsum takes (rows, cols), not {tuple(x.shape)}")
    if x.dtype not in _REAL + _INTEGER:
        raise TypeError(f"cumsum takes bfloat16, float16, float32 or int8 to int64, not {x.dtype}")
    rows, cols = x.shape
    integer = x.dtype in _INTEGER
    out = torch.empty((rows, cols), dtype=torch.int64 if integer else x.dtype, device=x.device)
    if out.numel():
        _cumsum[lambda meta: (triton.cdiv(rows, meta["BLOCK_ROWS"]),)](
            x, out, rows, cols, *x.stride(),
            SUM=tl.int64 if integer else tl.float32, BLOCK_ROWS=1, BLOCK=1024, num_warps=4,
        )  # fmt: skip
    return out
