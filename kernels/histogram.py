"""Counts of integers; deterministic, since integer additions commute."""

import torch
import triton
import triton.language as tl

_DTYPES = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
_MOST_BINS = 8192


@triton.jit
def _histogram(values, counts, elements, bins, stride, BINS: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    drawn = tl.load(values + offsets * stride, mask=offsets < elements, other=-1).to(tl.int64)
    counted = (offsets < elements) & (drawn >= 0) & (drawn < bins)
    block_counts = tl.histogram(tl.where(counted, drawn, 0).to(tl.int32), BINS, mask=counted)
    bin_ = tl.arange(0, BINS)
    tl.atomic_add(counts + bin_, block_counts, mask=bin_ < bins, sem="relaxed")


def histogram(values: torch.Tensor, bins: int) -> torch.Tensor:
    """Count how often each of 0 .. bins - 1 occurs; other values are not counted.

    Args:
        values: Shape (elements,), uint8 or int8 to int64, any stride; fewer than 2 ** 31 elements.
        bins: 1 to 8192.

    Returns:
        Shape (bins,), int32.

    Raises:
        TypeError: The dtype is not supported.
        ValueError: values has not one axis or too many elements, or bins is out of range.
    """
    if values.ndim != 1 or values.shape[0] >= 2**31:
        raise ValueError(f"histogram takes (elements,) with fewer than 2**31, not {tuple(values.shape)}")
    if values.dtype not in _DTYPES:
        raise TypeError(f"histogram takes uint8 or int8 to int64, not {values.dtype}")
    if not 1 <= bins <= _MOST_BINS:
        raise ValueError(f"bins={bins} must be 1 to {_MOST_BINS}")
    elements = values.shape[0]
    counts = torch.zeros((bins,), dtype=torch.int32, device=values.device)
    if elements:
        _histogram[lambda meta: (triton.cdiv(elements, meta["BLOCK"]),)](
            values, counts, elements, bins, values.stride(0),
            BINS=max(2, triton.next_power_of_2(bins)), BLOCK=4096, num_warps=4,
        )  # fmt: skip
    return counts
