"""Matrix product of FP8 operands with one scale for each block."""

import torch
import triton
import triton.language as tl

BLOCK = 128
"""Edge of a scaled block: 1 x 128 in a, 128 x 128 in b."""

_OUTPUT_DTYPES = (torch.bfloat16, torch.float16, torch.float32)


@triton.jit
def _fp8_gemm(
    a,
    b,
    a_scale,
    b_scale,
    c,
    m,
    n,
    k,
    stride_am,
    stride_ak,
    stride_bn,
    stride_bk,
    stride_asm,
    stride_ask,
    stride_bsn,
    stride_bsk,
    SCALED: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    tiles_n = tl.cdiv(n, BLOCK_N)
    tile = tl.program_id(0)
    rows = (tile // tiles_n).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = (tile % tiles_n).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, SCALED).to(tl.int64)
    a_tile = a + rows[:, None] * stride_am + inner[None, :] * stride_ak
    b_tile = b + inner[:, None] * stride_bk + cols[None, :] * stride_bn
    a_scales = a_scale + rows * stride_asm
    b_scales = b_scale + (cols // SCALED) * stride_bsn
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    # One iteration is one scaled block, so the tensor cores' short accumulator never holds more than one.
    for start in range(0, k, SCALED):
        valid = inner < k - start
        left = tl.load(a_tile, mask=(rows[:, None] < m) & valid[None, :], other=0.0)
        right = tl.load(b_tile, mask=valid[:, None] & (cols[None, :] < n), other=0.0)
        left_scale = tl.load(a_scales, mask=rows < m, other=0.0)
        right_scale = tl.load(b_scales, mask=cols < n, other=0.0)
        total += tl.dot(left, right) * (left_scale[:, None] * right_scale[None, :])
        a_tile += SCALED * stride_ak
        b_tile += SCALED * stride_bk
        a_scales += stride_ask
        b_scales += stride_bsk
    target = c + rows[:, None] * n + cols[None, :]
    tl.store(target, total.to(c.dtype.element_ty), mask=(rows[:, None] < m) & (cols[None, :] < n))


def fp8_gemm(
    a: torch.Tensor,
    b: torch.Tensor,
    a_scale: torch.Tensor,
    b_scale: torch.Tensor,
    *,
    dtype: torch.dtype = torch.bfloat16,
) -> torch.Tensor:
    """Multiply a by the transpose of b, both in block-scaled FP8, block after block in ascending k.

    Args:
        a: Shape (m, k), float8_e4m3fn, any strides; contiguous along k is fastest.
        b: Shape (n, k), float8_e4m3fn, any strides; contiguous along k is fastest.
        a_scale: Shape (m, ceil(k / 128)), float32: what 128 values of a row are multiplied by.
        b_scale: Shape (ceil(n / 128), ceil(k / 128)), float32: the same for blocks of 128 x 128.
        dtype: Of the result: bfloat16, float16 or float32.

    Returns:
        Shape (m, n), contiguous.

    Raises:
        TypeError: A dtype is not supported.
        ValueError: The shapes do not fit, or the devices differ.
    """
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1]:
        raise ValueError(f"fp8_gemm takes (m, k) and (n, k), not {tuple(a.shape)} and {tuple(b.shape)}")
    if a.dtype != torch.float8_e4m3fn or b.dtype != torch.float8_e4m3fn:
        raise TypeError(f"fp8_gemm takes float8_e4m3fn operands, not {a.dtype} and {b.dtype}")
    if a_scale.dtype != torch.float32 or b_scale.dtype != torch.float32:
        raise TypeError(f"fp8_gemm takes float32 scales, not {a_scale.dtype} and {b_scale.dtype}")
    if dtype not in _OUTPUT_DTYPES:
        raise TypeError(f"fp8_gemm gives bfloat16, float16 or float32, not {dtype}")
    (m, k), n = a.shape, b.shape[0]
    blocks = triton.cdiv(k, BLOCK)
    for name, scale, shape in (("a", a_scale, (m, blocks)), ("b", b_scale, (triton.cdiv(n, BLOCK), blocks))):
        if tuple(scale.shape) != shape:
            raise ValueError(f"fp8_gemm needs {name}_scale of shape {shape}, not {tuple(scale.shape)}")
    devices = {tensor.device for tensor in (a, b, a_scale, b_scale)}
    if len(devices) != 1:
        raise ValueError(f"fp8_gemm takes operands of one device, not {', '.join(sorted(map(str, devices)))}")
    c = torch.empty((m, n), dtype=dtype, device=a.device)
    if c.numel():
        _fp8_gemm[lambda meta: (triton.cdiv(m, meta["BLOCK_M"]) * triton.cdiv(n, meta["BLOCK_N"]),)](
            a, b, a_scale, b_scale, c, m, n, k, *a.stride(), *b.stride(), *a_scale.stride(), *b_scale.stride(),
            SCALED=BLOCK, BLOCK_M=64, BLOCK_N=128, num_warps=4, num_stages=3,
        )  # fmt: skip
    return c
