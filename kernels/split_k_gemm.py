"""Matrix product split along k: partial products side by side, then a reduction in a fixed order."""

from collections.abc import Mapping
from typing import Any

import torch
import triton
import triton.language as tl

_DTYPES = (torch.bfloat16, torch.float16, torch.float32)

# The interpreter multiplies the raw bits of bfloat16 operands; float32 holds the same values.
_INTERPRETED = tl.constexpr(triton.knobs.runtime.interpret)

_FIXED: Mapping[str, int] = {
    "BLOCK_M": 64,
    "BLOCK_N": 64,
    "BLOCK_K": 64,
    "SPLIT_K": 4,
    "num_warps": 4,
    "num_stages": 3,
}


@triton.jit
def _split_k_partials(
    a,
    b,
    partials,
    m,
    n,
    k,
    k_per_split,
    stride_am,
    stride_ak,
    stride_bk,
    stride_bn,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    tiles_n = tl.cdiv(n, BLOCK_N)
    tile = tl.program_id(0)
    split = tl.program_id(1).to(tl.int64)
    rows = (tile // tiles_n).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = (tile % tiles_n).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    first = split * k_per_split
    inner = first + tl.arange(0, BLOCK_K)
    last = tl.minimum(first + k_per_split, k)
    a_tile = a + rows[:, None] * stride_am + inner[None, :] * stride_ak
    b_tile = b + inner[:, None] * stride_bk + cols[None, :] * stride_bn
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    # A split that starts past the end runs no iteration and stores zeros.
    for start in range(0, tl.maximum(last - first, 0).to(tl.int32), BLOCK_K):
        valid = inner + start < last
        left = tl.load(a_tile, mask=(rows[:, None] < m) & valid[None, :], other=0.0)
        right = tl.load(b_tile, mask=valid[:, None] & (cols[None, :] < n), other=0.0)
        if _INTERPRETED:
            left = left.to(tl.float32)
            right = right.to(tl.float32)
        total = tl.dot(left, right, total, input_precision="ieee")
        a_tile += BLOCK_K * stride_ak
        b_tile += BLOCK_K * stride_bk
    target = partials + (split * m + rows[:, None]) * n + cols[None, :]
    tl.store(target, total, mask=(rows[:, None] < m) & (cols[None, :] < n))


@triton.jit
def _split_k_reduce(partials, c, elements, splits, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    valid = offsets < elements
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for _ in range(splits):
        total += tl.load(partials + offsets, mask=valid, other=0.0)
        partials += elements
    tl.store(c + offsets, total.to(c.dtype.element_ty), mask=valid)


def split_k_gemm(a: torch.Tensor, b: torch.Tensor, *, config: Mapping[str, Any] | None = None) -> torch.Tensor:
    """Multiply two matrices of few rows and columns and a long k; one config always gives the same bytes.

    The partial sums of the splits are added in ascending order, so that SPLIT_K, and not the schedule, is the order.

    Args:
        a: Shape (m, k), bfloat16, float16 or float32, any strides.
        b: Shape (k, n), of the same dtype and device, any strides.
        config: BLOCK_M, BLOCK_N, BLOCK_K, SPLIT_K, num_warps, num_stages; what is left out is as in the fixed launch.

    Returns:
        Shape (m, n), contiguous, in the dtype of the operands.

    Raises:
        TypeError: The dtypes are not supported or differ.
        ValueError: The shapes do not fit, the devices differ, or the config has an unknown name or SPLIT_K below 1.
    """
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise ValueError(f"split_k_gemm takes (m, k) and (k, n), not {tuple(a.shape)} and {tuple(b.shape)}")
    if a.dtype not in _DTYPES or b.dtype != a.dtype:
        raise TypeError(
            f"split_k_gemm takes two of one dtype, bfloat16, float16 or float32, not {a.dtype} and {b.dtype}"
        )
    if a.device != b.device:
        raise ValueError(f"split_k_gemm takes operands of one device, not {a.device} and {b.device}")
    launch = {**_FIXED, **(config or {})}
    unknown = sorted(launch.keys() - _FIXED.keys())
    if unknown:
        raise ValueError(f"split_k_gemm has no config name {unknown[0]!r}; names: {', '.join(_FIXED)}")
    splits = launch.pop("SPLIT_K")
    if splits < 1:
        raise ValueError(f"SPLIT_K={splits} must be at least 1")
    m, k = a.shape
    n = b.shape[1]
    c = torch.empty((m, n), dtype=a.dtype, device=a.device)
    if not c.numel():
        return c
    partials = torch.empty((splits, m, n), dtype=torch.float32, device=a.device)
    block_k = launch["BLOCK_K"]
    k_per_split = triton.cdiv(triton.cdiv(k, block_k), splits) * block_k
    _split_k_partials[lambda meta: (triton.cdiv(m, meta["BLOCK_M"]) * triton.cdiv(n, meta["BLOCK_N"]), splits)](
        a, b, partials, m, n, k, k_per_split, *a.stride(), *b.stride(), **launch
    )
    _split_k_reduce[lambda meta: (triton.cdiv(m * n, meta["BLOCK"]),)](
        partials, c, m * n, splits, BLOCK=1024, num_warps=4
    )
    return c
