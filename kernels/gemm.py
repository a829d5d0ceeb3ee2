"""Matrix product with a fixed order of summation."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import triton
import triton.language as tl

_DTYPES = (torch.bfloat16, torch.float16, torch.float32)

# The interpreter multiplies the raw bits of bfloat16 operands; float32 holds the same values.
_INTERPRETED = tl.constexpr(triton.knobs.runtime.interpret)

# A float32 product runs as a chain of FMAs per thread: a larger output tile spills and compiles for minutes.
_FLOAT32_TILE_ELEMENTS = 128 * 64


def _prune(configs: Sequence[triton.Config], arguments: Mapping[str, Any], **_: object) -> list[triton.Config]:
    """Drop the tiles that float32 operands cannot hold in registers."""
    if arguments["a"].dtype != torch.float32:
        return list(configs)
    return [
        config for config in configs if config.kwargs["BLOCK_M"] * config.kwargs["BLOCK_N"] <= _FLOAT32_TILE_ELEMENTS
    ]


def _config(block_m: int, block_n: int, *, num_warps: int, num_stages: int) -> triton.Config:
    """Make a config; BLOCK_K is the same in all, so that the choice among them does not touch the order of the sum."""
    blocks = {"BLOCK_M": block_m, "BLOCK_N": block_n, "BLOCK_K": 64, "GROUP_M": 8}
    return triton.Config(blocks, num_warps=num_warps, num_stages=num_stages)


@triton.autotune(
    configs=[
        _config(128, 64, num_warps=4, num_stages=3),
        _config(64, 64, num_warps=4, num_stages=4),
        _config(64, 128, num_warps=4, num_stages=3),
        _config(128, 128, num_warps=8, num_stages=3),
        _config(128, 256, num_warps=8, num_stages=3),
    ],
    key=["m", "n", "k"],
    prune_configs_by={"early_config_prune": _prune},
)
@triton.jit
def _gemm(
    a,
    b,
    c,
    m,
    n,
    k,
    stride_am,
    stride_ak,
    stride_bk,
    stride_bn,
    stride_cm,
    stride_cn,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    # Neighbouring programs share GROUP_M tile rows, so that their tiles of b are still in the L2 cache.
    program = tl.program_id(0)
    tiles_m = tl.cdiv(m, BLOCK_M)
    tiles_n = tl.cdiv(n, BLOCK_N)
    group = program // (GROUP_M * tiles_n)
    group_rows = tl.minimum(tiles_m - group * GROUP_M, GROUP_M)
    within = program % (GROUP_M * tiles_n)
    tile_m = group * GROUP_M + within % group_rows
    tile_n = within // group_rows

    rows = tile_m.to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tile_n.to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K).to(tl.int64)
    a_tile = a + rows[:, None] * stride_am + inner[None, :] * stride_ak
    b_tile = b + inner[:, None] * stride_bk + cols[None, :] * stride_bn
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, k, BLOCK_K):
        valid = inner < k - start
        left = tl.load(a_tile, mask=(rows[:, None] < m) & valid[None, :], other=0.0)
        right = tl.load(b_tile, mask=valid[:, None] & (cols[None, :] < n), other=0.0)
        if _INTERPRETED:
            left = left.to(tl.float32)
            right = right.to(tl.float32)
        total = tl.dot(left, right, total, input_precision="ieee")
        a_tile += BLOCK_K * stride_ak
        b_tile += BLOCK_K * stride_bk
    target = c + rows[:, None] * stride_cm + cols[None, :] * stride_cn
    tl.store(target, total.to(c.dtype.element_ty), mask=(rows[:, None] < m) & (cols[None, :] < n))


def gemm(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Multiply two matrices, summing over k in ascending order in float32.

    Args:
        a: Shape (m, k), bfloat16, float16 or float32, any strides.
        b: Shape (k, n), of the same dtype and device, any strides.

    Returns:
        Shape (m, n), contiguous, in the dtype of the operands.

    Raises:
        TypeError: The dtypes are not supported or differ.
        ValueError: The shapes do not fit, or the devices differ.
    """
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise ValueError(f"gemm takes (m, k) and (k, n), not {tuple(a.shape)} and {tuple(b.shape)}")
    if a.dtype not in _DTYPES or b.dtype != a.dtype:
        raise TypeError(f"gemm takes two of one dtype, bfloat16, float16 or float32, not {a.dtype} and {b.dtype}")
    if a.device != b.device:
        raise ValueError(f"gemm takes operands of one device, not {a.device} and {b.device}")
    m, k = a.shape
    n = b.shape[1]
    c = torch.empty((m, n), dtype=a.dtype, device=a.device)
    if c.numel():
        _gemm[lambda meta: (triton.cdiv(m, meta["BLOCK_M"]) * triton.cdiv(n, meta["BLOCK_N"]),)](
            a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride()
        )
    return c
