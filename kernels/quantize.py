"""Quantisation to int8 (a scale for each row) and to FP8 (a scale for each block of a row), and back."""

import torch
import triton
import triton.language as tl

FP8_BLOCK = 128
"""Values of a row that share a scale in FP8."""

_DTYPES = (torch.bfloat16, torch.float16, torch.float32)

_INT8_MOST = tl.constexpr(127.0)
_FP8_MOST = tl.constexpr(448.0)
# float32 values of 1.5 * 2 ** 23 are one apart, of 1.5 * 2 ** 14 they are 2 ** -9 apart: adding rounds to that grid.
_ROUND_TO_ONE = tl.constexpr(12582912.0)
_ROUND_TO_FP8_SUBNORMAL = tl.constexpr(24576.0)
_FP8_LEAST_NORMAL = tl.constexpr(0.015625)


@triton.jit
def _scale_of(largest, MOST: tl.constexpr):
    """Return what the quantised values are multiplied by; a block of zeros keeps its zeros under any scale."""
    return tl.where(largest > 0.0, tl.div_rn(largest, MOST), 1.0)


@triton.jit
def _round_to_float8(values):
    """Round float32 values of at most 448 to what float8_e4m3fn holds, ties to even.

    The cast that follows is then exact, so that the result does not depend on how a back end rounds.
    """
    bits = values.to(tl.int32, bitcast=True)
    normal = (bits + 0x7FFFF + ((bits >> 20) & 1)) & -0x100000
    magnitude = (tl.abs(values) + _ROUND_TO_FP8_SUBNORMAL) - _ROUND_TO_FP8_SUBNORMAL
    subnormal = magnitude.to(tl.int32, bitcast=True) | (bits & -0x80000000)
    return tl.where(tl.abs(values) < _FP8_LEAST_NORMAL, subnormal, normal).to(tl.float32, bitcast=True)


@triton.jit
def _quantize_int8(x, q, scales, cols, stride_row, stride_col, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * stride_row
    # Maxima do not depend on the order in which they are taken.
    largest = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, cols, BLOCK):
        col = start + tl.arange(0, BLOCK).to(tl.int64)
        values = tl.load(x + col * stride_col, mask=col < cols, other=0.0).to(tl.float32)
        largest = tl.maximum(largest, tl.abs(values))
    scale = _scale_of(tl.max(largest, 0), _INT8_MOST)
    for start in range(0, cols, BLOCK):
        col = start + tl.arange(0, BLOCK).to(tl.int64)
        values = tl.load(x + col * stride_col, mask=col < cols, other=0.0).to(tl.float32)
        rounded = (tl.div_rn(values, scale) + _ROUND_TO_ONE) - _ROUND_TO_ONE
        tl.store(q + row * cols + col, rounded.to(tl.int8), mask=col < cols)
    tl.store(scales + row, scale)


