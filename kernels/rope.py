"""Rotary position embedding over the two halves of each head, with its backward."""

from typing import Any

import torch
import triton
import triton.language as tl

_DTYPES = (torch.bfloat16, torch.float16, torch.float32)


@triton.heuristics({"BLOCK_HALF": lambda args: triton.next_power_of_2(args["half"])})
@triton.jit
def _rope_rotate(
    x_ptr,
    cos_ptr,
    sin_ptr,
    positions_ptr,
    out_ptr,
    x_token_stride,
    x_head_stride,
    out_token_stride,
    out_head_stride,
    table_row_stride,
    table_rows,
    heads,
    half,
    BACKWARD: tl.constexpr,
    BLOCK_HEADS: tl.constexpr,
    BLOCK_HALF: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1) * BLOCK_HEADS + tl.arange(0, BLOCK_HEADS)
    col = tl.arange(0, BLOCK_HALF)
    position = tl.load(positions_ptr + token).to(tl.int64)
    # A position outside the table must not read foreign memory, nor pass in silence.
    angle_mask = col < tl.where((position >= 0) & (position < table_rows), half, 0)
    cos = tl.load(cos_ptr + position * table_row_stride + col, mask=angle_mask, other=float("nan")).to(tl.float32)
    sin = tl.load(sin_ptr + position * table_row_stride + col, mask=angle_mask, other=float("nan")).to(tl.float32)
    if BACKWARD:
        sin = -sin
    cos = cos[None, :]
    sin = sin[None, :]
    mask = (head[:, None] < heads) & (col[None, :] < half)
    x_offset = token * x_token_stride + head[:, None] * x_head_stride + col[None, :]
    first = tl.load(x_ptr + x_offset, mask=mask).to(tl.float32)
    second = tl.load(x_ptr + x_offset + half, mask=mask).to(tl.float32)
    # Two products meet in one sum: the explicit fma leaves no choice of which of them is fused.
    rotated_first = tl.fma(first, cos, -(second * sin))
    rotated_second = tl.fma(second, cos, first * sin)
    out_offset = token * out_token_stride + head[:, None] * out_head_stride + col[None, :]
    tl.store(out_ptr + out_offset, rotated_first.to(out_ptr.dtype.element_ty), mask=mask)
    tl.store(out_ptr + out_offset + half, rotated_second.to(out_ptr.dtype.element_ty), mask=mask)


class _Rope(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, positions: torch.Tensor
    ) -> torch.Tensor:
        ctx.save_for_backward(cos, sin, positions)
        return _rotate(x, cos, sin, positions, backward=False)

    @staticmethod
    def backward(ctx: Any, dout: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return _rotate(dout, *ctx.saved_tensors, backward=True), None, None, None


def rope(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """Rotate column pairs (i, i + head_dim / 2) of each head by the angle of the token's position.

    Differentiable in `x`; computed in float32 and rounded once.
    A token whose position is outside the table becomes NaN.

    Args:
        x: Shape (tokens, heads, head_dim), bfloat16, float16 or float32; tokens and heads may be apart, as in a
            fused query-key-value projection.
        cos: Shape (positions, head_dim / 2), bfloat16, float16 or float32.
        sin: Shape, dtype and strides of `cos`.
        positions: Shape (tokens,), int32 or int64.

    Returns:
        A contiguous tensor of the shape and dtype of `x`.

    Raises:
        TypeError: Another dtype.
        ValueError: Shapes or devices that do not fit together, or an odd head_dim.
    """
    if x.dtype not in _DTYPES or cos.dtype not in _DTYPES or sin.dtype != cos.dtype:
        raise TypeError(
            f"rope takes x and tables of bfloat16, float16 or float32, got {x.dtype}, {cos.dtype} and {sin.dtype}"
        )
    if positions.dtype not in (torch.int32, torch.int64):
        raise TypeError(f"rope takes positions of int32 or int64, got {positions.dtype}")
    if x.dim() != 3 or x.shape[2] % 2:
        raise ValueError(f"rope takes x of shape (tokens, heads, even head_dim), got {tuple(x.shape)}")
    if cos.dim() != 2 or cos.shape[1] != x.shape[2] // 2 or sin.shape != cos.shape:
        raise ValueError(
            f"rope takes tables of shape (positions, {x.shape[2] // 2}), got {tuple(cos.shape)} and {tuple(sin.shape)}"
        )
    if positions.shape != x.shape[:1]:
        raise ValueError(f"rope takes {x.shape[0]} positions, one a token, got shape {tuple(positions.shape)}")
    if not x.device == cos.device == sin.device == positions.device:
        raise ValueError(f"rope takes tensors of one device, got {x.device}, {cos.device} and {positions.device}")
    out: torch.Tensor = _Rope.apply(x, cos, sin, positions)
    return out


def _rotate(
    x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, positions: torch.Tensor, *, backward: bool
) -> torch.Tensor:
    tokens, heads, head_dim = x.shape
    out = torch.empty((tokens, heads, head_dim), dtype=x.dtype, device=x.device)
    if out.numel() == 0:
        return out
    if x.stride(2) != 1:
        x = x.contiguous()
    cos, sin, positions = cos.contiguous(), sin.contiguous(), positions.contiguous()
    _rope_rotate[lambda meta: (tokens, triton.cdiv(heads, meta["BLOCK_HEADS"]))](
        x,
        cos,
        sin,
        positions,
        out,
        x.stride(0),
        x.stride(1),
        out.stride(0),
        out.stride(1),
        cos.stride(0),
        cos.shape[0],
        heads,
        head_dim // 2,
        BACKWARD=backward,
        BLOCK_HEADS=min(triton.next_power_of_2(heads), 8),
        num_warps=4,
    )
    return out
