"""Largest elements of every row, with their places; equal elements come in the order of their places."""

import torch
import triton
import triton.language as tl

_DTYPES = (torch.bfloat16, torch.float16, torch.float32)
_MOST_BLOCK = 4096
_MOST_COLS = 2**31 - 1

_BELOW_ALL = tl.constexpr(-(2**63))
_ABOVE_ALL = tl.constexpr(2**63 - 1)


@triton.jit
def _keys(values, cols):
    """Map values and places to int64 keys, all different, that sort as the results must.

    The upper half orders the values as float32, every NaN above +inf and both zeros equal; the lower half puts the
    first place first.
    """
    values = tl.where(values == 0.0, 0.0, values.to(tl.float32))
    bits = values.to(tl.int32, bitcast=True)
    order = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    order = tl.where(values == values, order, 0x7FFFFFFF)  # noqa: PLR0124 - NaN
    return (order.to(tl.int64) << 32) | (0x7FFFFFFF - cols).to(tl.int64)


@triton.heuristics({"EVEN": lambda arguments: arguments["cols"] % arguments["BLOCK"] == 0})
@triton.jit
def _top_k(x, values, places, cols, k, stride_row, stride_col, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * stride_row
    # Each round finds the largest key below the one before; integer maxima do not depend on any order.
    last = tl.full((), _ABOVE_ALL, dtype=tl.int64)
    for rank in range(k):
        best = tl.full((), _BELOW_ALL, dtype=tl.int64)
        for start in range(0, cols, BLOCK):
            col = start + tl.arange(0, BLOCK)
            address = x + col.to(tl.int64) * stride_col
            if EVEN:
                keys = _keys(tl.load(address), col)
            else:
                keys = tl.where(col < cols, _keys(tl.load(address, mask=col < cols, other=0.0), col), _BELOW_ALL)
            best = tl.maximum(best, tl.max(tl.where(keys < last, keys, _BELOW_ALL), 0))
        place = 0x7FFFFFFF - (best & 0x7FFFFFFF)
        tl.store(values + row * k + rank, tl.load(x + place * stride_col))
        tl.store(places + row * k + rank, place)
        last = best


def top_k(x: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Find the k largest elements of every row, largest first; made for a k of a few dozen at most.

    Args:
        x: Shape (rows, cols), bfloat16, float16 or float32, any strides; NaN counts as largest.
        k: At least 1, at most cols.

    Returns:
        The values, (rows, k) in the dtype of x, and their columns, (rows, k), int64; of equal values the first.

    Raises:
        TypeError: The dtype is not supported.
        ValueError: x has not two axes or too many columns, or k is out of range.
    """
    if x.ndim != 2 or x.shape[1] > _MOST_COLS:
        raise ValueError(f"top_k takes (rows, cols) with at most {_MOST_COLS} columns, not {tuple(x.shape)}")
    if x.dtype not in _DTYPES:
        raise TypeError(f"top_k takes bfloat16, float16 or float32, not {x.dtype}")
    rows, cols = x.shape
    if not 1 <= k <= cols:
        raise ValueError(f"k={k} must be 1 to cols={cols}")
    values = torch.empty((rows, k), dtype=x.dtype, device=x.device)
    places = torch.empty((rows, k), dtype=torch.int64, device=x.device)
    if rows:
        _top_k[(rows,)](
            x, values, places, cols, k, *x.stride(), BLOCK=min(triton.next_power_of_2(cols), _MOST_BLOCK), num_warps=4
        )
    return values, places