@triton.jit
def _quantize_fp8(
    x,
    q,
    scales,
    rows,
    cols,
    blocks,
    stride_row,
    stride_col,
    SCALED: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    block = tl.program_id(1)
    col = block.to(tl.int64) * SCALED + tl.arange(0, SCALED)
    valid = (row < rows)[:, None] & (col < cols)[None, :]
    address = x + row[:, None] * stride_row + col[None, :] * stride_col
    values = tl.load(address, mask=valid, other=0.0).to(tl.float32)
    scale = _scale_of(tl.max(tl.abs(values), 1), _FP8_MOST)
    # Rounding of the quotient may pass the largest value by a little.
    quotient = tl.minimum(tl.maximum(tl.div_rn(values, scale[:, None] + tl.zeros_like(values)), -_FP8_MOST), _FP8_MOST)
    tl.store(q + row[:, None] * cols + col[None, :], _round_to_float8(quotient).to(q.dtype.element_ty), mask=valid)
    tl.store(scales + row * blocks + block, scale, mask=row < rows)


@triton.jit
def _dequantize(
    q,
    scales,
    out,
    rows,
    cols,
    scaled,
    stride_row,
    stride_col,
    stride_scale_row,
    stride_scale_block,
    BLOCK_ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    col = tl.program_id(1).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    valid = (row < rows)[:, None] & (col < cols)[None, :]
    values = tl.load(q + row[:, None] * stride_row + col[None, :] * stride_col, mask=valid, other=0.0).to(tl.float32)
    of = row[:, None] * stride_scale_row + (col // scaled)[None, :] * stride_scale_block
    scale = tl.load(scales + of, mask=valid, other=0.0)
    tl.store(out + row[:, None] * cols + col[None, :], (values * scale).to(out.dtype.element_ty), mask=valid)


def quantize_int8(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantise every row to -127 .. 127, ties to even.

    Args:
        x: Shape (rows, cols), bfloat16, float16 or float32, finite, any strides.

    Returns:
        The int8 values, (rows, cols), and their scales, (rows,), float32: x is about values * scale.

    Raises:
        TypeError: The dtype is not supported.
        ValueError: x has not two axes.
    """
    rows, cols = _checked(x, "quantize_int8")
    q = torch.empty((rows, cols), dtype=torch.int8, device=x.device)
    scales = torch.empty((rows,), dtype=torch.float32, device=x.device)
    if rows:
        _quantize_int8[(rows,)](x, q, scales, cols, *x.stride(), BLOCK=1024, num_warps=4)
    return q, scales


def quantize_fp8(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantise blocks of 128 values of a row to float8_e4m3fn, ties to even.

    Args:
        x: Shape (rows, cols), bfloat16, float16 or float32, finite, any strides.

    Returns:
        The values, (rows, cols), and their scales, (rows, ceil(cols / 128)), float32: x is about values * scale.

    Raises:
        TypeError: The dtype is not supported.
        ValueError: x has not two axes.
    """
    rows, cols = _checked(x, "quantize_fp8")
    blocks = triton.cdiv(cols, FP8_BLOCK)
    q = torch.empty((rows, cols), dtype=torch.float8_e4m3fn, device=x.device)
    scales = torch.empty((rows, blocks), dtype=torch.float32, device=x.device)
    if q.numel():
        _quantize_fp8[lambda meta: (triton.cdiv(rows, meta["BLOCK_ROWS"]), blocks)](
            x, q, scales, rows, cols, blocks, *x.stride(), SCALED=FP8_BLOCK, BLOCK_ROWS=16, num_warps=4
        )
    return q, scales


def dequantize(q: torch.Tensor, scales: torch.Tensor, *, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    """Give back the real values of `quantize_int8` or `quantize_fp8`.

    Args:
        q: Shape (rows, cols), int8 or float8_e4m3fn, any strides.
        scales: float32, any strides: (rows,) for int8, (rows, ceil(cols / 128)) for float8_e4m3fn.
        dtype: Of the result: bfloat16, float16 or float32.

    Returns:
        Shape (rows, cols), contiguous.

    Raises:
        TypeError: A dtype is not supported.
        ValueError: The shapes do not fit, or the devices differ.
    """
    if q.ndim != 2:
        raise ValueError(f"dequantize takes (rows, cols), not {tuple(q.shape)}")
    if q.dtype not in {torch.int8, torch.float8_e4m3fn} or scales.dtype != torch.float32 or dtype not in _DTYPES:
        raise TypeError(
            "dequantize takes int8 or float8_e4m3fn and float32 scales to bfloat16, float16 or float32, "
            f"not {q.dtype} and {scales.dtype} to {dtype}"
        )
    if q.device != scales.device:
        raise ValueError(f"dequantize takes values and scales of one device, not {q.device} and {scales.device}")
    rows, cols = q.shape
    by_row = q.dtype == torch.int8
    shape = (rows,) if by_row else (rows, triton.cdiv(cols, FP8_BLOCK))
    if tuple(scales.shape) != shape:
        raise ValueError(f"dequantize needs scales of shape {shape}, not {tuple(scales.shape)}")
    out = torch.empty((rows, cols), dtype=dtype, device=q.device)
    if out.numel():
        scale_strides = (scales.stride(0), 0) if by_row else scales.stride()
        _dequantize[lambda meta: (triton.cdiv(rows, meta["BLOCK_ROWS"]), triton.cdiv(cols, meta["BLOCK"]))](
            q, scales, out, rows, cols, cols if by_row else FP8_BLOCK, *q.stride(), *scale_strides,
            BLOCK_ROWS=4, BLOCK=512, num_warps=4,
        )  # fmt: skip
    return out


def _checked(x: torch.Tensor, name: str) -> tuple[int, int]:
    if x.ndim != 2:
        raise ValueError(f"{name} takes (rows, cols), not {tuple(x.shape)}")
    if x.dtype not in _DTYPES:
        raise TypeError(f"{name} takes bfloat16, float16 or float32, not {x.dtype}")
    return x.shape[0], x.shape[1]
